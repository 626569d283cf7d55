"""Which commit of the hub a run uses: the one asked for, else the one found first and kept.

`revisions.lock.yaml` at the project's root holds what was found, so that a later run, or another
machine with the same file, reads the same weights and rows.
"""

import re
from pathlib import Path

import yaml
from filelock import FileLock

from anchorscope.errors import AnchorscopeError
from anchorscope.files import atomic
from anchorscope.hub import patiently

LOCK = Path("revisions.lock.yaml")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def wanted(kind: str, hub: str, asked: str | None, lock: Path = LOCK) -> str | None:
    """The revision to fetch: `asked`, else the locked one, else None (the newest).

    Args:
        kind: `models` or `datasets`.
        hub: hub id.
        asked: `revision` of the catalogue entry.
    """
    return asked or _read(lock).get(kind, {}).get(hub)


def keep(kind: str, hub: str, commit: str | None, lock: Path = LOCK) -> None:
    """Remember the commit that a fetch found, unless one is kept already."""
    if commit is None:
        return
    with FileLock(f"{lock}.guard"):
        kept = _read(lock)
        if hub in kept.get(kind, {}):
            return
        kept.setdefault(kind, {})[hub] = commit
        with atomic(lock) as draft:
            draft.write_text(yaml.safe_dump(kept, sort_keys=True), encoding="utf-8")


def commit_of_dataset(hub: str, revision: str | None) -> str | None:
    """Commit that a branch or tag of a hub dataset stands for; None where nobody can be asked.

    Args:
        hub: hub id.
        revision: branch, tag or commit; None is the main branch. A commit needs no asking.
    """
    if revision and _COMMIT.fullmatch(revision):
        return revision
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError

    try:
        return patiently(lambda: HfApi().dataset_info(hub, revision=revision).sha, hub)
    except (OSError, ValueError, HTTPError):
        return None


def _read(lock: Path) -> dict[str, dict[str, str]]:
    if not lock.is_file():
        return {}
    try:
        kept = yaml.safe_load(lock.read_text(encoding="utf-8")) or {}
    except (ValueError, yaml.YAMLError) as error:
        raise _broken(lock) from error
    if not isinstance(kept, dict) or not all(isinstance(one, dict) for one in kept.values()):
        raise _broken(lock)
    return kept


def _broken(lock: Path) -> AnchorscopeError:
    return AnchorscopeError(
        "the file of revisions is not what was written there",
        lock,
        "restore it, or delete it: the newest revisions are then taken",
        see="no-such-revision",
    )

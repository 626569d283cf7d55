"""Which commit of the hub a run uses: the one asked for, else the first one found, which is kept.

`revisions.lock.yaml` at the project's root holds what was found, so that a later run, or another
machine with the same file, reads the same weights and rows.
"""

import re
from functools import partial
from pathlib import Path
from typing import TypeGuard

import yaml
from filelock import FileLock
from huggingface_hub import constants

from anchorscope.questions.hub import SILENCE, fetch, place
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic

LOCK = Path("revisions.lock.yaml")


def pinned(revision: str | None) -> TypeGuard[str]:
    """Whether a revision is a commit, and no branch or tag."""
    return revision is not None and re.fullmatch(r"[0-9a-f]{40}", revision) is not None


def wanted(kind: str, hub: str, asked: str | None, lock: Path = LOCK) -> str | None:
    """The revision to fetch: the commit kept for what is asked, else that, None for the newest.

    `kind` is `models` or `datasets`; `asked` the entry's `revision`: a branch or tag may move, a
    commit does not.
    """
    if pinned(asked):
        return asked
    return _read(lock).get(kind, {}).get(_lock_key(hub, asked)) or asked


def keep(kind: str, hub: str, commit: str, asked: str | None = None, lock: Path = LOCK) -> None:
    """Remember the commit that was found for what was asked, unless one is kept already."""
    if pinned(asked):
        return
    with FileLock(f"{lock}.guard"):
        kept = _read(lock)
        if _lock_key(hub, asked) not in kept.setdefault(kind, {}):
            kept[kind][_lock_key(hub, asked)] = commit
            with atomic(lock) as draft:
                draft.write_text(yaml.safe_dump(kept, sort_keys=True), encoding="utf-8")


def unpinned(kind: str, hub: str, asked: str | None, lock: Path = LOCK) -> str | None:
    """What to warn of where neither the config nor the lock names a commit; None where one does."""
    if pinned(wanted(kind, hub, asked, lock)):
        return None
    return f"no commit of {hub} is pinned (`revision`): the newest is used and noted in {lock}"


def commit_of_dataset(hub: str, revision: str | None) -> str:
    """Commit that a branch, tag or commit of a hub dataset stands for; None is the main branch.

    Where the hub cannot be reached, as the cache knows it. Errors as `hub.errors`.
    """
    if pinned(revision):
        return revision
    from huggingface_hub import HfApi

    try:
        ask = partial(HfApi().dataset_info, hub, revision=revision, timeout=SILENCE)
        return str(fetch(ask, "dataset", place(hub, revision)).sha)
    except AnchorscopeError as error:
        if error.see == "hub-unreachable" and (cached := _cached(hub, revision)):
            return cached
        raise


def known_commit(hub: str, asked: str | None) -> str | None:
    """The commit of a dataset that a run without the hub would read, None where it would stop."""
    revision = wanted("datasets", hub, asked)
    return revision if pinned(revision) else _cached(hub, revision)


def _lock_key(hub: str, asked: str | None) -> str:
    return hub if asked is None else f"{hub}@{asked}"


def _cached(hub: str, revision: str | None) -> str | None:
    """The commit that a branch or tag stood for when the hub's client last asked."""
    folder = Path(constants.HF_HUB_CACHE) / f"datasets--{hub.replace('/', '--')}"
    said = folder / "refs" / (revision or "main")
    commit = said.read_text(encoding="utf-8").strip() if said.is_file() else ""
    return commit if pinned(commit) else None


def _read(lock: Path) -> dict[str, dict[str, str]]:
    try:
        return (yaml.safe_load(lock.read_text(encoding="utf-8")) if lock.is_file() else None) or {}
    except (ValueError, yaml.YAMLError) as error:
        do = "restore it, or delete it: the newest revisions are then taken"
        what = f"cannot read the file of revisions: {error}"
        raise AnchorscopeError(what, lock, do, see="no-such-revision") from error

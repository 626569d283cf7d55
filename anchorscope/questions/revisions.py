"""Choose the hub commit that a run uses: the configured one, else the newest at first use.

`revisions.lock.yaml` at the project's root records that commit, so that a later run, or another
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

LOCK = Path("revisions.lock.yaml")  # in the folder of the run


def pinned(revision: str | None) -> TypeGuard[str]:
    """Return whether a revision is a commit, not a branch or tag."""
    return revision is not None and re.fullmatch(r"[0-9a-f]{40}", revision) is not None


def wanted(kind: str, hub: str, configured: str | None) -> str | None:
    """Return the revision to fetch: a commit, if `configured` is one or the lock file has one.

    Otherwise return `configured`: a branch, a tag, or None for the newest commit.
    `kind` is `models` or `datasets`.
    """
    if pinned(configured):
        return configured
    return _read().get(kind, {}).get(_lock_key(hub, configured)) or configured


def keep(kind: str, hub: str, commit: str, configured: str | None = None) -> None:
    """Add `commit` to the lock file unless `configured` is a commit or already has an entry."""
    if pinned(configured):
        return
    with FileLock(f"{LOCK}.guard"):
        commits = _read()
        if _lock_key(hub, configured) not in commits.setdefault(kind, {}):
            commits[kind][_lock_key(hub, configured)] = commit
            with atomic(LOCK) as draft:
                draft.write_text(yaml.safe_dump(commits, sort_keys=True), encoding="utf-8")


def unpinned(kind: str, hub: str, configured: str | None) -> str | None:
    """Return a warning if neither the config nor the lock file names a commit, else None."""
    if pinned(wanted(kind, hub, configured)):
        return None
    return f"no commit of {hub} is pinned (`revision`): the newest is used and noted in {LOCK}"


def commit_of_dataset(hub: str, revision: str | None) -> str:
    """Return the commit of a branch or tag: from the hub or, if it is unreachable, the cache.

    Raises:
        AnchorscopeError: See `hub.errors`.
    """
    if pinned(revision):
        return revision
    from huggingface_hub import HfApi

    try:
        ask = partial(HfApi().dataset_info, hub, revision=revision, timeout=SILENCE)
        return str(fetch(ask, "dataset", place(hub, revision)).sha)
    except AnchorscopeError as error:
        cached = _cached("datasets", hub, revision)
        if error.see != "hub-unreachable" or cached is None:
            raise
        return cached


def known_commit(kind: str, hub: str, configured: str | None) -> str | None:
    """Return the commit that a run without the hub would read, or None if it would stop."""
    revision = wanted(kind, hub, configured)
    return revision if pinned(revision) else _cached(kind, hub, revision)


def cache_of(kind: str, hub: str) -> Path:
    """Return the folder of a model or dataset in the cache of the hub's client."""
    return Path(constants.HF_HUB_CACHE) / f"{kind}--{hub.replace('/', '--')}"


def _lock_key(hub: str, configured: str | None) -> str:
    return hub if configured is None else f"{hub}@{configured}"


def _cached(kind: str, hub: str, revision: str | None) -> str | None:
    """Return the commit that the cache holds for a branch or tag, or None."""
    ref = cache_of(kind, hub) / "refs" / (revision or "main")
    commit = ref.read_text(encoding="utf-8").strip() if ref.is_file() else ""
    return commit if pinned(commit) else None


def _read() -> dict[str, dict[str, str]]:
    try:
        return (yaml.safe_load(LOCK.read_text(encoding="utf-8")) if LOCK.is_file() else None) or {}
    except (ValueError, yaml.YAMLError) as error:
        do = "restore the file, or delete it to take the newest revisions"
        what = f"cannot read the file of revisions: {error}"
        raise AnchorscopeError(what, LOCK, do, see="no-such-revision") from error

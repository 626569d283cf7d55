"""Shards: what several jobs made of one product goes back to them where a part of it is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from anchorscope.storage import provenance
from anchorscope.storage.files import atomic, hardlink, write_json


def records(shards: Iterable[str | Path]) -> dict[str, Any]:
    """For the record of the whole: folder → a shard's record, and its first and last batch."""
    found = {}
    for folder in shards:
        names = sorted(path.name for path in Path(folder).glob("batch-*"))
        found[str(folder)] = provenance.read(folder) | {"batches": [*names[:1], *names[-1:]]}
    return found


def put_back(product: Path, shards: Mapping[str, Mapping[str, Any]], without: Path) -> None:
    """Let each shard stand again, but the one that a file is of: its other batches wait.

    So that shard's job alone runs again, and makes that batch alone.

    Args:
        product: what was put together.
        shards: as `records` found them.
        without: the file that is lost; one that is no batch is of every shard.
    """
    files = [path for path in product.iterdir() if path != without and path.name[0] != "."]
    of_all = not any(_has(shard, without) for shard in shards.values())
    for folder, shard in shards.items():
        lost = of_all or _has(shard, without)
        with atomic(shard["waits"] if lost else folder) as draft:
            draft.mkdir()
            for path in files:
                if _has(shard, path) or not any(_has(other, path) for other in shards.values()):
                    hardlink(path, draft / path.name)
        if not lost:
            write_json(shard, provenance.beside(folder))


def _has(shard: Mapping[str, Any], file: Path) -> bool:
    """Whether a file is one of a shard's batches, which are a run of all."""
    return bool(shard["batches"]) and shard["batches"][0] <= file.name <= shard["batches"][1]

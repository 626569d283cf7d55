"""The funnel: what was dropped at every stage on the way to a product, and whether too much."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from anchorscope.storage.counts import BEYOND_LIMIT, BY_CHOICE
from anchorscope.storage.errors import AnchorscopeError, stale
from anchorscope.storage.provenance import beside, read

ORDER = (
    "dataset", "prompts", "answers", "activations", "scores", "delta_p", "truth",
    "calibration_cell",
)  # fmt: skip
"""Rules that count samples, each made from what those before it left."""


def check_drops(stages: Iterable[Mapping[str, Any]], most: float, where: object) -> None:
    """Refuse samples of which a share larger than `most` was lost over all stages of `funnel`.

    What is left out by choice (`BY_CHOICE`) is not lost: it could have been kept, or
    (`BEYOND_LIMIT`) was never looked at. `where` is named in the error.
    """
    left, told = 1.0, []
    for stage in stages:
        lost = Counter(
            {why: n for why, n in stage["dropped"].items() if why not in BY_CHOICE and n}
        )
        if lost:
            given = stage["in"] - stage["dropped"].get(BEYOND_LIMIT, 0)
            left *= 1 - lost.total() / given
            reasons = ", ".join(f"{why} {n}" for why, n in lost.most_common())
            told.append(f"{lost.total()} of {given} at {stage['rule']} ({reasons})")
    if left < 1 - most - 1e-9:
        what = f"{1 - left:.1%} of the samples are lost, more than {most:.0%}: {'; '.join(told)}"
        do = "mend the reasons, or allow more if this is what you expect"
        raise AnchorscopeError(what, where, do, see="too-many-dropped")


def funnel(product: str | Path) -> list[dict[str, Any]]:
    """What came in, stayed and was dropped at every stage on the way to a product.

    Tables pass on the rows that were dropped before, and their records count them again. Here each
    sample counts where it was lost: what comes in is what the stage before kept.

    Returns:
        In running order: `product`, `rule`, and `in`, `kept`, `dropped` and `notes` of each stage.
        Of a product of many cells, none: each cell has its own.

    Raises:
        AnchorscopeError: counts that do not add up from one stage to the next.
    """
    whole = read(product)
    every = {**whole.get("inputs", {}), str(product): whole}
    stages: list[dict[str, Any]] = []
    at: str | None = str(product)
    while at is not None:
        if counts := every[at].get("counts"):
            stages.insert(0, {"product": at, "rule": every[at].get("rule"), **counts})
        at = _before(at, every)
    return [_own(stage, before) for before, stage in pairwise([None, *stages]) if stage]


def _before(path: str, every: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The product with counts that a product's samples come from; None where there is not one."""

    def rank(name: str) -> int:
        rule = every[name].get("rule")
        return ORDER.index(rule) if rule in ORDER else len(ORDER)

    named = every[path].get("made_from", every)
    counted = [name for name in named if every.get(name, {}).get("counts")]
    earlier = {name: rank(name) for name in counted if rank(name) < rank(path)}
    last = [name for name, of in earlier.items() if of == max(earlier.values())]
    return last[0] if len(last) == 1 else None


def _own(stage: dict[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """A stage without the samples that the stages before it had dropped already."""
    if before is None or stage["in"] == before["kept"]:
        return stage
    dropped = Counter(stage["dropped"])
    passed = Counter({why: n for why, n in before["dropped"].items() if dropped[why] >= n})
    if stage["in"] != before["kept"] + passed.total():
        what = f"{stage['in']} samples came in where {before['kept']} were kept before"
        raise stale(what, beside(stage["product"]), "the product")
    return {**stage, "in": before["kept"], "dropped": dict(dropped - passed)}


def check_funnel(product: str | Path, most: float) -> None:
    """`check_drops` of all stages on the way to a product."""
    check_drops(funnel(product), most, product)

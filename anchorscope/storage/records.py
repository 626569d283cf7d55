"""Check in products' records that cells have equal settings and few samples were lost."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from anchorscope.storage.counts import BEYOND_LIMIT, BY_CHOICE, NOT_ASKED
from anchorscope.storage.errors import AnchorscopeError, stale
from anchorscope.storage.provenance import beside, read

RULES = "dataset prompts answers activations scores delta_p".split()
ORDER = {rule: rank for rank, rule in enumerate(RULES)}
"""Rule that counts samples → its place in the order in which rules run."""
MAKE_NUMBERS = (*ORDER, "experiment_measure", "p_true", "detection_scores")
"""Rules whose settings change numbers."""
SHOW_NUMBERS = frozenset(("picture", "methods", "report_page"))
"""Rules whose products only show numbers that other rules made."""
METHOD = 3
"""Version of the method, one of the parameters of each rule that makes numbers.

Raise it when numbers change. Snakemake then remakes products of older versions.
"""
PER_CELL = frozenset(
    "dataset local on_disk sample_size limit choice style dtype batch_tokens".split()
)
"""Settings that may differ between the cells of a figure. All others must be equal."""


def check_settings(products: Iterable[str | Path]) -> None:
    """Refuse cells made with different settings, such as files copied from another config.

    `products` holds one product per cell. The records of each product and of its inputs are read.
    Records of one rule must have equal settings in all cells.

    Raises:
        AnchorscopeError: A setting differs. The error names both values and both products.
    """
    first_seen: dict[str, tuple[dict[str, Any], str]] = {}  # rule → settings and their product
    for product in products:
        for rule, settings, path in settings_of(product):
            expected, other = first_seen.setdefault(rule, (settings, path))
            for key in {**expected, **settings}:
                if expected.get(key) != settings.get(key):
                    what = (
                        f"the cells were made with different settings: `{key}` of {rule} is "
                        f"{expected.get(key)!r} and {settings.get(key)!r}"
                    )
                    do = (
                        "delete the product that was made from another config and run snakemake "
                        "again; give each config its own `results`"
                    )
                    raise AnchorscopeError(what, f"{other} and {path}", do, see="stale-product")


def settings_of(product: str | Path) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield (rule, settings by dotted key without `PER_CELL`, path) of a product and its inputs."""
    if not beside(product).is_file():
        return
    record = read(product)
    for path, upstream in {**record.get("inputs", {}), str(product): record}.items():
        rule = upstream.get("rule")
        if rule in MAKE_NUMBERS:
            settings = upstream.get("settings", {})
            shared = {name: value for name, value in settings.items() if name not in PER_CELL}
            yield rule, _by_dotted_key(shared), path


def _by_dotted_key(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested settings to dotted keys such as `probe.folds`; `{}` is kept as a value."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= _by_dotted_key(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def check_inputs(inputs: Iterable[str | Path], most: float) -> None:
    """Apply `check_drops` to all stages that lead to each of a job's inputs.

    Raises:
        AnchorscopeError: See `check_drops` and `funnel`.
    """
    for path in inputs:
        if beside(path).is_file():
            check_drops(funnel(path), most, path)


def check_drops(stages: Iterable[Mapping[str, Any]], most: float, where: object) -> None:
    """Refuse to continue if all stages together lost too large a share of the samples.

    Samples left out by choice (`BY_CHOICE`) are not lost. Samples beyond the run's limit
    (`BEYOND_LIMIT`) and questions that were `NOT_ASKED` do not count at all. `stages` are as
    `funnel` returns them. `most` is the largest share that may be lost.

    Raises:
        AnchorscopeError: A larger share was lost.
    """
    share_left, losses = 1.0, []
    for stage in stages:
        dropped = stage["dropped"].items()
        lost = Counter({reason: n for reason, n in dropped if reason not in BY_CHOICE and n})
        if not lost:
            continue
        unseen = sum(stage["dropped"].get(reason, 0) for reason in (BEYOND_LIMIT, NOT_ASKED))
        looked_at = stage["in"] - unseen
        share_left *= 1 - lost.total() / looked_at
        reasons = ", ".join(f"{reason} {n}" for reason, n in lost.most_common())
        losses.append(f"{lost.total()} of {looked_at} at {stage['rule']} ({reasons})")
    if share_left < 1 - most - 1e-9:
        what = (
            f"{1 - share_left:.1%} of the samples are lost, more than {most:.0%}: "
            f"{'; '.join(losses)}"
        )
        do = (
            "remove the causes (for no answers, try another `prompt` or set `no_answer: wrong`), "
            "or raise `most_dropped` if you expect such a loss"
        )
        raise AnchorscopeError(what, where, do, see="too-many-dropped")


def funnel(product: str | Path) -> list[dict[str, Any]]:
    """Count the samples that each stage leading to a product took in, kept and dropped.

    A table may hold rows that an earlier stage dropped. The table's record counts them again.
    This function counts each dropped sample once, at the stage that dropped it. Each stage's `in`
    equals the previous stage's `kept`.

    Returns:
        `product`, `rule`, `in`, `kept`, `dropped` and `notes` of each stage, in running order.
        Empty for a product of many cells, since each cell has its own stages.

    Raises:
        AnchorscopeError: The counts do not add up from one stage to the next.
    """
    record = read(product)
    records = {**record.get("inputs", {}), str(product): record}
    stages: list[dict[str, Any]] = []
    path: str | None = str(product)
    while path is not None:
        if counts := records[path].get("counts"):
            stages.insert(0, {"product": path, "rule": records[path].get("rule"), **counts})
        path = _source(path, records)
    return [_newly_dropped(stage, before) for before, stage in pairwise([None, *stages]) if stage]


def _source(path: str, records: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the input of `path` with counts whose rule runs last; None if not exactly one."""
    rank = {name: ORDER.get(of.get("rule", ""), len(ORDER)) for name, of in records.items()}
    inputs = records[path].get("made_from", records)
    counted = [name for name in inputs if records.get(name, {}).get("counts")]
    earlier = [name for name in counted if rank[name] < rank[path]]
    last_rank = max((rank[name] for name in earlier), default=0)
    last = [name for name in earlier if rank[name] == last_rank]
    return last[0] if len(last) == 1 else None


def _newly_dropped(stage: dict[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the counts of a stage, less the samples that earlier stages dropped already."""
    if before is None or stage["in"] == before["kept"]:
        return stage
    dropped = Counter(stage["dropped"])
    again = {reason: n for reason, n in before["dropped"].items() if dropped[reason] >= n}
    passed_on = Counter(again)
    if stage["in"] != before["kept"] + passed_on.total():
        what = f"{stage['in']} samples came in, but the stage before kept {before['kept']}"
        raise stale(what, beside(stage["product"]), "the product")
    return {**stage, "in": before["kept"], "dropped": dict(dropped - passed_on)}

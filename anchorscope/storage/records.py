"""What the records of products say: whether these belong together, and what was lost on the way."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from anchorscope.storage.counts import BEYOND_LIMIT, BY_CHOICE
from anchorscope.storage.errors import AnchorscopeError, stale
from anchorscope.storage.provenance import beside, read

RULES = "dataset prompts answers activations scores delta_p truth calibration_cell".split()
ORDER = {rule: rank for rank, rule in enumerate(RULES)}
"""Rules that count samples, each made from what those before it left."""
MAKE_NUMBERS = (*ORDER, "refits", "experiment_measure")
"""Rules whose settings decide numbers."""

OWN = frozenset(
    "dataset local sample_size style dtype batch_tokens train worlds training_seed".split()
)
"""Settings that a model or a dataset has of its own; the others are those of the whole figure."""


def check_inputs(paths: Iterable[str | Path]) -> None:
    """Refuse inputs that were not made from the same products further up.

    Every record lists the identity of each product on its way. Where two of the inputs' records,
    or a record and an input itself, name different identities for one product, one is stale.
    """
    known: dict[str, tuple[str, str]] = {}
    for path in map(str, paths):
        if not beside(path).is_file():
            continue
        whole = read(path)
        made_from = {path: whole, **whole.get("inputs", {})}
        trained = any(found.get("rule") == "train" for found in made_from.values())
        for product, found in made_from.items():
            dataset = found.get("settings", {}).get("dataset")
            if trained and isinstance(dataset, Mapping) and dataset.get("world"):
                continue  # a world is learned whole: another sample of it trains nothing anew
            identity, other = known.setdefault(product, (found["identity"], path))
            if identity != found["identity"]:
                what = f"two inputs were made from different versions of {product}"
                do = f"delete {path} and {other}, then run snakemake again"
                raise AnchorscopeError(what, f"{other} and {path}", do, see="stale-product")


def check_settings(products: Iterable[str | Path]) -> None:
    """Refuse cells that were made with different settings: one was copied, or is of another config.

    Every record on the way to each product, one of each cell, is compared with those of the same
    rule; the error names a setting that differs, both values and both products.
    """
    known: dict[str, tuple[dict[str, Any], str]] = {}
    for product in products:
        for rule, found, path in settings_of(product):
            first, other = known.setdefault(rule, (found, path))
            for key in {**first, **found}:
                if (one := first.get(key)) != (two := found.get(key)):
                    what = f"the cells were made with different settings: `{key}` of {rule} is "
                    what += f"{one!r} and {two!r}"
                    do = "delete the one that is not of this config and run snakemake again; "
                    do += "results of another config belong into a root of their own"
                    raise AnchorscopeError(what, f"{other} and {path}", do, see="stale-product")


def settings_of(product: str | Path) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Rule, settings by dotted key (without `OWN`) and product of each record on the way to one."""
    if not beside(product).is_file():
        return
    whole = read(product)
    for path, record in {**whole.get("inputs", {}), str(product): whole}.items():
        if (rule := record.get("rule")) in MAKE_NUMBERS:
            settings = record.get("settings", {}).items()
            yield rule, _by_key({name: of for name, of in settings if name not in OWN}), path


def _by_key(settings: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """Each setting by its dotted key."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        inner = _by_key(value, f"{at}{name}.") if isinstance(value, Mapping) else {}
        found |= inner or {f"{at}{name}": value}
    return found


def check_drops(stages: Iterable[Mapping[str, Any]], most: float, where: object) -> None:
    """Refuse samples of which a share larger than `most` was lost over all stages of `funnel`.

    What is left out by choice (`BY_CHOICE`) is not lost: it could have been kept, or
    (`BEYOND_LIMIT`) was never looked at. `where` is named in the error.
    """
    left, told = 1.0, []
    for stage in stages:
        dropped = stage["dropped"].items()
        if lost := Counter({why: n for why, n in dropped if why not in BY_CHOICE and n}):
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
    sample counts where it was lost: what comes in is what the stage before kept. Gives `product`,
    `rule`, `in`, `kept`, `dropped` and `notes` of each stage in running order; none of a product of
    many cells, of which each has its own. Raises AnchorscopeError: counts that do not add up from
    one stage to the next.
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
    rank = {name: ORDER.get(of.get("rule", ""), len(ORDER)) for name, of in every.items()}
    named = every[path].get("made_from", every)
    counted = [name for name in named if every.get(name, {}).get("counts")]
    earlier = {name: rank[name] for name in counted if rank[name] < rank[path]}
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

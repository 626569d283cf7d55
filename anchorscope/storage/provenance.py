"""What a product was made from, all the way up: settings, counts, revisions, versions, device."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

from anchorscope.storage.errors import AnchorscopeError, redacted_in
from anchorscope.storage.files import read_json, write_json
from anchorscope.storage.identity import identity as identity_of

PLACES = frozenset(("local", "file", "path"))
"""Settings that say where something lies; what lies there has a digest of its own."""

MAKE_NUMBERS = (
    "dataset", "prompts", "answers", "activations", "scores", "delta_p", "refits", "truth",
    "calibration_cell",
)  # fmt: skip
"""Rules whose settings decide numbers."""

LIBRARIES = ("torch", "transformers", "datasets", "pandas", "numpy", "altair", "snakemake")


@dataclass(frozen=True)
class Counts:
    """How many samples came in, stayed, and were dropped for which reason.

    `notes` counts what is worth knowing but drops nothing (folded duplicates, rebuilt spans).

    Raises:
        ValueError: kept and dropped do not add up to total.
    """

    total: int
    kept: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.total != self.kept + sum(self.dropped.values()):
            raise ValueError(f"counts do not add up: {self}")

    def among(self, total: int) -> Counts:
        """The counts where these were the first of `total`, the others beyond a run's limit."""
        beyond = {BEYOND_LIMIT: total - self.total} if total > self.total else {}
        return Counts(total, self.kept, {**beyond, **self.dropped}, self.notes)

    def as_dict(self) -> dict[str, Any]:
        return {
            "in": self.total,
            "kept": self.kept,
            "dropped": dict(self.dropped),
            "notes": dict(self.notes),
        }


BEYOND_LIMIT = "beyond the limit of this run"
BY_CHOICE = frozenset(
    (
        BEYOND_LIMIT,
        "outside the sample",
        "held back for few-shot examples",
        "equal question folded",
    )
)
"""Reasons that lose nothing: who samples leaves rows out on purpose."""

ORDER = (
    "dataset", "prompts", "answers", "activations", "scores", "delta_p", "truth",
    "calibration_cell",
)  # fmt: skip
"""Rules that count samples, each made from what those before it left."""


def check_drops(stages: Iterable[Mapping[str, Any]], most: float, where: object) -> None:
    """Refuse samples of which too large a share was lost on the way, and say to what.

    The share is of all that came in, over all stages. What is left out by choice (`BY_CHOICE`) is
    not lost: it could have been kept, or (`BEYOND_LIMIT`) was never looked at.

    Args:
        stages: what came in and was dropped at each stage, as `funnel` returns it.
        most: largest share that may be lost, 0 to 1.
        where: what the error names, such as the product.

    Raises:
        AnchorscopeError: more was lost.
    """
    left, told = 1.0, []
    for stage in stages:
        lost = {why: n for why, n in stage["dropped"].items() if why not in BY_CHOICE and n}
        if lost:
            given = stage["in"] - stage["dropped"].get(BEYOND_LIMIT, 0)
            left *= 1 - sum(lost.values()) / given
            reasons = ", ".join(
                f"{why} {n}" for why, n in sorted(lost.items(), key=lambda i: -i[1])
            )
            told.append(f"{sum(lost.values())} of {given} at {stage['rule']} ({reasons})")
    if left >= 1 - most - 1e-9:
        return
    raise AnchorscopeError(
        f"{1 - left:.1%} of the samples are lost, more than {most:.0%}: {'; '.join(told)}",
        where,
        "mend the reasons, or allow more if this is what you expect",
        see="too-many-dropped",
    )


def check_inputs(paths: Iterable[str | Path]) -> None:
    """Refuse inputs that were not made from the same products further up.

    Every record lists the identity of each product on its way. Where two of the inputs' records,
    or a record and an input itself, name different identities for one product, one is stale.

    Raises:
        AnchorscopeError: one is, with the product and both that were made from it.
    """
    known: dict[str, tuple[str, str]] = {}
    for path in map(str, paths):
        if not beside(path).is_file():
            continue
        whole = read(path)
        made_from = {path: whole, **whole.get("inputs", {})}
        trained = any(found.get("rule") == "train" for found in made_from.values())
        for product, found in made_from.items():
            if trained and _of_a_world(found):
                continue  # a world is learned whole: another sample of it trains nothing anew
            identity, other = known.setdefault(product, (found["identity"], path))
            if identity != found["identity"]:
                raise AnchorscopeError(
                    f"two inputs were made from different versions of {product}",
                    f"{other} and {path}",
                    f"delete {path} and {other}, then run snakemake again",
                    see="stale-product",
                )


def _of_a_world(record_: Mapping[str, Any]) -> bool:
    dataset = record_.get("settings", {}).get("dataset")
    return isinstance(dataset, Mapping) and bool(dataset.get("world"))


def funnel(product: str | Path) -> list[dict[str, Any]]:
    """What came in, stayed and was dropped at every stage on the way to a product.

    Tables pass on the rows that were dropped before, and their records count them again. Here each
    sample counts where it was lost: what comes in is what the stage before kept.

    Returns:
        One entry a stage with counts, in running order: `product`, `rule`, and `in`, `kept`,
        `dropped` and `notes`. Of a product of many cells, none: each cell has its own.

    Raises:
        AnchorscopeError: counts that do not add up, within a stage or from one to the next.
    """
    whole = read(product)
    every = {**whole.get("inputs", {}), str(product): whole}
    stages: list[dict[str, Any]] = []
    at: str | None = str(product)
    while at is not None:
        if counts := every[at].get("counts"):
            _check_sum(counts, at)
            stages.insert(0, {"product": at, "rule": every[at].get("rule"), **counts})
        at = _before(at, every)
    return [_own(stage, before) for before, stage in pairwise([None, *stages]) if stage]


def _before(path: str, every: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The product with counts that a product's samples come from; None where there is not one."""
    named = every[path].get("made_from", every)
    found = [name for name in named if name in every and every[name].get("counts")]
    ranked = {name: _rank(every[name]) for name in found}
    earlier = [name for name in found if ranked[name] < _rank(every[path])]
    last = [name for name in earlier if ranked[name] == max(ranked[n] for n in earlier)]
    return last[0] if len(last) == 1 else None


def _rank(record_: Mapping[str, Any]) -> int:
    rule = record_.get("rule")
    return ORDER.index(rule) if rule in ORDER else len(ORDER)


def _check_sum(counts: Mapping[str, Any], product: str) -> None:
    if counts["in"] != counts["kept"] + sum(counts["dropped"].values()):
        raise _miscounted(
            f"counts do not add up: {counts['in']} in, {counts['kept']} kept, "
            f"{sum(counts['dropped'].values())} dropped",
            product,
        )


def _own(stage: dict[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """A stage without the samples that the stages before it had dropped already."""
    if before is None or stage["in"] == before["kept"]:
        return stage
    dropped = stage["dropped"]
    passed = {why: n for why, n in before["dropped"].items() if dropped.get(why, 0) >= n}
    if stage["in"] != before["kept"] + sum(passed.values()):
        raise _miscounted(
            f"{stage['in']} samples came in where {before['kept']} were kept before",
            stage["product"],
        )
    own = {why: n - passed.get(why, 0) for why, n in dropped.items()}
    return {**stage, "in": before["kept"], "dropped": {why: n for why, n in own.items() if n}}


def _miscounted(what: str, product: str) -> AnchorscopeError:
    do = "delete the product and run snakemake again"
    return AnchorscopeError(what, beside(product), do, see="stale-product")


def check_funnel(product: str | Path, most: float) -> None:
    """`check_drops` of all stages on the way to a product.

    Raises:
        AnchorscopeError: more than that share was lost, or counts do not add up.
    """
    check_drops(funnel(product), most, product)


def libraries() -> dict[str, str]:
    """Versions of Python and of the libraries that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def beside(product: str | Path) -> Path:
    """Path of the provenance record of a product."""
    product = Path(product)
    return product.with_name(product.name + ".provenance.json")


def record(
    product: str | Path,
    *,
    identity: str,
    settings: Mapping[str, Any],
    counts: Counts | Mapping[str, Any] | None = None,
    **facts: Any,
) -> None:
    """Write `<product>.provenance.json`.

    Args:
        product: path of the file or folder described.
        identity: run identity, a hash of the settings that change numbers.
        settings: the resolved settings the stage was given.
        counts: samples in, kept and dropped by reason.
        facts: whatever else the stage knows (model revision, device, dtype, row counter, ...).
    """
    content = {
        "product": Path(product).name,
        "identity": identity,
        "settings": dict(settings),
        "libraries": libraries(),
        **facts,
    }
    if counts is not None:
        content["counts"] = counts.as_dict() if isinstance(counts, Counts) else dict(counts)
    write_json(redacted_in(content), beside(product))


def read(product: str | Path) -> dict[str, Any]:
    """Read the provenance record of a product."""
    return read_json(beside(product))


def counts_of(product: str | Path) -> dict[str, Any]:
    """The counts that a product's record holds."""
    return dict(read(product).get("counts", {}))


def of_stage(
    snakemake: Any, product: str | Path, *, content: Iterable[str | None] = (), **facts: Any
) -> None:
    """Record a stage's product, its inputs, and under `inputs` whatever these were made from.

    Args:
        content: revisions or digests of what was read that has no record of its own.
    """
    settings = dict(snakemake.params.items())
    upstream = _upstream(snakemake)
    record(
        product,
        identity=identity(snakemake, content),
        settings=settings,
        rule=snakemake.rule,
        products=[str(path) for path in snakemake.output if Path(path) != beside(product)],
        seeds=dict(_seeds(settings)),
        inputs=_flat(upstream),
        made_from=sorted(upstream),
        **facts,
    )


def identity(snakemake: Any, content: Iterable[str | None] = ()) -> str:
    """The run identity of a job's product.

    It grows with those of the inputs: two products of one identity were made from the same
    settings and the same content all the way up. Labels and places do not count.

    Args:
        content: as for `of_stage`.
    """
    made_from = {
        "rule": snakemake.rule,
        "settings": without_places(dict(snakemake.params.items())),
        "inputs": sorted(found["identity"] for found in _upstream(snakemake).values()),
        "content": [found for found in content if found is not None],
    }
    return identity_of(made_from)


def _upstream(snakemake: Any) -> dict[str, dict[str, Any]]:
    """The records of a job's inputs, by path."""
    inputs = getattr(snakemake, "input", ())
    return {str(path): read(path) for path in inputs if beside(path).is_file()}


def _flat(upstream: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Every record on the way, once each, by the path of its product."""
    found: dict[str, Any] = {}
    for path, whole in upstream.items():
        found |= whole.get("inputs", {})
        found[path] = {name: value for name, value in whole.items() if name != "inputs"}
    return found


def _seeds(settings: Any, at: str = "") -> Iterator[tuple[str, int]]:
    """Every seed in the settings, by its dotted key."""
    if not isinstance(settings, Mapping):
        return
    for name, value in settings.items():
        if name == "seed":
            yield f"{at}{name}", value
        yield from _seeds(value, f"{at}{name}.")


def without_places(settings: Any) -> Any:
    """Settings without those that say where something lies."""
    if isinstance(settings, Mapping):
        kept = {name: value for name, value in settings.items() if name not in PLACES}
        return {name: without_places(value) for name, value in kept.items()}
    return settings


def settings_by_key(
    settings: Mapping[str, Any], without: Collection[str] = (), at: str = ""
) -> dict[str, Any]:
    """Each setting by its dotted key; `without` names some at the top that are left out."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if name in without:
            continue
        if isinstance(value, Mapping) and value:
            found |= settings_by_key(value, at=f"{at}{name}.")
        else:
            found[f"{at}{name}"] = value
    return found


def first_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """The first key of two sets of settings whose values differ; None if none does."""
    return next((key for key in {**one, **other} if one.get(key) != other.get(key)), None)

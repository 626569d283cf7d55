"""What a product was made from, all the way up: settings, counts, revisions, versions, device."""

import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from anchorscope.files import read_json, write_json
from anchorscope.identity import identity as identity_of

PLACES = frozenset(("local", "file", "path"))
"""Settings that say where something lies; what lies there has a digest of its own."""

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

    def as_dict(self) -> dict[str, Any]:
        return {
            "in": self.total,
            "kept": self.kept,
            "dropped": dict(self.dropped),
            "notes": dict(self.notes),
        }


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
    write_json(content, beside(product))


def read(product: str | Path) -> dict[str, Any]:
    """Read the provenance record of a product."""
    return read_json(beside(product))


def counts_of(product: str | Path) -> dict[str, Any]:
    """The counts that a product's record holds."""
    return dict(read(product).get("counts", {}))


def of_stage(
    snakemake: Any, product: str | Path, *, content: Iterable[str | None] = (), **facts: Any
) -> None:
    """Record a stage's product, and under `inputs` whatever its inputs were made from.

    The identity grows with those of the inputs: two products of one identity were made from the
    same settings and the same content all the way up. Labels and places do not count.

    Args:
        content: revisions or digests of what was read that has no record of its own.
    """
    settings = dict(snakemake.params.items())
    upstream = {str(path): read(path) for path in snakemake.input if beside(path).is_file()}
    made_from = {
        "rule": snakemake.rule,
        "settings": _without_places(settings),
        "inputs": sorted(found["identity"] for found in upstream.values()),
        "content": [found for found in content if found is not None],
    }
    record(
        product,
        identity=identity_of(made_from),
        settings=settings,
        rule=snakemake.rule,
        products=[str(path) for path in snakemake.output if Path(path) != beside(product)],
        seeds=dict(_seeds(settings)),
        inputs=_flat(upstream),
        **facts,
    )


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


def _without_places(settings: Any) -> Any:
    if isinstance(settings, Mapping):
        kept = {name: value for name, value in settings.items() if name not in PLACES}
        return {name: _without_places(value) for name, value in kept.items()}
    return settings

"""What a product was made from: counts, settings, versions, device."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from anchorscope.files import read_json, write_json
from anchorscope.identity import identity as identity_of

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
    counts: Counts | None = None,
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
        content["counts"] = counts.as_dict()
    write_json(content, beside(product))


def read(product: str | Path) -> dict[str, Any]:
    """Read the provenance record of a product."""
    return read_json(beside(product))


def of_stage(snakemake: Any, product: str | Path, **facts: Any) -> None:
    """Record a stage's product: its settings, and an identity that grows with those of its inputs.

    Two products of one identity were made from the same settings all the way up.
    """
    settings = dict(snakemake.params.items())
    before = sorted(read(path)["identity"] for path in snakemake.input if beside(path).is_file())
    made_from = {"rule": snakemake.rule, "settings": settings, "inputs": before}
    record(
        product,
        identity=identity_of(made_from),
        settings=settings,
        seed=settings.get("seed"),
        **facts,
    )

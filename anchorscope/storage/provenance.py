"""What a product was made from, all the way up: settings, counts, revisions, versions, device."""

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import redacted_in
from anchorscope.storage.files import read_json, write_json
from anchorscope.storage.identity import identity as identity_of

PLACES = frozenset(("local", "file", "path"))
"""Settings that say where something lies; what lies there has a digest of its own."""

LIBRARIES = ("torch", "transformers", "datasets", "pandas", "numpy", "altair", "snakemake")


def libraries() -> dict[str, str]:
    """Versions of Python and of the libraries that numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def beside(product: str | Path) -> Path:
    """Path of the provenance record of a product."""
    return Path(f"{Path(product)}.provenance.json")


def record(
    product: str | Path,
    *,
    identity: str,
    settings: Mapping[str, Any],
    counts: Counts | Mapping[str, Any] | None = None,
    **facts: Any,
) -> None:
    """Write `<product>.provenance.json`: settings, counts, versions and whatever else is known."""
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

    `content` holds revisions or digests of what was read that has no record of its own.
    """
    upstream = _upstream(snakemake)
    record(
        product,
        identity=identity(snakemake, content),
        settings=dict(snakemake.params.items()),
        rule=snakemake.rule,
        products=[str(path) for path in snakemake.output if Path(path) != beside(product)],
        inputs=_flat(upstream),
        made_from=sorted(upstream),
        **facts,
    )


def identity(snakemake: Any, content: Iterable[str | None] = ()) -> str:
    """The run identity of a job's product.

    It grows with those of the inputs: two products of one identity were made from the same
    settings and the same content all the way up. Labels and places do not count.
    """
    made_from = {
        "rule": snakemake.rule,
        "settings": _without_places(dict(snakemake.params.items())),
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


def _without_places(settings: Any) -> Any:
    if not isinstance(settings, Mapping):
        return settings
    return {key: _without_places(of) for key, of in settings.items() if key not in PLACES}

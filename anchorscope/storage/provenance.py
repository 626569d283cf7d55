"""Records of what a product was made from: settings, counts, revisions, versions, device.

A record also contains the records of the job's inputs, so each one describes the whole pipeline.
"""

import json
import platform
import re
import resource
import sys
import time
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from anchorscope import __version__
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import redacted
from anchorscope.storage.files import read_json, readable, write_json
from anchorscope.storage.identity import identity as identity_of

PLACES = frozenset(("local", "file", "path"))
"""Settings that say where files are stored. Identities use digests of content instead."""

RECORD = ".provenance.json"
"""Suffix of the file name of a record, after the name of its product."""
STARTED = time.perf_counter()
LIBRARIES = ("torch", "transformers", "datasets", "pandas", "numpy", "altair", "snakemake")


def libraries() -> dict[str, str]:
    """Return the versions of Python, Anchorscope and the libraries that numbers depend on."""
    own = {"python": platform.python_version(), "anchorscope": __version__}
    return own | {name: version(name) for name in LIBRARIES}


def usage() -> dict[str, float]:
    """Return the wall-clock seconds since import, the CPU seconds, and the peak memory in MiB."""
    used, peak = resource.getrusage(resource.RUSAGE_SELF), 0.0
    if sys.platform == "darwin":
        peak = used.ru_maxrss / 2**20
    elif found := re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text()):
        peak = int(found[1]) / 2**10  # `ru_maxrss` starts from the peak of the parent process
    return {
        "seconds": round(time.perf_counter() - STARTED, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_memory_mib": round(peak),
    }


def beside(product: str | Path) -> Path:
    """Return the path of a product's record."""
    return Path(f"{Path(product)}{RECORD}")


def record(
    product: str | Path,
    *,
    identity: str,
    settings: Mapping[str, Any],
    counts: Counts | Mapping[str, Any] | None = None,
    **facts: Any,
) -> None:
    """Write a product's record, `<product>.provenance.json`, with `facts` as further entries."""
    content = {
        "product": Path(product).name,
        "identity": identity,
        "settings": dict(settings),
        "libraries": libraries(),
        **facts,
    }
    if counts is not None:
        content["counts"] = counts.as_dict() if isinstance(counts, Counts) else dict(counts)
    text = redacted(json.dumps(content, ensure_ascii=False))
    write_json(json.loads(text), beside(product))


def read(product: str | Path) -> dict[str, Any]:
    """Read the record of a product."""
    with readable(beside(product), "record"):
        found: dict[str, Any] = read_json(beside(product))
        if not isinstance(found, dict) or "identity" not in found:
            raise ValueError("it is no record")
        return found


def made_with(product: str | Path, settings: Mapping[str, Any]) -> bool:
    """Return whether a product was made with these settings; places do not count."""
    both = read(product)["settings"], json.loads(json.dumps(dict(settings)))
    made, given = (identity_of(_without_places(of)) for of in both)
    return made == given


def counts_of(product: str | Path) -> dict[str, Any]:
    """Return the counts in a product's record, or an empty dict if it has none."""
    return dict(read(product).get("counts", {}))


def of_stage(
    snakemake: Any, product: str | Path, *, content: Iterable[str | None] = (), **facts: Any
) -> None:
    """Write the record of a job's product, with the records of all products that it was made from.

    `content` holds revisions or digests of inputs that have no record. `facts` are further entries.
    """
    upstream = _upstream(snakemake)
    record(
        product,
        identity=identity(snakemake, content),
        settings=dict(snakemake.params.items()),
        rule=snakemake.rule,
        products=[str(path) for path in snakemake.output if not str(path).endswith(RECORD)],
        inputs=_flat(upstream),
        made_from=sorted(upstream),
        usage=usage(),
        **facts,
    )


def identity(snakemake: Any, content: Iterable[str | None] = ()) -> str:
    """Return the identity of a job's product: a hash of settings, content and inputs' identities.

    Two products with the same identity were made from the same settings and content in all stages.
    Settings in `PLACES` do not count. For `content` see `of_stage`.
    """
    made_from = {
        "rule": snakemake.rule,
        "settings": _without_places(dict(snakemake.params.items())),
        "inputs": sorted(record["identity"] for record in _upstream(snakemake).values()),
        "content": [digest for digest in content if digest is not None],
    }
    return identity_of(made_from)


def _upstream(snakemake: Any) -> dict[str, dict[str, Any]]:
    """Return a dict of path → record for those inputs of a job that have a record."""
    inputs = getattr(snakemake, "input", ())
    return {str(path): read(path) for path in inputs if beside(path).is_file()}


def _flat(upstream: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a dict of path → record that holds every upstream product once."""
    records: dict[str, Any] = {}
    for path, upstream_record in upstream.items():
        records |= upstream_record.get("inputs", {})
        records[path] = {name: of for name, of in upstream_record.items() if name != "inputs"}
    return records


def _without_places(settings: Any) -> Any:
    """Return nested settings without those that name a place."""
    if not isinstance(settings, Mapping):
        return settings
    return {key: _without_places(of) for key, of in settings.items() if key not in PLACES}

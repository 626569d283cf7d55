"""Whether products belong together: made from the same products further up, with one config."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.provenance import beside, read

MAKE_NUMBERS = (
    "dataset", "prompts", "answers", "activations", "scores", "delta_p", "refits", "truth",
    "calibration_cell", "experiment_measure",
)  # fmt: skip
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
                one, two = first.get(key), found.get(key)
                if one != two:
                    what = (
                        f"the cells were made with different settings: `{key}` of {rule} is "
                        f"{one!r} and {two!r}"
                    )
                    do = (
                        "delete the one that is not of this config and run snakemake again; "
                        "results of another config belong into a root of their own"
                    )
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
        if isinstance(value, Mapping) and value:
            found |= _by_key(value, f"{at}{name}.")
        else:
            found[f"{at}{name}"] = value
    return found

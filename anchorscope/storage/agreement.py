"""Whether products belong together: made from the same products further up, with one config."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
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


def check_settings(products: Iterable[str | Path]) -> None:
    """Refuse cells that were made with different settings: one was copied, or is of another config.

    Every record on the way to each of the products is compared with those of the same rule.

    Args:
        products: one of each cell; those without a record are passed over.

    Raises:
        AnchorscopeError: a setting differs, with both values and products.
    """
    known: dict[str, tuple[dict[str, Any], str]] = {}
    for product in products:
        for rule, found, path in settings_of(product):
            first, other = known.setdefault(rule, (found, path))
            _compare(rule, first, found, f"{other} and {path}")


def settings_of(product: str | Path) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Of every record on the way to a product: its rule, settings by dotted key, and product.

    Without what a model or a dataset has of its own; nothing of a product without a record.
    """
    if not beside(product).is_file():
        return
    whole = read(product)
    for path, record in {**whole.get("inputs", {}), str(product): whole}.items():
        if (rule := record.get("rule")) in MAKE_NUMBERS:
            yield rule, settings_by_key(record.get("settings", {}), OWN), path


def _compare(rule: str, one: Mapping[str, Any], other: Mapping[str, Any], where: str) -> None:
    if (key := first_difference(one, other)) is not None:
        raise AnchorscopeError(
            f"the cells were made with different settings: `{key}` of {rule} is "
            f"{one.get(key)!r} and {other.get(key)!r}",
            where,
            "delete the one that is not of this config and run snakemake again; results of "
            "another config belong into a root of their own",
            see="stale-product",
        )


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

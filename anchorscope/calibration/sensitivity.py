"""Sensitivity: what the choices that the paper leaves open do to a curve, one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from anchorscope.experiments.tables import join, rows_where
from anchorscope.storage.agreement import check_settings, settings_of
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv

BASE = "base"
COMPARED = ("probe_auc", "flip_share", "random_flip_share", "contrast", "delta_p_q", "delta_p_all")
KEY = ["model", "dataset", "site", "position", "layer"]
CONTROLS = [
    "c", "t", "probe_auc", "auc_low", "auc_high", "signal", "flip_share", "random_flip_share",
    "delta_p_q",
]  # fmt: skip
COLUMNS = (
    "model", "dataset", "variant", "changed", "site", "position", "layer", "n", "c", "t",
    "probe_auc", "auc_low", "auc_high", "signal", "flip_share", "random_flip_share", "contrast",
    "contrast_low", "contrast_high", "delta_p_q", "delta_p_all",
    *(f"{name}_difference" for name in COMPARED),
)  # fmt: skip

CHOICES = (
    ("prior", "probe.prior", ("balanced", "natural"), "p at the {} prior"),
    ("scoring", "probe.scoring", ("calibrated", "published"), "scoring as {}"),
    ("disjoint", "probe.disjoint", ("subject", "subject+answer"), "folds disjoint in {}"),
    ("anchors", "anchors", ("subject+property", "subject"), "exact question tokens: {}"),
    ("blocks", "knockout.blocks", ("after", "answer"), "tokens blocked: {}"),
    ("finder", "finder", ("metadata", "offline"), "question anchors found by {}"),
)
"""Name, key in the config, its values, and what a change of it says."""

VALUES = {
    f"{name}-{value.replace('+', '-')}": (key, value, words.format(value))
    for name, key, values, words in CHOICES
    for value in values
}
PENALTIES = {f"penalty-{factor:g}": factor for factor in (0.1, 10.0)}


def variants(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Name → what it changes in a config, as nested sections; one choice each.

    The penalty varied is the one chosen: another grid would mostly choose the same again. What
    would change nothing is left out: a value that the config has already, and under `published`
    scoring, which fixes C and prior, the variants of these.

    Args:
        config: a whole config as plain data.
    """
    probe = config["probe"]
    free = probe["scoring"] == "calibrated"
    penalties = {name: probe.get("penalty", 1.0) * factor for name, factor in PENALTIES.items()}
    found: dict[str, dict[str, Any]] = {}
    if free:
        found = {name: {"probe": {"penalty": penalty}} for name, penalty in penalties.items()}
    for name, (key, value, _) in VALUES.items():
        section, _, own = key.partition(".")
        now = config[section][own] if own else config[section]
        if value != now and (free or key != "probe.prior"):
            found[name] = {section: {own: value} if own else value}
    return found


def in_words(variant: str) -> str:
    """What a variant changes; its name where it is none of `variants`."""
    if factor := PENALTIES.get(variant):
        return f"penalty × {factor:g} (the C chosen × {1 / factor:g})"
    known = {name: words for name, (_, _, words) in VALUES.items()} | {BASE: "nothing"}
    return known.get(variant, variant)


def of_files(
    files: Mapping[str, Sequence[str]],
    cells: Sequence[Sequence[str]],
    variants: Sequence[str],
    *,
    readout: str,
) -> pd.DataFrame:
    """`table` from the tables of every cell.

    Args:
        files: paths of the tables `curve`, `contrasts` and `controls`: of all cells of the main
            study, then of all cells of each variant.
        cells: (model, dataset) of each cell.
        variants: their names.
        readout: the read-out compared.

    Raises:
        AnchorscopeError: see `check_studies` and `table`.
    """
    places = {
        name: slice(number * len(cells), (number + 1) * len(cells))
        for number, name in enumerate((BASE, *variants))
    }
    curves = {name: files["curve"][here] for name, here in places.items()}
    check_studies(curves.pop(BASE), curves)
    studies = {}
    for name, here in places.items():
        tables = {kind: join(cells, list(map(read_csv, files[kind][here]))) for kind in files}
        studies[name] = values(**tables)
    return table(studies.pop(BASE), studies, readout=readout)


def check_studies(base: Sequence[str], variants: Mapping[str, Sequence[str]]) -> None:
    """Refuse studies of which a cell, or more than the one choice, was made with other settings.

    Args:
        base: a product of each cell as configured, all with records.
        variants: name → the same of each variant.

    Raises:
        AnchorscopeError: cells of one study differ, or a variant differs from the base in another
            setting than its own, or not in that.
    """
    check_settings(base)
    first = _settings(base)
    for name, products in variants.items():
        check_settings(products)
        found = _settings(products)
        apart = sorted(key for key in {**first, **found} if first.get(key) != found.get(key))
        # `prior-natural` changes `probe.prior`.
        if {key.rpartition(".")[2] for key in apart} != {name.partition("-")[0]}:
            raise AnchorscopeError(
                f"variant {name} differs from the main study in {', '.join(apart) or 'nothing'}",
                f"{base[0]} and {products[0]}",
                "delete the variant's folder and run snakemake again",
                see="stale-product",
            )


def _settings(products: Sequence[str]) -> dict[str, Any]:
    """Every setting on the way to the first of a study's products, by its rule and dotted key."""
    found = settings_of(products[0])
    return {f"{rule}.{key}": value for rule, own, _ in found for key, value in own.items()}


def values(curve: pd.DataFrame, contrasts: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    """What is compared of one study, a row for each row of its controls.

    The mean ΔP over all samples and their number are the curve's; the paired share contrast is
    blank in a run without the random control.
    """
    everyone = rows_where(curve, condition="knockout", anchor="all", grouping="per_layer")
    everyone = everyone[[*KEY, "n", "delta_p"]].rename(columns={"delta_p": "delta_p_all"})
    paired = rows_where(contrasts, contrast="knockout-random", quantity="share")
    ends = {"estimate": "contrast", "ci_low": "contrast_low", "ci_high": "contrast_high"}
    paired = paired.rename(columns={"contrast": "of"} | ends)[[*KEY, *ends.values()]]
    found = controls[[*KEY, "headline", *CONTROLS]]
    for other in (everyone, paired):
        found = found.merge(other, how="left", on=KEY, validate="1:1")
    return found


def table(
    base: pd.DataFrame, variants: Mapping[str, pd.DataFrame], *, readout: str = "mlp/final"
) -> pd.DataFrame:
    """Hold every variant against the base, at the base's headline layer.

    Args:
        base: the `values` as configured.
        variants: name → those of the same cells.
        readout: the read-out compared.

    Returns:
        A row for each cell and variant, `base` first, with the columns `COLUMNS`
        (docs/products.md): shares and AUCs are fractions, contrast and ΔP percentage points. Blanks
        where a variant has no rows of a cell, since no folds could be cut for it.

    Raises:
        AnchorscopeError: the base has no headline layer of the read-out.
    """
    site, position = readout.split("/")
    chosen = rows_where(base, site=site, position=position)
    chosen = chosen[chosen["headline"].astype(bool)].reset_index(drop=True)
    if chosen.empty:
        raise AnchorscopeError(
            f"no headline layer of the read-out {readout}",
            "controls of the base",
            "add it to `readouts`, or delete the tables of ΔP and run snakemake again",
            see="not-measured",
        )
    frames = []
    for name, study in {BASE: base, **variants}.items():
        found = chosen[KEY].merge(study, how="left", on=KEY)
        gone = found["n"].isna().map({True: " (cannot be measured)", False: ""})
        found = found.assign(variant=name, changed=in_words(name) + gone)
        apart = {f"{column}_difference": found[column] - chosen[column] for column in COMPARED}
        frames.append(found.assign(**apart))
    whole = pd.concat(frames).sort_index(kind="stable", ignore_index=True)
    return whole[list(COLUMNS)]

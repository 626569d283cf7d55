"""Sensitivity: what the choices that the paper leaves open do to a curve, one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.experiments.tables import join
from anchorscope.storage.agreement import check_settings, settings_of
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv

BASE = "base"
COMPARED = ("probe_auc", "flip_share", "random_flip_share", "contrast", "delta_p_q", "delta_p_all")
COLUMNS = (
    "model", "dataset", "variant", "changed", "site", "position", "layer", "n", "c", "t",
    "probe_auc", "auc_low", "auc_high", "signal", "flip_share", "random_flip_share", "contrast",
    "contrast_low", "contrast_high", "delta_p_q", "delta_p_all",
    *(f"{name}_difference" for name in COMPARED),
)  # fmt: skip

CHOICES: tuple[tuple[str, tuple[str, ...], tuple[str, ...], str], ...] = (
    ("prior", ("probe", "prior"), ("balanced", "natural"), "p at the {} prior"),
    ("scoring", ("probe", "scoring"), ("calibrated", "published"), "scoring as {}"),
    ("disjoint", ("probe", "disjoint"), ("subject", "subject+answer"), "folds disjoint in {}"),
    ("anchors", ("anchors",), ("subject+property", "subject"), "exact question tokens: {}"),
    ("blocks", ("knockout", "blocks"), ("after", "answer"), "tokens blocked: {}"),
    ("finder", ("finder",), ("metadata", "offline"), "question anchors found by {}"),
)
"""Name, key in the config, its values, and what a change of it says."""

VALUES = {
    f"{name}-{value.replace('+', '-')}": (path, value, words.format(value))
    for name, path, values, words in CHOICES
    for value in values
}
PENALTIES = {f"penalty-{factor:g}": factor for factor in (0.1, 10.0)}


@dataclass(frozen=True)
class Study:
    """Tables of the same cells under one setting, `model` and `dataset` first.

    Attributes:
        curve, contrasts, controls: see `delta_p` and `controls`.
    """

    curve: pd.DataFrame
    contrasts: pd.DataFrame
    controls: pd.DataFrame


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
    for name, (path, value, _) in VALUES.items():
        if value != _at(config, path) and (free or path != ("probe", "prior")):
            found[name] = _nested(path, value)
    return found


def _at(config: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    for key in path:
        config = config[key]
    return config


def _nested(path: tuple[str, ...], value: str) -> dict[str, Any]:
    head, *rest = path
    return {head: _nested(tuple(rest), value) if rest else value}


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
        files: paths of each of the tables of `Study`: of all cells of the main study, then of all
            cells of each variant.
        cells: (model, dataset) of each cell.
        variants: their names.
        readout: the read-out compared.

    Raises:
        AnchorscopeError: see `check_studies` and `table`.
    """

    def part(name: str, number: int) -> Sequence[str]:
        return files[name][number * len(cells) : (number + 1) * len(cells)]

    def study(number: int) -> Study:
        names = [field.name for field in fields(Study)]
        return Study(*(join(cells, [read_csv(p) for p in part(n, number)]) for n in names))

    numbers = {name: number for number, name in enumerate(variants, start=1)}
    check_studies(part("curve", 0), {name: part("curve", n) for name, n in numbers.items()})
    found = {name: study(number) for name, number in numbers.items()}
    return table(study(0), found, readout=readout)


def check_studies(base: Sequence[str | Path], variants: Mapping[str, Sequence[str | Path]]) -> None:
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
        apart = {key for key in {**first, **found} if first.get(key) != found.get(key)}
        # `prior-natural` changes `probe.prior`.
        if {key.rpartition(".")[2] for key in apart} != {name.partition("-")[0]}:
            raise AnchorscopeError(
                f"the variant {name} differs from the main study in {', '.join(sorted(apart))}"
                if apart
                else f"the variant {name} was made with the settings of the main study",
                f"{base[0]} and {products[0]}",
                "delete the variant's folder and run snakemake again",
                see="stale-product",
            )


def _settings(products: Sequence[str | Path]) -> dict[str, Any]:
    """Every setting on the way to the first of a study's products, by its rule and dotted key."""
    found = settings_of(products[0])
    return {f"{rule}.{key}": value for rule, own, _ in found for key, value in own.items()}


def table(
    base: Study, variants: Mapping[str, Study], *, readout: str = "mlp/final"
) -> pd.DataFrame:
    """Hold every variant against the base, at the base's headline layer.

    Args:
        base: the tables as configured.
        variants: name → tables of the same cells.
        readout: the read-out compared.

    Returns:
        A row for each cell and variant, `base` first, with the columns `COLUMNS`. Shares and AUCs
        are fractions; `contrast` is the share of flips under the knockout less that under the
        random control, paired, and like ΔP in percentage points; `delta_p_q` is the mean over the
        flips, `delta_p_all` over all samples; `c` and `t` are medians over folds;
        `<name>_difference` is the variant's value less the base's. Blanks where a variant has no
        rows of a cell, since no folds could be cut for it.

    Raises:
        AnchorscopeError: the read-out or the layer is missing.
    """
    records = []
    chosen = base.controls[base.controls["site"] + "/" + base.controls["position"] == readout]
    for cell in chosen[chosen["headline"].astype(bool)].to_dict("records"):
        key = {name: cell[name] for name in ("model", "dataset", "site", "position", "layer")}
        first = _values(BASE, base, key)
        others = (_values(name, study, key) for name, study in variants.items())
        for found in (first, *others):
            apart = {f"{name}_difference": found[name] - first[name] for name in COMPARED}
            records.append(found | apart)
    if not records:
        raise AnchorscopeError(
            f"no headline layer of the read-out {readout}",
            "controls of the base",
            "add it to `readouts`, or delete the tables of ΔP and run snakemake again",
            see="not-measured",
        )
    return pd.DataFrame(records, columns=list(COLUMNS))


def _values(variant: str, study: Study, key: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of one variant and cell, without the differences."""
    found = {**key, "variant": variant, "changed": in_words(variant)}
    cells = zip(study.controls["model"], study.controls["dataset"], strict=True)
    if (key["model"], key["dataset"]) not in cells:
        blank = dict.fromkeys(COLUMNS[COLUMNS.index("n") :], np.nan)
        return blank | found | {"changed": f"{found['changed']} (cannot be measured)"}
    controls = _one(study.controls, key, variant, "controls")
    group = {"condition": "knockout", "anchor": "all", "grouping": "per_layer"}
    everyone = _one(study.curve, {**key, **group}, variant, "curve")
    found |= {"n": everyone["n"], "delta_p_all": everyone["delta_p"]}
    same = ("c", "t", "probe_auc", "auc_low", "auc_high", "signal", "flip_share")
    found |= {name: controls[name] for name in (*same, "random_flip_share", "delta_p_q")}
    return found | _contrast(study.contrasts, key, variant)


def _contrast(rows: pd.DataFrame, key: Mapping[str, Any], variant: str) -> dict[str, Any]:
    """The paired share contrast; blank in a run without the random control."""
    if not rows["contrast"].eq("knockout-random").any():
        return dict.fromkeys(("contrast", "contrast_low", "contrast_high"), np.nan)
    wanted = {**key, "contrast": "knockout-random", "quantity": "share"}
    row = _one(rows, wanted, variant, "contrasts")
    low, high = row["ci_low"], row["ci_high"]
    return {"contrast": row["estimate"], "contrast_low": low, "contrast_high": high}


def _one(rows: pd.DataFrame, key: Mapping[str, Any], variant: str, table: str) -> pd.Series[Any]:
    for name, value in key.items():
        rows = rows[rows[name] == value]
    if len(rows) != 1:
        where = ", ".join(f"{name} {value}" for name, value in key.items())
        raise AnchorscopeError(
            f"{len(rows)} rows in the {table} of {variant}, one was expected",
            where,
            "delete the variant's tables of ΔP and run snakemake again",
            see="stale-product",
        )
    return rows.iloc[0]

"""Sensitivity: how a curve changes with choices that the paper leaves open, one at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from anchorscope.config.readouts import Pair
from anchorscope.experiments.experiment import recurring, with_interval
from anchorscope.experiments.knockout.contrasts import PUBLISHED
from anchorscope.experiments.tables import rows_where
from anchorscope.storage.errors import AnchorscopeError

BASE = "base"
KEY = ["model", "dataset", "site", "position", "layer"]
CONTROLS = ["probe_auc", "auc_low", "auc_high", "flip_share", "random_flip_share"]
COLUMNS = {
    **recurring("model", "dataset"),
    "variant": "name of the variant, `base` first",
    "changed": "what it changes",
    **recurring("site", "position", "layer", "n"),
    "n_exact": "mean number of exact question tokens",
    "n_paired": "samples whose random control is complete",
    **recurring("probe_auc", "auc_low", "auc_high", "signal", "flip_share", "random_flip_share"),
    **with_interval("contrast", "flips, exact less random tokens, in percentage points"),
    "delta_p_all": "mean ΔP of all samples",
}
"""Column of the table → what it holds."""


@dataclass(frozen=True)
class Choice:
    """A setting that is varied."""

    name: str
    key: str  # in the config: a section, or `<section>.<setting>`
    values: tuple[str | float, ...]  # of `penalty`: factors
    words: str  # what a variant changes; `{}` is the value


CHOICES = (
    Choice("penalty", "probe.penalty", (0.1, 10), "penalty 1/C × {}"),
    Choice("prior", "probe.prior", ("balanced", "natural"), "p at the {} prior"),
    Choice("scoring", "probe.scoring", ("calibrated", "published"), "scoring as {}"),
    Choice("disjoint", "probe.disjoint", ("subject", "subject+answer"), "folds disjoint in {}"),
    Choice("anchors", "anchors", ("subject+property", "subject"), "exact question tokens: {}"),
    Choice("finder", "finder", ("metadata", "offline"), "question anchors found by {}"),
)
VALUES = {
    f"{choice.name}-{value}".replace("+", "-"): (choice, value)
    for choice in CHOICES
    for value in choice.values
}
"""Name of a variant → the choice that it varies, and the value that it takes."""
WORDS = {BASE: "nothing"} | {
    name: choice.words.format(value) for name, (choice, value) in VALUES.items()
}
"""Name of a study → what it changes, in words."""


def variants(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Name → what the variant changes in a whole config, as nested sections of plain data.

    Each variant changes one choice. The penalty is a multiple of the chosen one: another grid would
    mostly choose the same again. A variant that would change nothing is left out: one whose value
    the config has already, and under `published` scoring, which fixes C and prior, those of them.
    """
    calibrated = config["probe"]["scoring"] == "calibrated"
    changes: dict[str, dict[str, Any]] = {}
    for name, (choice, value) in VALUES.items():
        section, _, setting = choice.key.partition(".")
        current = config[section][setting] if setting else config[section]
        new = current * value if choice.name == "penalty" else value
        has_effect = calibrated or choice.name not in ("penalty", "prior")
        if new != current and has_effect:
            changes[name] = {section: {setting: new} if setting else new}
    return changes


def values(curve: pd.DataFrame, contrasts: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    """The quantities of one study that are compared, a row for each row of its controls.

    The mean ΔP over all samples, their number and that of exact question tokens are the curve's;
    the paired contrast of shares is the published one, exact less random tokens.
    """
    everyone = rows_where(curve, condition="knockout", anchor="all", grouping="per_layer")
    of_all = {"delta_p": "delta_p_all", "n_blocked": "n_exact"}
    everyone = everyone[[*KEY, "n", "n_paired", "signal", *of_all]].rename(columns=of_all)
    paired = rows_where(contrasts, contrast=PUBLISHED, quantity="share")
    names = {"estimate": "contrast", "ci_low": "contrast_low", "ci_high": "contrast_high"}
    paired = paired[[*KEY, *names]].rename(columns=names)
    compared = controls[[*KEY, "headline", *CONTROLS]]
    for other in (everyone, paired):
        compared = compared.merge(other, how="left", on=KEY, validate="1:1")
    return compared


def table(studies: Mapping[str, pd.DataFrame], *, readout: str = "mlp/final") -> pd.DataFrame:
    """Every variant beside the base, at the base's headline layer of one read-out.

    `studies` are the `values` of the same cells by name, `base`, as configured, first. Returns a
    row for each cell and variant, in this order, with the columns `COLUMNS` (docs/products.md):
    shares and AUCs are fractions, contrast and ΔP percentage points. Blank where a variant has no
    rows of a cell because no folds could be cut for it. Raises AnchorscopeError: the base has no
    headline layer of the read-out.
    """
    base = rows_where(studies[BASE], **Pair.of(readout)._asdict(), headline=True)
    if base.empty:
        what = f"no headline layer of the read-out {readout}"
        do = "add it to `readouts`, or delete the tables of ΔP and run snakemake again"
        raise AnchorscopeError(what, "controls of the base", do, see="not-measured")
    frames = []
    for name, study in studies.items():
        rows = base[KEY].merge(study, how="left", on=KEY)
        unmeasured = rows["n"].isna().map({True: " (cannot be measured)", False: ""})
        frames.append(rows.assign(variant=name, changed=WORDS[name] + unmeasured))
    # By cell, then by variant: the rows of each frame are numbered by cell.
    whole = pd.concat(frames).sort_index(kind="stable", ignore_index=True)
    return whole[list(COLUMNS)]

"""Sensitivity: what the choices that the paper leaves open do to a curve, one at a time."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from anchorscope.experiments.tables import rows_where
from anchorscope.storage.errors import AnchorscopeError, stale
from anchorscope.storage.records import check_settings, settings_of

BASE = "base"
COMPARED = ["probe_auc", "flip_share", "random_flip_share", "contrast", "delta_p_q", "delta_p_all"]
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

CHOICES: tuple[tuple[str, str, tuple[Any, ...], str], ...] = (
    ("penalty", "probe.penalty", (0.1, 10), "penalty 1/C × {}"),
    ("prior", "probe.prior", ("balanced", "natural"), "p at the {} prior"),
    ("scoring", "probe.scoring", ("calibrated", "published"), "scoring as {}"),
    ("disjoint", "probe.disjoint", ("subject", "subject+answer"), "folds disjoint in {}"),
    ("anchors", "anchors", ("subject+property", "subject"), "exact question tokens: {}"),
    ("blocks", "knockout.blocks", ("after", "answer"), "tokens blocked: {}"),
    ("finder", "finder", ("metadata", "offline"), "question anchors found by {}"),
)
"""Name, key in the config, its values (factors of the penalty), and what a change of it says."""

VALUES = {
    f"{name}-{value}".replace("+", "-"): (key, value, words.format(value))
    for name, key, values, words in CHOICES
    for value in values
}
WORDS = {BASE: "nothing"} | {name: words for name, (_, _, words) in VALUES.items()}


def variants(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Name → what it changes in a whole config, as nested sections of plain data; one choice each.

    The penalty varied is the one chosen: another grid would mostly choose the same again. What
    would change nothing is left out: a value that the config has already, and under `published`
    scoring, which fixes C and prior, the variants of these.
    """
    free = config["probe"]["scoring"] == "calibrated"
    found: dict[str, dict[str, Any]] = {}
    for name, (key, value, _) in VALUES.items():
        section, _, own = key.partition(".")
        now = config[section][own] if own else config[section]
        if own == "penalty":
            value = now * value
        if value != now and (free or own not in ("penalty", "prior")):
            found[name] = {section: {own: value} if own else value}
    return found


def check_study(name: str, products: Sequence[str], base: Sequence[str]) -> None:
    """Refuse a study of which a cell, or more than the one choice, was made with other settings.

    `products` and `base` are one product of every cell, with its record, of the variant `name` and
    of the main study. Raises AnchorscopeError: its cells differ, or it differs from the base in
    another setting than its own, or not in that.
    """
    check_settings(products)
    first, found = (
        {f"{rule}.{key}": of for rule, own, _ in settings_of(one[0]) for key, of in own.items()}
        for one in (base, products)
    )
    apart = sorted(key for key in {**first, **found} if first.get(key) != found.get(key))
    # `prior-natural` changes `probe.prior`.
    if name != BASE and {key.rpartition(".")[2] for key in apart} != {name.partition("-")[0]}:
        what = f"variant {name} differs from the main study in {', '.join(apart) or 'nothing'}"
        raise stale(what, f"{base[0]} and {products[0]}", "the variant's folder")


def values(curve: pd.DataFrame, contrasts: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    """What is compared of one study, a row for each row of its controls.

    The mean ΔP over all samples and their number are the curve's; the paired share contrast is
    blank in a run without the random control.
    """
    everyone = rows_where(curve, condition="knockout", anchor="all", grouping="per_layer")
    everyone = everyone[[*KEY, "n", "delta_p"]].rename(columns={"delta_p": "delta_p_all"})
    paired = rows_where(contrasts, contrast="knockout-random", quantity="share")
    ends = {"estimate": "contrast", "ci_low": "contrast_low", "ci_high": "contrast_high"}
    paired = paired[[*KEY, *ends]].rename(columns=ends)
    found = controls[[*KEY, "headline", *CONTROLS]]
    for other in (everyone, paired):
        found = found.merge(other, how="left", on=KEY, validate="1:1")
    return found


def table(studies: Mapping[str, pd.DataFrame], *, readout: str = "mlp/final") -> pd.DataFrame:
    """Hold every variant against the base, at the base's headline layer of one read-out.

    `studies` are the `values` of the same cells by name; `base`, as configured, first. A row for
    each cell and variant, in this order, with the columns `COLUMNS` (docs/products.md): shares and
    AUCs are fractions, contrast and ΔP percentage points. Blanks where a variant has no rows of a
    cell, since no folds could be cut for it. Raises AnchorscopeError: the base has no headline
    layer of the read-out.
    """
    site, position = readout.split("/")
    base = rows_where(studies[BASE], site=site, position=position, headline=True)
    if base.empty:
        what = f"no headline layer of the read-out {readout}"
        do = "add it to `readouts`, or delete the tables of ΔP and run snakemake again"
        raise AnchorscopeError(what, "controls of the base", do, see="not-measured")
    frames = []
    for name, study in studies.items():
        found = base[KEY].merge(study, how="left", on=KEY)
        gone = found["n"].isna().map({True: " (cannot be measured)", False: ""})
        apart = found[COMPARED] - base[COMPARED].reset_index(drop=True)
        found = found.assign(variant=name, changed=WORDS[name] + gone)
        frames.append(found.join(apart.add_suffix("_difference")))
    whole = pd.concat(frames).sort_index(kind="stable", ignore_index=True)
    return whole[list(COLUMNS)]

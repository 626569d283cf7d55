"""Requirements on the calibration, and on null controls, which must not make false claims."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.claims import CLAIMS, keys
from anchorscope.claims.claim import NO, YES
from anchorscope.config.readouts import Location
from anchorscope.statistics.columns import recurring, with_interval
from anchorscope.statistics.strength import LEAST_AUC
from anchorscope.storage.errors import stale
from validation.calibration import AGAINST_PRIOR, DEFAULT_READOUT
from validation.checks import Check, judge, rows_where

COLUMNS = ("requirement", "scope", "model", "dataset", "required", "measured", "holds")
OF_CELL, OF_MEAN = "cell", "mean"
"""Scopes of a check: every cell, or the mean over several cells."""
Checks = Mapping[str, Sequence[Check]]
"""Scope → checks."""


def _of(what: str, column: str, low: float = -np.inf, high: float = np.inf, **rows: Any) -> Check:
    """Return a check of the calibration's table."""
    layer = {} if "layer" in rows else {"headline": True}
    return Check(what, column, {"z": "all", "kind": "all"} | layer | rows, low, high)


CHECKS: Checks = {
    OF_CELL: (
        _of("own verdicts right", "verdict_accuracy", 0.95),
        _of("probe AUC", "probe_auc", 0.97),
        _of("flips under the random control", "random_flip_share", high=0.05),
        _of("answer floor against the prior", "answer_auc", 0.4, 0.6, kind=AGAINST_PRIOR),
        _of("pathway AUC", "pathway_auc", 0.9),
        _of("pathway AUC of right answers", "pathway_auc", 0.85, z="0"),
        _of("pathway AUC of wrong answers", "pathway_auc", 0.85, z="1"),
        _of("specificity on truism", "specificity", 0.85, kind="truism"),
        _of("specificity on myth", "specificity", 0.85, kind="myth"),
        _of("sensitivity against the prior", "sensitivity", 0.45, kind=AGAINST_PRIOR),
        _of("pair term of right answers", "pair_right", 1.0),
        _of("pair term of right answers, lower end", "pair_right_low", 0.0),
        _of("pair term of wrong answers", "pair_wrong", high=-0.8),
        _of("pair term of wrong answers, upper end", "pair_wrong_high", high=0.0),
        _of("swap share of right answers", "share_right", 0.65),
        _of("pair term of gold answers", "pair_gold", 0.6),
        *(_of(f"pair term at layer {n}", "pair_right", -0.05, 0.05, layer=n) for n in range(3)),
        *(
            _of(f"pair term of gold answers at layer {n}", "pair_gold", -0.05, 0.05, layer=n)
            for n in range(3)
        ),
    ),
    OF_MEAN: (
        _of("pathway AUC", "pathway_auc", 0.95),
        _of("pathway AUC of right answers", "pathway_auc", 0.92, z="0"),
        _of("pathway AUC of wrong answers", "pathway_auc", 0.92, z="1"),
        _of("specificity on truism", "specificity", 0.95, kind="truism"),
        _of("specificity on myth", "specificity", 0.95, kind="myth"),
        _of("sensitivity against the prior", "sensitivity", 0.65, kind=AGAINST_PRIOR),
    ),
}


def check_calibration(table: pd.DataFrame) -> pd.DataFrame:
    """Check cells, and each model's mean over datasets. Return a table with columns `COLUMNS`."""
    chosen = rows_where(table, **Location.of(DEFAULT_READOUT)._asdict()).astype({"z": str})
    records = []
    for model, datasets in table.groupby("model", sort=False)["dataset"]:
        cells = [(str(model), dataset) for dataset in datasets.unique()]
        records += check_cells(CHECKS, chosen, cells, str(model))
    return pd.DataFrame(records, columns=list(COLUMNS))


def check_cells(
    checks: Checks, table: pd.DataFrame, cells: Sequence[tuple[str, str]], model: str
) -> list[dict[str, object]]:
    """Return a row of `COLUMNS` for each cell check in each cell, and for each check of the mean.

    Rows of the mean name `model`. A check does not hold if a cell that it needs lacks the value.
    """
    records: list[dict[str, object]] = []
    for one in checks[OF_CELL]:
        for cell in cells:
            here = rows_where(table, model=cell[0], dataset=cell[1])
            records.append(record(one, OF_CELL, *cell, here))
    for one in checks[OF_MEAN]:
        rows = one.chosen(table).set_index(["model", "dataset"])[one.column]
        mean = rows.astype(float).reindex(pd.MultiIndex.from_tuples(cells)).mean(skipna=False)
        whole = pd.DataFrame({one.column: [mean]})
        records.append(record(replace(one, rows={}), OF_MEAN, model, "all", whole))
    return [one | {"holds": bool(one["holds"])} for one in records]


def record(
    check: Check, scope: str, model: str, dataset: str, rows: pd.DataFrame
) -> dict[str, object]:
    """Return a row of `COLUMNS`. `holds` is blank if nothing was measured."""
    found = judge(check, rows)
    values = (check.what, scope, model, dataset, check.required, found.least, found.holds)
    return dict(zip(COLUMNS, values, strict=True))


def in_words(checked: pd.DataFrame) -> str:
    """Return the number of requirements that hold, and a sentence per requirement that does not."""
    known = checked["holds"].dropna().astype(bool)
    sentences = [f"{known.sum()} of {len(known)} requirements hold."]
    if unknown := len(checked) - len(known):
        sentences[0] += f" Not measured in null controls: {unknown}."
    for row in checked[checked["holds"].eq(False)].to_dict("records"):
        measured = "not measured" if np.isnan(row["measured"]) else f"{row['measured']:.3f}"
        sentences.append(
            f"Missed: {row['requirement']}, {row['scope']}, {row['model']} on {row['dataset']}: "
            f"{measured}, required {row['required']}."
        )
    return "\n".join(sentences)


OF_OTHERS = tuple(name for name in CLAIMS if name != "signal")
"""Keys of the claims other than `signal`."""
NULL_COLUMNS = {
    "control": "name of the control",
    "expectation": "why the claims in `forbids` would be false positives",
    **recurring("model", "dataset", "site", "position", "layer", "n"),
    **with_interval(
        "auc_shuffled", "AUC of probes fitted to shuffled labels, where these are judged"
    ),
    **with_interval(
        "margin", "gain in AUC over the hardest of 0.6 and the text models, as in [claims](#claims)"
    ),
    "signal": "the claim `signal`; for shuffled labels, whether `auc_shuffled_low` is above 0.6",
    "forbids": "claims that would be false positives in this cell",
    "empty": "whether no claim in `forbids` is made",
    "made": "claims in `forbids` that are made",
    "untested": "claims in `forbids` that cannot be judged in this cell",
    **recurring("flip_share", "random_flip_share"),
    **with_interval("share_right", "as in [crossing](#crossing)"),
    **with_interval("pair_right", "as in [crossing](#crossing)"),
    **dict.fromkeys(OF_OTHERS, "as in [claims](#claims)"),
}
"""Column of the table → what it holds."""
PLACE = ["site", "position", "layer"]
SHUFFLED = ["auc_shuffled", "auc_shuffled_low", "auc_shuffled_high"]
FLIPPED = {"condition": "knockout", "anchor": "Q"}
SIGNAL = {
    "verdict": "signal", "estimate": "margin", "ci_low": "margin_low", "ci_high": "margin_high",
}  # fmt: skip
BESIDE: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (
    ("curve", FLIPPED, {"share": "flip_share"}),
    ("curve", FLIPPED | {"condition": "random"}, {"share": "random_flip_share"}),
    *(
        (
            "crossing",
            {"quantity": name},
            {"estimate": name, "ci_low": f"{name}_low", "ci_high": f"{name}_high"},
        )
        for name in ("share_right", "pair_right")
    ),
    ("claims", {"claim": "signal"}, SIGNAL),
    *(("claims", {"key": name}, {"verdict": name}) for name in OF_OTHERS),
)
"""Table, rows to select from it, and a dict that maps columns to names in `NULL_COLUMNS`."""


def null_controls(
    nulls: Mapping[str, Mapping[str, Any]], tables: Mapping[str, Sequence[pd.DataFrame]]
) -> pd.DataFrame:
    """Determine for every null control which of the claims that it forbids are made.

    A signal at `prompt_end` is allowed, because the coming answer can be read there. A control of
    shuffled labels has no claims and no flips. It is judged by the probes fitted to these labels,
    and has a signal if `auc_shuffled_low` is above 0.6.

    `nulls` maps the controls' names to their entries in the config. `tables` maps `curve`,
    `controls`, `crossing` and `claims` to lists with one table per control, in the order of
    `nulls`. The result has one row per control and read-out, at the headline layer, with the
    columns `NULL_COLUMNS`.

    Raises:
        AnchorscopeError: No probe learned shuffled labels.
    """
    frames = []
    for place, (name, null) in enumerate(nulls.items()):
        of_cell = {kind: some[place] for kind, some in tables.items()}
        of_cell["claims"] = of_cell["claims"].assign(key=keys(of_cell["claims"]))
        forbids = [key for key in CLAIMS if key not in null["allows"]]
        known = rows_where(of_cell["controls"], headline=True)
        everyone = rows_where(of_cell["curve"], **FLIPPED | {"anchor": "all"})
        readouts = known[[*PLACE, *SHUFFLED]].merge(everyone[[*PLACE, "n"]], on=PLACE)
        if not null["shuffled"]:
            readouts = _with_groups(readouts.drop(columns=SHUFFLED), of_cell)
        elif readouts["auc_shuffled_low"].isna().any():
            where = f"null control {name}, {null['model']} on {null['dataset']}"
            raise stale("no probe was fitted to shuffled labels", where, "the cell's tables of ΔP")
        else:  # these probes have only an AUC
            readouts["signal"] = readouts["auc_shuffled_low"] > LEAST_AUC
        made, untested = _made(readouts, forbids)
        readouts = readouts.assign(
            **{key: null[key] for key in ("expectation", "model", "dataset")},
            control=name,
            forbids=", ".join(forbids),
            made=made,
            untested=untested,
        )
        frames.append(readouts.assign(empty=readouts["made"] == ""))
    return pd.concat(frames, ignore_index=True).reindex(columns=list(NULL_COLUMNS))


def _made(readouts: pd.DataFrame, forbids: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the forbidden claims that are made at each read-out, and those not judged, as text."""
    verdicts = {True: 1.0, YES: 1.0, False: 0.0, NO: 0.0}
    told = readouts.reindex(columns=list(forbids)).apply(lambda claim: claim.map(verdicts))
    if "signal" in told:
        told.loc[readouts["position"] == "prompt_end", "signal"] = 0.0
    made, untested = (
        [", ".join(told.columns[row]) for row in some.to_numpy()]
        for some in (told == 1, told.isna())
    )
    return made, untested


def _with_groups(readouts: pd.DataFrame, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the read-outs with the results of their groups and pairs, blank if not measured."""
    for name, where, columns in BESIDE:
        rows = rows_where(tables[name], **where)[[*PLACE, *columns]].rename(columns=columns)
        readouts = readouts.merge(rows, how="left", on=PLACE, validate="1:1")
    readouts["signal"] = readouts["signal"].map({YES: True, NO: False})
    return readouts

"""Calibration of the experiments: compare their measures with the swap truth and pair terms.

The module also has the requirements on the experiments, in calibration cells and null controls.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from anchorscope.config.readouts import Location
from anchorscope.curve.curve import control_is_complete
from anchorscope.experiments.measured import PER_SAMPLE
from anchorscope.statistics import samples
from anchorscope.statistics.analysis import stacked
from anchorscope.statistics.intervals import Estimate, Resamples
from anchorscope.statistics.scores import Scores
from validation import requirements, world
from validation.calibration import DEFAULT_READOUT
from validation.checks import Check, rows_where

COLUMNS = (
    "experiment", "arm", "measure", "model", "dataset", "site", "position", "layer", "n_q", "n_a",
    "auc", "auc_low", "auc_high", "control_auc", "auc_gain", "auc_gain_low", "auc_gain_high", "n",
    "value", "control", *world.SCORED_KINDS, "n_pair", "rank",
)  # fmt: skip
OF_CELL = [name for name in COLUMNS if name not in ("experiment", "model", "dataset")]
KNOCKOUT = "knockout"

MATCHED = {"experiment": "patching", "arm": "matched", "measure": "flip"}
PLACEBO = MATCHED | {"arm": "placebo"}
FLOW = {"experiment": "saliency", "arm": "answer", "measure": "flow"}


CHECKS: requirements.Checks = {
    requirements.OF_CELL: (
        Check("patching matched: surprise, flips", "surprise", MATCHED, low=0.8),
        Check("patching matched: tempting, flips", "tempting", MATCHED, low=0.55),
        Check("patching matched: truism, flips", "truism", MATCHED, high=0.1),
        Check("patching placebo: myth, flips", "myth", PLACEBO, high=0.1),
        Check("patching matched: flips under the control", "control", MATCHED, high=0.12),
        Check("saliency answer: AUC for truth", "auc", FLOW, low=0.75),
    ),
    requirements.OF_MEAN: (
        Check("patching matched: surprise, flips", "surprise", MATCHED, low=0.9),
        Check("patching matched: tempting, flips", "tempting", MATCHED, low=0.7),
        Check("patching matched: truism, flips", "truism", MATCHED, high=0.05),
        Check("patching placebo: myth, flips", "myth", PLACEBO, high=0.05),
        Check("patching matched: flips under the control", "control", MATCHED, high=0.05),
        Check("saliency answer: AUC for truth", "auc", FLOW, low=0.85),
        Check("saliency answer: share of cells with a higher AUC than random tokens",
              "gain_shown", FLOW, low=0.75),
    ),
}  # fmt: skip
EMPTY = Check("patching matched: flips", "value", MATCHED, high=0.15)
"""Requirement on null controls: few flips. No other measure needs a probe that reads the pair."""


def of_experiment(
    per_sample: pd.DataFrame,
    answers: pd.DataFrame,
    truth: pd.DataFrame | None,
    pairs: pd.DataFrame | None = None,
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare an experiment in one cell with the swap truth and with pair terms, if given.

    The tables come from `measured.per_sample`, `validation.truth` and `pairs.per_sample`. In the
    first, each read-out, arm and measure has the same ids in the same order.

    Returns:
        One row per read-out, arm and measure, with the columns `OF_CELL`. `value` and `control`
        are means over the `n` samples that have both. `auc` tells how well the measure separates
        truth Q from truth A over the scored kinds, and `control_auc` how well its control does.
        `auc_gain` is their paired difference. Each scored kind has a column with the mean of its
        samples. `rank` is Spearman's correlation of the measure with the pair term, over the
        `n_pair` samples that have both.
    """
    if per_sample.empty:
        return pd.DataFrame(columns=OF_CELL)
    ordered = samples.select_rows(answers, per_sample["id"].unique(), "answers")
    resamples = samples.bootstrap(ordered, draws, seed)
    planted = None if truth is None else truth.set_index("id").reindex(ordered["id"])
    keys = ["site", "position", "layer", "arm", "measure"]
    records = []
    for names, part in per_sample.groupby(keys, sort=False):
        key = dict(zip(keys, names, strict=True))
        rows = part[["value", "control"]]
        value, control = rows.to_numpy().T
        counted = ~np.isnan(value + control)
        record = key | {"n": int(counted.sum()), **rows[counted].mean()}
        if planted is not None:
            record |= _by_truth(value, control, planted, resamples, level)
        if pairs is not None:
            place = {name: key[name] for name in ("site", "position", "layer")}
            here = rows_where(pairs, **place).set_index("id").reindex(ordered["id"])
            both = counted & here["term"].notna().to_numpy()
            x, y = value[both], here["term"].to_numpy(dtype=np.float64)[both]
            varies = min(len(np.unique(x)), len(np.unique(y))) > 1
            record |= {"n_pair": len(x), "rank": spearmanr(x, y).statistic if varies else np.nan}
        records.append(record)
    return pd.DataFrame(records, columns=OF_CELL)


def of_knockout(scores: Scores, answers: pd.DataFrame) -> pd.DataFrame:
    """Return −Δlogit of the knockout for each sample, in the columns of `measured.per_sample`.

    The layer is the headline layer of each read-out. The control is the mean over the draws of
    random tokens. `answers` has only measured answers.
    """
    ordered, frames = scores.matching(answers), []
    for readout in map(scores.readout, scores.readouts):
        counted = control_is_complete(readout, ordered, KNOCKOUT)
        columns = {"id": ordered["id"], **readout.key, "layer": readout.headline}
        columns |= {"arm": KNOCKOUT, "measure": "logit"}
        for name, condition in (("value", KNOCKOUT), ("control", "random")):
            moved = -readout.effects[condition].delta_logit[:, readout.headline].mean(axis=0)
            columns[name] = np.where(counted, moved, np.nan)
        frames.append(pd.DataFrame(columns)[list(PER_SAMPLE)])
    return stacked(frames, PER_SAMPLE)


def _by_truth(
    value: np.ndarray,
    control: np.ndarray,
    planted: pd.DataFrame,
    resamples: Resamples,
    level: float,
) -> dict[str, object]:
    """Return the columns that compare samples of truth Q with samples of truth A."""
    by_kind = pd.Series(value).groupby(planted["kind"].to_numpy()).mean()
    pathway = planted["truth"].where(planted["kind"].isin(world.SCORED_KINDS)).to_numpy()
    counted = ~np.isnan(value + control)
    q, a = (counted & (pathway == name) for name in ("Q", "A"))
    compared, is_q = q | a, q.astype(int)
    aucs, of_control = resamples.aucs(np.where(compared, [value, control], np.nan), is_q).T
    return {
        "n_q": int(q.sum()),
        "n_a": int(a.sum()),
        **Estimate.of_resamples(aucs, level).columns("auc"),
        "control_auc": of_control[0],
        **Estimate.of_resamples(aucs - of_control, level).columns("auc_gain"),
        **by_kind.reindex([*world.SCORED_KINDS]),
    }


def check(
    table: pd.DataFrame, cells: Sequence[tuple[str, str]], nulls: Mapping[str, Mapping[str, Any]]
) -> pd.DataFrame:
    """Check the requirements on experiments in calibration `cells` and null controls `nulls`.

    The result has the columns `requirements.COLUMNS`. A requirement that cannot be measured does
    not hold in a calibration cell. In a null control (`scope` is `empty`), its `holds` is blank.
    """
    chosen = rows_where(table, **Location.of(DEFAULT_READOUT)._asdict())
    gain = chosen["auc_gain_low"]
    chosen = chosen.assign(gain_shown=(gain > 0).astype(float).where(gain.notna()))
    records = requirements.check_cells(CHECKS, chosen, cells, "all") if cells else []
    for null in nulls.values():
        cell = (null["model"], null["dataset"])
        rows = rows_where(chosen, model=cell[0], dataset=cell[1])
        # Leave out the control of shuffled labels: here, probes fitted to true labels score it.
        if not null["shuffled"] and len(EMPTY.chosen(rows)):
            records.append(requirements.record(EMPTY, "empty", *cell, rows))
    return pd.DataFrame(records, columns=list(requirements.COLUMNS))

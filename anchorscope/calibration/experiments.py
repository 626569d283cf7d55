"""Calibration of the experiments: what they say of samples whose pathway to truth is known."""

import numpy as np
import pandas as pd

from anchorscope.probes import intervals, samples
from anchorscope.probes.intervals import auc

COLUMNS = (
    "experiment", "arm", "measure", "model", "dataset", "site", "position", "layer", "n_q", "n_a",
    "value_q", "value_a", "auc", "auc_low", "auc_high", "control_auc", "n", "contrast",
    "contrast_low", "contrast_high",
)  # fmt: skip
KEYS = ["site", "position", "layer", "arm", "measure"]


def cell(
    per_sample: pd.DataFrame,
    answers: pd.DataFrame,
    truth: pd.DataFrame | None,
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Hold an experiment in one cell against the truth by swaps.

    Args:
        per_sample: what the experiment's `table.per_sample` gives: `id`, `site`, `position`,
            `layer`, `arm`, `measure`, `value` and `control`, at the headline layer.
        answers: of the cell, for the clusters of the bootstrap.
        truth: the table of `anchorscope.calibration.truth.truth`; None of a model without one.

    Returns:
        A row for each read-out, arm and measure, `COLUMNS` without `experiment`, `model` and
        `dataset`: `value_q` and `value_a`, means over the samples whose truth is Q and A; `auc`,
        how well the measure tells these apart, `control_auc`, how well its control does; blank
        without truth. `contrast`: the mean of value − control over all `n` samples.
    """
    ordered = samples.in_order(answers[answers["id"].isin(per_sample["id"].unique())])
    drawn = samples.bootstrap(ordered, draws, seed)
    known = None if truth is None else truth.set_index("id")["truth"].reindex(ordered["id"])
    records = []
    for names, part in per_sample.groupby(KEYS, sort=False):
        rows = part.set_index("id").reindex(ordered["id"])
        value, control = (rows[name].to_numpy(dtype=np.float64) for name in ("value", "control"))
        counted = ~np.isnan(value + control)
        difference = (value - control)[None]
        (low,), (high,) = intervals.percentile(drawn.means(difference, counted[None]), level)
        found = dict(zip(KEYS, names, strict=True)) | {"n": int(counted.sum())}
        found |= {"contrast": intervals.mean_known(difference, 1)[0]}
        found |= {"contrast_low": low, "contrast_high": high}
        if known is not None:
            q, a = (counted & (known == pathway).to_numpy() for pathway in ("Q", "A"))
            told, is_q = q | a, q.astype(int)
            replicates = drawn.aucs(np.where(told, value, np.nan)[None], is_q)
            (low,), (high,) = intervals.percentile(replicates, level)
            found |= {"n_q": int(q.sum()), "n_a": int(a.sum())}
            found |= {"value_q": rows["value"][q].mean(), "value_a": rows["value"][a].mean()}
            found |= {"auc": auc(value[told], is_q[told]), "auc_low": low, "auc_high": high}
            found |= {"control_auc": auc(control[told], is_q[told])}
        records.append(found)
    fixed = [name for name in COLUMNS if name not in ("experiment", "model", "dataset")]
    return pd.DataFrame(records, columns=fixed)

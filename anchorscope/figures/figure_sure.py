"""What a figure says of answers whose exact tokens are sure: whether they say the same as all."""

from collections.abc import Sequence

import pandas as pd

from anchorscope.figures.figure_data import rows_at, true
from anchorscope.figures.figure_request import Pair

PROBE_TELLS = 0.6  # least AUC of a signal


def sure_note(
    table: pd.DataFrame,
    strata: pd.DataFrame,
    readout: Pair,
    models: Sequence[Pair],
    datasets: Sequence[Pair],
) -> str:
    """The caption's words on cells in which a verdict is another among sure samples; else none.

    Args:
        table, strata: rows of `results/tables/<figure>.csv` and of `<figure>.strata.csv`.
        readout: site and position.
        models, datasets: key and label of each.

    The verdicts, at the headline layer: whether the probe's AUC is above .6, and whether the
    knockout flips more samples than random tokens do, interval apart from interval.
    """
    heads = rows_at(table, readout)
    heads = heads[true(heads["headline"]) & (heads["anchor"] == "all")]
    heads = heads.assign(auc=heads["probe_auc"])
    sure = rows_at(strata, readout)
    sure = sure[(sure["stratum"] == "sure") & (sure["value"] == "sure") & ~true(sure["thin"])]
    changed = []
    for model, model_label in models:
        for dataset, dataset_label in datasets:
            of_all, of_sure = (
                rows[(rows["model"] == model) & (rows["dataset"] == dataset)]
                for rows in (heads, sure)
            )
            verdicts = _verdicts(of_all), _verdicts(of_sure)
            if None not in verdicts and verdicts[0] != verdicts[1]:
                changed.append(f"{model_label} on {dataset_label}")
    if not changed:
        return ""
    return f"Among answers with sure exact tokens another verdict holds: {'; '.join(changed)}."


def _verdicts(rows: pd.DataFrame) -> tuple[bool, bool] | None:
    """Whether the probe tells, and the knockout flips more than its control; None: unknown."""
    by_condition = rows.drop_duplicates("condition").set_index("condition")
    if not {"knockout", "random"} <= set(by_condition.index):
        return None
    cut, control = by_condition.loc["knockout"], by_condition.loc["random"]
    if pd.isna([cut["auc"], cut["flip_low"], control["flip_high"]]).any():
        return None
    return bool(cut["auc"] > PROBE_TELLS), bool(cut["flip_low"] > control["flip_high"])

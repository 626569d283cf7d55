"""What the calibration requires of the instrument, and whether its table shows it."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from anchorscope.calibration.calibration import AGAINST_PRIOR, DEFAULT_READOUT
from anchorscope.experiments.tables import rows_where


@dataclass(frozen=True)
class Floor:
    """What a calibrated instrument must reach, at the headline layer of the default read-out."""

    name: str
    column: str  # of the calibration's table
    low: float = -np.inf  # bounds in every cell; without any, a cell's value is reported alone
    high: float = np.inf
    mean_low: float = -np.inf  # bounds of the mean over a model's datasets, where there are any
    mean_high: float = np.inf
    z: str = "all"  # of the row
    kind: str = "all"


FLOORS = (
    Floor("own verdicts right", "verdict_accuracy", low=0.95),
    Floor("probe AUC", "probe_auc", low=0.97),
    Floor("seal", "seal", low=0.0, high=0.0),
    Floor("flips under the random control", "random_flip_share", high=0.05),
    Floor("answer floor against the prior", "answer_auc", 0.4, 0.6, kind=AGAINST_PRIOR),
    Floor("pathway AUC", "pathway_auc", 0.9, mean_low=0.95),
    Floor("pathway AUC of right answers", "pathway_auc", 0.85, mean_low=0.92, z="0"),
    Floor("pathway AUC of wrong answers", "pathway_auc", 0.85, mean_low=0.92, z="1"),
    Floor("specificity on truism", "specificity", 0.85, mean_low=0.95, kind="truism"),
    Floor("specificity on myth", "specificity", 0.85, mean_low=0.95, kind="myth"),
    Floor("sensitivity against the prior", "sensitivity", 0.45, mean_low=0.65, kind=AGAINST_PRIOR),
    Floor("matched partners, truth Q, right answers", "matched_truth_q", mean_low=0.85, z="0"),
    Floor("matched partners, truth Q, wrong answers", "matched_truth_q", mean_low=0.8, z="1"),
    Floor("matched partners, truth A", "matched_truth_a", mean_high=0.15),
)


def floors(table: pd.DataFrame) -> pd.DataFrame:
    """Hold the calibration's table against every floor.

    Args:
        table: `cell` of one or several cells; a model of another training seed is another model.

    Returns:
        A row for each floor and cell, and for each floor of the mean over a model's datasets
        (`scope` `mean`, `dataset` `all`): floor, scope, model, dataset, required (in words),
        measured, holds. What cannot be measured does not hold.
    """
    site, position = DEFAULT_READOUT.split("/")
    place = {"site": site, "position": position, "grouping": "per_layer", "headline": True}
    chosen, records = rows_where(table, **place).astype({"z": str}), []
    cells = table[["model", "dataset"]].drop_duplicates().groupby("model", sort=False)["dataset"]
    for (model, datasets), floor in product(cells, FLOORS):
        rows = rows_where(chosen, model=model, z=floor.z, kind=floor.kind)
        measured = rows.set_index("dataset")[floor.column].reindex(datasets)
        scopes = [("cell", name, value, floor.low, floor.high) for name, value in measured.items()]
        if np.isfinite([floor.mean_low, floor.mean_high]).any():
            mean = measured.mean(skipna=False)
            scopes.append(("mean", "all", mean, floor.mean_low, floor.mean_high))
        for scope, dataset, value, low, high in scopes:
            record = {"floor": floor.name, "scope": scope, "model": model, "dataset": dataset}
            record |= {"required": _required(low, high), "measured": value}
            records.append(record | {"holds": low <= value <= high})
    return pd.DataFrame(records)


def _required(low: float, high: float) -> str:
    """Bounds in words."""
    if np.isinf(high):
        return "reported" if np.isinf(low) else f"at least {low:g}"
    if np.isinf(low):
        return f"at most {high:g}"
    return f"exactly {low:g}" if low == high else f"{low:g} to {high:g}"


def in_words(
    floors: pd.DataFrame,
    models: Mapping[str, str] | None = None,
    datasets: Mapping[str, str] | None = None,
) -> str:
    """What holds and what does not, a sentence for each model and each floor that is missed.

    Args:
        floors: the table of `floors`.
        models, datasets: labels by key; a key without one stands for itself.
    """
    named = floors.assign(
        model=floors["model"].replace(models or {}),
        dataset=floors["dataset"].replace(datasets or {}),
    )
    held = named["holds"].astype(bool)
    said = [f"{held.sum()} of {len(named)} floors hold."]
    for model, own in named.groupby("model", sort=False):
        means = own[own["scope"] == "mean"].to_dict("records")
        values = ", ".join(f"{row['floor']} {row['measured']:.3f}" for row in means)
        cells = own.loc[own["scope"] == "cell", "dataset"].nunique()
        said.append(f"{model}, mean of {cells} dataset{'s' * (cells > 1)}: {values}.")
    for row in named[~held].to_dict("records"):
        mean = row["scope"] == "mean"
        where = f"mean of {row['model']}" if mean else f"{row['model']} on {row['dataset']}"
        measured = "not measured" if np.isnan(row["measured"]) else f"{row['measured']:.3f}"
        said.append(f"Missed: {row['floor']}, {where}: {measured}, required {row['required']}.")
    return "\n".join(said)

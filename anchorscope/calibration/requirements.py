"""What the calibration requires of the instrument, and whether its table shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.calibration.calibration import AGAINST_PRIOR, DEFAULT_READOUT
from anchorscope.storage.errors import AnchorscopeError


@dataclass(frozen=True)
class Floor:
    """What a calibrated instrument must reach, at the headline layer of the default read-out.

    Attributes:
        name: in words.
        column: of the calibration's table.
        low, high: bounds in every cell; without any, a cell's value is reported alone.
        mean_low, mean_high: bounds of the mean over a model's datasets; without any there is none.
        z, kind: of the row.
    """

    name: str
    column: str
    low: float = -np.inf
    high: float = np.inf
    mean_low: float = -np.inf
    mean_high: float = np.inf
    z: str = "all"
    kind: str = "all"

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Scope (`cell`, `mean`) → bounds."""
        found = {"cell": (self.low, self.high), "mean": (self.mean_low, self.mean_high)}
        if np.isinf(found["mean"]).all():
            del found["mean"]
        return found


def _required(low: float, high: float) -> str:
    """Bounds in words."""
    if np.isinf(high):
        return "reported" if np.isinf(low) else f"at least {low:g}"
    if np.isinf(low):
        return f"at most {high:g}"
    return f"exactly {low:g}" if low == high else f"{low:g} to {high:g}"


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

    Raises:
        AnchorscopeError: a cell has no headline layer of the default read-out.
    """
    site, position = DEFAULT_READOUT.split("/")
    chosen = table[(table["site"] == site) & (table["position"] == position)]
    chosen = chosen[(chosen["grouping"] == "per_layer") & chosen["headline"].astype(bool)]
    cells = list(table[["model", "dataset"]].drop_duplicates().itertuples(index=False, name=None))
    records = []
    for model in dict.fromkeys(model for model, _ in cells):
        datasets = [dataset for owner, dataset in cells if owner == model]
        for floor in FLOORS:
            measured = [_at_floor(chosen, floor, model, dataset) for dataset in datasets]
            fixed = {"floor": floor.name, "model": model}
            for dataset, value in zip(datasets, measured, strict=True):
                records.append(fixed | _held(floor, value, "cell", dataset))
            if "mean" in floor.bounds:
                records.append(fixed | _held(floor, float(np.mean(measured)), "mean", "all"))
    columns = ["floor", "scope", "model", "dataset", "required", "measured", "holds"]
    return pd.DataFrame(records, columns=columns)


def _at_floor(chosen: pd.DataFrame, floor: Floor, model: str, dataset: str) -> float:
    rows = chosen[(chosen["model"] == model) & (chosen["dataset"] == dataset)]
    rows = rows[(rows["z"].astype(str) == floor.z) & (rows["kind"] == floor.kind)]
    if len(rows) > 1 or (rows.empty and floor.kind == "all"):
        raise AnchorscopeError(
            f"{len(rows)} rows tell {floor.name}, one was expected",
            f"calibration of {model} on {dataset}, {DEFAULT_READOUT}, headline layer",
            "delete the folder calibration/ of the results and run snakemake again",
            see="stale-product",
        )
    return float(rows[floor.column].iloc[0]) if len(rows) else float("nan")


def _held(floor: Floor, value: float, scope: str, dataset: str) -> dict[str, object]:
    low, high = floor.bounds[scope]
    found = {"scope": scope, "dataset": dataset, "required": _required(low, high)}
    return found | {"measured": value, "holds": bool(low <= value <= high)}


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
    models, datasets = models or {}, datasets or {}
    held = floors["holds"].astype(bool)
    said = [f"{held.sum()} of {len(floors)} floors hold."]
    for model, own in floors.groupby("model", sort=False):
        means = own[own["scope"] == "mean"].to_dict("records")
        values = ", ".join(f"{row['floor']} {row['measured']:.3f}" for row in means)
        cells = own.loc[own["scope"] == "cell", "dataset"].nunique()
        name = models.get(str(model), str(model))
        said.append(f"{name}, mean of {cells} dataset{'s' * (cells > 1)}: {values}.")
    missed = floors[~held].to_dict("records")
    return "\n".join([*said, *(_missed(row, models, datasets) for row in missed)])


def _missed(row: Mapping[Any, Any], models: Mapping[str, str], datasets: Mapping[str, str]) -> str:
    """What a floor asked for, and what was measured."""
    model = models.get(row["model"], row["model"])
    dataset, value = datasets.get(row["dataset"], row["dataset"]), row["measured"]
    where = f"mean of {model}" if row["scope"] == "mean" else f"{model} on {dataset}"
    measured = "not measured" if np.isnan(value) else f"{value:.3f}"
    return f"Missed: {row['floor']}, {where}: {measured}, required {row['required']}."

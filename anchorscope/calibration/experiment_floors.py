"""What the calibration requires of the experiments: floors, and cells that must come out empty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.calibration.calibration import DEFAULT_READOUT
from anchorscope.calibration.requirements import missed, required
from anchorscope.config.readouts import Pair
from anchorscope.experiments.tables import rows_where

COLUMNS = ("floor", "scope", "model", "dataset", "required", "measured", "holds")
MOST_MATCHED = 0.15
"""Share of flips that `matched` may reach in a null cell."""


@dataclass(frozen=True)
class Floor:
    """What an experiment must reach, at the headline layer of the default read-out."""

    name: str
    experiment: str
    arm: str
    column: str  # of the calibration of the experiments
    low: float = -np.inf  # bounds in every cell
    high: float = np.inf
    mean_low: float = -np.inf  # bounds of the mean over all cells
    mean_high: float = np.inf
    measure: str = "flip"


FLOORS = (
    Floor("surprise, flips", "patching", "matched", "surprise", low=0.8, mean_low=0.9),
    Floor("tempting, flips", "patching", "matched", "tempting", low=0.55, mean_low=0.7),
    Floor("truism, flips", "patching", "matched", "truism", high=0.1, mean_high=0.05),
    Floor("myth, flips", "patching", "placebo", "myth", high=0.1, mean_high=0.05),
    Floor("flips under the control", "patching", "matched", "control", high=0.12, mean_high=0.05),
    Floor("AUC for truth", "saliency", "answer", "auc", low=0.75, mean_low=0.85, measure="flow"),
    Floor(
        "share of cells with an AUC above that of random tokens",
        "saliency",
        "answer",
        "gain_shown",
        mean_low=0.75,
        measure="flow",
    ),
    *(
        Floor(
            f"flips above those at {nearer}, upper end",
            "dose",
            arm,
            "contrast_high",
            low=0.0,
            measure="step",
        )
        for arm, nearer in (("0", "0.25"), ("0.25", "0.5"), ("0.5", "1"))
    ),
)


def judged(
    table: pd.DataFrame, cells: Sequence[tuple[str, str]], nulls: Mapping[str, Mapping[str, Any]]
) -> pd.DataFrame:
    """Hold the calibration of the experiments against all that is required: `COLUMNS`.

    A row for each floor and calibration cell (`scope` `cell`), for each floor of the mean over
    cells (`mean`), and for each measure of a null control that must come out `empty`. What cannot
    be measured in a calibration cell does not hold; what no sample of a null control could measure
    neither holds nor fails: `measured` and `holds` are blank.

    Args:
        table: columns `experiments.COLUMNS`, of all these cells.
        cells: model and dataset of those of the calibration.
        nulls: the null controls' entries in the config, by name.
    """
    chosen = rows_where(table, **Pair.of(DEFAULT_READOUT)._asdict())
    gain = chosen["auc_gain_low"]
    chosen = chosen.assign(gain_shown=(gain > 0).astype(float).where(gain.notna()))
    floors = FLOORS if cells else ()
    records = [record for floor in floors for record in _floor(floor, chosen, cells)]
    for null in nulls.values():
        if not null["shuffled"]:  # its probes are no others' here
            rows = rows_where(chosen, model=null["model"], dataset=null["dataset"])
            records += _null(rows)
    return pd.DataFrame(records, columns=list(COLUMNS))


def in_words(floors: pd.DataFrame) -> str:
    """How many floors hold, how many were not measured, and a sentence for each that fails."""
    judged_floors = floors[floors["holds"].notna()]
    held = int(judged_floors["holds"].astype(bool).sum())
    summary = f"{held} of {len(judged_floors)} floors hold."
    if not_measured := len(floors) - len(judged_floors):
        summary += f" In null cells, not measured: {not_measured}."
    return "\n".join([summary, *missed(judged_floors)])


def _floor(
    floor: Floor, table: pd.DataFrame, cells: Sequence[tuple[str, str]]
) -> list[dict[str, object]]:
    """A floor in every cell, where it has bounds there, and in the mean."""
    rows = rows_where(table, experiment=floor.experiment, arm=floor.arm, measure=floor.measure)
    by_cell = rows.set_index(["model", "dataset"])[floor.column].to_dict()
    values = [float(by_cell.get((model, dataset), np.nan)) for model, dataset in cells]
    places = [("cell", *cell, floor.low, floor.high) for cell in cells]
    places.append(("mean", "all", "all", floor.mean_low, floor.mean_high))
    measured = [*values, float(np.mean(values))]
    return [
        {
            "floor": f"{floor.experiment} {floor.arm}: {floor.name}",
            "scope": scope,
            "model": model,
            "dataset": dataset,
            "required": required(low, high),
            "measured": value,
            "holds": low <= value <= high,
        }
        for (scope, model, dataset, low, high), value in zip(places, measured, strict=True)
        if np.isfinite([low, high]).any()
    ]


def _null(rows: pd.DataFrame) -> list[dict[str, object]]:
    """What must come out empty in a null control: the flips of matched patches.

    They are the one measure of an experiment that follows the pair, whatever the tokens are.
    """
    records = []
    for row in rows_where(rows, experiment="patching", arm="matched", measure="flip").to_dict(
        "records"
    ):
        record = {"scope": "empty", "model": row["model"], "dataset": row["dataset"]}
        record |= {"floor": "patching matched: flips", "required": required(-np.inf, MOST_MATCHED)}
        record |= {"measured": row["value"], "holds": row["value"] <= MOST_MATCHED}
        if row["n"] == 0:
            record |= {"measured": np.nan, "holds": None}
        records.append(record)
    return records

"""What the calibration requires of the experiments: floors, and cells that must come out empty."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.calibration.calibration import DEFAULT_READOUT
from anchorscope.calibration.requirements import COLUMNS, Floor, held, missed
from anchorscope.config.readouts import Pair
from anchorscope.experiments.tables import rows_where

MATCHED = {"experiment": "patching", "arm": "matched", "measure": "flip"}
PLACEBO = MATCHED | {"arm": "placebo"}
FLOW = {"experiment": "saliency", "arm": "answer", "measure": "flow"}


def _step(arm: str, nearer: str) -> Floor:
    """Less attention flips no fewer than the next weight does."""
    name = f"dose {arm}: flips above those at {nearer}, upper end"
    where = {"experiment": "dose", "arm": arm, "measure": "step"}
    return Floor(name, "contrast_high", low=0.0, where=where)


FLOORS = (
    Floor("patching matched: surprise, flips", "surprise", 0.8, mean_low=0.9, where=MATCHED),
    Floor("patching matched: tempting, flips", "tempting", 0.55, mean_low=0.7, where=MATCHED),
    Floor("patching matched: truism, flips", "truism", high=0.1, mean_high=0.05, where=MATCHED),
    Floor("patching placebo: myth, flips", "myth", high=0.1, mean_high=0.05, where=PLACEBO),
    Floor(
        "patching matched: flips under the control",
        "control",
        high=0.12,
        mean_high=0.05,
        where=MATCHED,
    ),
    Floor("saliency answer: AUC for truth", "auc", 0.75, mean_low=0.85, where=FLOW),
    Floor(
        "saliency answer: share of cells with an AUC above that of random tokens",
        "gain_shown",
        mean_low=0.75,
        where=FLOW,
    ),
    *(_step(arm, nearer) for arm, nearer in (("0", "0.25"), ("0.25", "0.5"), ("0.5", "1"))),
)
EMPTY = Floor("patching matched: flips", "value", high=0.15, where=MATCHED)
"""Of a null control: matched patches are the one measure of an experiment that follows the pair,
whatever the tokens are."""


def judged(
    table: pd.DataFrame, cells: Sequence[tuple[str, str]], nulls: Mapping[str, Mapping[str, Any]]
) -> pd.DataFrame:
    """Hold the calibration of the experiments against all that is required: `COLUMNS`.

    Means are over all cells. What cannot be measured in a calibration cell does not hold; what no
    sample of a null control could measure (`scope` `empty`) neither holds nor fails: `measured` and
    `holds` are blank.

    Args:
        table: columns `experiments.COLUMNS`, of all these cells.
        cells: model and dataset of those of the calibration.
        nulls: the null controls' entries in the config, by name.
    """
    chosen = rows_where(table, **Pair.of(DEFAULT_READOUT)._asdict())
    gain = chosen["auc_gain_low"]
    chosen = chosen.assign(gain_shown=(gain > 0).astype(float).where(gain.notna()))
    records = []
    for floor in FLOORS if cells else ():
        records += floor.judged(rows_where(chosen, **floor.where), cells, "all")
    for null in nulls.values():
        cell = (null["model"], null["dataset"])
        rows = rows_where(chosen, **EMPTY.where, model=cell[0], dataset=cell[1])
        if not null["shuffled"] and len(rows):  # shuffled labels: its probes are no others' here
            (record,) = EMPTY.judged(rows, [cell], "all")
            unknown = {"holds": None} if np.isnan(rows["value"].iloc[0]) else {}
            records.append(record | {"scope": "empty"} | unknown)
    return pd.DataFrame(records, columns=list(COLUMNS))


def in_words(floors: pd.DataFrame) -> str:
    """How many floors hold, how many were not measured, and a sentence for each that fails."""
    summary = held(floors)
    if unknown := floors["holds"].isna().sum():
        summary += f" In null cells, not measured: {unknown}."
    return "\n".join([summary, *missed(floors)])

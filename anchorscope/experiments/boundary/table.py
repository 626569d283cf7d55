"""Table of refusals: their share in each group, and in the groups of the control."""

import numpy as np
import pandas as pd

from anchorscope.experiments.boundary import COLUMNS, KNOCKOUT, RANDOM
from anchorscope.experiments.experiment import PER_SAMPLE
from anchorscope.experiments.measured import MeasuredRows
from anchorscope.statistics.analysis import SHARE, Analysis, Columns, Group, anchored, count
from anchorscope.statistics.bands import Means
from anchorscope.statistics.samples import Readout, effects_of


def table(analysis: Analysis, measured: MeasuredRows) -> pd.DataFrame:
    """Return a row per layer, group-forming condition and anchor, with the share of refusals."""
    if RANDOM.name not in measured.conditions:
        return pd.DataFrame(columns=list(COLUMNS))
    unknown, counted = unknown_of(measured), measured.control_is_complete(RANDOM.name)
    predicts = analysis.strength["predicts"]

    def groups(readout: Readout) -> list[Group]:
        flips = {KNOCKOUT.name: readout.effects[KNOCKOUT.name].flip, RANDOM.name: random(measured)}
        return [
            _group(
                {"groups": name, "anchor": anchor, "predicts": predicts}, unknown, members, counted
            )
            for name, flip in flips.items()
            for anchor, members in anchored(flip).items()
        ]

    return analysis.by_group(tuple(COLUMNS), groups)


def per_sample(analysis: Analysis, measured: MeasuredRows) -> pd.DataFrame:
    """Return each question's refusal as `value`, and a randomly chosen question's as `control`."""
    if RANDOM.name not in measured.conditions:
        return pd.DataFrame(columns=list(PER_SAMPLE))
    counted = measured.control_is_complete(RANDOM.name)
    others = np.random.default_rng(0).permutation(np.flatnonzero(counted))
    value = np.where(counted, unknown_of(measured), np.nan)
    control = np.full_like(value, np.nan)
    control[counted] = value[others]
    columns = {"id": measured.answers["id"], "arm": "boundary", "measure": "unknown"}
    frame = pd.DataFrame(columns | {"value": value, "control": control})
    return frame[list(PER_SAMPLE)]


def unknown_of(measured: MeasuredRows) -> np.ndarray:
    """Return float64 [n]: 1 if the model refuses, else 0; NaN if the question was not asked."""
    return measured.facts("clean", "unknown").to_numpy(dtype=np.float64, na_value=np.nan)


def random(measured: MeasuredRows) -> np.ndarray:
    """Return bool [draws, layers, n]: whether a sample flips with random tokens blocked."""
    return effects_of(measured.values("clean")[0], measured.values(RANDOM.name)).flip


def _group(key: Columns, unknown: np.ndarray, members: np.ndarray, counted: np.ndarray) -> Group:
    """Average `unknown` [n] over the `members` [draws, layers, n] that are `counted` [n]."""
    among = members & counted & ~np.isnan(unknown)
    means = Means(unknown[None, None], among, placements=len(members), bounds=SHARE)
    quantities = {"unknown": means}
    return Group(key | {"n_paired": count(among)}, members, among, quantities)

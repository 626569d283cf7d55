"""Scores of one read-out in one piece, its folds cut here."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.probes import fitting, scores
from anchorscope.probes.bands import Draws
from anchorscope.probes.samples import kept


def score(
    read: Callable[[str, int], Any],
    answers: pd.DataFrame,
    readout: str,
    conditions: Sequence[scores.Condition],
    settings: fitting.ProbeSettings,
    *,
    draws: Draws | None = None,
    device: str = "cpu",
) -> pd.DataFrame:
    """`read` takes condition and draw; `draws` take the scores of probes learned from each."""
    design = fitting.design(kept(answers), settings, f"read-out {readout}")
    draws = draws or Draws(design.ids, np.zeros((0, len(design.ids)), dtype=np.int64))
    given = lambda _, *of: read(*of), design, draws, [readout], conditions, device
    return pd.concat(scores.CellScores(*given).tables(), ignore_index=True)

"""What the script `scores` and tests do around the library to fit the probes of a cell."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from anchorscope.passes.activations import read
from anchorscope.passes.interventions import Settings as Conditions
from anchorscope.passes.planning import conditions_of
from anchorscope.probes import fitting, floors, scores, stored
from anchorscope.probes.samples import kept
from anchorscope.storage.files import write_parquet, write_parquet_parts


def write_scores(
    written: Any,
    folder: str,
    answers: pd.DataFrame,
    probe: fitting.Settings,
    *,
    readouts: Sequence[str],
    conditions: Conditions,
    device: str,
) -> fitting.Design:
    """Fit the probes of a cell, and write scores, floors, draws and probes to the paths `written`.

    `folder` is that of the activations, `answers` those that were measured. Gives the folds. Raises
    AnchorscopeError: no folds can be cut.
    """
    design = fitting.design(kept(answers), probe)
    draws = scores.drawn(answers, design)
    passes = conditions_of(conditions)
    scoring = scores.CellScores(partial(read, folder), design, draws, readouts, passes, device)
    write_parquet_parts(scoring.tables(), written.scores)
    stored.write(written.probes, stored.Stored.of(design, scoring.fitted))
    write_parquet(floors.floors(answers, design, draws), written.floors)
    draws.write(written.draws)
    return design

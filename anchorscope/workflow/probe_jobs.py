"""Fit the probes of a cell and write the results, for the script `scores` and for tests."""

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
    """Fit the probes of a cell, and write scores, floors, draws and probes.

    Args:
        written: Paths of the products: `scores`, `floors`, `draws` and `probes`.
        folder: Folder of the activations.
        answers: The answers that were measured.
        probe: Settings of the probes.
        readouts: Read-outs such as `mlp/final`.
        conditions: The config's section `conditions`.
        device: Device on which probes are fitted.

    Returns:
        The folds.

    Raises:
        AnchorscopeError: The samples cannot be divided into folds.
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

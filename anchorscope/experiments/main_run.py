"""The main run of a cell up to its hidden states, for callers that keep no files."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pandas as pd

from anchorscope.config.settings import Config
from anchorscope.models.families import Loaded
from anchorscope.passes import activations
from anchorscope.passes.interventions import Settings as Conditions
from anchorscope.probes import fitting
from anchorscope.probes.fitting import Design
from anchorscope.probes.samples import kept
from anchorscope.storage.counts import Counts, in_words
from anchorscope.storage.errors import AnchorscopeError


@dataclass(frozen=True)
class MainRun:
    """Answers that were passed, folder of their hidden states, and folds of the probes."""

    folder: str  # folder of the activations
    answers: pd.DataFrame  # measured answers, see `activations.measured`
    design: Design  # folds
    counts: Counts  # answers passed, and left out by reason


@contextmanager
def main_run(
    loaded: Loaded,
    answered: pd.DataFrame,
    where: str,
    settings: Config,
    *,
    conditions: Conditions,
    readouts: Sequence[str],
) -> Iterator[MainRun]:
    """Plan and run the passes of a cell, and split the measured samples into folds.

    The activations lie in a temporary folder that is deleted when the context ends.

    Args:
        loaded: The model.
        answered: Table of answers.
        where: Name of this table in error messages.
        settings: Only `probe` and `seed` are used.
        conditions: Settings of the conditions.
        readouts: Read-outs, such as `mlp/final`.

    Raises:
        AnchorscopeError: No probe could be fitted to the samples.
    """
    probe = fitting.ProbeSettings(**settings.probe.model_dump(), seed=settings.seed)
    try:
        plan = fitting.plan_passes(loaded, answered, where, conditions=conditions, probe=probe)
    except AnchorscopeError as error:
        lost = Counter(answered["dropped"].dropna().astype(str))
        if not lost:
            raise
        n = f"{lost.total():,} of {len(answered):,} answers"
        what = f"{error.what}; before, {n} were left out: {in_words(lost)}"
        raise AnchorscopeError(what, error.where, error.do, see=error.see) from None
    with tempfile.TemporaryDirectory() as folder:
        activations.write(folder, loaded, plan, readouts)
        measured = activations.measured(answered, folder)
        yield MainRun(folder, measured, fitting.design(kept(measured), probe), plan.counts)

"""Functions that the scripts of both detectors of a cell call: read the cell, and export probes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from anchorscope.config.readouts import Pair, available, not_measured
from anchorscope.detectors import card
from anchorscope.detectors.detector import Origin, export, out_of_fold_auc, shape_of
from anchorscope.models.loading import read_config
from anchorscope.models.rows import arounds_of
from anchorscope.passes import activations
from anchorscope.passes.features import Features, reordered
from anchorscope.probes import fitting, stored
from anchorscope.statistics.samples import places
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, read_json, read_parquet


class Cell(NamedTuple):
    """The stored probes of a cell, and its measured answers in the order of their folds."""

    probes: stored.Stored
    answers: pd.DataFrame
    design: fitting.Design

    def readout(self, asked: str) -> str:
        """Return the read-out that this cell's model is read at in place of `asked`."""
        return available(asked, {Pair.of(one).site for one in self.probes.fitted})


def cell(job: Any) -> Cell:
    """Read the cell of a job."""
    given, chosen = job.input, job.params
    probes = stored.read(given.probes)
    settings = fitting.ProbeSettings(**chosen.probe, seed=chosen.seed)
    answers = activations.measured(read_parquet(given.answers), given.activations)
    design = probes.design(answers, settings, given.activations)
    return Cell(probes, design.in_order(answers), design)


def fitted(job: Any, of_cell: Cell, readout: str) -> tuple[fitting.Fitted, Features]:
    """Return the stored probes of a read-out, and the states that they were fitted to.

    Raises:
        AnchorscopeError: The read-out was not measured.
    """
    folder, probes = job.input.activations, of_cell.probes.fitted
    if readout not in probes:
        raise not_measured(readout, probes, job.input.probes)
    ids, states = activations.read(folder, readout, "clean")
    return probes[readout], reordered(states, places(ids, of_cell.design.ids, folder))


def write(
    job: Any, of_cell: Cell, readout: str, probes: fitting.Fitted, states: Features, judged: str
) -> None:
    """Write the mean of the folds' probes as a detector.

    Its card repeats the run's numbers of the read-out `judged`.
    """
    given, chosen, written = job.input, job.params, job.output.detector
    located = read_json(given.model)
    from_hub = located["source"] != "local"
    origin = Origin(
        model=located["source"] if from_hub else located["path"],
        revision=located["revision"] if from_hub else None,
        dtype=chosen.dtype,
        shape=shape_of(read_config(Path(located["path"])), located["path"]),
        style=chosen.style,
        around=arounds_of(read_parquet(given.prompts), of_cell.answers),
        settings=chosen.settings,
    )
    table = card.numbers(read_csv(given.summary), judged)
    table |= {card.AT_LAYER: out_of_fold_auc(probes, of_cell.design, states)}
    made = export(probes, readout, of_cell.answers, states, origin, data=chosen.data, table=table)
    made.save(written)
    counts = provenance.counts_of(given.activations)
    provenance.of_stage(job, written, counts=counts, model=located)

"""The CSV tables of the workflow: one function per rule, from a job's inputs and settings.

What only one function needs is imported inside it, so that the other jobs start faster.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from anchorscope.cell import summary, tables
from anchorscope.config.readouts import Pair, available
from anchorscope.config.settings import Bootstrap
from anchorscope.pairs import table as crossing
from anchorscope.passes.activations import measured
from anchorscope.statistics.analysis import stacked
from anchorscope.statistics.bands import Draws
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, read_parquet
from anchorscope.storage.progress import Progress
from anchorscope.storage.records import check_settings

Made = tuple[Mapping[str, pd.DataFrame], dict[str, Any]]
"""A dict of output name → table, and a dict of further entries for the outputs' record."""


def delta_p(job: Any) -> Made:
    """Make the tables of one cell: curve, contrasts, controls, pair terms and claims."""
    given, chosen = job.input, job.params
    made = tables.of_main_run(
        read_parquet(given.scores),
        read_parquet(given.floors),
        measured(read_parquet(given.answers), given.activations),
        Draws.read(given.draws),
        bootstrap=chosen.bootstrap,
        seed=chosen.seed,
    )
    return made, {"counts": provenance.counts_of(given.scores)}


def detection_cell(job: Any) -> Made:
    """Make the tables of detection in one cell, for all its read-outs."""
    from anchorscope.detectors import evaluation, reads, self_awareness

    columns = {
        "detection": evaluation.COLUMNS,
        "detection-reads": reads.COLUMNS,
        "self-awareness": self_awareness.COLUMNS,
    }
    given, parts = job.input, {name: list[pd.DataFrame]() for name in columns}
    answers, pathways = read_parquet(given.answers), read_parquet(given.pathways)
    how = Bootstrap(**job.params.bootstrap), job.params.seed
    by_readout = read_parquet(given.detection).groupby("readout", sort=False, observed=True)
    for readout, rows in Progress(by_readout, unit="read-outs"):
        scored, predicted = evaluation.scored(rows, answers), pathways["readout"] == readout
        of_readout = (
            evaluation.table(scored, str(readout), *how),
            reads.table(rows, answers, str(readout), *how),
            self_awareness.table(pathways[predicted], answers, str(readout), *how),
        )
        for frames, frame in zip(parts.values(), of_readout, strict=True):
            frames.append(frame)
    made = {name: stacked(frames, columns[name]) for name, frames in parts.items()}
    return made, {"counts": provenance.counts_of(given.detection)}


def joined(job: Any) -> Made:
    """Join the tables of cells into tables of one figure."""
    given = dict(job.input.items())
    first = next(iter(given.values()))
    check_settings(first)
    cells = job.params.cells
    made = {name: tables.join(cells, [*map(read_csv, paths)]) for name, paths in given.items()}
    return made, {"counts_by_cell": counts_by_cell(cells, first)}


def of_figure(job: Any) -> Made:
    """Make the tables of a figure. Correct the claims' p-values for the number of its cells."""
    made, facts = joined(job)
    claims = crossing.corrected(made["claims"], job.params.level)
    curve = crossing.with_signal(made["curve"], claims)
    told = summary.with_verdicts(made["summary"], claims)
    return {**made, "curve": curve, "claims": claims, "summary": told}, facts


def samples(job: Any) -> Made:
    """Make the table of all samples in a figure, at the headline layer of the figure's read-out."""
    from anchorscope.curve import per_sample

    given, chosen = job.input, job.params
    frames = []
    for path, answers in zip(given.scores, given.answers, strict=True):
        scores = read_parquet(path)
        sites = {Pair.of(readout).site for readout in scores["readout"].unique()}
        at = [available(chosen.readout, sites)]
        frames.append(per_sample.per_sample(scores, read_parquet(answers), at))
    return {"table": per_sample.for_spreadsheets(tables.join(chosen.cells, frames))}, {}


def experiment(job: Any) -> Made:
    """Make the table of one experiment for all cells of a figure."""
    from anchorscope.experiments import products
    from anchorscope.experiments.registry import EXPERIMENTS

    given, chosen = job.input, job.params
    check_settings(given.rows)
    kinds, frames = ("scores", "answers", "rows", "floors"), []
    for place in range(len(chosen.cells)):
        read = {kind: read_parquet(given[kind][place]) for kind in kinds}
        made = products.Products(**read, draws=Draws.read(given.draws[place]))
        record, bootstrap = EXPERIMENTS[job.wildcards.experiment], Bootstrap(**chosen.bootstrap)
        frames.append(products.of_cell(record, made, bootstrap, chosen.seed))
    return {"table": tables.join(chosen.cells, frames)}, {}


MAKERS: dict[str, Callable[[Any], Made]] = {
    "delta_p": delta_p,
    "detection_cell": detection_cell,
    "table": of_figure,
    "detection_table": joined,
    "samples": samples,
    "experiment_table": experiment,
}
"""Rule → the function that makes its tables."""


def counts_by_cell(cells: Sequence[Sequence[str]], paths: Sequence[str]) -> dict[str, Any]:
    """Return cell → counts of given and dropped samples. Cells without counts are left out."""
    counted = zip(map("/".join, cells), map(provenance.counts_of, paths), strict=True)
    return {cell: counts for cell, counts in counted if counts}

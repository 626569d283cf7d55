"""The CSV tables of the workflow: what makes those of each rule, from a job's inputs and settings.

What only some need is imported there: each job is a process of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments import tables
from anchorscope.experiments.analysis import stacked
from anchorscope.experiments.crossing import table as crossing
from anchorscope.experiments.crossing.per_sample import per_sample as pairs_of
from anchorscope.experiments.knockout import cell_tables as knockout, per_sample
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.passes.activations import measured
from anchorscope.probes.bands import Draws
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, read_parquet
from anchorscope.storage.records import check_settings

Made = tuple[Mapping[str, pd.DataFrame], dict[str, Any]]
"""Tables by the names of the outputs, and further entries of their record."""


def delta_p(job: Any) -> Made:
    """One cell's curve, its paired contrasts, and the controls beside them."""
    given, chosen = job.input, job.params
    made = knockout.tables(
        read_parquet(given.scores),
        read_parquet(given.floors),
        measured(read_parquet(given.answers), given.activations),
        Draws.read(given.draws),
        bootstrap=chosen.bootstrap,
        seed=chosen.seed,
    )
    return made, {"counts": provenance.counts_of(given.scores)}


def detection_cell(job: Any) -> Made:
    """The tables of detection in one cell."""
    from anchorscope.detectors import cell_tables as detection

    given = job.input
    made = detection.tables(
        read_parquet(given.detection),
        read_parquet(given.pathways),
        read_parquet(given.scores),
        read_parquet(given.answers),
        Bootstrap(**job.params.bootstrap),
        job.params.seed,
    )
    return made, {"counts": provenance.counts_of(given.detection)}


def calibration_cell(job: Any) -> Made:
    """One cell, held against the truth."""
    from anchorscope.calibration import calibration

    given, chosen = job.input, job.params
    found = calibration.cell(
        read_parquet(given.scores),
        read_parquet(given.truth),
        measured(read_parquet(given.answers), given.activations),
        read_csv(given.curve),
        read_csv(given.crossing),
        read_parquet(given.floors),
        fixed={
            "model": job.wildcards.model,
            "dataset": job.wildcards.dataset,
            "seed": chosen.training_seed,
            "seal": provenance.read(given.truth)["seal"],
        },
        draws=chosen.bootstrap["draws"],
        level=chosen.bootstrap["level"],
        seed=chosen.seed,
    )
    return {"cell": found}, {"counts": provenance.counts_of(given.truth)}


def joined(job: Any) -> Made:
    """Tables of cells, joined into those of one figure."""
    given = dict(job.input.items())
    first = next(iter(given.values()))
    check_settings(first)
    made = {name: _joined(job.params.cells, paths) for name, paths in given.items()}
    return made, {"counts_by_cell": _counts_by_cell(job.params.cells, first)}


def of_figure(job: Any) -> Made:
    """The tables of a figure, p of the claims corrected for its cells."""
    made, facts = joined(job)
    claims = crossing.corrected(made["claims"], job.params.level)
    curve = crossing.with_signal(made["curve"], claims)
    return {**made, "curve": curve, "claims": claims}, facts


def samples(job: Any) -> Made:
    """Every sample of a figure's cells, at the headline layer of its read-out."""
    given, chosen = job.input, job.params
    frames = [
        per_sample.per_sample(read_parquet(scores), read_parquet(answers), [chosen.readout])
        for scores, answers in zip(given.scores, given.answers, strict=True)
    ]
    return {"table": per_sample.for_spreadsheets(tables.join(chosen.cells, frames))}, {}


def experiment(job: Any) -> Made:
    """The table of one experiment, of all cells of a figure."""
    given, chosen = job.input, job.params
    check_settings(given.rows)
    kinds = [kind for kind in ("scores", "answers", "rows", "floors", "truth") if given[kind]]
    frames = []
    for place in range(len(chosen.cells)):
        draws = Draws.read(given.draws[place]) if given.draws else None
        read = {kind: read_parquet(given[kind][place]) for kind in kinds}
        products = tables.Products(**read, draws=draws)
        record, bootstrap = EXPERIMENTS[job.wildcards.experiment], Bootstrap(**chosen.bootstrap)
        frames.append(tables.of_cell(record, products, bootstrap, chosen.seed))
    return {"table": tables.join(chosen.cells, frames)}, {}


def calibration_table(job: Any) -> Made:
    """The cells of the calibration, and what holds."""
    from anchorscope.calibration import requirements

    paths = job.input.cells
    check_settings(paths)
    whole = pd.concat(map(read_csv, paths), ignore_index=True)
    floors = requirements.floors(whole)
    counts = _counts_by_cell(job.params.cells, paths)
    facts = {"counts_by_cell": counts, "verdict": requirements.in_words(floors)}
    return {"table": whole, "floors": floors}, facts


def null_controls(job: Any) -> Made:
    """Whether the cells that must come out empty do."""
    from anchorscope.calibration import requirements

    given = job.input
    check_settings(given.curve)
    kinds = {name: list(map(read_csv, given[name])) for name in requirements.TABLES}
    return {"table": requirements.null_controls(job.params.nulls, kinds)}, {}


def experiments_held(job: Any) -> Made:
    """The experiments in the calibration's cells, and in those that must come out empty."""
    from anchorscope.calibration import experiments

    given, chosen = job.input, job.params
    frames = []
    for place, (model, dataset) in enumerate(chosen.cells):
        scores, answers, text_floors = (
            read_parquet(given[kind][place]) for kind in ("scores", "answers", "floors")
        )
        planted = [path for path in given.truth if path.endswith(f"/{model}/{dataset}.parquet")]
        truth = read_parquet(planted[0]) if planted else None
        passed = measured(answers, given.activations[place])
        found = {experiments.KNOCKOUT: experiments.of_knockout(scores, passed)}
        for (name, *cell), path in zip(chosen.measured, given.rows, strict=True):
            if cell == [model, dataset]:
                products = tables.Products(scores, answers, read_parquet(path), text_floors, truth)
                found[name] = tables.per_sample(EXPERIMENTS[name], products)
        pairs = pairs_of(scores, passed)
        for name, frame in found.items():
            table = experiments.of_experiment(frame, answers, truth, pairs, **chosen.bootstrap)
            frames.append(table.assign(experiment=name, model=model, dataset=dataset))
    columns = list(experiments.COLUMNS)
    whole = stacked(frames, columns)[columns].sort_values("experiment", kind="stable")
    floors = experiments.judged(whole, chosen.calibrated, chosen.nulls)
    return {"table": whole, "floors": floors}, {"verdict": experiments.in_words(floors)}


def sensitivity_table(job: Any) -> Made:
    """Every variant of the open choices, held against the main study."""
    from anchorscope.calibration import sensitivity

    given, cells = job.input, job.params.cells
    kinds, studies = ("curve", "contrasts", "controls"), {}
    # The inputs are those of the base's cells, then those of each variant's.
    for number, name in enumerate((sensitivity.BASE, *job.params.variants)):
        own = slice(number * len(cells), (number + 1) * len(cells))
        check_settings(given.curve[own])
        studies[name] = sensitivity.values(
            **{kind: _joined(cells, given[kind][own]) for kind in kinds}
        )
    return {"table": sensitivity.table(studies, readout=job.params.readout)}, {}


def reproduction_table(job: Any) -> Made:
    """The built figures, held against the published ranges."""
    from anchorscope.calibration import reproduction

    given, others = job.input, {}
    for path in given.others:
        figure, _, name = Path(path).stem.rpartition(".")
        others[figure, name] = read_csv(path)
    found = reproduction.check(
        yaml.safe_load(Path(given.published).read_text(encoding="utf-8")),
        {Path(path).name.removesuffix(".csv"): read_csv(path) for path in given.curve},
        job.params.readouts,
        others,
    )
    return {"table": found}, {}


MAKERS: dict[str, Callable[[Any], Made]] = {
    "delta_p": delta_p,
    "detection_cell": detection_cell,
    "calibration_cell": calibration_cell,
    "table": of_figure,
    "detection_table": joined,
    "transfer_table": joined,
    "samples": samples,
    "experiment_table": experiment,
    "calibration_table": calibration_table,
    "null_controls": null_controls,
    "experiment_calibration": experiments_held,
    "sensitivity_table": sensitivity_table,
    "reproduction_table": reproduction_table,
}
"""Rule → what makes its tables."""


def _joined(cells: Sequence[Sequence[str]], paths: Sequence[str]) -> pd.DataFrame:
    return tables.join(cells, [read_csv(path) for path in paths])


def _counts_by_cell(cells: Sequence[Sequence[str]], paths: Sequence[str]) -> dict[str, Any]:
    """What came in and was dropped, of the cells whose records say it."""
    counted = zip(map("/".join, cells), map(provenance.counts_of, paths), strict=True)
    return {cell: counts for cell, counts in counted if counts}

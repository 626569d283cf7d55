"""Tables of validation: make the tables of each rule from the job's inputs and settings."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from anchorscope.experiments import products
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.pairs.per_sample import per_sample as pairs_of
from anchorscope.passes.activations import measured
from anchorscope.statistics.analysis import stacked
from anchorscope.statistics.scores import Scores
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, read_parquet
from anchorscope.storage.records import check_settings
from anchorscope.workflow.tables import counts_by_cell
from validation import calibration, experiments, reproduction, requirements

Made = tuple[Mapping[str, pd.DataFrame], dict[str, Any]]
"""A dict of output name → table, and a dict of further entries for the outputs' record."""


def calibration_cell(job: Any) -> Made:
    """Compare one cell with the truth."""
    given, chosen, cell = job.input, job.params, job.wildcards
    found = calibration.cell(
        Scores.read(given.scores),
        read_parquet(given.truth),
        measured(read_parquet(given.answers), given.activations),
        read_csv(given.curve),
        read_csv(given.crossing),
        fixed={"model": cell.model, "dataset": cell.dataset, "seed": chosen.training_seed},
        draws=chosen.bootstrap["draws"],
        level=chosen.bootstrap["level"],
        seed=chosen.seed,
    )
    return {"cell": found}, {"counts": provenance.counts_of(given.truth)}


def calibration_table(job: Any) -> Made:
    """Join the cells of the calibration, and check all requirements."""
    paths = job.input.cells
    check_settings(paths)
    whole = pd.concat(map(read_csv, paths), ignore_index=True)
    checked = requirements.check_calibration(whole)
    counts = counts_by_cell(job.params.cells, paths)
    facts = {"counts_by_cell": counts, "verdict": requirements.in_words(checked)}
    return {"table": whole, "checks": checked}, facts


def null_controls(job: Any) -> Made:
    """Determine whether the null controls make false claims."""
    given = job.input
    check_settings(given.curve)
    kinds = {name: list(map(read_csv, paths)) for name, paths in given.items()}
    return {"table": requirements.null_controls(job.params.nulls, kinds)}, {}


def experiments_held(job: Any) -> Made:
    """Compare the experiments with the truth in calibration cells, and check null controls."""
    given, chosen = job.input, job.params
    frames = []
    for place, (model, dataset) in enumerate(chosen.cells):
        scores, answers = Scores.read(given.scores[place]), read_parquet(given.answers[place])
        planted = [path for path in given.truth if path.endswith(f"/{model}/{dataset}.parquet")]
        truth = read_parquet(planted[0]) if planted else None
        passed = measured(answers, given.activations[place])
        found = {experiments.KNOCKOUT: experiments.of_knockout(scores, passed)}
        for (name, *cell), path in zip(chosen.measured, given.rows, strict=True):
            if cell == [model, dataset]:
                made = products.Products(scores, answers, read_parquet(path))
                found[name] = products.per_sample(EXPERIMENTS[name], made)
        pairs = pairs_of(scores, passed)
        for name, frame in found.items():
            table = experiments.of_experiment(frame, answers, truth, pairs, **chosen.bootstrap)
            frames.append(table.assign(experiment=name, model=model, dataset=dataset))
    whole = stacked(frames)[[*experiments.COLUMNS]].sort_values("experiment", kind="stable")
    checked = experiments.check(whole, chosen.calibrated, chosen.nulls)
    return {"table": whole, "checks": checked}, {"verdict": requirements.in_words(checked)}


def reproduction_table(job: Any) -> Made:
    """Compare the built figures with the published ranges."""
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
    "calibration_cell": calibration_cell,
    "calibration_table": calibration_table,
    "null_controls": null_controls,
    "experiment_calibration": experiments_held,
    "reproduction_table": reproduction_table,
}
"""Rule → function that makes its tables."""

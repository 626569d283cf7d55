"""The experiments in the calibration's cells, and in those that must come out empty."""

import pandas as pd

from anchorscope.calibration.calibration import EXPERIMENT_COLUMNS, of_experiment
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    given, chosen, frames = snakemake.input, snakemake.params, []
    for place, (name, model, dataset) in enumerate(chosen.cells):
        scores, answers, rows = (
            read_parquet(given[kind][place]) for kind in ("scores", "answers", "rows")
        )
        own = [path for path in given.truth if path.endswith(f"/{model}/{dataset}.parquet")]
        found = of_experiment(
            EXPERIMENTS[name].module("table").per_sample(scores, answers, rows),
            answers,
            read_parquet(own[0]) if own else None,
            **chosen.bootstrap,
            seed=chosen.seed,
        )
        frames.append(found.assign(experiment=name, model=model, dataset=dataset))
    written = snakemake.output.table
    write_csv(pd.concat(frames, ignore_index=True)[list(EXPERIMENT_COLUMNS)], written)
    provenance.of_stage(snakemake, written)

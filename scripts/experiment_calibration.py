"""The experiments in the calibration's cells, and in those that must come out empty."""

from anchorscope.calibration.calibration import EXPERIMENT_COLUMNS, of_experiment
from anchorscope.experiments import tables
from anchorscope.experiments.analysis import stacked
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    given, chosen, frames = snakemake.input, snakemake.params, []
    for place, (name, model, dataset) in enumerate(chosen.cells):
        kinds = ("scores", "answers", "rows", "floors")
        read = {kind: read_parquet(given[kind][place]) for kind in kinds}
        planted = [path for path in given.truth if path.endswith(f"/{model}/{dataset}.parquet")]
        truth = read_parquet(planted[0]) if planted else None
        table = of_experiment(
            tables.per_sample(EXPERIMENTS[name], tables.Products(**read, truth=truth)),
            read["answers"],
            truth,
            **chosen.bootstrap,
            seed=chosen.seed,
        )
        frames.append(table.assign(experiment=name, model=model, dataset=dataset))
    written = snakemake.output.table
    write_csv(stacked(frames, EXPERIMENT_COLUMNS)[list(EXPERIMENT_COLUMNS)], written)
    provenance.of_stage(snakemake, written)

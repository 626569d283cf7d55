"""Compare one cell with the truth."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.passes.activations import measured
    from anchorscope.statistics.scores import Scores
    from anchorscope.workflow.tables import write
    from validation import calibration

    given, chosen, cell = snakemake.input, snakemake.params, snakemake.wildcards
    table = calibration.cell(
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
    write(snakemake, {"cell": table}, counts=provenance.counts_of(given.truth))

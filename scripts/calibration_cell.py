"""Hold one cell against the truth."""

from anchorscope.passes.activations import measured
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, read_parquet, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration import calibration

    given, chosen = snakemake.input, snakemake.params
    found = calibration.cell(
        read_parquet(given.scores),
        read_parquet(given.truth),
        measured(read_parquet(given.answers), given.activations),
        read_csv(given.controls),
        read_csv(given.contrasts),
        read_csv(given.crossing),
        read_parquet(given.floors),
        fixed={
            "model": snakemake.wildcards.model,
            "dataset": snakemake.wildcards.dataset,
            "seed": chosen.training_seed,
            "seal": provenance.read(given.truth)["seal"],
        },
        draws=chosen.bootstrap["draws"],
        level=chosen.bootstrap["level"],
        seed=chosen.seed,
    )
    write_csv(found, snakemake.output.cell)
    counts = provenance.counts_of(given.truth)
    provenance.of_stage(snakemake, snakemake.output.cell, counts=counts)

"""One cell's curve, its paired contrasts, and the controls beside them."""

from anchorscope.passes.activations import measured
from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments.knockout.cell_tables import tables
    from anchorscope.probes.bands import Draws

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output
    made = tables(
        read_parquet(given.scores),
        read_parquet(given.floors),
        measured(read_parquet(given.answers), given.activations),
        Draws.read(given.draws),
        probe=chosen.probe,
        bootstrap=chosen.bootstrap,
        seed=chosen.seed,
    )
    for name, table in made.items():
        write_csv(table, written[name])
    provenance.of_stage(snakemake, written.curve, counts=provenance.counts_of(given.scores))

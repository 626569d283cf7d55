"""The table of one experiment, of all cells of a figure."""

from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.experiments.tables import join
from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    given, chosen, written = snakemake.input, snakemake.params, snakemake.output.table
    check_settings(given.rows)
    table = EXPERIMENTS[snakemake.wildcards.experiment].module("table").table
    frames = [
        table(*map(read_parquet, cell), **chosen.bootstrap, seed=chosen.seed)
        for cell in zip(given.scores, given.answers, given.rows, strict=True)
    ]
    write_csv(join(chosen.cells, frames), written)
    provenance.of_stage(snakemake, written)

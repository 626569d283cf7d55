"""Every sample of a figure's cells in one table, at the headline layer of its read-out."""

from anchorscope.experiments.knockout.per_sample import for_spreadsheets, per_sample
from anchorscope.experiments.tables import join
from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    given, chosen, written = snakemake.input, snakemake.params, snakemake.output.table
    frames = [
        per_sample(read_parquet(scores), read_parquet(answers), [chosen.readout])
        for scores, answers in zip(given.scores, given.answers, strict=True)
    ]
    write_csv(for_spreadsheets(join(chosen.cells, frames)), written)
    provenance.of_stage(snakemake, written)

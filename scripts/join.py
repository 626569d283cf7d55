"""Join one table of several cells."""

from anchorscope.experiments.tables import join
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    check_settings(snakemake.input)
    frames = [read_csv(path) for path in snakemake.input]
    write_csv(join(snakemake.params.cells, frames), snakemake.output.table)
    provenance.of_stage(snakemake, snakemake.output.table)

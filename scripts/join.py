"""Join one table of several cells."""

from anchorscope import provenance
from anchorscope.files import read_csv, write_csv
from anchorscope.stage import stage
from anchorscope.tables import check_settings, join

with stage(snakemake):
    check_settings(snakemake.input)
    frames = [read_csv(path) for path in snakemake.input]
    write_csv(join(snakemake.params.cells, frames), snakemake.output.table)
    provenance.of_stage(snakemake, snakemake.output.table)

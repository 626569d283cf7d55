"""Join the cells of one figure into its table."""

from anchorscope import provenance
from anchorscope.files import read_csv, write_csv
from anchorscope.stage import stage
from anchorscope.tables import join

with stage(snakemake):
    cells = snakemake.params.cells
    curves = [read_csv(path) for path in snakemake.input.curves]
    contrasts = [read_csv(path) for path in snakemake.input.contrasts]
    write_csv(join(cells, curves), snakemake.output.table)
    write_csv(join(cells, contrasts), snakemake.output.contrasts)
    counts = {
        f"{model}/{dataset}": provenance.counts_of(path)
        for (model, dataset), path in zip(cells, snakemake.input.curves, strict=True)
    }
    provenance.of_stage(snakemake, snakemake.output.table, counts_by_cell=counts)

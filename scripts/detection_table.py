"""Join the tables of detection of all cells of a figure."""

from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.workflow.tables import joined, write

    made, counts = joined(snakemake)
    write(snakemake, made, counts_by_cell=counts)

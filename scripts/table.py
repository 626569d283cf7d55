"""Make the tables of a figure, and correct its claims for the number of its cells."""

from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.cell.tables import of_figure
    from anchorscope.workflow.tables import joined, write

    made, counts = joined(snakemake)
    write(snakemake, of_figure(made, snakemake.params.level), counts_by_cell=counts)

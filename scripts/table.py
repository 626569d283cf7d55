"""Join tables of cells into those of one figure."""

from anchorscope.experiments.tables import join
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    given, cells = dict(snakemake.input.items()), snakemake.params.cells
    first = next(iter(given.values()))
    check_settings(first)
    written = snakemake.output
    for name, paths in given.items():
        write_csv(join(cells, [read_csv(path) for path in paths]), written[name])
    named = zip(map("/".join, cells), map(provenance.counts_of, first), strict=True)
    counts = {cell: of_cell for cell, of_cell in named if of_cell}
    provenance.of_stage(snakemake, written[0], counts_by_cell=counts)

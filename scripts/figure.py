"""Draw one figure from its table."""

from pathlib import Path

from anchorscope.figures.figures import CUTS, chart, choices, keywords, save
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    asked = keywords(snakemake.params) | {"title": CUTS["knockout"]}
    table, stem = read_csv(snakemake.input.table), Path(snakemake.output.html).with_suffix("")
    save(chart(table, **asked), stem, choices(table, **asked))
    counts = provenance.read(snakemake.input.table)["counts_by_cell"]
    provenance.of_stage(snakemake, stem, counts_by_cell=counts)

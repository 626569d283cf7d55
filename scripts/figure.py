"""Draw one figure from its table."""

from pathlib import Path

from anchorscope.figures.figure_data import thinking_notes
from anchorscope.figures.figures import chart, choices, keywords, save, title_of
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    made = provenance.read(snakemake.input.table)
    asked = keywords(snakemake.params) | {"title": title_of("knockout")}
    asked["notes"] = thinking_notes(made["inputs"], asked["panels"])
    table, stem = read_csv(snakemake.input.table), Path(snakemake.output.html).with_suffix("")
    save(chart(table, **asked), stem, choices(table, **asked))
    provenance.of_stage(snakemake, stem, counts_by_cell=made["counts_by_cell"])

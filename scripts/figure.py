"""Draw one figure from its table."""

from pathlib import Path

from anchorscope.figures.figures import CUTS, chart, choices, save
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    chosen = snakemake.params
    table = read_csv(snakemake.input.table)
    looks = {
        "title": CUTS["knockout"],
        "panels": [(name, chosen.label["models"][name]) for name in chosen.models],
        "datasets": [(name, chosen.label["datasets"][name]) for name in chosen.datasets],
        "readout": tuple(chosen.readout.split("/")),
        "grouping": chosen.grouping,
        "style": chosen.chart,
        "level": chosen.level,
    }
    stem = Path(snakemake.output.html).with_suffix("")
    save(chart(table, **looks), stem, choices(table, **looks))
    counts = provenance.read(snakemake.input.table)["counts_by_cell"]
    provenance.of_stage(snakemake, stem, counts_by_cell=counts)

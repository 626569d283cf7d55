"""Draw one figure from its table."""

from pathlib import Path

from anchorscope import provenance
from anchorscope.figures import chart, save
from anchorscope.files import read_csv
from anchorscope.stage import stage

with stage(snakemake):
    chosen = snakemake.params
    drawn = chart(
        read_csv(snakemake.input[0]),
        title="ΔP when attention to the exact question tokens is cut",
        panels=[(name, chosen.label["models"][name]) for name in chosen.models],
        datasets=[(name, chosen.label["datasets"][name]) for name in chosen.datasets],
        readout=tuple(chosen.readout.split("/")),
        grouping=chosen.grouping,
        style=chosen.chart,
        level=chosen.level,
    )
    stem = Path(snakemake.output.html).with_suffix("")
    save(drawn, stem)
    counts = provenance.read(snakemake.input[0])["counts_by_cell"]
    provenance.of_stage(snakemake, stem, counts_by_cell=counts)

"""Draw one picture that belongs beside a figure."""

from pathlib import Path

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments.views import view
    from anchorscope.figures.figures import save

    given, chosen = snakemake.input, snakemake.params
    names = ("curve", "contrasts", "controls", "density")
    drawn = view(
        snakemake.wildcards.view,
        {name: read_csv(given[name]) for name in names},
        readout=tuple(chosen.readout.split("/")),
        grouping=chosen.grouping,
        looks={
            "panels": [(name, chosen.label["models"][name]) for name in chosen.models],
            "datasets": [(name, chosen.label["datasets"][name]) for name in chosen.datasets],
            "style": chosen.chart,
            "level": chosen.level,
        },
    )
    stem = Path(snakemake.output.html).with_suffix("")
    save(drawn[0], stem, drawn[1])
    counts = provenance.read(given.curve)["counts_by_cell"]
    provenance.of_stage(snakemake, stem, counts_by_cell=counts)

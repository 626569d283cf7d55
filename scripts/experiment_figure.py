"""Draw one picture of an experiment from its table."""

from pathlib import Path

from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.figures.figures import save

    chosen = snakemake.params
    name, view = chosen.view
    experiment = EXPERIMENTS[name]
    drawn = experiment.module("figure").chart(
        read_csv(snakemake.input.table),
        view,
        title=experiment.views[view],
        panels=[(name, chosen.label["models"][name]) for name in chosen.models],
        datasets=[(name, chosen.label["datasets"][name]) for name in chosen.datasets],
        readout=tuple(chosen.readout.split("/")),
        style=chosen.chart,
        level=chosen.level,
    )
    stem = Path(snakemake.output.html).with_suffix("")
    save(drawn, stem)
    provenance.of_stage(snakemake, stem)

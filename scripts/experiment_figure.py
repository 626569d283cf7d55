"""Draw one picture of an experiment from its table."""

from pathlib import Path

from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.figures.figures import keywords, save

    name, view = snakemake.params.view
    experiment = EXPERIMENTS[name]
    request = keywords(snakemake.params, experiment.views[view])
    drawn = experiment.module("figure").chart(read_csv(snakemake.input.table), view, **request)
    stem = Path(snakemake.output.html).with_suffix("")
    save(drawn, stem)
    provenance.of_stage(snakemake, stem)

"""Draw one picture of an experiment from its table."""

from pathlib import Path

from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.figures.figure_files import keywords, save

    name, view = snakemake.params.view
    experiment = EXPERIMENTS[name]
    request = keywords(snakemake.params, experiment.views[view])
    figure = experiment.charts[view](read_csv(snakemake.input.table), **request)
    stem = Path(snakemake.output.html).with_suffix("")
    save(figure, stem)
    provenance.of_stage(snakemake, stem)

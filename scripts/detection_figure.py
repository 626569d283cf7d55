"""Draw one picture of detection from its table."""

from pathlib import Path

from anchorscope.detectors.pictures.views import VIEWS
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.detectors.pictures.figure import CHARTS
    from anchorscope.figures.figure_files import keywords, save

    view = snakemake.params.view
    request = keywords(snakemake.params, VIEWS[view].title)
    tables = [read_csv(path) for path in snakemake.input.tables]
    figure = CHARTS[view](*tables, **request)
    stem = Path(snakemake.output.html).with_suffix("")
    save(figure, stem)
    provenance.of_stage(snakemake, stem)

"""Draw one picture that belongs beside a figure."""

from pathlib import Path

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments.knockout.views import view
    from anchorscope.figures.figure_files import keywords, save
    from anchorscope.figures.figure_main import title_of
    from anchorscope.figures.figure_notes import model_notes

    tables = {name: read_csv(path) for name, path in snakemake.input.items()}
    request = keywords(snakemake.params, title_of("knockout"))
    made = provenance.read(snakemake.input.curve)
    request["notes"] = model_notes(made["inputs"], request["panels"])
    figure, choices = view(snakemake.wildcards.view, tables, **request)
    stem = Path(snakemake.output.html).with_suffix("")
    save(figure, stem, choices)
    provenance.of_stage(snakemake, stem, counts_by_cell=made["counts_by_cell"])

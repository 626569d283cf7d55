"""Draw one picture that belongs beside a figure."""

from pathlib import Path

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments.knockout.views import view
    from anchorscope.figures.figure_data import thinking_notes
    from anchorscope.figures.figures import keywords, save

    tables = {name: read_csv(path) for name, path in snakemake.input.items()}
    asked, made = keywords(snakemake.params), provenance.read(snakemake.input.curve)
    asked["notes"] = thinking_notes(made["inputs"], asked["panels"])
    drawn, switched = view(snakemake.wildcards.view, tables, **asked)
    stem = Path(snakemake.output.html).with_suffix("")
    save(drawn, stem, switched)
    provenance.of_stage(snakemake, stem, counts_by_cell=made["counts_by_cell"])

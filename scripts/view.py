"""Draw one picture that belongs beside a figure."""

from pathlib import Path

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments.knockout.views import view
    from anchorscope.figures.figures import keywords, save

    tables = {name: read_csv(path) for name, path in snakemake.input.items()}
    drawn, switched = view(snakemake.wildcards.view, tables, **keywords(snakemake.params))
    stem = Path(snakemake.output.html).with_suffix("")
    save(drawn, stem, switched)
    counts = provenance.read(snakemake.input.curve)["counts_by_cell"]
    provenance.of_stage(snakemake, stem, counts_by_cell=counts)

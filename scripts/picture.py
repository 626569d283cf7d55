"""Draw one picture of a figure from its tables."""

from pathlib import Path

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow import pictures
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.figures.files import keywords, save
    from anchorscope.figures.main import title_of

    given, chosen = snakemake.input, snakemake.params
    picture = pictures.pictures(chosen.readouts)[chosen.view]
    tables = dict(zip(picture.inputs, map(read_csv, given), strict=True))
    first = given[0]
    made = provenance.read(first) if provenance.beside(first).is_file() else {}
    request = keywords(chosen, title_of("knockout"))
    figures = pictures.draw(chosen.view, picture, tables, request, made.get("inputs", {}))
    stem = Path(snakemake.output.html).with_suffix("")
    save(figures, stem)
    provenance.of_stage(snakemake, stem, counts_by_cell=made.get("counts_by_cell", {}))

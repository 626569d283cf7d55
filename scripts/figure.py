"""Draw one figure from its table."""

from pathlib import Path

from anchorscope.figures.figure_answers import answer_details, no_answer_note, responses_of
from anchorscope.figures.figure_files import keywords, save
from anchorscope.figures.figure_main import chart, choices, title_of
from anchorscope.figures.figure_notes import model_notes
from anchorscope.figures.figure_sure import sure_note
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    made = provenance.read(snakemake.input.table)
    request = keywords(snakemake.params, title_of("knockout"))
    cells = responses_of(made["inputs"], request["panels"], request["datasets"])
    tables = [read_csv(snakemake.input[name]) for name in ("table", "crossing")]
    strata = read_csv(snakemake.input.strata)
    shown = request["readout"], request["panels"], request["datasets"]
    request["no_answers"] = " ".join(
        filter(None, (no_answer_note(cells), sure_note(tables[0], strata, *shown)))
    )
    request["notes"] = [*answer_details(cells), *model_notes(made["inputs"], request["panels"])]
    stem = Path(snakemake.output.html).with_suffix("")
    save(chart(*tables, **request), stem, choices(*tables, **request))
    provenance.of_stage(snakemake, stem, counts_by_cell=made["counts_by_cell"])

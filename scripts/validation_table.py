"""Make the tables of a rule that compares results with planted truth or published ranges."""

from anchorscope.storage import provenance
from anchorscope.storage.files import write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from validation.tables import MAKERS

    made, facts = MAKERS[snakemake.rule](snakemake)
    for name, table in made.items():
        write_csv(table, snakemake.output[name])
    provenance.of_stage(snakemake, snakemake.output[0], **facts)
    if "verdict" in facts:
        print(facts["verdict"])

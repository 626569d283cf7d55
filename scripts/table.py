"""Make the tables of a rule from its inputs, for one cell or for many."""

from anchorscope.storage import provenance
from anchorscope.storage.files import write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.workflow.tables import MAKERS

    made, facts = MAKERS[snakemake.rule](snakemake)
    for name, table in made.items():
        write_csv(table, snakemake.output[name])
    provenance.of_stage(snakemake, snakemake.output[0], **facts)

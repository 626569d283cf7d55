"""Locate one model's checkpoint, and record its path and revision."""

from anchorscope.models.loading import locate
from anchorscope.storage import provenance
from anchorscope.storage.files import write_json
from anchorscope.workflow.stage import stage

with stage(snakemake):
    located = locate(snakemake.params.model, snakemake.params.names_prompt)
    write_json(located, snakemake.output.located)
    content = [located["revision"]]
    provenance.of_stage(snakemake, snakemake.output.located, content=content, model=located)

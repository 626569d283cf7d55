"""Locate one model's checkpoint."""

from anchorscope.models.loading import check_prompt, locate
from anchorscope.storage import provenance
from anchorscope.storage.files import write_json
from anchorscope.workflow.stage import stage

with stage(snakemake):
    model, recipe = snakemake.params.model, snakemake.params.recipe
    named = snakemake.params.names_prompt
    located = locate(model, snakemake.input[0] if recipe is not None else None, recipe, named)
    check_prompt(located["path"], named)
    write_json(located, snakemake.output.located)
    content = [located["revision"], located.get("content")]
    provenance.of_stage(snakemake, snakemake.output.located, content=content, model=located)

"""Locate one model's checkpoint, and record its path and revision."""

from anchorscope.models.loading import locate
from anchorscope.storage import provenance
from anchorscope.storage.files import write_json
from anchorscope.workflow.stage import stage

with stage(snakemake):
    model, recipe = snakemake.params.model, snakemake.params.recipe
    trained = snakemake.input[0] if recipe is not None else None
    located = locate(model, trained, recipe, snakemake.params.names_prompt)
    write_json(located, snakemake.output.located)
    content = [located["revision"], located.get("content")]
    provenance.of_stage(snakemake, snakemake.output.located, content=content, model=located)

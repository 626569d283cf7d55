"""Locate one model's checkpoint."""

from anchorscope import intact, provenance
from anchorscope.checkpoints import locate
from anchorscope.files import write_json
from anchorscope.stage import stage

with stage(snakemake):
    recipe = snakemake.params.recipe
    located = locate(snakemake.params.model, snakemake.input[0] if recipe else None, recipe)
    write_json(located | {"files": intact.digests(located["path"])}, snakemake.output.located)
    content = [located["revision"], located.get("content")]
    provenance.of_stage(snakemake, snakemake.output.located, content=content, model=located)

"""Locate one model's checkpoint."""

from anchorscope import provenance
from anchorscope.checkpoints import locate
from anchorscope.files import write_json
from anchorscope.stage import stage

with stage(snakemake):
    trained = snakemake.input[0] if snakemake.input else None
    located = locate(snakemake.params.model, trained, snakemake.params.recipe)
    write_json(located, snakemake.output.located)
    provenance.of_stage(snakemake, snakemake.output.located, model=located)

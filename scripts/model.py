"""Locate one model's checkpoint."""

from snakemake.script import snakemake

from anchorscope.checkpoints import locate
from anchorscope.files import write_json
from anchorscope.stage import stage

with stage(snakemake):
    trained = snakemake.input[0] if snakemake.input else None
    write_json(locate(snakemake.params.model, trained), snakemake.output[0])

"""Make an ordinary checkpoint from one model's GGUF file."""

from anchorscope.storage.files import atomic
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.models import gguf_files

    with atomic(snakemake.output.checkpoint) as draft:
        draft.mkdir()
        gguf_files.convert(snakemake.params.local, draft, snakemake.params.dtype)

"""Train one small model from its recipe."""

from pathlib import Path

from anchorscope.storage.files import atomic, read_parquet
from anchorscope.workflow.stage import stage, use_threads

with stage(snakemake):
    from anchorscope.calibration import training

    use_threads(snakemake)
    names = [Path(path).stem for path in snakemake.input]
    tables = {name: read_parquet(path) for name, path in zip(names, snakemake.input, strict=True)}
    with atomic(snakemake.output.checkpoint) as draft:
        training.make(
            draft,
            tables,
            worlds=snakemake.params.worlds,
            train=snakemake.params.train,
            recipe=snakemake.params.recipe,
        )
    Path(snakemake.output.fresh).touch()

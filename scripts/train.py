"""Train one small model from its recipe."""

from pathlib import Path

from anchorscope.config.sections import WorldSettings
from anchorscope.storage.files import atomic, read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.workflow import jobs
    from validation import training
    from validation.recipes import TrainSettings

    jobs.use_threads(snakemake)
    questions = {Path(path).stem: read_parquet(path) for path in snakemake.input}
    worlds = snakemake.params.worlds.items()
    with atomic(snakemake.output.checkpoint) as draft:
        training.make(
            draft,
            questions,
            worlds={name: WorldSettings.model_validate(world) for name, world in worlds},
            train=TrainSettings.model_validate(snakemake.params.train),
            recipe=snakemake.params.recipe,
        )
    Path(snakemake.output.fresh).touch()

"""Train one small model from its recipe."""

from pathlib import Path

from anchorscope.storage.files import atomic
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.workflow import jobs
    from validation import rows, training
    from validation.recipes import TrainSettings
    from validation.world import WorldSettings

    jobs.use_threads(snakemake)
    worlds = snakemake.params.worlds.items()
    with atomic(snakemake.output.checkpoint) as draft:
        training.make(
            draft,
            {Path(path).stem: rows.read(path) for path in snakemake.input},
            worlds={name: WorldSettings.model_validate(world) for name, world in worlds},
            train=TrainSettings.model_validate(snakemake.params.train),
            recipe=snakemake.params.recipe,
        )
    Path(snakemake.output.fresh).touch()

"""Write the rows of one world."""

from anchorscope.workflow.stage import stage

with stage(snakemake):
    from validation import rows
    from validation.world import WorldSettings

    settings = WorldSettings.model_validate(snakemake.params.world)
    rows.write(rows.of_world(settings), snakemake.output.rows)

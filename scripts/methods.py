"""Write the methods text of a figure for a paper, and its references."""

from anchorscope.experiments.registry import RunConfig
from anchorscope.storage import provenance
from anchorscope.storage.files import atomic
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.report import methods

    config, figure = RunConfig.model_validate(snakemake.params.config), snakemake.wildcards.figure
    of_figure = {"text": methods.text, "references": methods.references}
    for name, write in of_figure.items():
        with atomic(snakemake.output[name]) as draft:
            draft.write_text(write(config, figure), encoding="utf-8")
    provenance.of_stage(snakemake, snakemake.output.text)

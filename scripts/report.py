"""Write the report of a run: one page."""

from anchorscope.experiments.settings import RunConfig
from anchorscope.storage import provenance
from anchorscope.storage.files import atomic
from anchorscope.workflow.stage import log, stage

with stage(snakemake):
    from anchorscope.report.report import build

    config = RunConfig.model_validate(snakemake.params.config)
    page, facts = build(config, options=snakemake.params.options)
    with atomic(snakemake.output.page) as draft:
        draft.write_text(page, encoding="utf-8", errors="replace")
    provenance.of_stage(snakemake, snakemake.output.page, shown=facts)
    size = facts["bytes"] / 1e6
    log.info("%d cells on a page of %.1f MB: %s", facts["cells"], size, snakemake.output.page)

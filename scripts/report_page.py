"""Write the report of a run as one page."""

from anchorscope.experiments.registry import RunConfig
from anchorscope.storage import provenance
from anchorscope.storage.files import atomic
from anchorscope.workflow.stage import log, stage

with stage(snakemake):
    from anchorscope.report.report import build

    html = build(RunConfig.model_validate(snakemake.params.config))
    with atomic(snakemake.output.page) as draft:
        draft.write_text(html, encoding="utf-8", errors="replace")
    provenance.of_stage(snakemake, snakemake.output.page)
    log.info("a page of %.1f MB: %s", len(html) / 1e6, snakemake.output.page)

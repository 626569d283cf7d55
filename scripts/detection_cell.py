"""Make the tables of detection in one cell, for all its read-outs."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet
from anchorscope.storage.progress import Progress
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.config.settings import Bootstrap
    from anchorscope.detectors import evaluation, out_of_fold, reads, self_awareness
    from anchorscope.passes.activations import measured
    from anchorscope.statistics.analysis import stacked
    from anchorscope.workflow.tables import write

    given = snakemake.input
    answers = measured(read_parquet(given.answers), given.activations)
    how = Bootstrap(**snakemake.params.bootstrap), snakemake.params.seed
    by_readout = out_of_fold.by_readout(read_parquet(given.detection), answers)
    tables = {"detection": evaluation, "detection-reads": reads, "self-awareness": self_awareness}
    made = {}
    for name, of in Progress(tables.items(), unit="tables"):
        made[name] = stacked([of.table(rows, answers, at, *how) for at, rows in by_readout.items()])
    write(snakemake, made, counts=provenance.counts_of(given.detection))

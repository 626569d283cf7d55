"""Make the tables of detection in one cell, for all its read-outs."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet
from anchorscope.storage.progress import Progress
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.config.settings import Bootstrap
    from anchorscope.detectors import evaluation, reads, self_awareness
    from anchorscope.passes.activations import measured
    from anchorscope.statistics.analysis import stacked
    from anchorscope.workflow.tables import write

    columns = {
        "detection": evaluation.COLUMNS,
        "detection-reads": reads.COLUMNS,
        "self-awareness": self_awareness.COLUMNS,
    }
    given, parts = snakemake.input, {name: [] for name in columns}
    answers = measured(read_parquet(given.answers), given.activations)
    how = Bootstrap(**snakemake.params.bootstrap), snakemake.params.seed
    by_readout = read_parquet(given.detection).groupby("readout", sort=False)
    for readout, scores in Progress(by_readout, unit="read-outs"):
        parts["detection"].append(evaluation.table(scores, answers, readout, *how))
        parts["detection-reads"].append(reads.table(scores, answers, readout, *how))
        parts["self-awareness"].append(self_awareness.table(scores, answers, readout, *how))
    made = {name: stacked(frames, columns[name]) for name, frames in parts.items()}
    write(snakemake, made, counts=provenance.counts_of(given.detection))

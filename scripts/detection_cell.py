"""Make the tables of detection in one cell, for all its read-outs."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet
from anchorscope.storage.progress import Progress
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.config.settings import Bootstrap
    from anchorscope.detectors import evaluation, reads, self_awareness
    from anchorscope.statistics.analysis import stacked
    from anchorscope.workflow.tables import write

    columns = {
        "detection": evaluation.COLUMNS,
        "detection-reads": reads.COLUMNS,
        "self-awareness": self_awareness.COLUMNS,
    }
    given, parts = snakemake.input, {name: [] for name in columns}
    answers, pathways = read_parquet(given.answers), read_parquet(given.pathways)
    how = Bootstrap(**snakemake.params.bootstrap), snakemake.params.seed
    by_readout = read_parquet(given.detection).groupby("readout", sort=False, observed=True)
    for readout, rows in Progress(by_readout, unit="read-outs"):
        scored, predicted = evaluation.scored(rows, answers), pathways["readout"] == readout
        parts["detection"].append(evaluation.table(scored, readout, *how))
        parts["detection-reads"].append(reads.table(rows, answers, readout, *how))
        of_pathways = self_awareness.table(pathways[predicted], answers, readout, *how)
        parts["self-awareness"].append(of_pathways)
    made = {name: stacked(frames, columns[name]) for name, frames in parts.items()}
    write(snakemake, made, counts=provenance.counts_of(given.detection))

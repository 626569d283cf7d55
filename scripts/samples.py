"""Make the table of all samples in a figure, at the headline layer of the figure's read-out."""

from anchorscope.storage.files import read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.cell import tables
    from anchorscope.config.readouts import Location, available
    from anchorscope.curve import per_sample
    from anchorscope.statistics.scores import Scores
    from anchorscope.workflow.tables import write

    given, chosen, frames = snakemake.input, snakemake.params, []
    for path, answers in zip(given.scores, given.answers, strict=True):
        scores = Scores.read(path)
        sites = {Location.of(readout).site for readout in scores.readouts}
        at = [available(chosen.readout, sites)]
        frames.append(per_sample.per_sample(scores, read_parquet(answers), at))
    table = per_sample.for_spreadsheets(tables.join(chosen.cells, frames))
    write(snakemake, {"table": table})

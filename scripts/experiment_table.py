"""Make the table of one experiment for all cells of a figure."""

from anchorscope.storage.files import read_parquet
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.cell import tables
    from anchorscope.config.settings import Bootstrap
    from anchorscope.experiments.measured import Measurements, of_cell
    from anchorscope.experiments.registry import EXPERIMENTS
    from anchorscope.statistics.scores import Scores
    from anchorscope.workflow.tables import write

    given, chosen, frames = snakemake.input, snakemake.params, []
    check_settings(given.measured)
    record, bootstrap = EXPERIMENTS[snakemake.wildcards.experiment], Bootstrap(**chosen.bootstrap)
    for place in range(len(chosen.cells)):
        measured = Measurements.read(given.measured[place])
        scores, answers = Scores.read(given.scores[place]), read_parquet(given.answers[place])
        frames.append(of_cell(record, measured, scores, answers, bootstrap, chosen.seed))
    write(snakemake, {"table": tables.join(chosen.cells, frames)})

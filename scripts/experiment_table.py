"""Make the table of one experiment for all cells of a figure."""

from anchorscope.storage.files import read_parquet
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.cell import tables
    from anchorscope.config.settings import Bootstrap
    from anchorscope.experiments import products
    from anchorscope.experiments.registry import EXPERIMENTS
    from anchorscope.statistics.scores import Scores
    from anchorscope.workflow.tables import write

    given, chosen, frames = snakemake.input, snakemake.params, []
    check_settings(given.rows)
    record, bootstrap = EXPERIMENTS[snakemake.wildcards.experiment], Bootstrap(**chosen.bootstrap)
    for place in range(len(chosen.cells)):
        scores = Scores.read(given.scores[place])
        answers, rows = (read_parquet(given[kind][place]) for kind in ("answers", "rows"))
        made = products.Products(scores, answers, rows)
        frames.append(products.of_cell(record, made, bootstrap, chosen.seed))
    write(snakemake, {"table": tables.join(chosen.cells, frames)})

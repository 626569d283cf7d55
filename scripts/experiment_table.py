"""Make the table of one experiment for all cells of a figure."""

from anchorscope.storage.files import read_parquet
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.cell import tables
    from anchorscope.config.settings import Bootstrap
    from anchorscope.experiments import products
    from anchorscope.experiments.registry import EXPERIMENTS
    from anchorscope.statistics.bands import Draws
    from anchorscope.workflow.tables import write

    given, chosen, frames = snakemake.input, snakemake.params, []
    kinds = ("scores", "answers", "rows", "floors")
    check_settings(given.rows)
    record, bootstrap = EXPERIMENTS[snakemake.wildcards.experiment], Bootstrap(**chosen.bootstrap)
    for place in range(len(chosen.cells)):
        read = {
            kind: read_parquet(given[kind][place])
            for kind in ("scores", "answers", "rows", "floors")
        }
        made = products.Products(**read, draws=Draws.read(given.draws[place]))
        frames.append(products.of_cell(record, made, bootstrap, chosen.seed))
    write(snakemake, {"table": tables.join(chosen.cells, frames)})

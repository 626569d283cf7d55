"""The table of one experiment, of all cells of a figure."""

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments import tables
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.probes.bands import Draws
from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    given, chosen, written = snakemake.input, snakemake.params, snakemake.output.table
    check_settings(given.rows)
    experiment = EXPERIMENTS[snakemake.wildcards.experiment]
    bootstrap = Bootstrap(**chosen.bootstrap)
    kinds = [kind for kind in ("scores", "answers", "rows", "floors", "truth") if given[kind]]
    frames = []
    for place in range(len(chosen.cells)):
        read = {kind: read_parquet(given[kind][place]) for kind in kinds}
        draws = Draws.read(given.draws[place]) if given.draws else None
        products = tables.Products(**read, draws=draws)
        frames.append(tables.of_cell(experiment, products, bootstrap, chosen.seed))
    write_csv(tables.join(chosen.cells, frames), written)
    provenance.of_stage(snakemake, written)

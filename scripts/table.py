"""Join the cells of one figure into its tables."""

from anchorscope.experiments.tables import join
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    cells = snakemake.params.cells
    check_settings(snakemake.input.curve)
    for name in ("curve", "contrasts", "controls", "crossing", "strata", "density"):
        frames = [read_csv(path) for path in snakemake.input[name]]
        write_csv(join(cells, frames), snakemake.output[name])
    counts = {
        f"{model}/{dataset}": provenance.counts_of(path)
        for (model, dataset), path in zip(cells, snakemake.input.curve, strict=True)
    }
    provenance.of_stage(snakemake, snakemake.output.curve, counts_by_cell=counts)

"""Join the calibration's cells, and say what holds."""

import pandas as pd

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration import requirements

    cells = snakemake.params.cells
    check_settings(snakemake.input.cells)
    whole = pd.concat([read_csv(path) for path in snakemake.input.cells], ignore_index=True)
    floors = requirements.floors(whole)
    write_csv(whole, snakemake.output.table)
    write_csv(floors, snakemake.output.floors)
    verdict = requirements.in_words(floors)
    counts = {
        f"{model}/{dataset}": provenance.counts_of(path)
        for (model, dataset), path in zip(cells, snakemake.input.cells, strict=True)
    }
    provenance.of_stage(snakemake, snakemake.output.table, counts_by_cell=counts, verdict=verdict)
    print(verdict)

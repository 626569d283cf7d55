"""Join the cells of the calibration, and check all requirements."""

import pandas as pd

from anchorscope.storage.files import read_csv
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.workflow.tables import counts_by_cell, write
    from validation import requirements

    paths = snakemake.input.cells
    check_settings(paths)
    table = pd.concat(map(read_csv, paths), ignore_index=True)
    checks = requirements.check_calibration(table)
    verdict = requirements.in_words(checks)
    counts = counts_by_cell(snakemake.params.cells, paths)
    made = {"table": table, "checks": checks}
    write(snakemake, made, counts_by_cell=counts, verdict=verdict)
    print(verdict)

"""Join the cells of the calibration, and check all requirements."""

import pandas as pd

from anchorscope.storage.files import read_csv
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.workflow.tables import write
    from validation import requirements

    check_settings(snakemake.input.cells)
    table = pd.concat(map(read_csv, snakemake.input.cells), ignore_index=True)
    checks = requirements.check_calibration(table)
    verdict = requirements.in_words(checks)
    write(snakemake, {"table": table, "checks": checks}, verdict=verdict)
    print(verdict)

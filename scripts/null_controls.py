"""Say whether the cells that must come out empty do."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration import requirements

    given, nulls = snakemake.input, snakemake.params.nulls
    check_settings(given.curve)
    kinds = (given.controls, given.curve, given.contrasts, given.crossing)
    found = requirements.null_controls(nulls, *(list(map(read_csv, paths)) for paths in kinds))
    write_csv(found, snakemake.output.table)
    provenance.of_stage(snakemake, snakemake.output.table)

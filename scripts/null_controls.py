"""Say whether the cells that must come out empty do."""

from anchorscope.storage import provenance
from anchorscope.storage.agreement import check_settings
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration import null_controls

    given, nulls = snakemake.input, snakemake.params.nulls
    check_settings(given.curve)
    cells = [
        null_controls.Null(name, null, *map(read_csv, tables))
        for (name, null), *tables in zip(
            nulls.items(), given.controls, given.curve, given.interchange, strict=True
        )
    ]
    write_csv(null_controls.table(cells), snakemake.output.table)
    provenance.of_stage(snakemake, snakemake.output.table)

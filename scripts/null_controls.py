"""Say whether the cells that must come out empty do."""

from anchorscope import provenance
from anchorscope.files import read_csv, write_csv
from anchorscope.stage import stage
from anchorscope.tables import check_settings

with stage(snakemake):
    from anchorscope import null_controls

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

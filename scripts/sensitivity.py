"""Hold every variant of the open choices against the main study."""

from anchorscope import provenance
from anchorscope.files import read_csv, write_csv
from anchorscope.stage import stage

with stage(snakemake):
    from anchorscope import sensitivity, tables

    given, chosen = snakemake.input, snakemake.params
    n = len(chosen.cells)

    def study(number: int) -> sensitivity.Study:
        """The tables of one study; inputs hold the main one first, then each variant."""
        part = slice(number * n, (number + 1) * n)
        return sensitivity.Study(
            *(
                tables.join(chosen.cells, [read_csv(path) for path in paths[part]])
                for paths in (given.curve, given.contrasts, given.controls)
            )
        )

    variants = {name: study(number) for number, name in enumerate(chosen.variants, start=1)}
    found = sensitivity.table(study(0), variants, readout=chosen.readout)
    write_csv(found, snakemake.output.table)
    provenance.of_stage(snakemake, snakemake.output.table)

"""Hold every variant of the open choices against the main study."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration import sensitivity
    from anchorscope.experiments import tables

    given, chosen = snakemake.input, snakemake.params
    n = len(chosen.cells)

    def part(paths: list[str], number: int) -> list[str]:
        """A table of each cell of one study; inputs hold the main one first, then each variant."""
        return paths[number * n : (number + 1) * n]

    def study(number: int) -> sensitivity.Study:
        return sensitivity.Study(
            *(
                tables.join(chosen.cells, [read_csv(path) for path in part(paths, number)])
                for paths in (given.curve, given.contrasts, given.controls)
            )
        )

    numbers = {name: number for number, name in enumerate(chosen.variants, start=1)}
    sensitivity.check_studies(
        part(given.curve, 0), {name: part(given.curve, number) for name, number in numbers.items()}
    )
    variants = {name: study(number) for name, number in numbers.items()}
    found = sensitivity.table(study(0), variants, readout=chosen.readout)
    write_csv(found, snakemake.output.table)
    provenance.of_stage(snakemake, snakemake.output.table)

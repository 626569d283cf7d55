"""Hold every variant of the open choices against the main study."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration import sensitivity
    from anchorscope.experiments.tables import join

    paths, cells = snakemake.input, snakemake.params.cells
    # The inputs are those of the base's cells, then those of each variant's.
    base = paths.curve[: len(cells)]
    studies = {}
    for number, name in enumerate((sensitivity.BASE, *snakemake.params.variants)):
        of_study = slice(number * len(cells), (number + 1) * len(cells))
        sensitivity.check_study(name, paths.curve[of_study], base)
        studies[name] = sensitivity.values(
            curve=join(cells, [read_csv(path) for path in paths.curve[of_study]]),
            contrasts=join(cells, [read_csv(path) for path in paths.contrasts[of_study]]),
            controls=join(cells, [read_csv(path) for path in paths.controls[of_study]]),
        )
    table = sensitivity.table(studies, readout=snakemake.params.readout)
    write_csv(table, snakemake.output.table)
    provenance.of_stage(snakemake, snakemake.output.table)

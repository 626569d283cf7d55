"""Hold every variant of the open choices against the main study."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration import sensitivity
    from anchorscope.experiments.tables import join

    given, cells, studies = snakemake.input, snakemake.params.cells, {}
    for number, name in enumerate((sensitivity.BASE, *snakemake.params.variants)):
        here = slice(number * len(cells), (number + 1) * len(cells))
        sensitivity.check_study(name, given.curve[here], given.curve[: len(cells)])
        kinds = ("curve", "contrasts", "controls")
        tables = {kind: join(cells, list(map(read_csv, given[kind][here]))) for kind in kinds}
        studies[name] = sensitivity.values(**tables)
    found = sensitivity.table(studies, readout=snakemake.params.readout)
    write_csv(found, snakemake.output.table)
    provenance.of_stage(snakemake, snakemake.output.table)

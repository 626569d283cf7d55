"""Hold every variant of the open choices against the main study."""

from anchorscope.storage import provenance
from anchorscope.storage.files import write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration import sensitivity

    given, chosen = snakemake.input, snakemake.params
    files = {name: given[name] for name in ("curve", "contrasts", "controls")}
    found = sensitivity.of_files(files, chosen.cells, chosen.variants, readout=chosen.readout)
    write_csv(found, snakemake.output.table)
    provenance.of_stage(snakemake, snakemake.output.table)

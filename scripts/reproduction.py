"""Hold the built figures against the published ranges."""

from pathlib import Path

import yaml

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration import reproduction

    given = snakemake.input

    def by_figure(paths, end):
        return {Path(path).name.removesuffix(end): read_csv(path) for path in paths}

    found = reproduction.check(
        yaml.safe_load(Path(given.published).read_text(encoding="utf-8")),
        by_figure(given.curve, ".csv"),
        by_figure(given.contrasts, ".contrasts.csv"),
        snakemake.params.readouts,
    )
    write_csv(found, snakemake.output.table)
    provenance.of_stage(snakemake, snakemake.output.table)

"""Hold the built figures against the published ranges."""

from pathlib import Path

import yaml

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration import reproduction

    def by_figure(paths, ending):
        return {Path(path).name.removesuffix(ending): read_csv(path) for path in paths}

    others = {}
    for path in snakemake.input.others:
        figure, _, name = Path(path).stem.rpartition(".")
        others[figure, name] = read_csv(path)
    published = Path(snakemake.input.published).read_text(encoding="utf-8")
    table = reproduction.check(
        yaml.safe_load(published),
        by_figure(snakemake.input.curve, ".csv"),
        by_figure(snakemake.input.contrasts, ".contrasts.csv"),
        snakemake.params.readouts,
        others,
    )
    write_csv(table, snakemake.output.table)
    provenance.of_stage(snakemake, snakemake.output.table)

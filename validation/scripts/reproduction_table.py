"""Compare the built figures with the published ranges."""

from pathlib import Path

import yaml

from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.workflow.tables import write
    from validation import reproduction

    given, others = snakemake.input, {}
    for path in given.others:
        figure, _, name = Path(path).stem.rpartition(".")
        others[figure, name] = read_csv(path)
    table = reproduction.check(
        yaml.safe_load(Path(given.published).read_text(encoding="utf-8")),
        {Path(path).name.removesuffix(".csv"): read_csv(path) for path in given.curve},
        snakemake.params.readouts,
        others,
    )
    write(snakemake, {"table": table})

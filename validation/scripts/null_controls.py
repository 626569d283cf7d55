"""Determine whether the null controls make false claims."""

from anchorscope.storage.files import read_csv
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.workflow.tables import write
    from validation import requirements

    given = snakemake.input
    check_settings(given.curve)
    kinds = {name: list(map(read_csv, paths)) for name, paths in given.items()}
    write(snakemake, {"table": requirements.null_controls(snakemake.params.nulls, kinds)})

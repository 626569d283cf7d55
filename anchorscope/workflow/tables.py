"""Functions that the scripts of several tables call: join, count and write."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from anchorscope.cell import tables
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.storage.records import check_settings


def write(job: Any, made: Mapping[str, pd.DataFrame], **facts: Any) -> None:
    """Write a job's tables, by the name of their output, and the record of its first output."""
    for name, table in made.items():
        write_csv(table, job.output[name])
    provenance.of_stage(job, job.output[0], **facts)


def joined(job: Any) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Join the tables of cells into tables of one figure. Return them, and counts by cell."""
    given = dict(job.input.items())
    first = next(iter(given.values()))
    check_settings(first)
    cells = job.params.cells
    made = {name: tables.join(cells, [*map(read_csv, paths)]) for name, paths in given.items()}
    return made, counts_by_cell(cells, first)


def counts_by_cell(cells: Sequence[Sequence[str]], paths: Sequence[str]) -> dict[str, Any]:
    """Return cell → counts of given and dropped samples. Cells without counts are left out."""
    counted = zip(map("/".join, cells), map(provenance.counts_of, paths), strict=True)
    return {cell: counts for cell, counts in counted if counts}

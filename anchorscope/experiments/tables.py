"""Tables: the cells of a figure in one table, in the figure's order."""

from collections.abc import Sequence

import pandas as pd

from anchorscope.experiments.analysis import stacked
from anchorscope.storage.errors import stale


def join(cells: Sequence[Sequence[str]], frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Put a kind of table of several cells below one another, `model` and `dataset` first.

    `cells` holds the model's and the dataset's key of each; rows and columns keep their order, and
    a cell may have no rows. Raises AnchorscopeError: the tables' columns differ.
    """
    columns, named = list(frames[0]), []
    for (model, dataset), frame in zip(cells, frames, strict=True):
        if list(frame) != columns:
            differing = sorted(map(str, {*frame} ^ {*columns})) or ["their order"]
            what = f"the cells' tables have different columns: {', '.join(differing)}"
            raise stale(what, f"{model} on {dataset}", "the tables under delta_p/")
        own = frame.assign(model=model, dataset=dataset)
        named.append(own[list(dict.fromkeys(["model", "dataset", *columns]))])
    return stacked(named)


def rows_where(rows: pd.DataFrame, **wanted: object) -> pd.DataFrame:
    """The rows that have these values."""
    return rows[rows[list(wanted)].eq(pd.Series(wanted)).all(axis=1)]

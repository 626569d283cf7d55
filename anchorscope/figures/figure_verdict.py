"""What pictures of ΔP say in words."""

from collections.abc import Sequence

import pandas as pd

from anchorscope.figures import figure_notes as notes
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import cells_of
from anchorscope.figures.figure_request import Request

GROUPINGS = {
    "per_layer": "groups formed at each layer by its own flips",
    "reference_layer": "groups formed at one reference layer",
}


def caption_of(
    request: Request,
    rows: pd.DataFrame,
    subject: str,
    grouping: str,
    claims: Sequence[str] = (),
    details: Sequence[str] = (),
) -> Caption:
    """`subject`, grouping, n and the verdict, with what all pictures say alike.

    `rows` are labelled rows of `figure_data.select`, of one condition. `claims` stand before the
    verdict, `details` before the other details.
    """
    cells = cells_of(rows, request)
    measured = [cell for cell in cells.values() if len(cell)]
    missing = len(cells) - len(measured)
    refitted = "inflation" not in rows or (rows["inflation"] > 1).any()
    return notes.caption(
        request,
        rows,
        f"{subject}; {GROUPINGS.get(grouping, grouping)}",
        f"{notes.size_note(map(notes.sample_size, measured))} samples per cell",
        [
            small_note(rows[rows["anchor"] == "all"]),
            f"{missing} cells were not measured." if missing else "",
        ],
        [*details, *notes.thin_note(cells)],
        claims=[*claims, verdict(rows), request.no_answers],
        intervals=notes.REFITTED if refitted else notes.FIXED,
        thin=notes.cross_note(cells),
    )


def small_note(everyone: pd.DataFrame) -> str:
    """The caption's words on cells too small to be called a signal; none where none is.

    Of the rows of all samples; cells that have a signal at some layer are large enough.
    """
    from anchorscope.probes.power import too_small  # loads scipy, which most pictures can spare

    small = []
    for _, cell in everyone.groupby(["model", "dataset"]):
        n, right = int(cell["n"].max()), float(cell["answer_accuracy"].max())
        both_classes = 0 < right < 1
        if both_classes and not cell["signal"].any() and too_small(n, 1 - right):
            small.append(n)
    if not small:
        return ""
    cells = "1 cell has" if len(small) == 1 else f"{len(small)} cells have"
    return f"{cells} too few right or wrong answers to detect a signal of typical size."


def verdict(rows: pd.DataFrame) -> str:
    """In how many cells the probe beats the text models at the headline layer."""
    heads = rows[(rows["anchor"] == "all") & rows["headline"]]
    by_cell = heads.groupby(["model", "dataset", "site", "position"])["signal"].any()
    if by_cell.empty:
        return ""
    if not by_cell.any():
        return "No cell has a signal at the headline layer: ΔP cannot be interpreted."
    where = f"{by_cell.sum()} of {len(by_cell)} cells"
    return f"At the headline layer the probe beats the text models in {where}."

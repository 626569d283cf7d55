"""What the main figure says in words: its caption, and the heading of its flips."""

from collections.abc import Mapping

import pandas as pd

from anchorscope.figures import figure_notes as notes, figure_style as draw
from anchorscope.figures.figure_caption import Caption

GROUPINGS = {
    "per_layer": "groups formed at each layer by its own flips",
    "reference_layer": "groups formed at one reference layer",
}


def caption_of(
    cells: Mapping[str, pd.DataFrame],
    subject: str,
    grouping: str,
    level: float,
    condition: str = "knockout",
) -> Caption:
    """`subject`, grouping, n, intervals, what is grey, and the verdict; the rest as details.

    `cells` are labelled rows of `figure_data.select`, by the cell's name; empty where not measured.
    """
    groups = GROUPINGS.get(grouping, grouping)
    sizes = [notes.sample_size(cell, condition) for cell in cells.values() if len(cell)]
    whole = pd.concat(list(cells.values()))
    everyone = whole[(whole["condition"] == condition) & (whole["anchor"] == "all")]
    refitted = "inflation" not in whole or (whole["inflation"] > 1).any()
    bands = notes.REFITTED if refitted else notes.FIXED
    missing = []
    for name, cell in cells.items():
        measured = set(cell["anchor"][cell["condition"] == condition])
        absent = [f"{name}, {anchor}-Anchored" for anchor in draw.ANCHORS if anchor not in measured]
        missing += [name] if len(absent) == len(draw.ANCHORS) else absent
    return Caption(
        [
            f"{subject}; {groups}; {notes.size_note(sizes)} samples per cell; "
            f"{100 * level:g}\u00a0% intervals.",
            verdict(whole, condition),
            notes.grey_note(cells),
            notes.cross_note(cells, condition),
            small_note(everyone),
            f"{len(missing)} curves or cells were not measured." if missing else "",
        ],
        [
            f"Bands: pointwise {100 * level:g}\u00a0% {bands}.",
            *notes.no_signal_notes(cells),
            *notes.thin_note(cells, condition),
            *notes.missing_note(missing),
        ],
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


def verdict(rows: pd.DataFrame, condition: str) -> str:
    """In how many cells the probe beats the text models at the headline layer."""
    heads = rows[(rows["anchor"] == "all") & rows["headline"] & (rows["condition"] == condition)]
    by_cell = heads.groupby(["model", "dataset", "site", "position"])["signal"].any()
    if by_cell.empty:
        return ""
    if not by_cell.any():
        return "No cell has a signal at the headline layer: ΔP cannot be interpreted."
    where = f"{by_cell.sum()} of {len(by_cell)} cells"
    return f"At the headline layer the probe beats the text models in {where}."

"""What the main figure says in words: its caption, and the heading of its flips."""

from collections.abc import Mapping

import pandas as pd

from anchorscope.figures import figure_notes as notes, figure_style as draw
from anchorscope.figures.figure_caption import Caption
from anchorscope.passes.interventions import REGISTRY, arms

GROUPINGS = {
    "per_layer": "groups formed at each layer by its own flips",
    "reference_layer": "groups formed at one reference layer",
}
BY_ARM = "groups formed by the knockout's flips"
BY_ARM_DETAIL = (
    "Samples whose answers are exchanged are grouped by whether they flip under the knockout."
)
SHORT_NAMES = {"random": "random tokens", "question": "whole question"}
"""What some conditions are called in a few words."""


def flip_note(rows: pd.DataFrame, condition: str = "knockout") -> str:
    """What the lines of the flips' panels are, of the conditions in a table's rows."""
    beside = REGISTRY[condition].companion
    if beside is None or beside not in set(rows["condition"]):
        return f"Flips among paired samples ({SHORT_NAMES.get(condition, condition)})"
    return f"Flips among paired samples (dotted: {SHORT_NAMES.get(beside, beside)})"


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
    groups = BY_ARM if condition in arms() else GROUPINGS.get(grouping, grouping)
    sizes = [notes.sample_size(cell, condition) for cell in cells.values() if len(cell)]
    whole = pd.concat(list(cells.values()))
    everyone = whole[(whole["condition"] == condition) & (whole["anchor"] == "all")]
    paired = everyone.groupby(["model", "dataset"])["n_paired"].max().dropna()
    refitted = "inflation" not in whole or (whole["inflation"] > 1).any()
    bands = notes.REFITTED if refitted else notes.FIXED
    missing = []
    for name, cell in cells.items():
        measured = set(cell["anchor"][cell["condition"] == condition])
        absent = [f"{name}, {anchor}-Anchored" for anchor in draw.ANCHORS if anchor not in measured]
        missing += [name] if len(absent) == len(draw.ANCHORS) else absent
    return Caption(
        [
            f"{subject}; {groups}; {notes.size_note(sizes)} samples a cell; "
            f"{100 * level:g}\u00a0% intervals.",
            verdict(whole, condition),
            notes.grey_note(cells),
            notes.cross_note(cells, condition),
            small_note(everyone),
            f"{len(missing)} curves or cells were not measured." if missing else "",
        ],
        [
            *([BY_ARM_DETAIL] if condition in arms() else []),
            *([f"Flips: {notes.size_note(paired)} paired samples."] if len(paired) else []),
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
    cells = "1 cell is" if len(small) == 1 else f"{len(small)} cells are"
    return f"{cells} too small to be called a signal ({notes.size_note(small)})."


def verdict(rows: pd.DataFrame, condition: str) -> str:
    """At the headline layers: in how many cells the probe beats the text, and what flips there.

    Of the samples of the flips' row; the control's share stands beside that of the condition.
    """
    place = ["model", "dataset", "site", "position"]
    everyone = rows[(rows["anchor"] == "all") & rows["headline"]]
    heads = everyone[everyone["condition"] == condition]
    cells = heads.groupby(place).ngroups
    if not cells:
        return ""
    heads = heads[heads["signal"]]
    known = heads.groupby(place).ngroups
    counted = f"At the headline layer {known} of {cells} cell{'s' if cells != 1 else ''}"
    if not known:
        return "At the headline layer no cell has a signal: ΔP and flips cannot be interpreted."
    told = f"{counted} ha{'ve' if known != 1 else 's'} a signal"
    shares = heads["flip_share"].dropna()
    if shares.empty:
        return f"{told}."
    text = f"{told}; there {notes.span(shares, 100)}\u00a0% flip"
    companion = REGISTRY[condition].companion
    beside = everyone[everyone["condition"] == companion].merge(heads[place])["flip_share"].dropna()
    if companion is None or beside.empty:
        return f"{text}."
    name = SHORT_NAMES.get(companion, companion)
    return f"{text}, {notes.span(beside, 100)}\u00a0% under {name}."

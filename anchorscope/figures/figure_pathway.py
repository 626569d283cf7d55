"""The rows of panels on swapped answers: what passes through the question, and what is truth."""

from dataclasses import replace

import pandas as pd

from anchorscope.figures import figure_data as data, figure_notes as notes, figure_panel
from anchorscope.figures.figure_axis import LAYERS, axis_of
from anchorscope.figures.figure_picture import Panel
from anchorscope.figures.figure_request import Request
from anchorscope.figures.figure_style import ANCHORS, INTERVAL, LAYER, Style

NEEDED = (
    "model dataset site position layer n_right n_wrong n_gold pair_right pair_wrong pair_gold "
    "pair_right_cut pair_right_random pair_wrong_cut pair_wrong_random n_random headline "
    "interaction own_answer truth through_eq"
).split()
LEAST_PAIRS = 10
"""With fewer pairs of right answers those of wrong answers are drawn."""
PATHS = {"clean": "", "exact tokens blocked": "_cut", "random tokens blocked": "_random"}
"""What is blocked in all four passes of a pair → the end of the column's name."""
TRUTHS = {"gold answers": "pair_gold", "own wrong answers": "pair_wrong"}
AXIS_TITLE = "Pair term (logits)"
CLAIMED = {
    "interaction": "interaction",
    "own_answer": "own answer",
    "through_eq": "through the exact tokens",
    "truth": "truth",
}
"""Claim → what the caption calls it."""
STEP = 0.05
"""The least distance of two labels of the axis: smaller terms are nothing."""
HEADINGS = {
    "pathway": "Pair term of the model's own answers (dashed: exact tokens blocked; dotted: random "
    "tokens blocked)",
    "truth": "Pair term of gold answers (solid) and own wrong answers (dashed)",
}
NOT_CROSSED = (
    "There are no rows of swapped answers: the condition `crossed` was not measured, or no two "
    "answers could be swapped."
)
TIPS = LAYER | {"quantity": ("answers", ""), "value": ("logits", ".2f")} | INTERVAL
KEPT = ("model", "dataset", "series", "marker", "dash", "banded", "claimed", *TIPS)


def pathway(crossing: pd.DataFrame) -> pd.DataFrame:
    """Lines of the pair term clean and with tokens blocked, of labelled rows of the crossing table.

    Of the pairs answered right; of those answered wrongly in cells with fewer than `LEAST_PAIRS`.
    """
    right = crossing["n_right"] >= LEAST_PAIRS
    parts = []
    for side, rows in (("right", crossing[right]), ("wrong", crossing[~right])):
        for cut, end in PATHS.items():
            lines = data.numbered(rows, f"pair_{side}{end}", n=f"n_{side}")
            claimed = (rows["through_eq"] == "yes") & rows["headline"] & (not end)
            lines = lines.assign(quantity=f"own {side}, {cut}", dash=cut, claimed=claimed)
            parts.append(lines.assign(banded=end != "_random"))
    return _lines(pd.concat(parts))


def truth(crossing: pd.DataFrame) -> pd.DataFrame:
    """Lines of the pair terms of gold and of own wrong answers, of the same rows."""
    parts = []
    for quantity, column in TRUTHS.items():
        gold = column == "pair_gold"
        lines = data.numbered(crossing, column, n="n_gold" if gold else "n_wrong")
        claimed = (crossing["truth"] == "yes") & crossing["headline"] & gold
        look = {"dash": "clean" if gold else "exact tokens blocked", "banded": True}
        parts.append(lines.assign(quantity=quantity, claimed=claimed, **look))
    return _lines(pd.concat(parts))


def _lines(rows: pd.DataFrame) -> pd.DataFrame:
    rows = data.by_group(rows, ANCHORS[0])
    drawn = rows[rows["value"].notna()].sort_values(["offset", "quantity", "layer"])
    return drawn.filter(KEPT).round(4)


def panels(crossing: pd.DataFrame, look: Style) -> list[Panel]:
    """The rows of panels, of labelled rows of the crossing table at one read-out."""
    low, unnamed = look.share_height / look.panel_height, replace(LAYERS, title=None)
    return [
        Panel(
            name,
            lines,
            axis_of(lines, AXIS_TITLE, step=STEP),
            TIPS,
            unnamed,
            figure_panel.claims,
            low,
            HEADINGS[name],
        )
        for name, lines in (("pathway", pathway(crossing)), ("truth", truth(crossing)))
    ]


def verdict(crossing: pd.DataFrame) -> str:
    """In how many cells each claim holds, and how many show wrong answers; of one read-out."""
    heads = crossing[crossing["headline"]]
    if heads.empty:
        return ""

    held = []
    for claim, words in CLAIMED.items():
        verdicts = heads[claim][heads[claim].isin(["yes", "no"])]
        if len(verdicts):
            held.append(f"{words} in {(verdicts == 'yes').sum()} of {len(verdicts)}")
    wrong = int((heads["n_right"] < LEAST_PAIRS).sum())
    drawn = f" Middle row: wrong answers in {wrong} of {len(heads)}." if wrong else ""
    if not held:
        return f"No claim could be judged: too few pairs.{drawn}"
    return f"Cells in which claims hold: {', '.join(held)}.{drawn}"


def untold_notes(crossing: pd.DataFrame, request: Request) -> list[str]:
    """Details: undecided claims, cells that show wrong answers, pairs that do not count."""
    words = {"through_eq": "the pathway", "truth": "truth"}
    parts, wrong, few = [], [], []
    for name, cell in data.cells_of(crossing[crossing["headline"]], request).items():
        for claim, what in words.items():
            parts += [
                f"{what} in {name}: {said}"
                for said in cell[claim].astype(str)
                if said not in ("yes", "no")
            ]
        if len(cell) and (cell["n_right"] < LEAST_PAIRS).all():
            wrong.append(name)
        for counted, pairs in zip(cell["n_random"], cell["n_right"] + cell["n_wrong"], strict=True):
            if counted < pairs:
                few.append(f"{counted:,} of {pairs:,} in {name}")
    said = {
        "Undecided": parts,
        "Middle row shows wrong answers": wrong,
        "Pairs whose questions have as many other tokens as are blocked, on which the dotted lines "
        "and the pathway rest": few,
    }
    return [f"{about}: {notes.few(some, 12)}." for about, some in said.items() if some]

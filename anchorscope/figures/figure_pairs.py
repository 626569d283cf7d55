"""The row of panels on crossing: what a probe reads by comparing answer and question."""

import pandas as pd

from anchorscope.figures import figure_data as data, figure_notes as notes, figure_style as draw
from anchorscope.figures.figure_axis import Ticks, numbers_of, ticks_of
from anchorscope.figures.figure_request import Request

NEEDED = (
    "model dataset site position layer n_right n_wrong truth truth_low truth_high agreement "
    "agreement_low agreement_high headline reads"
)
HEADING = "Truth of the pair, by comparing answer and question (thin: agreement)"
AXIS_TITLE = "Pair (logits)"
DETAIL = (
    "Lower row: two answers of one relation are exchanged between their questions. Whatever adds "
    "something read off the question to something read off the answer lies at 0. Truth is half the "
    "difference between the pair terms of right and of wrong answers; agreement (thin) is half "
    "their sum, what both share: that the answer is the model's own."
)
NOT_CROSSED = (
    "There is no row of exchanged answers: the condition `crossed` was not measured, or no two "
    "answers could be exchanged."
)
TIPS = draw.LAYER | {
    "quantity": ("quantity", ""),
    "value": ("logits", ".2f"),
    "low": ("interval from", ".2f"),
    "high": ("interval to", ".2f"),
    "n_right": ("right pairs", ",d"),
    "n_wrong": ("wrong pairs", ",d"),
    "reads": ("reads", ""),
}
TOO_FEW = "too few"
"""What a layer `reads` where too few right answers could be exchanged: nothing is drawn of it."""
STEP = 0.05
"""The least distance of two labels of the axis: smaller terms are nothing."""


def lines(crossing: pd.DataFrame) -> pd.DataFrame:
    """What `figure_panel.claims` draws of rows of the table of crossing at one read-out.

    Truth stands in front; its markers are filled where a layer `reads` truth; agreement is behind.
    """
    kept = crossing[crossing["reads"] != TOO_FEW].sort_values(["offset", "layer"])
    parts = [
        data.numbered(kept[kept[quantity].notna()], data.values_of(quantity), quantity=quantity)
        for quantity in ("truth", "agreement")
    ]
    rows = pd.concat(parts)
    rows = rows.assign(behind=rows["quantity"] != "truth", claimed=rows["reads"] == "truth")
    columns = ["model", "dataset", "marker", "series", *TIPS, "behind", "claimed"]
    return rows.filter(columns).round(4)


def ticks_of_pairs(rows: pd.DataFrame) -> Ticks:
    """An axis that holds 0, every band in front and every line."""
    if rows.empty:
        return ticks_of([])
    front = rows[~rows["behind"].astype(bool)]
    return ticks_of([*numbers_of(front), *numbers_of(rows[["value"]])], step=STEP)


def too_few_note(crossing: pd.DataFrame, request: Request) -> list[str]:
    """Details of the cells that are not drawn; rows of one read-out."""
    heads = crossing[crossing["headline"] & (crossing["reads"] == TOO_FEW)]
    cells = [
        f"{name}, {int(n)}"
        for name, cell in data.cells_of(heads, request).items()
        for n in cell["n_right"]
    ]
    words = "Too few pairs of right answers for the lower row"
    return [f"{words}: {'; '.join(cells)}."] if cells else []


def verdict(crossing: pd.DataFrame) -> str:
    """In how many cells truth is read by comparing, at the headline layer; rows of one read-out."""
    heads = crossing[crossing["headline"]]
    if heads.empty:
        return ""
    shown = int((heads["reads"] == "truth").sum())
    pairs = notes.size_note([*heads["n_right"], *heads["n_wrong"]])
    return (
        f"Lower row: the probe is shown to read truth by comparing answer and question (filled) "
        f"in {shown} of {len(heads)} cells ({pairs} pairs)."
    )

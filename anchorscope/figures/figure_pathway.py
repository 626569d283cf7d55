"""The rows of panels on swapped answers: what passes through the question, and what is truth."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from anchorscope.figures import figure_data as data, figure_notes as notes, figure_panel
from anchorscope.figures.figure_axis import LAYERS, axis_of
from anchorscope.figures.figure_data import Request
from anchorscope.figures.figure_picture import Panel
from anchorscope.figures.figure_style import ANCHORS, INTERVAL, LAYER, Style
from anchorscope.passes.interventions import CLEAN, REGISTRY, blocked_arms
from anchorscope.passes.partners import LEAST_GOLD, LEAST_PAIRS

NEEDED = (
    "model dataset site position layer quantity estimate ci_low ci_high n signal headline"
).split()
OF_CLAIMS = "model dataset site position claim verdict reason layer".split()
SIDES = ("right", "wrong")
AXIS_TITLE = "Pair term (logits)"
CLAIMED = {
    "signal": "signal",
    "interaction": "interaction",
    "own_answer": "own answer",
    "through_eq": "through the exact tokens",
    "truth": "truth",
}
"""Claim → what the caption calls it."""
STEP = 0.05
"""The least distance of two labels of the axis: smaller terms are nothing."""
COMPARISON = (
    "This row can show that the probe compares answer and question, not that it reads truth "
    "({looks})."
)
RIGHT_ANSWERS = (
    "This row can show that right answers (solid) score above {own}wrong ones (dashed), not that "
    "the probe detects truth."
)
"""Headings of the rows of panels, which say what a row can show."""
NOT_CROSSED = (
    "There are no rows of swapped answers: the condition `crossed` was not measured, or no two "
    "answers could be swapped."
)
TIPS = LAYER | {"quantity": ("answers", ""), "value": ("logits", ".2f")} | INTERVAL
KEPT = ("model", "dataset", "series", "marker", "look", "banded", "claimed", "least", *TIPS)


def pathway(crossing: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of the pair term, clean and with tokens blocked.

    A cell shows right answers if it has enough pairs of them, else wrong answers. It shows the
    pairs that `through_eq` counts. Where these are too few, it shows all pairs, with nothing
    blocked. A cell with too few pairs of either has one row, which says how many it has.
    """
    parts = []
    for _, cell in crossing.groupby(["model", "dataset"], sort=False):
        side = _side(cell)
        if side is None:
            most = max(_pairs(cell, one) for one in SIDES)
            parts.append(_too_few(cell, most, LEAST_PAIRS))
            continue
        counted = f"through_{side}" in set(cell["quantity"])
        first = f"through_{side}" if counted else f"pair_{side}"
        for arm, look in _looks().items():
            clean = arm == CLEAN.name
            rows = cell[cell["quantity"] == (first if clean else f"{first}_{arm}")]
            of_pairs = "interaction" if side == "right" else "own_answer"
            lines = _claimed(rows, claims, "through_eq" if counted else of_pairs)
            lines["claimed"] &= clean
            lines = lines.assign(quantity=f"{side} answers, {REGISTRY[arm].label}", look=look)
            parts.append(lines.assign(banded=look in ("solid", "dashed")))
    return _lines(parts, crossing)


def _looks() -> dict[str, str]:
    """Return the look of each arm's line: with nothing blocked, then those with tokens blocked."""
    return dict(zip([CLEAN.name, *blocked_arms()], figure_panel.LOOKS, strict=False))


def _comparison() -> str:
    """Return the heading of the pathway, which says what each look of a line means."""
    blocked = {arm: look for arm, look in _looks().items() if arm != CLEAN.name}
    looks = [f"{look}: {REGISTRY[arm].label}" for arm, look in blocked.items()]
    return COMPARISON.format(looks="; ".join(looks))


def truth(crossing: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of the pair terms of gold and of wrong answers.

    A cell with too few pairs of gold answers has one row, which says how many it has.
    """
    parts = []
    names = {"gold answers": "pair_gold", f"{_own(claims)}wrong answers": "pair_wrong"}
    for _, cell in crossing.groupby(["model", "dataset"], sort=False):
        gold_known = _pairs(cell, "gold") > 0
        kind, least = ("gold", LEAST_GOLD) if gold_known else ("wrong", LEAST_PAIRS)
        if (n := _pairs(cell, kind)) < least:
            parts.append(_too_few(cell, n, least))
            continue
        for quantity, name in names.items():
            gold = name == "pair_gold"
            lines = _claimed(cell[cell["quantity"] == name], claims, "truth")
            lines["claimed"] &= gold
            look = "solid" if gold else "dashed"
            parts.append(lines.assign(quantity=quantity, look=look, banded=True))
    return _lines(parts, crossing)


def _own(claims: pd.DataFrame) -> str:
    """Return "own " unless all answers came with the rows, where `own_answer` is not measured."""
    verdicts = claims["verdict"][claims["claim"] == "own_answer"]
    return "" if (verdicts == "not measured").all() else "own "


def _side(cell: pd.DataFrame) -> str | None:
    """Return which answers' pairs a cell shows, `right` or `wrong`; None if both are too few."""
    return next((side for side in SIDES if _pairs(cell, side) >= LEAST_PAIRS), None)


def _pairs(cell: pd.DataFrame, kind: str) -> int:
    """Return how many pairs of `right`, `wrong` or `gold` answers a cell has."""
    n = cell["n"][cell["quantity"] == f"pair_{kind}"]
    return 0 if n.empty else int(n.max())


def _too_few(cell: pd.DataFrame, n: int, least: int) -> pd.DataFrame:
    """Return a row without a value that says how many pairs a cell has, and how many it needs."""
    row = cell.head(1).assign(n=n, least=least, value=np.nan, low=np.nan, high=np.nan)
    return row.assign(claimed=False, banded=False, quantity="too few pairs", look="solid")


def _claimed(rows: pd.DataFrame, claims: pd.DataFrame, claim: str) -> pd.DataFrame:
    """Return the rows with `claimed`, true at the headline layer where the claim is made."""
    made = claims[(claims["claim"] == claim) & (claims["verdict"] == "yes")]
    cells = set(zip(made["model"], made["dataset"], strict=True))
    own = [cell in cells for cell in zip(rows["model"], rows["dataset"], strict=True)]
    lines = data.numbered(rows, "estimate", n="n", ends="ci")
    return lines.assign(claimed=rows["headline"] & np.array(own, dtype=bool))


def _lines(parts: Sequence[pd.DataFrame], crossing: pd.DataFrame) -> pd.DataFrame:
    rows = pd.concat(parts) if parts else _claimed(crossing.head(0), crossing.head(0), "")
    rows = data.by_group(rows, ANCHORS[0])
    if "least" not in rows:
        rows = rows.assign(least=np.nan)
    drawn = rows[rows["value"].notna() | rows["least"].notna()].sort_values(
        ["offset", "quantity", "layer"]
    )
    return drawn.filter(KEPT).round(4)


def panels(crossing: pd.DataFrame, claims: pd.DataFrame, look: Style) -> list[Panel]:
    """Return the rows of panels, of labelled tables of crossing and claims at one read-out."""
    low, unnamed = look.share_height / look.panel_height, replace(LAYERS, title=None)
    of_arms = partial(figure_panel.claims, looks=list(_looks().values()))
    return [
        Panel(
            name,
            lines,
            axis_of(lines, AXIS_TITLE, step=STEP),
            TIPS,
            unnamed,
            drawn_by,
            low,
            heading,
        )
        for name, lines, drawn_by, heading in (
            ("pathway", pathway(crossing, claims), of_arms, _comparison()),
            (
                "truth",
                truth(crossing, claims),
                figure_panel.claims,
                RIGHT_ANSWERS.format(own=_own(claims)),
            ),
        )
    ]


def verdict(crossing: pd.DataFrame, claims: pd.DataFrame) -> list[str]:
    """Say in how many cells each claim is made, and how many cells show wrong answers."""
    made, lost, untold = [], [], []
    for claim, words in CLAIMED.items():
        verdicts = claims["verdict"][claims["claim"] == claim]
        judged = verdicts[verdicts.isin(["yes", "no"])]
        if (judged == "yes").any():
            made.append(f"{words} in {(judged == 'yes').sum()} of {len(judged)}")
        elif len(judged):
            lost.append(words)
        elif len(verdicts):
            untold.append(words)
    sentences = [f"Shown: {', '.join(made)} cells."] if made else []
    sentences += [f"Not shown: {', '.join(lost)}."] if lost else []
    sentences += [f"Cannot be judged: {', '.join(untold)}."] if untold else []
    sides = [_side(cell) for _, cell in crossing.groupby(["model", "dataset"])]
    if wrong := sides.count("wrong"):
        sentences.append(f"Middle row: wrong answers in {wrong} of {len(sides)} cells.")
    return sentences


def untold_notes(crossing: pd.DataFrame, claims: pd.DataFrame, request: Request) -> list[str]:
    """Return the details: claims that are not made, with reasons, and cells with wrong answers."""
    names = claims["model"] + " on " + claims["dataset"]
    details = []
    for claim, words in CLAIMED.items():
        of_claim = claims["claim"] == claim
        judged = claims["verdict"].isin(["yes", "no"])
        for said, rows in (
            ("Not shown", of_claim & (claims["verdict"] == "no")),
            ("Cannot be judged", of_claim & ~judged),
        ):
            reasons = claims["reason"].fillna("").astype(str)[rows]
            parts = [
                f"{notes.few(list(some), 12)} ({why})"
                for why, some in names[rows].groupby(reasons, sort=False)
            ]
            if parts:
                details.append(f"{said}, {words}: {'; '.join(parts)}.")
    of_pairs = data.cells_of(crossing, request)
    wrong = [name for name, cell in of_pairs.items() if len(cell) and _side(cell) == "wrong"]
    if wrong:
        details.append(f"Middle row shows wrong answers: {notes.few(wrong, 12)}.")
    return details

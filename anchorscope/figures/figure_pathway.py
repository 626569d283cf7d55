"""The middle and the lower row of the main figure: pair terms of swapped answers."""

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd

from anchorscope.claims import CLAIMS, keys
from anchorscope.figures import figure_data as data, figure_panel
from anchorscope.figures.figure_axis import LAYERS, axis_of
from anchorscope.figures.figure_picture import Panel
from anchorscope.figures.figure_style import ANCHORS, INTERVAL, LAYER, Style
from anchorscope.passes.interventions import CLEAN, REGISTRY, blocked_arms
from anchorscope.passes.partners import LEAST_GOLD, LEAST_PAIRS
from anchorscope.statements import say

NEEDED = (
    "model dataset site position layer quantity estimate ci_low ci_high n predicts headline"
).split()
OF_CLAIMS = "model dataset site position claim answers verdict reason layer".split()
SIDES = ("right", "wrong")
AXIS_TITLE = "Pair term (logits)"
STEP = 0.05
"""Smallest distance between axis labels, in logits: smaller pair terms do not matter."""
TIPS = LAYER | {"quantity": ("answers", ""), "value": ("logits", ".2f")} | INTERVAL
KEPT = ("model", "dataset", "series", "marker", "look", "banded", "claimed", *TIPS)


def pathway(crossing: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of the pair term, clean and with tokens blocked.

    A cell shows pairs of right answers or, if these are too few, of wrong answers. If both are too
    few, it shows none. The lines average the pairs that the claim `through_eq` counts. If these
    are too few, there is a single line, which averages all pairs with nothing blocked.
    """
    numbers, made = data.numbered(crossing, "estimate", n="n", ends="ci"), _made(claims)
    parts = [numbers.head(0).assign(claimed=False)]
    for of, cell in numbers.groupby(["model", "dataset"], sort=False):
        if (side := _side(cell)) is None:
            continue
        counted = f"through_{side}" in set(cell["quantity"])
        first = f"through_{side}" if counted else f"pair_{side}"
        claim = "through_eq" if counted else f"comparison_{side}"
        for arm, look in _looks().items():
            clean = arm == CLEAN.name
            rows = cell[cell["quantity"] == (first if clean else f"{first}_{arm}")]
            claimed = rows["headline"] & (clean and (*of, claim) in made)
            words, banded = f"{side} answers, {REGISTRY[arm].label}", look in ("solid", "dashed")
            parts.append(rows.assign(quantity=words, look=look, banded=banded, claimed=claimed))
    return _together(parts)


def _looks() -> dict[str, str]:
    """Return a dict of arm → look of its line. The arm with nothing blocked comes first."""
    return dict(zip([CLEAN.name, *blocked_arms()], figure_panel.LOOKS, strict=False))


def _comparison(crossing: pd.DataFrame, lines: pd.DataFrame) -> str:
    """Return the heading of the middle row: what it can show, and the looks of its lines."""
    drawn = set(lines.get("look", ()))
    looks = [(look, REGISTRY[arm].label) for arm, look in _looks().items() if look in drawn]
    cells = (_side(cell) for _, cell in crossing.groupby(["model", "dataset"]))
    sides = [side for side in cells if side]
    return str(say.pathway_heading(looks, sides.count("wrong"), len(sides)))


def truth(crossing: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of the pair terms of gold and of wrong answers.

    Cells with too few pairs are left out. Cells without gold answers show wrong answers only.
    """
    numbers, made = data.numbered(crossing, "estimate", n="n", ends="ci"), _made(claims)
    parts = [numbers.head(0).assign(claimed=False)]
    for of, cell in numbers.groupby(["model", "dataset"], sort=False):
        kind, least = ("gold", LEAST_GOLD) if _pairs(cell, "gold") else ("wrong", LEAST_PAIRS)
        if _pairs(cell, kind) < least:
            continue
        for name, quantity, claim, look in (
            ("pair_gold", "gold answers", "", "solid"),
            ("pair_wrong", "own wrong answers", "", "dashed"),
        ):
            rows = cell[cell["quantity"] == name]
            claimed = rows["headline"] & ((*of, claim) in made)
            parts.append(rows.assign(quantity=quantity, look=look, banded=True, claimed=claimed))
    return _together(parts)


def _side(cell: pd.DataFrame) -> str | None:
    """Return whether a cell shows pairs of `right` or `wrong` answers; None if both are too few."""
    return next((side for side in SIDES if _pairs(cell, side) >= LEAST_PAIRS), None)


def _pairs(cell: pd.DataFrame, kind: str) -> int:
    """Return how many pairs of `right`, `wrong` or `gold` answers a cell has."""
    n = cell["n"][cell["quantity"] == f"pair_{kind}"]
    return 0 if n.empty else int(n.max())


def _shortage(
    crossing: pd.DataFrame, kinds: Sequence[str], least: int, of: Mapping[str, str]
) -> str:
    """Say how many pairs a cell of the column has at most, and how many pairs a line needs."""
    cells = crossing[crossing["model"] == of["model"]]
    of_cells = [cell for _, cell in cells.groupby("dataset")]
    most = {kind: max((_pairs(cell, kind) for cell in of_cells), default=0) for kind in kinds}
    return str(say.pairs_missing(most, least, len(of_cells)))


def _made(claims: pd.DataFrame) -> set[tuple[str, str, str]]:
    """Return model, dataset and name of each claim that holds."""
    made = claims[claims["verdict"] == "yes"]
    return set(zip(made["model"], made["dataset"], keys(made), strict=True))


def _together(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    rows = pd.concat(parts)
    rows = data.by_group(rows[rows["value"].notna()], ANCHORS[0])
    return rows.sort_values(["offset", "quantity", "layer"]).filter(KEPT).round(4)


def panels(crossing: pd.DataFrame, claims: pd.DataFrame, look: Style) -> list[Panel]:
    """Return both rows of panels, from labelled tables of crossing and claims at one read-out."""
    compared = pathway(crossing, claims)
    rows = (
        (compared, list(_looks().values()), _comparison(crossing, compared), SIDES, LEAST_PAIRS),
        (
            truth(crossing, claims),
            ["solid", "dashed"],
            str(say.truth_heading),
            ("gold",),
            LEAST_GOLD,
        ),
    )
    return [
        Panel(
            lines,
            axis_of(lines, AXIS_TITLE, least=2 * STEP, step=STEP),
            TIPS,
            LAYERS,
            partial(figure_panel.claims, looks=looks),
            look.share_height / look.panel_height,
            heading,
            note=partial(_shortage, crossing, kinds, least),
        )
        for lines, looks, heading, kinds, least in rows
    ]


def verdict(claims: pd.DataFrame) -> list[str]:
    """Say in how many cells each claim holds."""
    counts, of_row = {}, keys(claims)
    for claim in CLAIMS:
        verdicts = claims["verdict"][of_row == claim]
        yes, no = int((verdicts == "yes").sum()), int((verdicts == "no").sum())
        if len(verdicts):
            counts[claim] = yes, yes + no
    return list(filter(None, say.claims_in_caption(counts).splitlines()))


def shown(drawn: Sequence[Panel]) -> list[str]:
    """Explain filled markers, and say how many pairs the panels `drawn` rest on."""
    pairs = [row.rows.groupby(["model", "dataset", "quantity"])["n"].max() for row in drawn]
    sentences = [say.filled] if any(row.rows["claimed"].any() for row in drawn) else []
    if any(map(len, pairs)):
        sentences.append(say.pairs_shown(*pairs))
    return sentences

"""The two lower rows of the main figure: AUC by layer, and the swap share by layer."""

from functools import partial

import pandas as pd

from anchorscope.claims import CLAIMS, keys
from anchorscope.claims.estimates import HALF
from anchorscope.figures import data, marks, notes
from anchorscope.figures.axis import auc_axis, axis_around
from anchorscope.figures.picture import Panel
from anchorscope.figures.style import ANCHORS, INTERVAL, LAYER, Style
from anchorscope.passes.interventions import REGISTRY
from anchorscope.passes.partners import LEAST_PAIRS
from anchorscope.statements import say

OF_CROSSING = (
    "model dataset site position layer quantity estimate ci_low ci_high n headline"
).split()
OF_CLAIMS = "model dataset site position claim answers verdict reason".split()
OF_CONTROLS = (
    "model dataset site position layer headline probe_auc auc_low auc_high prompt_end_auc floor_auc"
).split()
PROBE, BEFORE, TEXT = "probe", "probe at the prompt's end", "hardest text model"
AUCS = {"probe_auc": (PROBE, "solid"), "prompt_end_auc": (BEFORE, "dashed")}
AUCS |= {"floor_auc": (TEXT, "dotted")}
"""Column of `controls` → name and look of its line."""
ARMS = {"": "solid", "_knockout": "dashed", "_rest": "dotted"}
"""End of a quantity's name → look of its line."""
CHANCE = 0.5
SHARE_TITLE = "Answers that score higher after their own question (%)"
AUC_TIPS = LAYER | {"quantity": ("line", ""), "value": ("AUC", ".3f")} | INTERVAL
SHARE_TIPS = LAYER | {"quantity": ("answers", ""), "value": ("share (%)", ".1f")} | INTERVAL
SHARE_TIPS |= {"pair": ("pair term (logits)", ".2f")}
DRAWN = (
    "model dataset series marker look banded claimed headline layer quantity value low high n"
).split()


def panels(
    controls: pd.DataFrame, crossing: pd.DataFrame, claims: pd.DataFrame, look: Style
) -> list[Panel]:
    """Return the rows of panels for AUC and for swap shares, from labelled tables of a read-out.

    The row of swap shares is left out if no answers were swapped.
    """
    aucs, shares = auc_lines(controls, claims), share_lines(crossing, claims)
    height = look.share_height / look.panel_height
    rows = [
        Panel(
            aucs,
            partial(auc_axis, least=CHANCE),
            AUC_TIPS,
            draw=partial(marks.claims, at=CHANCE),
            height=height,
            heading=say.auc_heading,
            under=marks.headlines,
        ),
        Panel(
            shares,
            partial(axis_around, title=SHARE_TITLE, middle=100 * HALF, least=10),
            SHARE_TIPS,
            draw=partial(marks.claims, at=100 * HALF),
            height=height,
            heading=say.swaps_heading,
            under=marks.headlines,
            note=partial(notes.unjudged, claims, "comparison_right"),
        ),
    ]
    return rows if len(crossing) else rows[:1]


def auc_lines(controls: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of AUC. The probe's is marked at the headline layer if `signal` holds."""
    parts = []
    for column, (name, look) in AUCS.items():
        probe = name == PROBE
        lines = data.numbered(controls, column, n="n", ends="auc" if probe else "no band")
        held = _held(lines, claims, "signal") if probe else False
        parts.append(lines.assign(quantity=name, look=look, banded=probe, claimed=held))
    return _together(parts)


def share_lines(crossing: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of the swap share of right answers, clean and with tokens blocked.

    The clean line is marked at the headline layer if `comparison` holds for right answers, and the
    line with the exact tokens blocked if `through_eq` holds. Cells with too few pairs are left out.
    """
    numbers = data.numbered(crossing, "estimate", 100, n="n", ends="ci")
    few = [
        rows.index
        for _, rows in numbers.groupby(["model", "dataset"])
        if _pairs(rows) < LEAST_PAIRS
    ]
    numbers = numbers.drop(index=[row for index in few for row in index])
    places = ["model", "dataset", "layer"]
    terms = numbers[numbers["quantity"] == "pair_right"].set_index(places)["estimate"]
    held = {"": "comparison_right", "_knockout": "through_eq"}
    parts = []
    for end, look in ARMS.items():
        lines = numbers[numbers["quantity"] == f"share_right{end}"]
        arm = end.removeprefix("_")
        name = f"right answers, {REGISTRY[arm or 'clean'].label}"
        made = _held(lines, claims, held[end]) if end in held else False
        lines = lines.assign(quantity=name, look=look, banded=look != "dotted", claimed=made)
        here = pd.MultiIndex.from_frame(lines[places])
        parts.append(lines.assign(pair=terms.reindex(here).to_numpy() if not arm else float("nan")))
    return _together(parts)


def _held(lines: pd.DataFrame, claims: pd.DataFrame, key: str) -> pd.Series:
    """Return which rows of lines are at the headline layer of a cell where a claim holds."""
    made = claims[(keys(claims) == key) & (claims["verdict"] == "yes")]
    cells = set(zip(made["model"], made["dataset"], strict=True))
    here = [cell in cells for cell in zip(lines["model"], lines["dataset"], strict=True)]
    return lines["headline"] & pd.Series(here, lines.index, dtype=bool)


def _pairs(cell: pd.DataFrame) -> int:
    """Return how many pairs of right answers a cell has."""
    n = cell["n"][cell["quantity"] == "share_right"]
    return 0 if n.empty else int(n.max())


def _together(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Join lines, and give each dataset's the colour of its Q-Anchored series."""
    rows = pd.concat(parts)
    rows = data.by_group(rows[rows["value"].notna()], ANCHORS[0])
    rows = rows.sort_values(["offset", "quantity", "layer"])
    return rows.filter([*DRAWN, "pair"]).round(4)


def verdict(claims: pd.DataFrame) -> list[str]:
    """Say in how many cells each claim holds."""
    counts, of_row = {}, keys(claims)
    for claim in CLAIMS:
        rows = claims[of_row == claim]
        yes, no = (int((rows["verdict"] == one).sum()) for one in ("yes", "no"))
        words = rows["reason"].map(CLAIMS[claim].remarks).value_counts().to_dict()
        if len(rows):
            counts[claim] = yes, yes + no, words
    return list(filter(None, say.claims_in_caption(counts).splitlines()))


def shown(drawn: list[Panel]) -> list[str]:
    """Explain filled markers, and say how many pairs the panels `drawn` rest on."""
    sentences = [say.filled] if any(row.rows["claimed"].any() for row in drawn) else []
    clean = [row.rows[row.rows["look"] == "solid"] for row in drawn[1:]]
    pairs = [rows.groupby(["model", "dataset"])["n"].max() for rows in clean]
    return sentences + [say.pairs_shown(each) for each in pairs if len(each)]

"""Pictures of flips under an experiment's arms and their control, by layer or as bars."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

import pandas as pd

from anchorscope.figures import data, marks, notes, style
from anchorscope.figures.axis import PERCENT, Axis
from anchorscope.figures.picture import Caption, Panel, Picture, Request, by_model
from anchorscope.figures.style import Series
from anchorscope.statements import say

GREY = "#9a9a9a"
EXACT, RANDOM = "exact question tokens", "random question tokens"
TIPS = {"series": ("group", ""), "tokens": ("tokens", ""), "value": ("flips, %", ".1f")}
FLIPS = Axis("Flips (%)", PERCENT)


@dataclass(frozen=True)
class Words:
    """Text of an experiment's pictures."""

    arms: Mapping[str, str]  # arm → heading of its panels, in order
    columns: Iterable[str]  # columns of its table
    what: str  # beginning of the caption; layers, n and intervals follow
    # entry of the legend → column of the table; first the arm, then its control
    tokens: Mapping[str, str] = field(default_factory=lambda: {EXACT: "flips", RANDOM: "random"})


def rows_of(
    table: pd.DataFrame, request: Request, words: Words, label: str = "all"
) -> pd.DataFrame:
    """Return the rows of groups Q and A at the read-out, except rows that count no sample.

    A table without the column `arm` has one arm. `label` selects answers: `0` (right), `1` (wrong)
    or `all`.

    Raises:
        AnchorscopeError: Columns are missing.
    """
    rows = data.shown(table, request, words.columns)
    rows = rows if "arm" in rows else rows.assign(arm=next(iter(words.arms)))
    groups = rows["anchor"].isin(style.ANCHORS) & (rows["label"].astype(str) == label)
    return rows[groups & (rows["n_paired"] > 0)]


def all_answers(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows for all labels and groups together, except rows that count no sample."""
    everyone = (rows["label"].astype(str) == "all") & (rows["anchor"] == "all")
    return rows[everyone & (rows["n_paired"] > 0)]


def bars(rows: pd.DataFrame, request: Request, words: Words) -> Picture:
    """Draw the flips of each dataset's groups at its headline layer, with a row of panels per arm.

    `rows` come from `rows_of`. Without rows, the caption says `not measured`.
    """
    headline = rows[rows["headline"]]
    points, below = beside(points_of(headline, words.tokens)), groups(request)
    panels = [
        Panel(some, FLIPS, TIPS | style.INTERVAL, below, marks.bars, heading=heading)
        for heading, some in _arms(points, words)
    ]
    caption = _caption(headline, request, words, "at the headline layer", "Pale bars")
    return Picture(by_model(request), sorts(words), panels, caption)


def by_layer(rows: pd.DataFrame, request: Request, words: Words) -> Picture:
    """Draw the flips of each dataset's groups by layer, with a row of panels per arm."""
    points = data.by_group(points_of(rows, words.tokens))
    lines = data.in_lines(points, ["arm", "tokens", "condition"])
    panels = [
        Panel(some, FLIPS, style.LAYER | TIPS | style.INTERVAL, heading=heading)
        for heading, some in _arms(lines, words)
    ]
    where = f"by layer; dotted: {[*words.tokens][-1]}"
    caption = _caption(rows, request, words, where, "Crosses", "group at the headline layer")
    return Picture(by_model(request), style.paper_series(request.datasets), panels, caption)


def sorts(words: Words) -> list[Series]:
    """Return the series of bars: the arm and its control."""
    colours = zip(words.tokens, (style.BLUE, GREY), strict=True)
    return [Series(name, colour, [1, 0], "square", line=False) for name, colour in colours]


def beside(points: pd.DataFrame) -> pd.DataFrame:
    """Add the name of each bar (dataset and group), and its series (kind of tokens)."""
    return points.assign(bar=points["dataset"] + "\n" + points["anchor"], series=points["tokens"])


def groups(request: Request) -> Axis:
    """Return the axis of the bars, with the names that `beside` gives them."""
    labels = [label for _, label in request.datasets]
    bars = [f"{label}\n{anchor}" for label, anchor in product(labels, style.ANCHORS)]
    return Axis(None, names=bars, field="bar")


def _arms(rows: pd.DataFrame, words: Words) -> list[tuple[str, pd.DataFrame]]:
    """Return heading and rows of each measured arm, or of the first arm if none was measured."""
    measured = [arm for arm in words.arms if (rows["arm"] == arm).any()] or [*words.arms][:1]
    return [(words.arms[arm], rows[rows["arm"] == arm]) for arm in measured]


def points_of(rows: pd.DataFrame, tokens: Mapping[str, str], factor: float = 100) -> pd.DataFrame:
    """Return a row per group and kind of tokens: `value` is the kind's column times `factor`."""
    points = pd.concat(
        data.numbered(rows, column, factor, tokens=sort, condition=sort)
        for sort, column in tokens.items()
    )
    control = points["tokens"] == [*tokens][-1]
    predicts = points.get("predicts", True)
    return points.assign(chance=control, predicts=predicts)


def _caption(
    rows: pd.DataFrame, request: Request, words: Words, where: str, thin: str, of: str = "group"
) -> Caption:
    """Write the caption: the drawn quantity, n at the headline layer, and samples left out."""
    headline = rows[rows["headline"]]
    return notes.caption(
        request,
        rows,
        f"{words.what}, {where}",
        say.size(headline["n_paired"], f"samples per {of}"),
        details=[notes.left_out(headline, "group at the headline layer")],
        thin=f"{thin}: too few samples to rely on.",
    )

"""Pictures of flips: under an experiment's arms and under their control, by layer or as bars."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from anchorscope.figures import (
    figure_data as data,
    figure_notes as notes,
    figure_panel,
    figure_style as draw,
)
from anchorscope.figures.figure_axis import PERCENT, Axis
from anchorscope.figures.figure_picture import Caption, Panel, Picture, Request, by_model
from anchorscope.figures.figure_style import Series

GREY = "#9a9a9a"
EXACT, RANDOM = "exact question tokens", "random question tokens"
TIPS = {"series": ("group", ""), "tokens": ("tokens", ""), "value": ("flips, %", ".1f")}
FLIPS = Axis("Flips (%)", PERCENT)


@dataclass(frozen=True)
class Words:
    """What an experiment says in its pictures."""

    arms: Mapping[str, str]  # arm → heading of its panels, in order
    columns: Iterable[str]  # of its table
    what: str  # what flips when, to which the caption adds where, n and intervals
    # what is done to a sample, then to its control: in the legend → column of the table
    tokens: Mapping[str, str] = field(default_factory=lambda: {EXACT: "flips", RANDOM: "random"})


def rows_of(
    table: pd.DataFrame, request: Request, words: Words, label: str = "all"
) -> pd.DataFrame:
    """The groups of a table at the read-out in which some sample counts.

    A table without the column `arm` has one arm. `label`: which answers, `0` right, `1` wrong or
    `all`. Raises AnchorscopeError: missing columns.
    """
    rows = data.shown(table, request, words.columns)
    rows = rows if "arm" in rows else rows.assign(arm=next(iter(words.arms)))
    groups = rows["anchor"].isin(draw.ANCHORS) & (rows["label"].astype(str) == label)
    return rows[groups & (rows["n_paired"] > 0)]


def all_answers(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of all answers together, whatever the knockout does to them, where some counts."""
    everyone = (rows["label"].astype(str) == "all") & (rows["anchor"] == "all")
    return rows[everyone & (rows["n_paired"] > 0)]


def bars(rows: pd.DataFrame, request: Request, words: Words) -> Picture:
    """Each dataset's groups at its headline layer: a row of panels for each arm.

    `rows` are of `rows_of`. Says `not measured` where there are none.
    """
    headline = rows[rows["headline"]]
    points = beside(points_of(headline, words.tokens))
    series = sorts(words)
    below = groups(points, request)
    panels = [
        Panel(name, some, FLIPS, TIPS | draw.INTERVAL, below, figure_panel.bars, heading=heading)
        for name, heading, some in _arms(points, words)
    ]
    caption = _caption(headline, request, words, "at the headline layer", "Pale bars")
    return Picture(by_model(request), series, panels, caption)


def by_layer(rows: pd.DataFrame, request: Request, words: Words) -> Picture:
    """The same at every layer, see `bars`."""
    lines = data.in_runs(
        data.by_group(points_of(rows, words.tokens)), ["arm", "tokens", "condition"]
    )
    tips = draw.LAYER | TIPS | draw.INTERVAL
    panels = [
        Panel(name, some, FLIPS, tips, heading=heading)
        for name, heading, some in _arms(lines, words)
    ]
    where = f"by layer; dotted: {[*words.tokens][-1]}"
    caption = _caption(rows, request, words, where, "Crosses")
    series = draw.paper_series(request.datasets)
    return Picture(by_model(request), series, panels, caption)


def sorts(words: Words) -> list[Series]:
    """The series of bars: what is done to a sample, and to its control."""
    colours = zip(words.tokens, (draw.BLUE, GREY), strict=True)
    return [Series(name, colour, [1, 0], "square", line=False) for name, colour in colours]


def beside(points: pd.DataFrame) -> pd.DataFrame:
    """Points as bars: each dataset's groups at a place of their own."""
    return points.assign(bar=points["dataset"] + "\n" + points["anchor"], series=points["tokens"])


def groups(points: pd.DataFrame, request: Request, more: str = "") -> Axis:
    """The axis of such bars; `more`: a place behind the datasets."""
    names = [
        f"{name}\n{one}" for _, name in [*request.datasets, ("", more)] for one in draw.ANCHORS
    ]
    measured = set(points["bar"])
    return Axis(None, names=[name for name in names if name in measured], field="bar")


def _arms(rows: pd.DataFrame, words: Words) -> list[tuple[str, str, pd.DataFrame]]:
    """Name, heading and rows of each arm that was measured; of the first where none was."""
    measured = [arm for arm in words.arms if (rows["arm"] == arm).any()] or [*words.arms][:1]
    return [(arm.replace("-", "_"), words.arms[arm], rows[rows["arm"] == arm]) for arm in measured]


def points_of(rows: pd.DataFrame, tokens: Mapping[str, str], factor: float = 100) -> pd.DataFrame:
    """A row for each group and sort of tokens, with the column of each sort times a factor."""
    points = pd.concat(
        data.numbered(rows, column, factor, tokens=sort, condition=sort)
        for sort, column in tokens.items()
    )
    control = points["tokens"] == [*tokens][-1]
    signal = points.get("signal", True)
    return points.assign(chance=control, signal=signal, point=False)


def _caption(rows: pd.DataFrame, request: Request, words: Words, where: str, thin: str) -> Caption:
    """What is drawn, and how many samples do not count."""
    headline = rows[rows["headline"]]
    return notes.caption(
        request,
        rows,
        f"{words.what}, {where}",
        f"{notes.size_note(headline['n_paired'])} samples per group",
        details=[notes.left_out(headline, "group at the headline layer")],
        thin=f"{thin}: too few samples to rely on.",
    )

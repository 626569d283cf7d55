"""Flips and ΔP under an experiment's arms and their controls: tables, and pictures of flips.

Tables have groups by label and by anchor. Pictures show flips by layer or as bars.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pandas as pd

from anchorscope.experiments.measured import Arrays, PerSample
from anchorscope.figures import data, marks, notes, style
from anchorscope.figures.axis import PERCENT, Axis
from anchorscope.figures.picture import Caption, Panel, Picture, Request, by_model
from anchorscope.figures.style import Series
from anchorscope.statements import say
from anchorscope.statistics.analysis import SHARE, Analysis, Columns, Group, anchored, count
from anchorscope.statistics.bands import ANY, Means
from anchorscope.statistics.samples import effects_of

LABELS = ("all", "0", "1")
"""Labels of the groups: all samples, right answers, wrong answers."""
GREY = "#9a9a9a"
EXACT, RANDOM = "exact question tokens", "random question tokens"
TIPS = {"series": ("group", ""), "tokens": ("tokens", ""), "value": ("flips, %", ".1f")}
FLIPS = Axis("Flips (%)", PERCENT)


@dataclass(frozen=True)
class Arm:
    """Effects of one arm (a condition and its control) on each sample at each layer."""

    counted: np.ndarray  # whether the sample counts, bool [layers, n]
    # column → values that are averaged over the samples that count, [layers, n] or [n]: ΔP in
    # percentage points, flips (0 or 1), shares of draws or tokens, or differences
    values: Mapping[str, np.ndarray]
    facts: Columns = field(default_factory=dict)  # column → fact of the arm


def enough_other_tokens(answers: pd.DataFrame) -> np.ndarray:
    """Return whether a random control acts on as many tokens as E_Q has, bool [n].

    `random_tokens` chooses as many question tokens outside E_Q, or all if there are fewer.
    """
    tokens = zip(answers["question_tokens"], answers["eq_tokens"], strict=True)
    return np.array([len({*question} - {*exact}) >= len({*exact}) for question, exact in tokens])


def against_control(
    measured: Arrays, name: str, control: str, complete: np.ndarray | bool = True
) -> Arm:
    """Compare a condition with its control, sample by sample.

    A sample counts if both were measured, and the control is `complete`, bool [n].

    Returns:
        An arm with values [layers, n]. `flips`: whether the predicted class flips. `random`: the
        share of the control's draws in which it flips. `contrast`: `flips` - `random`. `delta_p`:
        ΔP. `random_delta_p`: mean ΔP of the control's draws. `delta_p_contrast`: the difference.
    """
    clean = measured["clean"][0]
    exact, draws = (effects_of(clean, measured[one]) for one in (name, control))
    counted = exact.measured & draws.measured & complete
    flips, random = (one.flip.mean(axis=0) for one in (exact, draws))
    points, chance = (one.delta_p.mean(axis=0) for one in (exact, draws))
    values = {"flips": flips, "random": random, "contrast": flips - random}
    values |= {"delta_p": points, "random_delta_p": chance, "delta_p_contrast": points - chance}
    return Arm(np.broadcast_to(counted, clean.shape), values)


def table(analysis: Analysis, columns: Iterable[str], arms: Mapping[str, Arm]) -> pd.DataFrame:
    """Return a table with a row for each layer, arm, label and anchor."""
    predicts = analysis.strength["predicts"] if "predicts" in columns else None
    z = analysis.answers["label"].astype(str).to_numpy()
    anchors = anchored(analysis.readout.effects["knockout"].flip[0])
    groups = []
    for (name, arm), label, anchor in product(arms.items(), LABELS, anchors):
        members = ((label == "all") | (z == label)) & anchors[anchor]
        key = {"arm": name, "label": label, "anchor": anchor, "predicts": predicts}
        groups.append(_group(key | arm.facts, arm, members[None]))
    return analysis.by_group(columns, lambda _: groups)


def _group(key: Columns, arm: Arm, members: np.ndarray) -> Group:
    counted = members & arm.counted
    bounds = {"contrast": (-1.0, 1.0)}
    bounds |= dict.fromkeys(("delta_p", "random_delta_p", "delta_p_contrast"), ANY)
    quantities = {
        column: Means(values[None], counted, bounds=bounds.get(column, SHARE))
        for column, values in arm.values.items()
    }
    return Group(key | {"n_paired": count(counted)}, members, counted, quantities)


def per_sample(analysis: Analysis, arms: Mapping[str, Arm]) -> PerSample:
    """Return whether each sample flips at the headline layer."""
    layer, found = analysis.readout.headline, PerSample()
    for name, arm in arms.items():
        flips, random = (
            np.where(arm.counted[layer], arm.values[column][layer], np.nan)
            for column in ("flips", "random")
        )
        found[name, "flip"] = flips, random
    return found


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

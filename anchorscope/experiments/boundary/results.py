"""Results of boundary: the share of refused questions in each group, and its picture by layer."""

import numpy as np
import pandas as pd

from anchorscope.experiments import flips
from anchorscope.experiments.boundary import COLUMNS, KNOCKOUT, RANDOM
from anchorscope.experiments.measured import Arrays, PerSample
from anchorscope.figures import data, notes, style
from anchorscope.figures.axis import PERCENT, Axis
from anchorscope.figures.picture import Caption, Panel, Picture, Request, as_chart, by_model
from anchorscope.statements import say
from anchorscope.statistics.analysis import SHARE, Analysis, Columns, Group, anchored, count
from anchorscope.statistics.bands import Means
from anchorscope.statistics.samples import Effects, effects_of

REFUSED = Axis("Refused (%)", PERCENT)
TIPS = style.LAYER | {
    "series": ("group", ""),
    "groups": ("groups by flips under", ""),
    "value": ("value, %", ".1f"),
}
TIPS |= style.INTERVAL


def table(analysis: Analysis, measured: Arrays) -> pd.DataFrame:
    """Return a row per layer, group-forming condition and anchor, with the share of refusals."""
    random, counted = _control(analysis, measured)
    conditions = {KNOCKOUT.name: analysis.readout.effects[KNOCKOUT.name], RANDOM.name: random}
    groups = [
        _group(
            {"groups": name, "anchor": anchor, "predicts": analysis.strength["predicts"]},
            measured["unknown"],
            members,
            counted,
        )
        for name, effects in conditions.items()
        for anchor, members in anchored(effects.flip).items()
    ]
    return analysis.by_group(COLUMNS, lambda _: groups)


def per_sample(analysis: Analysis, measured: Arrays) -> PerSample:
    """Return each question's refusal; its control is the refusal of a random question."""
    _, counted = _control(analysis, measured)
    others = np.random.default_rng(0).permutation(np.flatnonzero(counted))
    value = np.where(counted, measured["unknown"], np.nan)
    control = np.full_like(value, np.nan)
    control[counted] = value[others]
    return {("boundary", "unknown"): (value, control)}


def _control(analysis: Analysis, measured: Arrays) -> tuple[Effects, np.ndarray]:
    """Return the effects of random tokens blocked, and whether each sample counts, bool [n]."""
    effects = effects_of(measured["clean"][0], measured[RANDOM.name])
    return effects, effects.measured & flips.enough_other_tokens(analysis.answers)


def _group(key: Columns, unknown: np.ndarray, members: np.ndarray, counted: np.ndarray) -> Group:
    """Average `unknown` [n] over the `members` [draws, layers, n] that are `counted` [n]."""
    among = members & counted & ~np.isnan(unknown)
    means = Means(unknown[None, None], among, placements=len(members), bounds=SHARE)
    return Group(key | {"n_paired": count(among)}, members, among, {"unknown": means})


@as_chart
def layers(table: pd.DataFrame, request: Request) -> Picture:
    """Draw a panel per model, with a line for each dataset, group-forming condition and group."""
    rows = data.shown(table, request, COLUMNS)
    rows = rows[rows["anchor"].isin(style.ANCHORS)]
    points = data.numbered(rows, "unknown", 100)
    points = points.assign(chance=points["groups"] == RANDOM.name, condition=points["groups"])
    lines = data.in_lines(data.by_group(points), ["groups", "condition"])
    series = style.paper_series(request.datasets)
    panel = Panel(lines, REFUSED, TIPS)
    return Picture(by_model(request), series, [panel], _caption(rows, request))


def _caption(rows: pd.DataFrame, request: Request) -> Caption:
    """Write the caption: the drawn share, how groups are formed, and n."""
    counted = rows[(rows["groups"] == KNOCKOUT.name) & (rows["n_paired"] > 0)]
    headline = counted[counted["headline"]]
    return notes.caption(
        request,
        rows if len(headline) else headline,
        "Share of questions that the model refuses once the prompt allows refusing; groups are "
        "formed by the flips under the knockout (dotted: with random question tokens blocked)",
        say.size(headline["n_paired"], "samples per group at the headline layer"),
        ["No question was refused."] if len(headline) and not rows["unknown"].any() else [],
    )

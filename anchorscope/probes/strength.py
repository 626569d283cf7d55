"""Strength: whether a probe predicts the label, and better than text models of the same text.

At a layer, a probe predicts the label if the clustered bootstrap interval of its AUC lies above
0.6. It exceeds a text model (floor), or the probe at the prompt's end, if the paired gain in AUC is
surely above 0. The variance of refitted probes and floors widens the intervals of gains (`bands`).
Otherwise, a lucky fit of the probe would pass for knowledge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from anchorscope.probes import bands, intervals, samples
from anchorscope.probes.intervals import ClusterDraws

LEAST_AUC, CHANCE = 0.6, 0.5
"""A probe predicts if its AUC is surely above the first. AUCs to beat count as at least the second,
since turning predictions round beats them."""
QUESTION = (("question", "letters"), ("question", "order"))
RESPONSE = (("response", "letters"), ("response", "order"))
FLOORS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "answer": (("ea_text", "letters"), ("relation", "whole")),
    "question": QUESTION,
    "response": RESPONSE,
    "text": (*QUESTION, *RESPONSE),
}
"""Floor → the features that it reads, as (column of the answers, kind); for kinds see `floors`.
`response` is the text after the prompt.
"""
APPLY = {"prompt_end": ("question",)}
"""Position → floors that apply there. At all other positions, all floors apply."""
Strength = Mapping[str, np.ndarray]
"""Column → values, [layers], see `of_scores`."""


@dataclass(frozen=True)
class Again:
    """Out-of-fold scores of the probes and floors refitted to each bootstrap draw."""

    drawn: ClusterDraws
    s: np.ndarray  # scores of the probes, [draws, layers, n]
    floors: Mapping[str, np.ndarray]  # floor → its scores, [draws, n]


def of_scores(
    s: np.ndarray,
    position: str,
    answers: pd.DataFrame,
    floors: pd.DataFrame | None,
    drawn: ClusterDraws,
    level: float,
    again: Again | None = None,
) -> Strength:
    """Measure how well scores tell right from wrong answers, compared with the hardest floor.

    `s` is [layers, n], in the order of the answers. `floors` is the table of `floors.floors`, or
    None. Refitted models (`again`) widen the interval of the gain.

    Returns:
        Arrays [layers]: `predicts`; `probe_auc`, with interval `auc_low`, `auc_high`; `floor`, the
        floor with the lowest `gain_low`; its `floor_auc`; and `gain`, which is `probe_auc` minus
        `floor_auc` (at least .5), with `gain_low`, `gain_high`. Without floors, these last five are
        blank. Claims use the columns of `margin`, over 0.6 and over the floors.

    Raises:
        AnchorscopeError: Floors and answers have different samples.
    """
    z = answers["label"].to_numpy(dtype=np.int64)
    aucs = drawn.aucs(s, z)  # [1 + draws, layers]
    columns = {"probe_auc": aucs[0], **intervals.ends("auc", aucs[1:], level)}
    columns["predicts"] = columns["auc_low"] > LEAST_AUC
    least = aucs[:, None] - LEAST_AUC
    if floors is None:
        columns |= margin(least, [str(LEAST_AUC)], drawn, level)
        none = np.full(len(s), np.nan)
        names = ("floor_auc", "gain", "gain_low", "gain_high")
        return columns | {"floor": np.full(len(s), "", dtype=object)} | dict.fromkeys(names, none)
    by_floor = scores(floors, answers)
    applying = [name for name in APPLY.get(position, tuple(by_floor)) if name in by_floor]
    of_text = {name: by_floor[name] for name in applying}
    gains = excess(s, of_text, z, drawn, again)
    columns |= margin(
        np.concatenate([least, gains], axis=1), [str(LEAST_AUC), *applying], drawn, level
    )
    gain_low, gain_high = intervals.percentile(gains[1:], level)
    hardest, layers = gain_low.argmin(0), np.arange(len(s))
    floor_auc = np.array([intervals.auc(one, z) for one in of_text.values()])
    return columns | {
        "floor": np.array(applying, dtype=object)[hardest],
        "floor_auc": floor_auc[hardest],
        "gain": gains[0, hardest, layers],
        "gain_low": gain_low[hardest, layers],
        "gain_high": gain_high[hardest, layers],
    }


def excess(
    s: np.ndarray,
    others: Mapping[str, np.ndarray],
    z: np.ndarray,
    drawn: ClusterDraws,
    again: Again | None = None,
) -> np.ndarray:
    """Return the AUC of `s` [layers, n] minus that of each other prediction (at least .5).

    `others` maps names to scores [n]. The result is [1 + draws, others, layers]: first over all
    samples, then over each draw. Refitted models (`again`) stretch the draws about the first.
    """
    found = _gains(drawn, s, np.stack([*others.values()]), z)
    if again is not None:
        fixed = _gains(again.drawn, s, np.stack([*others.values()]), z)[1:]
        learned_anew = []
        for number, weights in enumerate(again.drawn.weights):
            one_draw = replace(again.drawn, weights=weights[None])
            of_others = np.stack([again.floors[name][number] for name in others])
            learned_anew.append(_gains(one_draw, again.s[number], of_others, z)[1])
        found[1:] = found[0] + bands.inflation(fixed, np.array(learned_anew)) * (
            found[1:] - found[0]
        )
    return found


def margin(
    gains: np.ndarray, names: Sequence[str], drawn: ClusterDraws, level: float
) -> dict[str, np.ndarray]:
    """Return the gain with the smallest ratio to its standard error, and what it is over.

    `gains` are [1 + draws, names, layers]. Columns: `hardest`, the name; `margin`, the gain;
    `margin_error`, its bootstrap error; `margin_low`, `margin_high` and `margin_p`, by Student's t
    over clusters.
    """
    error = np.fmax(gains[1:].std(0), 1e-9)  # a gain that never varies counts as certain
    value, freedom = gains[0], max(1, drawn.weights.shape[1] - 1)
    low, high, p = intervals.by_t(value, error, freedom, level)
    hardest = np.nan_to_num(value / error, nan=-np.inf).argmin(0)
    columns = {"": value, "_error": error, "_low": low, "_high": high, "_p": p}
    found = {
        f"margin{end}": np.take_along_axis(one, hardest[None], axis=0)[0]
        for end, one in columns.items()
    }
    return found | {"hardest": np.array(names, dtype=object)[hardest]}


def _gains(drawn: ClusterDraws, s: np.ndarray, others: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the gains of `excess`, with the models as fitted."""
    beaten = np.fmax(CHANCE, drawn.aucs(others, z))
    return drawn.aucs(s, z)[:, None] - beaten[..., None]


def scores(floors: pd.DataFrame, answers: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return {floor: scores}. Scores are float64 [n], in the order of `answers`.

    Raises:
        AnchorscopeError: Floors and answers have different samples.
    """
    return {
        str(name): samples.aligned(part, answers, "s", f"floor {name}")
        for name, part in floors.groupby("floor", sort=False)
    }

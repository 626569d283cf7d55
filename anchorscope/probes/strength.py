"""Strength: whether a probe knows more than text models that read the same text.

A read-out has a signal at a layer if the AUC of its probe is significantly above 0.6 and above the
AUC of every text model (floor) that applies: the clustered bootstrap interval of the AUC lies above
0.6, and the interval of each paired gain above 0. The variance of refitted probes and floors widens
the intervals of gains (`bands`). Otherwise, a lucky fit of the probe would pass for knowledge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from anchorscope.probes import bands, intervals, samples
from anchorscope.probes.intervals import ClusterDraws

LEAST_AUC = 0.6
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

    `s` is [layers, n], in the order of the answers. `floors` is the table of `floors.floors`; if it
    is None, an AUC above 0.6 suffices. Refitted models (`again`) widen the interval of the gain.

    Returns:
        Arrays [layers]: `signal`; `probe_auc`, with interval `auc_low`, `auc_high`; `floor`, the
        floor with the lowest `gain_low`; its `floor_auc`; and `gain`, which is `probe_auc` minus
        `floor_auc`, with `gain_low`, `gain_high`. Without floors, these last five are blank.
        Claims use other columns: `hardest` is the floor (or `0.6`) that the probe's AUC exceeds by
        the fewest standard errors, and `margin` is this excess. `margin_error` is its bootstrap
        error. `margin_low`, `margin_high` and `margin_p` use Student's t over clusters.

    Raises:
        AnchorscopeError: Floors and answers have different samples.
    """
    z = answers["label"].to_numpy(dtype=np.int64)
    aucs = drawn.aucs(s, z)  # [1 + draws, layers]
    columns = {"probe_auc": aucs[0], **intervals.ends("auc", aucs[1:], level)}
    columns["signal"] = columns["auc_low"] > LEAST_AUC
    least = aucs[:, None] - LEAST_AUC
    if floors is None:
        columns |= _margin(least, [str(LEAST_AUC)], drawn, level)
        none = np.full(len(s), np.nan)
        names = ("floor_auc", "gain", "gain_low", "gain_high")
        return columns | {"floor": np.full(len(s), "", dtype=object)} | dict.fromkeys(names, none)
    by_floor = scores(floors, answers)
    applying = [name for name in APPLY.get(position, tuple(by_floor)) if name in by_floor]
    of_text = np.stack([by_floor[name] for name in applying])
    of_floors = drawn.aucs(of_text, z)
    gains = aucs[:, None] - of_floors[..., None]  # [1 + draws, floors, layers]
    if again is not None:
        fixed = _gains(again.drawn, s, of_text, z)
        gains[1:] = gains[0] + _inflation(fixed, again, applying, z) * (gains[1:] - gains[0])
    gain_low, gain_high = intervals.percentile(gains[1:], level)
    hardest, layers = gain_low.argmin(0), np.arange(len(s))
    every = np.concatenate([least, gains], axis=1)
    columns |= _margin(every, [str(LEAST_AUC), *applying], drawn, level)
    return columns | {
        "floor": np.array(applying, dtype=object)[hardest],
        "floor_auc": of_floors[0, hardest],
        "gain": gains[0, hardest, layers],
        "gain_low": gain_low[hardest, layers],
        "gain_high": gain_high[hardest, layers],
        "signal": columns["signal"] & (gain_low.min(0) > 0),
    }


def _margin(
    margins: np.ndarray, names: Sequence[str], drawn: ClusterDraws, level: float
) -> dict[str, np.ndarray]:
    """Return the margin with the smallest ratio to its standard error, and the floor behind it."""
    error = np.fmax(margins[1:].std(0), 1e-9)  # a margin that never varies counts as certain
    value, freedom = margins[0], max(1, drawn.weights.shape[1] - 1)
    low, high, p = intervals.by_t(value, error, freedom, level)
    hardest = np.nan_to_num(value / error, nan=-np.inf).argmin(0)
    columns = {"": value, "_error": error, "_low": low, "_high": high, "_p": p}
    found = {
        f"margin{end}": np.take_along_axis(one, hardest[None], axis=0)[0]
        for end, one in columns.items()
    }
    return found | {"hardest": np.array(names, dtype=object)[hardest]}


def _gains(drawn: ClusterDraws, s: np.ndarray, of_text: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return [draws, floors, layers]: AUC of `s` [layers, n] minus AUC of `of_text` [floors, n]."""
    return drawn.aucs(s, z)[1:, None] - drawn.aucs(of_text, z)[1:, :, None]


def _inflation(
    fixed: np.ndarray, again: Again, applying: Sequence[str], z: np.ndarray
) -> np.ndarray:
    """Return [floors, layers]: how much more the gain varies if probe and floor are refitted."""
    learned_anew = []
    for number, weights in enumerate(again.drawn.weights):
        one_draw = replace(again.drawn, weights=weights[None])
        of_text = np.stack([again.floors[name][number] for name in applying])
        learned_anew.append(_gains(one_draw, again.s[number], of_text, z)[0])
    return bands.inflation(fixed, np.array(learned_anew))


def scores(floors: pd.DataFrame, answers: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return {floor: scores}. Scores are float64 [n], in the order of `answers`.

    Raises:
        AnchorscopeError: Floors and answers have different samples.
    """
    return {
        str(name): samples.aligned(part, answers, "s", f"floor {name}")
        for name, part in floors.groupby("floor", sort=False)
    }

"""Strength: whether a probe knows more than the text that its state has read.

A read-out has a signal at a layer where the AUC of its probe is surely above 0.6 and surely above
that of every floor that applies (`floors`). "Surely" is the lower end of a clustered
bootstrap interval; the differences are paired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anchorscope.probes import intervals, samples
from anchorscope.probes.intervals import Bootstrap
from anchorscope.probes.samples import Readout
from anchorscope.storage.errors import AnchorscopeError

LEAST_AUC = 0.6
APPLY = {"prompt_end": ("question",)}
"""Floors at positions that have not read the whole text; elsewhere all apply."""


@dataclass(frozen=True)
class Strength:
    """How well a probe tells right from wrong answers, beside the floor hardest to beat.

    Every attribute is an array over layers [layers] or, for a cell, over one entry.

    Attributes:
        auc, low, high: AUC of the clean probe with its interval.
        floor: name of the floor with the smallest lower end of the gain; "" without floors.
        floor_auc: its AUC; NaN without floors.
        gain, gain_low, gain_high: AUC above that floor, paired.
        signal: whether the AUC is surely above 0.6 and every gain surely above 0.
    """

    auc: np.ndarray
    low: np.ndarray
    high: np.ndarray
    floor: np.ndarray
    floor_auc: np.ndarray
    gain: np.ndarray
    gain_low: np.ndarray
    gain_high: np.ndarray
    signal: np.ndarray


Found = Mapping[str, tuple[Strength, Strength]]
"""Read-out → its strength at every layer, and as a whole."""


def find(
    scores: pd.DataFrame,
    answers: pd.DataFrame,
    floors: pd.DataFrame | None,
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Found:
    """The strength of every read-out of a cell; arguments as of `curve.curve`.

    Raises:
        AnchorscopeError: scores, answers and floors are not of the same samples.
    """
    answers = samples.in_order(answers)
    drawn = samples.bootstrap(answers, draws, seed)
    return {
        one.name: look_up(None, one, answers, floors, drawn, level)
        for one in samples.readouts(scores, answers)
    }


def look_up(
    known: Found | None,
    readout: Readout,
    answers: pd.DataFrame,
    floors: pd.DataFrame | None,
    drawn: Bootstrap,
    level: float,
) -> tuple[Strength, Strength]:
    """A read-out's of `Found`; found now where it is not known, see `by_layer`."""
    if known is not None:
        return known[readout.name]
    given = (readout, answers, floors, drawn, level)
    return by_layer(*given), of_cell(*given)


def by_layer(
    readout: Readout,
    answers: pd.DataFrame,
    floors: pd.DataFrame | None,
    drawn: Bootstrap,
    level: float,
) -> Strength:
    """The strength at every layer.

    Args:
        readout: one of `samples.readouts`.
        answers: as `samples.in_order` returns them.
        floors: the table of `anchorscope.probes.floors.floors`; None asks for AUC above 0.6 alone.
        drawn, level: the bootstrap, and the level of its intervals.

    Raises:
        AnchorscopeError: the floors are not of the same samples.
    """
    return _strength(readout.clean, readout.position, answers, floors, drawn, level)


def of_cell(
    readout: Readout,
    answers: pd.DataFrame,
    floors: pd.DataFrame | None,
    drawn: Bootstrap,
    level: float,
) -> Strength:
    """The strength of the read-out as a whole, each sample scored at its own fold's layer.

    No sample has a say in the choice of the layer that scores it. Arguments: see `by_layer`.
    """
    return _strength(readout.own[None], readout.position, answers, floors, drawn, level)


def scores(floors: pd.DataFrame, answers: pd.DataFrame) -> dict[str, np.ndarray]:
    """Floor → its score of each answer, float64 [n].

    Raises:
        AnchorscopeError: the floors are not of the same samples.
    """
    return {
        str(name): samples.aligned(part, answers, "s", f"floor {name}")
        for name, part in floors.groupby("floor", sort=False)
    }


def _strength(
    s: np.ndarray,
    position: str,
    answers: pd.DataFrame,
    floors: pd.DataFrame | None,
    drawn: Bootstrap,
    level: float,
) -> Strength:
    z = answers["label"].to_numpy(dtype=np.int64)
    auc = np.array([intervals.auc(layer, z) for layer in s])
    replicates = drawn.aucs(s, z)
    low, high = intervals.percentile(replicates, level)
    if floors is None:
        none = np.full(len(s), np.nan)
        names = np.full(len(s), "", dtype=object)
        return Strength(auc, low, high, names, none, none, none, none, low > LEAST_AUC)
    known = scores(floors, answers)
    applying = [name for name in APPLY.get(position, tuple(known)) if name in known]
    if not applying:
        raise AnchorscopeError(
            f"no floor applies to the position {position}",
            f"the table holds: {', '.join(known)}",
            "delete the cell's scores and run snakemake again",
            see="stale-product",
        )
    beside = np.array([intervals.auc(known[name], z) for name in applying])
    ends = []
    for name in applying:
        ends.append(intervals.percentile(replicates - drawn.aucs(known[name][None], z), level))
    gain_low, gain_high = np.moveaxis(np.array(ends), 1, 0)  # [floors, layers] each
    hardest = gain_low.argmin(0)
    at = (hardest, np.arange(len(s)))
    return Strength(
        auc=auc,
        low=low,
        high=high,
        floor=np.array(applying, dtype=object)[hardest],
        floor_auc=beside[hardest],
        gain=auc - beside[hardest],
        gain_low=gain_low[at],
        gain_high=gain_high[at],
        signal=(low > LEAST_AUC) & (gain_low.min(0) > 0),
    )


def added(
    readout: Readout, before: Readout, z: np.ndarray, drawn: Bootstrap, level: float
) -> dict[str, np.ndarray]:
    """The AUC at the same site before the answer is read, and what reading it adds, [layers].

    Args:
        readout: after the answer.
        before: at `prompt_end`.
        z: labels, [n].
        drawn, level: the bootstrap, and the level of its intervals.
    """
    replicates = drawn.aucs(before.clean, z)
    low, high = intervals.percentile(replicates, level)
    more = drawn.aucs(readout.clean, z) - replicates
    added_low, added_high = intervals.percentile(more, level)
    return {
        "prompt_end_auc": before.auc,
        "prompt_end_low": low,
        "prompt_end_high": high,
        "added_auc": readout.auc - before.auc,
        "added_low": added_low,
        "added_high": added_high,
    }

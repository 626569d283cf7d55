"""Strength: whether a probe knows more than models of the text that its state has read.

A read-out has a signal at a layer where the AUC of its probe is surely above 0.6 and surely above
that of every floor that applies (`floors`). "Surely" is the lower end of a clustered
bootstrap interval; the differences are paired.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from anchorscope.probes import intervals, samples
from anchorscope.probes.intervals import Bootstrap

LEAST_AUC = 0.6
APPLY = {"prompt_end": ("question",)}
"""Floors at positions that have not read the whole text; elsewhere all apply."""
Strength = Mapping[str, np.ndarray]
"""Column → what it holds of each layer, see `of_scores`."""


def of_scores(
    s: np.ndarray,
    position: str,
    answers: pd.DataFrame,
    floors: pd.DataFrame | None,
    drawn: Bootstrap,
    level: float,
) -> Strength:
    """How well scores s [layers, n] tell right from wrong answers, beside the hardest floor.

    Args:
        s, position: the scores, and where they are read.
        answers: as `samples.in_order` returns them.
        floors: the table of `anchorscope.probes.floors.floors`; None asks for AUC above 0.6 alone.
        drawn, level: the bootstrap, and the level of its intervals.

    Returns:
        Arrays [layers]: `probe_auc`, `auc_low`, `auc_high`; `floor`, the name of the floor with the
        smallest lower end of the gain, and `floor_auc`, blank without floors; `gain`, `gain_low`,
        `gain_high`, the AUC above that floor, paired; `signal`.

    Raises:
        AnchorscopeError: the floors are not of the same samples, or none applies.
    """
    z = answers["label"].to_numpy(dtype=np.int64)
    aucs = drawn.aucs(s, z)  # [1 + draws, layers]
    columns = {"probe_auc": aucs[0], **intervals.ends("auc", aucs[1:], level)}
    columns["signal"] = columns["auc_low"] > LEAST_AUC
    if floors is None:
        none = np.full(len(s), np.nan)
        names = ("floor_auc", "gain", "gain_low", "gain_high")
        return columns | {"floor": np.full(len(s), "", dtype=object)} | dict.fromkeys(names, none)
    by_floor = scores(floors, answers)
    applying = [name for name in APPLY.get(position, tuple(by_floor)) if name in by_floor]
    if not applying:
        what = f"no floor applies to the position {position}"
        raise samples.mismatch(what, f"the table of floors holds: {', '.join(by_floor)}")
    of_floors = drawn.aucs(np.stack([by_floor[name] for name in applying]), z)
    gains = aucs[:, None] - of_floors[..., None]  # [1 + draws, floors, layers]
    gain_low, gain_high = intervals.percentile(gains[1:], level)
    hardest, layers = gain_low.argmin(0), np.arange(len(s))
    return columns | {
        "floor": np.array(applying, dtype=object)[hardest],
        "floor_auc": of_floors[0, hardest],
        "gain": gains[0, hardest, layers],
        "gain_low": gain_low[hardest, layers],
        "gain_high": gain_high[hardest, layers],
        "signal": columns["signal"] & (gain_low.min(0) > 0),
    }


def scores(floors: pd.DataFrame, answers: pd.DataFrame) -> dict[str, np.ndarray]:
    """Floor → its score of each answer, float64 [n].

    Raises AnchorscopeError: the floors are not of the same samples.
    """
    return {
        str(name): samples.aligned(part, answers, "s", f"floor {name}")
        for name, part in floors.groupby("floor", sort=False)
    }

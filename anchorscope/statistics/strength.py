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

from anchorscope.statistics import bands, intervals
from anchorscope.statistics.intervals import Estimate, Resamples

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


@dataclass(frozen=True)
class Gain:
    """A gain in AUC of a probe over other predictions of the same labels."""

    estimate: Estimate  # by Student's t over clusters, with the bootstrap's error
    over: str  # the prediction that the probe exceeds least clearly
    n: int  # samples
    clusters: float  # clusters of samples


@dataclass(frozen=True)
class Predictions:
    """Scores of a probe, and of the text models that apply to it, by models as fitted and refits.

    The axis [1 + refits] holds the models as fitted first, then those refitted to each resample.
    """

    s: np.ndarray  # of the probe, [1 + refits, layers, n]
    texts: Mapping[str, np.ndarray]  # text model → its scores, [1 + refits, n]; {} if unknown
    z: np.ndarray  # labels, int64 [n]
    resamples: Resamples
    learned_from: Resamples | None = None  # the resamples of the refits

    def aucs(self) -> np.ndarray:
        """Return the probe's AUC, [1 + resamples, layers]: over all samples, then each resample."""
        return self.resamples.aucs(self.s[0], self.z)

    def gains(self) -> np.ndarray:
        """Return the AUC of the probe minus that of each text model (at least .5).

        The result is [1 + resamples, texts, layers]. Refits stretch the resamples about the first.
        """
        versions = list(zip(self.s, np.stack([*self.texts.values()], axis=1), strict=True))

        def gain(version: tuple[np.ndarray, np.ndarray], resamples: Resamples) -> np.ndarray:
            s, others = version
            beaten = np.fmax(CHANCE, resamples.aucs(others, self.z))
            return resamples.aucs(s, self.z)[:, None] - beaten[..., None]

        def replicates(version: tuple[np.ndarray, np.ndarray], resamples: Resamples) -> np.ndarray:
            return gain(version, resamples)[1:]

        value = gain(versions[0], replace(self.resamples, weights=self.resamples.weights[:0]))[0]
        return bands.widened(value, replicates, versions, self.resamples, self.learned_from)[0]


def applying(position: str, texts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the `texts` that apply at a position."""
    return {name: texts[name] for name in APPLY.get(position, tuple(FLOORS)) if name in texts}


def by_layer(of: Predictions, level: float) -> dict[str, np.ndarray]:
    """Measure how well a probe tells right from wrong answers, compared with the hardest floor.

    Returns:
        Arrays [layers]: `predicts`; `probe_auc`, with interval `auc_low`, `auc_high`; `floor`, the
        floor with the lowest `gain_low`; its `floor_auc`; and `gain`, which is `probe_auc` minus
        `floor_auc` (at least .5), with `gain_low`, `gain_high`. Without floors, these last five are
        blank.
    """
    columns = Estimate.of_resamples(of.aucs(), level).columns("probe_auc", "auc")
    columns["predicts"] = columns["auc_low"] > LEAST_AUC
    layers = np.arange(of.s.shape[1])
    if not of.texts:
        blank = np.full(len(layers), np.nan)
        columns |= Estimate(blank, low=blank, high=blank).columns("gain")
        return columns | {"floor": np.full(len(layers), "", dtype=object), "floor_auc": blank}
    gain = Estimate.of_resamples(of.gains(), level)
    hardest = gain.low.argmin(0)
    floor_auc = np.array([intervals.auc(one[0], of.z) for one in of.texts.values()])
    columns |= {name: one[hardest, layers] for name, one in gain.columns("gain").items()}
    names = np.array([*of.texts], dtype=object)
    return columns | {"floor": names[hardest], "floor_auc": floor_auc[hardest]}


def over_text(of: Predictions, level: float) -> Gain:
    """Return the gain over 0.6 and the text models, of a probe with a single layer."""
    gains, names = of.aucs() - LEAST_AUC, [str(LEAST_AUC)]
    if of.texts:
        gains = np.concatenate([gains, of.gains()[..., 0]], axis=1)
        names += map(over_model, of.texts)
    return margin(gains, names, of, level)


def over_model(name: str) -> str:
    """Return what `Gain.over` calls a text model."""
    return f"the text model `{name}`"


def margin(gains: np.ndarray, names: Sequence[str], of: Predictions, level: float) -> Gain:
    """Return the gain that is smallest in standard errors. `gains` [1 + resamples, names]."""
    error = np.fmax(gains[1:].std(0), 1e-9)  # a gain that never varies counts as certain
    least = int(np.nan_to_num(gains[0] / error, nan=-np.inf).argmin())
    n, clusters = len(of.z), of.resamples.weights.shape[1]
    value = gains[0, least], error[least]
    return Gain(Estimate.by_t(*value, max(1, clusters - 1), level), names[least], n, clusters)

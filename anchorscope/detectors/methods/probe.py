"""Probes as detectors: at the headline layer, before the answer, and of all layers together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from anchorscope.detectors.linear import LinearScorer
from anchorscope.detectors.method import Training
from anchorscope.passes.features import Features, at
from anchorscope.probes import fitting, platt, probes
from anchorscope.probes.fitting import Design, Fitted
from anchorscope.probes.samples import deepest_layer
from anchorscope.probes.strength import LEAST_AUC


def fit_probe(train: Training) -> LinearScorer:
    """The read-out's probe at the layer of highest inner AUC, the deepest within .01 of it."""
    return headline(train, train.samples.readout)


def fit_before(train: Training) -> LinearScorer:
    """The same at the prompt's end: no word of the answer has been read."""
    return headline(train, train.samples.before)


def fit_ensemble(train: Training) -> LinearScorer:
    """The mean logit of the probes of all layers with an inner AUC above .6.

    Those of layers near chance only add noise. Where there is none, the headline layer's.
    """
    readout = train.samples.readout
    fitted = learned(train, readout)
    inner_auc = fitted.inner_auc[:, 0]
    layers = np.flatnonzero(inner_auc > LEAST_AUC).tolist() or [deepest_layer(inner_auc)]
    slope, offset = calibration(train, held_out(train, readout, layers).mean(0))
    each = [linear(fitted, readout, layer) for layer in layers]
    weights = slope * np.concatenate([one.weights for one in each]) / len(each)
    bias = slope * np.mean([one.bias for one in each]) + offset
    return LinearScorer(readout, tuple(layers), weights, float(bias))


def headline(train: Training, readout: str) -> LinearScorer:
    """The probe of a read-out at its headline layer."""
    return linear(learned(train, readout), readout, headline_layer(train, readout))


def headline_layer(train: Training, readout: str) -> int:
    """The layer that the inner folds choose."""
    return deepest_layer(learned(train, readout).inner_auc[:, 0])


def with_probes(train: Training) -> Training:
    """The training samples with probes of every read-out, which several methods share."""
    return replace(train, fitted={name: learned(train, name) for name in train.samples.states})


def learned(train: Training, readout: str) -> Fitted:
    """The probes of every layer of a read-out: those that are known, else fitted now."""
    if readout in train.fitted:
        return train.fitted[readout]
    return fit(train, train.samples.states[readout])


def fit(train: Training, x: Features) -> Fitted:
    """One probe for each layer of features [layers, n, width], with its penalty and calibration."""
    return fitting.fit(x, design(train), device=train.device)


def design(train: Training) -> Design:
    """One training fold that holds all samples, with its inner folds; logits at its own prior."""
    calibrated = {"scoring": "calibrated", "prior": "natural"}
    return Design(
        where="the training answers",
        ids=train.samples.answers["id"].astype(str).to_numpy(dtype=object),
        z=train.label,
        fold=np.full(len(train), -1),
        inner=train.inner[None],
        settings=train.settings.model_copy(update=calibrated),
    )


def linear(fitted: Fitted, readout: str, layer: int) -> LinearScorer:
    """A calibrated probe as a scorer, its logits at the training prior."""
    slope, offset = float(fitted.t[layer, 0]), float(fitted.offset[layer, 0])
    weights = fitted.probes.weights[layer].double().cpu().numpy()
    bias = float(fitted.probes.bias[layer, 0])
    return LinearScorer(readout, (layer,), slope * weights, slope * bias + offset)


def by_inner_folds(train: Training, held_out: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Logits of the training samples, each by what learned from the other inner folds.

    `held_out` is told which samples are in a fold, bool [n], and gives their logits.
    """
    logits = np.empty(len(train))
    for fold in np.unique(train.inner):
        here = train.inner == fold
        logits[here] = held_out(here)
    return logits


def calibration(train: Training, logits: np.ndarray) -> tuple[float, float]:
    """Slope and offset that make held-out logits [n] of the training samples a probability."""
    slope, offset = platt.calibrate(logits[None], train.label)
    return float(slope[0]), float(offset[0])


def of_numbers(train: Training, x: np.ndarray) -> LinearScorer:
    """A calibrated regression on numbers [n, columns] that are no states."""
    return linear(fit(train, torch.tensor(x, dtype=torch.float32)[None]), "", 0)


def held_out(
    train: Training, readout: str, layers: list[int], states: Features | None = None
) -> np.ndarray:
    """Calibrated logits of the training samples by probes of the other inner folds.

    Penalty and calibration are those of the probe of all of them.

    Args:
        layers: at which to score.
        states: to score, by default the clean ones that the probes learn from.

    Returns:
        float64 [layers, n], at the training prior.
    """
    fitted = learned(train, readout).at(layers)
    clean = at(train.samples.states[readout], layers)
    numbers = range(int(train.inner.max()) + 1)
    masks = np.stack([train.inner != number for number in numbers])
    penalties = np.repeat(fitted.c, len(masks), axis=1)
    inner = probes.fit(clean, train.label, masks, penalties, device=train.device)
    logits = inner.logits(clean if states is None else at(states, layers)).cpu().numpy()
    raw = logits[:, train.inner, np.arange(len(train))]
    return fitted.t * raw + fitted.offset


def threshold(train: Training) -> float:
    """The logit at the training prior from which on a probe says *wrong*, as in the figures."""
    return 0.0 if train.settings.prior == "natural" else train.log_odds


def pathways(train: Training) -> np.ndarray:
    """Whether the knockout flips what the probe says of each training sample, int64 [n].

    By probes of the other inner folds, at the headline layer.
    """
    assert train.knockout is not None, "see `needs` of the methods"
    readout = train.samples.readout
    layers = [headline_layer(train, readout)]
    limit = threshold(train)
    clean, cut = (
        held_out(train, readout, layers, states)[0] > limit for states in (None, train.knockout)
    )
    return (clean != cut).astype(np.int64)


def fittable(label: np.ndarray, inner: np.ndarray) -> bool:
    """Whether a probe of labels [n] can be fitted, and chosen by inner folds [n]."""
    folds = range(int(inner.max(initial=0)) + 1)
    return len(folds) > 1 and all(
        (inner == fold).any() and len(np.unique(label[inner != fold])) == 2 for fold in folds
    )

"""Probes as detectors: at the headline layer, at the prompt's end, and averaged over layers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from anchorscope.detectors.method import LinearScorer, Training
from anchorscope.passes.features import Features, at
from anchorscope.probes import fitting, platt, probes
from anchorscope.probes.fitting import Design, Fitted
from anchorscope.statistics.samples import deepest_layer
from anchorscope.statistics.strength import LEAST_AUC


def fit_probe(train: Training) -> LinearScorer:
    """Fit the read-out's probe at the deepest layer whose inner AUC is within .01 of the best."""
    return headline(train, train.samples.readout)


def fit_before(train: Training) -> LinearScorer:
    """Fit the probe at the prompt's end, where no word of the answer has been read."""
    return headline(train, train.samples.before)


def fit_ensemble(train: Training) -> LinearScorer:
    """Average the probes' logits over all layers whose inner AUC is above .6.

    Layers near chance only add noise. If no layer is above .6, use the headline layer.
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
    """Return the probe of a read-out at its headline layer."""
    return linear(learned(train, readout), readout, headline_layer(train, readout))


def headline_layer(train: Training, readout: str) -> int:
    """Return the layer that the inner folds choose."""
    return deepest_layer(learned(train, readout).inner_auc[:, 0])


def learned(train: Training, readout: str) -> Fitted:
    """Return a read-out's probes, one per layer. Fit them unless `train` already holds them."""
    if readout in train.fitted:
        return train.fitted[readout]
    return fit(train, train.samples.states[readout])


def fit(train: Training, x: Features) -> Fitted:
    """Fit, tune and calibrate one probe per layer of features [layers, n, width].

    This is a single fit to all training samples. The prior is their share of label 1.
    """
    design = Design(
        where="the training answers",
        ids=train.samples.answers["id"].to_numpy(dtype=object),
        z=train.label,
        fold=np.full(len(train), -1),
        inner=train.inner[None],
        stands_for=np.ones(len(train)),
        settings=train.settings.model_copy(update={"prior": "natural"}),
    )
    return fitting.fit(x, design, device=train.device)


def linear(fitted: Fitted, readout: str, layer: int) -> LinearScorer:
    """Return a calibrated probe as a scorer. Its prior is the training share of label 1."""
    slope, offset = float(fitted.t[layer, 0]), float(fitted.offset[layer, 0])
    weights = fitted.probes.weights[layer].double().cpu().numpy()
    bias = float(fitted.probes.bias[layer, 0])
    return LinearScorer(readout, (layer,), slope * weights, slope * bias + offset)


def by_inner_folds(train: Training, held_out: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return float64 [n]: the logit of each training sample, from a fit without its inner fold.

    `held_out` takes the mask of a fold, bool [n], fits to the rest, and returns the fold's logits.
    """
    logits = np.empty(len(train))
    for fold in np.unique(train.inner):
        here = train.inner == fold
        logits[here] = held_out(here)
    return logits


def calibration(train: Training, logits: np.ndarray) -> tuple[float, float]:
    """Return slope and offset that turn held-out logits [n] into log-odds of *wrong*."""
    slope, offset = platt.calibrate(logits[None], train.label)
    return float(slope[0]), float(offset[0])


def of_numbers(train: Training, x: np.ndarray) -> LinearScorer:
    """Fit a calibrated regression on features [n, columns] other than states."""
    return linear(fit(train, torch.tensor(x, dtype=torch.float32)[None]), "", 0)


def held_out(
    train: Training, readout: str, layers: list[int], states: Features | None = None
) -> np.ndarray:
    """Return float64 [layers, n]: each training sample's logits, from fits without its inner fold.

    Penalty, calibration and prior come from the probe that is fitted to all training samples. If
    `states` are given, these are scored in place of the clean states.
    """
    fitted = learned(train, readout).part(layers)
    clean = at(train.samples.states[readout], layers)
    masks = train.inner != np.arange(train.inner.max() + 1)[:, None]
    penalties = np.repeat(fitted.c, len(masks), axis=1)
    inner = probes.fit(clean, train.label, masks, penalties, device=train.device)
    logits = inner.logits(clean if states is None else at(states, layers)).cpu().numpy()
    raw = logits[:, train.inner, np.arange(len(train))]
    return fitted.t * raw + fitted.offset


def threshold(train: Training) -> float:
    """Return the logit above which an answer counts as wrong in the figures."""
    return 0.0 if train.settings.prior == "natural" else train.prior


def pathways(train: Training) -> np.ndarray:
    """Return int64 [n]: 1 if the knockout flips the prediction for the training sample, else 0.

    Predictions are those of `held_out` at the headline layer.
    """
    assert train.knockout is not None, "see `needs` of the methods"
    readout = train.samples.readout
    layers, limit = [headline_layer(train, readout)], threshold(train)
    clean, cut = (held_out(train, readout, layers, x)[0] for x in (None, train.knockout))
    return ((clean > limit) != (cut > limit)).astype(np.int64)


def fittable(label: np.ndarray, inner: np.ndarray) -> bool:
    """Return whether a probe of `label` [n] can be fitted and tuned on the folds `inner` [n]."""
    folds = range(int(inner.max(initial=0)) + 1)
    return len(folds) > 1 and all(
        (inner == fold).any() and len(np.unique(label[inner != fold])) == 2 for fold in folds
    )

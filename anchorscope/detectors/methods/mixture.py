"""Mixture of probes: one probe per pathway, weighted by the predicted pathway.

The method follows the Mixture of Probes of arXiv 2601.07422. The pathway of a training sample comes
from a probe that was fitted to the other inner folds. New samples need no knockout: to score them,
the gate reads only clean states.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from anchorscope.detectors.method import LinearScorer, Samples, Training
from anchorscope.detectors.methods import probe
from anchorscope.passes.interventions import seeded
from anchorscope.statistics.samples import sigmoid

LEAST_SAMPLES = 20
"""Fewest samples to fit an expert to. If there are fewer, the probe of all samples is used."""
LEAST = 1e-12
"""Probabilities are clipped to [`LEAST`, 1 − `LEAST`]."""


@dataclass(frozen=True)
class RandomGate:
    """A gate that returns a random number between 0 and 1, determined by seed and id."""

    seed: int

    def score(self, samples: Samples) -> np.ndarray:
        """Return the log-odds of the random number, float64 [n]; states are ignored."""
        ids = samples.answers["id"]
        return _log_odds([seeded(f"gate/{self.seed}/{id_}").random() for id_ in ids])


@dataclass(frozen=True)
class MixtureScorer:
    """The probabilities of two experts, weighted by the gate's probability."""

    gate: LinearScorer | RandomGate  # logits of Q-Anchored
    experts: tuple[LinearScorer, LinearScorer]  # of Q- and of A-Anchored samples

    def score(self, samples: Samples) -> np.ndarray:
        """Return the logits of *wrong*, float64 [n]."""
        weight = sigmoid(self.gate.score(samples))
        of_question, of_answer = (sigmoid(expert.score(samples)) for expert in self.experts)
        return _log_odds(weight * of_question + (1 - weight) * of_answer)


def _log_odds(p: ArrayLike) -> np.ndarray:
    p = np.clip(p, LEAST, 1 - LEAST)
    return np.log(p / (1 - p))


def fit_mixture(train: Training) -> MixtureScorer:
    """Fit a gate and two experts: one on Q-Anchored and one on A-Anchored training samples."""
    pathway = probe.pathways(train)
    return MixtureScorer(gate(train, pathway), _experts(train, pathway))


def fit_random_gate(train: Training) -> MixtureScorer:
    """Fit the experts of `fit_mixture`, and weight them by a random gate."""
    return MixtureScorer(RandomGate(train.settings.seed), _experts(train, probe.pathways(train)))


def fit_vanilla_experts(train: Training) -> MixtureScorer:
    """Fit the gate of `fit_mixture`, and two experts that ignore the pathways.

    Each expert is fitted to a bootstrap draw. On all samples, both would be the same probe.
    """
    generator = np.random.default_rng(train.settings.seed)
    n = len(train)
    draws = (np.unique(generator.integers(n, size=n)) for _ in range(2))
    first, second = (_expert(train, rows) for rows in draws)
    return MixtureScorer(gate(train, probe.pathways(train)), (first, second))


def gate(train: Training, pathway: np.ndarray) -> LinearScorer:
    """Fit a probe that predicts `pathway`, int64 [n]. The inner folds choose its layer.

    All layers are tried. If only the headline layer were allowed, the gate would read the same
    state as the probe of right and wrong. If no probe can be fitted, the gate is constant.
    """
    if not probe.fittable(pathway, train.inner):
        return constant(train, float(pathway.mean()))
    return probe.headline(train.labelled(pathway), train.samples.readout)


def constant(train: Training, share: float) -> LinearScorer:
    """Return a gate that gives all samples the same probability."""
    any_probe = probe.headline(train, train.samples.readout)
    return replace(any_probe, weights=0 * any_probe.weights, bias=float(_log_odds(share)))


def _experts(train: Training, pathway: np.ndarray) -> tuple[LinearScorer, LinearScorer]:
    """Fit the experts of the Q-Anchored and of the A-Anchored samples."""
    of_question, of_answer = (_expert(train, np.flatnonzero(pathway == one)) for one in (1, 0))
    return of_question, of_answer


def _expert(train: Training, rows: np.ndarray) -> LinearScorer:
    """Fit a probe to the samples at the indices `rows`, at the layer chosen on all samples."""
    readout = train.samples.readout
    layer = probe.headline_layer(train, readout)
    some = train.rows(rows)
    some = replace(some, inner=np.unique(some.inner, return_inverse=True)[1])
    if len(rows) < LEAST_SAMPLES or not probe.fittable(some.label, some.inner):
        return probe.headline(train, readout)
    fitted = probe.fit(some, some.samples.states[readout][layer : layer + 1])
    return replace(probe.linear(fitted, readout, 0), layers=(layer,))

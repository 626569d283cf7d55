"""Mixture of probes: one for each pathway, weighted by the pathway that the states predict.

After the Mixture of Probes of arXiv 2601.07422. Which pathway a training sample uses is told by
probes of other inner folds; of a sample that is scored, the gate reads its clean states alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from anchorscope.detectors.linear import LinearScorer
from anchorscope.detectors.method import Samples, Training
from anchorscope.detectors.methods import probe
from anchorscope.passes.interventions import seeded
from anchorscope.probes.samples import sigmoid

LEAST_SAMPLES = 20
"""With fewer samples of a pathway its expert is the probe of all of them."""
LEAST_ODDS = 1e-12


@dataclass(frozen=True)
class RandomGate:
    """A number between 0 and 1 that seed and id decide."""

    seed: int

    def score(self, samples: Samples) -> np.ndarray:
        """Its log-odds, whatever the states are, float64 [n]."""
        ids = samples.answers["id"].astype(str)
        return _log_odds([seeded(f"gate/{self.seed}/{id_}").random() for id_ in ids])


@dataclass(frozen=True)
class MixtureScorer:
    """The probabilities of two experts, weighted by that of the first one's pathway."""

    gate: LinearScorer | RandomGate  # logits of Q-Anchored
    experts: tuple[LinearScorer, LinearScorer]  # of Q- and of A-Anchored samples

    def score(self, samples: Samples) -> np.ndarray:
        """Logits of *wrong*, float64 [n]."""
        weight = sigmoid(self.gate.score(samples))
        of_question, of_answer = (sigmoid(expert.score(samples)) for expert in self.experts)
        return _log_odds(weight * of_question + (1 - weight) * of_answer)


def _log_odds(p: ArrayLike) -> np.ndarray:
    """Of probabilities, which are taken to be `LEAST_ODDS` from 0 and 1 at least."""
    p = np.clip(p, LEAST_ODDS, 1 - LEAST_ODDS)
    return np.log(p / (1 - p))


def fit_mixture(train: Training) -> MixtureScorer:
    """Experts of the Q- and of the A-Anchored training samples, and a gate."""
    pathway = probe.pathways(train)
    return MixtureScorer(gate(train, pathway), _experts(train, pathway))


def fit_random_gate(train: Training) -> MixtureScorer:
    """The same experts behind a gate that knows nothing."""
    return MixtureScorer(RandomGate(train.settings.seed), _experts(train, probe.pathways(train)))


def fit_vanilla_experts(train: Training) -> MixtureScorer:
    """The same gate before experts that know nothing of pathways.

    Each learns from a bootstrap draw of all training samples: fitted to all, both would be the
    probe itself.
    """
    generator = np.random.default_rng(train.settings.seed)
    n = len(train)
    draws = (np.unique(generator.integers(n, size=n)) for _ in range(2))
    first, second = (_expert(train, rows) for rows in draws)
    return MixtureScorer(gate(train, probe.pathways(train)), (first, second))


def gate(train: Training, pathway: np.ndarray) -> LinearScorer:
    """A probe of the pathway, int64 [n], at the layer that tells it best by inner folds.

    All layers are tried: at the headline layer the same state decides on which side of the
    threshold a sample lies. Where none can be fitted, the pathway's share among the samples.
    """
    if not probe.fittable(pathway, train.inner):
        return constant(train, float(pathway.mean()))
    return probe.headline(train.labelled(pathway), train.samples.readout)


def constant(train: Training, share: float) -> LinearScorer:
    """A gate that says the same of all samples."""
    any_probe = probe.headline(train, train.samples.readout)
    return replace(any_probe, weights=0 * any_probe.weights, bias=float(_log_odds(share)))


def _experts(train: Training, pathway: np.ndarray) -> tuple[LinearScorer, LinearScorer]:
    """The probes of the Q- and of the A-Anchored samples."""
    of_question, of_answer = (_expert(train, np.flatnonzero(pathway == one)) for one in (1, 0))
    return of_question, of_answer


def _expert(train: Training, rows: np.ndarray) -> LinearScorer:
    """A probe of some training samples, int64 places, at the headline layer of all of them."""
    readout = train.samples.readout
    layer = probe.headline_layer(train, readout)
    some = train.rows(rows)
    inner = np.unique(some.inner, return_inverse=True)[1]
    if len(rows) < LEAST_SAMPLES or not probe.fittable(some.label, inner):
        return probe.headline(train, readout)
    training = Training(some.samples, some.label, inner, some.settings, device=some.device)
    fitted = probe.fit(training, some.samples.states[readout][layer : layer + 1])
    return replace(probe.linear(fitted, readout, 0), layers=(layer,))

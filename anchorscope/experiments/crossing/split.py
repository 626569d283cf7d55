"""The logit of two answers behind two questions, split into what belongs to each and to the pair.

A 2 x 2 table of scores is the sum of a mean, a question, an answer and a pair term, exactly: the
interaction contrast of two factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anchorscope.probes.intervals import mean_known, ratio

LEAST_COSINE = 0.1
"""Below this, what refits have in common with a probe is as good as nothing."""


@dataclass(frozen=True)
class Split:
    """The terms of each sample, in logits towards *right*; NaN where it is in no pair.

    float64 [layers, n], or [refits, layers, n] as the probes of several refits see them. Both
    samples of a pair have the same pair term, and question and answer terms of opposite sign.
    """

    question: np.ndarray
    answer: np.ndarray
    pair: np.ndarray

    @property
    def terms(self) -> np.ndarray:
        """The three, one after the other: [3, ..., layers, n]."""
        return np.stack([self.question, self.answer, self.pair])

    @property
    def crossed(self) -> np.ndarray:
        """Who is in a pair whose four passes were all scored, bool [n]."""
        return ~np.isnan(self.pair).any(tuple(range(self.pair.ndim - 1)))

    def of(self, rows: np.ndarray) -> Split:
        """The terms of some samples, places or bool [n]."""
        return Split(*self.terms[..., rows])


def split(clean: np.ndarray, crossed: np.ndarray, partner: np.ndarray) -> Split:
    """Split scores by pair.

    Args:
        clean: the score of each answer behind its own question, float64 [..., layers, n]; like all
            scores a logit of *wrong*.
        crossed: behind the partner's question; NaN where not measured.
        partner: the place of each sample's partner among the samples, int64 [n]; -1 for none.

    Raises:
        ValueError: a partner's partner is somebody else.
    """
    paired = partner >= 0
    if (partner[partner[paired]] != np.flatnonzero(paired)).any():
        raise ValueError("the partner of a sample's partner is not the sample")
    own = -clean
    theirs = np.where(paired, own[..., partner], np.nan)  # their answer behind their question
    moved = np.where(paired, -crossed, np.nan)  # the own answer behind their question
    taken = np.where(paired, moved[..., partner], np.nan)  # their answer behind the own question
    return Split(
        question=((own + taken) - (moved + theirs)) / 4,
        answer=((own + moved) - (taken + theirs)) / 4,
        pair=((own + theirs) - (moved + taken)) / 4,
    )


def at_own_size(own: Split, refits: Split, fold: np.ndarray) -> Split:
    """Refits [refits, layers, n] brought to the size of the probe, so that slopes have no say.

    The slope of a probe that knows next to nothing is luck, and collapses in a refit, which then
    seems to vary little. A refit is the probe times some size, and at right angles to it what its
    draw changed. So in each fold (of each sample, [n]) and layer a refit's terms get the length of
    the probe's, then all are divided by their mean cosine to these: on average their projection on
    the probe is the probe.
    """
    sized, cosines = np.full_like(refits.terms, np.nan), []
    for one in np.unique(fold[own.crossed]):
        here = own.crossed & (fold == one)
        probe, moved = own.terms[:, None, :, here], refits.terms[..., here]
        length, lengths = (np.sqrt((terms**2).sum((0, -1))) for terms in (probe, moved))
        cosines.append(ratio((probe * moved).sum((0, -1)), length * lengths))
        sized[..., here] = moved * ratio(length, lengths)[..., None]
    mean = mean_known(mean_known(np.array(cosines), 0), 0)
    return Split(*(sized / np.fmax(mean, LEAST_COSINE)[:, None]))

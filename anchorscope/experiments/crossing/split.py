"""The logit of two answers behind two questions, split into what belongs to each and to the pair.

A 2 x 2 table of scores is the sum of a mean, a question, an answer and a pair term, exactly: the
interaction contrast of two factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Split:
    """The terms of each sample, float64 [layers, n], in logits towards *right*; NaN without pair.

    Both samples of a pair have the same pair term, and question and answer terms of opposite sign.
    """

    pair: np.ndarray
    question: np.ndarray
    answer: np.ndarray

    @property
    def crossed(self) -> np.ndarray:
        """Who is in a pair of which all four passes were scored, bool [n]."""
        return ~np.isnan(self.pair).any(0)


def split(clean: np.ndarray, crossed: np.ndarray, partner: np.ndarray) -> Split:
    """Split scores by pair.

    Args:
        clean: the score of each answer behind its own question, float64 [layers, n]; like all
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
    theirs = np.where(paired, own[:, partner], np.nan)  # the partner's answer behind its question
    moved = np.where(paired, -crossed, np.nan)  # the own answer behind the partner's question
    taken = np.where(paired, moved[:, partner], np.nan)  # the partner's behind the own one
    return Split(
        pair=(own + theirs - moved - taken) / 4,
        question=(own + taken - moved - theirs) / 4,
        answer=(own + moved - taken - theirs) / 4,
    )

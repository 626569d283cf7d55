"""How good scores of answers are: what detection is judged by, on every bootstrap draw at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.isotonic import isotonic_regression

from anchorscope.probes import intervals, platt
from anchorscope.probes.intervals import ratio
from anchorscope.probes.samples import sigmoid

COVERAGES = {"accuracy_80": 0.8, "accuracy_90": 0.9}
Values = dict[str, np.ndarray]
"""Metric → its value in each draw, float64 [draws]; NaN where a draw has one class."""


@dataclass(frozen=True)
class Ordered:
    """Answers from the least to the most likely wrong, those of equal rank in one group."""

    mass: np.ndarray  # answers of each group, float64 [draws, groups]
    wrong: np.ndarray  # wrong ones among them, likewise

    @classmethod
    def by(cls, rank: np.ndarray, z: np.ndarray, weights: np.ndarray) -> Ordered:
        """Order answers by rank [n]; `weights` [draws, n] say how often each was drawn."""
        order = np.argsort(rank, kind="stable")
        starts = np.flatnonzero(np.diff(rank[order], prepend=-np.inf) != 0)
        drawn = weights[:, order]
        mass = np.add.reduceat(drawn, starts, axis=1)
        return cls(mass, np.add.reduceat(drawn * z[order], starts, axis=1))

    @property
    def right(self) -> np.ndarray:
        """Right answers of each group."""
        return self.mass - self.wrong

    def auprc(self) -> np.ndarray:
        """Average precision: the mean over wrong answers of the precision down to their group."""
        rejected = self.mass[:, ::-1].cumsum(1)
        caught = self.wrong[:, ::-1].cumsum(1)
        precision = ratio(caught, rejected)
        gained = np.where(rejected > 0, self.wrong[:, ::-1] * precision, 0.0)
        return ratio(gained.sum(1), self.wrong.sum(1))

    def prr(self) -> np.ndarray:
        """(area − accuracy) / (the best possible area − accuracy).

        The area is the mean accuracy of the k least likely wrong answers over all k; of a group of
        ties the mean over its orders (Malinin & Gales, 2021; the random baseline is the accuracy).
        """
        everyone, right = self.mass.sum(1), self.right.sum(1)
        accuracy = ratio(right, everyone)
        harmonic = np.concatenate([[0], np.cumsum(1 / np.arange(1, everyone.max(initial=0) + 1))])
        ends = self.mass.cumsum(1)
        starts = ends - self.mass
        share = np.divide(self.right, self.mass, out=np.zeros_like(ends), where=self.mass > 0)
        before = self.right.cumsum(1) - self.right
        # Σ over k in the group of (before + (k − start) · share) / k
        sums = harmonic[ends.astype(np.int64)] - harmonic[starts.astype(np.int64)]
        area = ((before - starts * share) * sums + share * self.mass).sum(1) / everyone
        kept = right.astype(np.int64)
        best = (right + right * (harmonic[everyone.astype(np.int64)] - harmonic[kept])) / everyone
        return ratio(area - accuracy, best - accuracy)

    def accuracy_at(self, coverage: float) -> np.ndarray:
        """Share of right answers among the least likely wrong ones kept; ties are averaged."""
        ends = np.pad(self.mass.cumsum(1), ((0, 0), (1, 0)))
        right = np.pad(self.right.cumsum(1), ((0, 0), (1, 0)))
        wanted = coverage * ends[:, -1]
        n_right = [np.interp(*row) for row in zip(wanted, ends, right, strict=True)]
        return ratio(np.array(n_right), wanted)

    def isotonic(self) -> np.ndarray:
        """Brier score of the best probabilities that rise with the rank (Dimitriadis et al., 2021).

        It equals the sum over blocks of their size times share · (1 − share).
        """
        scores = np.full(len(self.mass), np.nan)
        for draw, (mass, wrong) in enumerate(zip(self.mass, self.wrong, strict=True)):
            drawn = mass > 0
            share = isotonic_regression(wrong[drawn] / mass[drawn], sample_weight=mass[drawn])
            scores[draw] = (wrong[drawn] * (1 - share)).sum() / mass.sum()
        return scores


def metrics(rank: np.ndarray, s: np.ndarray, z: np.ndarray, weights: np.ndarray) -> Values:
    """Every metric in every draw.

    - `auroc`: area under the ROC curve of wrong against right answers.
    - `auprc`: average precision at finding wrong answers.
    - `prr`: prediction rejection ratio: 0 as good as chance, 1 all wrong answers rejected first.
    - `brier`: mean squared error of the probability, miscalibration − discrimination + uncertainty.
    - `miscalibration`: part of the Brier score that isotonic regression would take away.
    - `discrimination`: by how much that regression beats the share of wrong answers.
    - `uncertainty`: Brier score of the share of wrong answers.
    - `ece`: expected calibration error, ten bins of equal width.
    - `accuracy_80`, `accuracy_90`: share of right answers among the 80 or 90 % least likely wrong.

    Args:
        rank: what orders the answers, higher for more likely wrong, float64 [n].
        s: logits of *wrong*, whose probabilities are judged, float64 [n].
        z: 1 for a wrong answer, [n].
        weights: how often each answer was drawn, [draws, n].
    """
    by_rank = Ordered.by(rank, z, weights)
    everyone, wrong = weights.sum(1), weights @ z
    base = ratio(wrong, everyone)
    p = sigmoid(s)
    brier = ratio(weights @ (p - z) ** 2, everyone)
    uncertainty = base * (1 - base)
    isotonic = Ordered.by(s, z, weights).isotonic()
    values = {
        "auroc": intervals.aucs(rank, z, weights),
        "auprc": by_rank.auprc(),
        "prr": by_rank.prr(),
        "brier": brier,
        "miscalibration": brier - isotonic,
        "discrimination": uncertainty - isotonic,
        "uncertainty": uncertainty,
        "ece": platt.ece(p, z, weights),
        **{name: by_rank.accuracy_at(share) for name, share in COVERAGES.items()},
    }
    one_class = (wrong == 0) | (wrong == everyone)
    return {name: np.where(one_class, np.nan, of) for name, of in values.items()}

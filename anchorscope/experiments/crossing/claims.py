"""What may be claimed of a read-out's pairs: each claim's steps, verdict and reason.

A score that adds up something read off the question and something read off the answer has a pair
term of 0. `interaction` and `own answer` say that it has one, in pairs answered right and wrongly;
`truth`, that right answers which the model did not give score above the wrong ones which it gave,
behind the questions they belong to; `through E_Q`, that the pair term passes through the tokens
that name subject and property.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from anchorscope.experiments.crossing import adjustment
from anchorscope.experiments.crossing.estimates import (
    Dependence,
    Estimate,
    dependence,
    estimate,
    mean,
)
from anchorscope.experiments.crossing.terms import ANSWER, MEAN, PAIR, QUESTION, term

YES, NO, TOO_FEW, NOT_MEASURED = "yes", "no", "too few", "not measured"
"""The verdicts of a claim."""
SAYS = {
    "interaction": "the probe's score is no sum of what it reads of question and answer",
    "own_answer": "the probe prefers the model's own answers behind the question they were given "
    "to",
    "truth": "the probe scores right answers that the model did not give above the wrong ones that "
    "it gave, behind the questions they belong to, beyond the model's log-probability",
    "through_eq": "the comparison of answer and question passes through the exact question tokens",
}
"""Claim → what it says, wherever a verdict is put into words."""
LEAVES_OPEN = {
    "own_answer": "truth and likelihood are not told apart",
    "truth": "mere compatibility is not excluded",
}
"""Claim → what has to be said with it."""
LEAST_PAIRS, LEAST_GOLD, LEAST_CLUSTERS = 10, 50, 10
"""A claim needs as many pairs, `truth` as many with gold answers, and clusters of them."""
LEVEL = 0.95
POWERS = (1, 2, 3)
"""Of the log-probability, whose curve a score may follow."""
NOTHING = Estimate(*np.full(5, np.nan))
"""What is not estimated, since pairs are too few or it has no meaning."""


@dataclass(frozen=True)
class Answers:
    """Two answers of each pair, behind both questions, at one layer.

    Scores are calibrated logits towards *right*, in the order of `terms`. A pair with a score that
    is NaN is left out.
    """

    scores: np.ndarray  # float64 [4, pairs]
    subjects: np.ndarray  # of the questions, int64 [2, pairs]
    texts: np.ndarray  # the answers, int64 [2, pairs]: equal texts are one
    imitated: np.ndarray  # pair terms of the text imitator, float64 [pairs]
    log_p: np.ndarray  # sums over each answer's tokens, float64 [4, pairs]; NaN where unknown
    refits: np.ndarray | None = None  # as refitted probes score them, float64 [4, refits, pairs]

    @property
    def known(self) -> np.ndarray:
        """Which pairs are scored, bool [pairs]."""
        refits = np.zeros((4, 1, 1)) if self.refits is None else self.refits
        return np.isfinite(self.scores).all(0) & np.isfinite(refits).all((0, 1))

    @property
    def known_everywhere(self) -> np.ndarray:
        """The same of scores of several layers, [4, layers, pairs]."""
        return np.isfinite(self.scores).all((0, 1))

    def of(self, rows: np.ndarray) -> Answers:
        """Those of some pairs."""
        return Answers(
            scores=self.scores[:, rows],
            subjects=self.subjects[:, rows],
            texts=self.texts[:, rows],
            imitated=self.imitated[rows],
            log_p=self.log_p[:, rows],
            refits=None if self.refits is None else self.refits[..., rows],
        )

    def term(self, which: np.ndarray) -> np.ndarray:
        """A term of the scores, and then of each refit: [1 + refits, pairs]."""
        refits = np.empty((4, 0, *self.scores.shape[1:])) if self.refits is None else self.refits
        return term(which, np.concatenate([self.scores[:, None], refits], axis=1))


@dataclass(frozen=True)
class Claim:
    """One claim of one read-out."""

    verdict: str
    p: float = np.nan  # the largest of the steps'; NaN if there is no answer
    steps: Mapping[str, Estimate] = field(default_factory=dict)
    n: int = 0  # pairs
    clusters: float = 0.0
    reason: str = ""  # why there is no answer


def interaction(right: Answers, level: float = LEVEL) -> Claim:
    """The pair term of answers that are right is above 0, and above the imitator's."""
    return _claim(right.of(right.known), "right", level)


def own_answer(wrong: Answers, level: float = LEVEL) -> Claim:
    """The pair term of answers that are wrong is above 0, and above the imitator's."""
    return _claim(wrong.of(wrong.known), "wrong", level)


def _claim(own: Answers, name: str, level: float) -> Claim:
    pairs = dependence(own.subjects, own.texts)
    steps = _above_text(own, pairs, name, level)
    return _judged(steps, own.scores.shape[1], pairs.clusters, LEAST_PAIRS, level)


def truth(wrong: Answers, gold: Answers | None, level: float = LEVEL) -> Claim:
    """Gold answers have a pair term that own wrong ones of the same pairs lack, other things equal.

    That of the golds is above 0, above the imitator's, and above that of the own answers, also
    `at_equal` mean, product of question and answer term, log-probability and imitator. And it is
    not read off the log-probability with a slope or curve of its own: that leaves something
    `unexplained`, or the own answers' pair term, which it would make positive, is below 0. Pairs
    without log-probability are left out.
    """
    if gold is None:
        return Claim(NOT_MEASURED, reason="gold answers were not scored")
    scored = wrong.known & gold.known
    rows = scored & np.isfinite(wrong.log_p + gold.log_p).all(0)
    if scored.any() and not rows.any():
        return Claim(NOT_MEASURED, reason="log-probabilities are not known")
    wrong, gold = wrong.of(rows), gold.of(rows)
    pairs = dependence(gold.subjects, gold.texts, wrong.texts)
    above = gold.term(PAIR) - wrong.term(PAIR)
    steps = _above_text(gold, pairs, "gold", level)
    steps["gold_wrong"] = _mean(above, pairs, level)
    n = int(rows.sum())
    few = shortage(n, pairs.clusters, LEAST_GOLD)
    steps["gold_wrong_equal"] = NOTHING if few else _at_equal(wrong, gold, pairs, level)
    found = _judged(steps, n, pairs.clusters, LEAST_GOLD, level)
    unexplained = NOTHING if few else _unexplained(gold, pairs, level)
    one_of = min(float(unexplained.p), float(_mean(-wrong.term(PAIR), pairs, level).p))
    p = float(max(found.p, min(1.0, 2 * one_of)))  # Bonferroni
    verdict = found.verdict if few else YES if p < 1 - level else NO
    return replace(found, verdict=verdict, p=p, steps={**steps, "gold_unexplained": unexplained})


def through(
    clean: Claim, answers: Mapping[str, Answers] | None, name: str, level: float = LEVEL
) -> Claim:
    """A claim's pair term is smaller with E_Q cut than with random tokens cut, over the same pairs.

    `name` is that of the pairs, "right" or "wrong". The step `<name>_passes` is the share of the
    pair term that passes through E_Q, 1 − P_cut / P_clean, and no condition; it is NaN unless
    P_clean is above 0.

    Args:
        clean: `interaction` or `own_answer`.
        answers: of the same pairs: "clean", "random" and "cut"; None if they were not scored.
    """
    if answers is None:
        return Claim(NOT_MEASURED, reason="pairs were not scored with tokens cut")
    if clean.verdict not in (YES, NO):
        return clean
    known = np.all([one.known for one in answers.values()], axis=0)
    some = {key: one.of(known) for key, one in answers.items()}
    pairs = dependence(some["cut"].subjects, some["cut"].texts)
    terms = {key: one.term(PAIR) for key, one in some.items()}
    lost = {f"{name}_random_cut": _mean(terms["random"] - terms["cut"], pairs, level)}
    steps = {**clean.steps, **lost}
    found = _judged(steps, int(known.sum()), pairs.clusters, LEAST_PAIRS, level)
    if found.reason:  # the claim itself has enough pairs
        found = replace(found, reason=f"{found.reason} with as many other tokens")
    share = _share_lost(terms["clean"], terms["cut"], pairs, level)
    return replace(found, steps={**lost, f"{name}_passes": share})


def either(right: Claim, wrong: Claim, level: float = LEVEL) -> Claim:
    """One of two claims holds: the p is twice the smaller one (Bonferroni)."""
    judged = [one for one in (right, wrong) if one.verdict in (YES, NO)]
    if not judged:
        return replace(right, reason=f"right: {right.reason}; wrong: {wrong.reason}")
    best = min(judged, key=lambda one: one.p)
    p = min(1.0, len(judged) * best.p)
    steps = {**right.steps, **wrong.steps}
    return replace(best, verdict=YES if p < 1 - level else NO, p=p, steps=steps)


def _above_text(
    answers: Answers, pairs: Dependence, name: str, level: float
) -> dict[str, Estimate]:
    """The mean pair term, and by how much it is above the text imitator's."""
    pair = answers.term(PAIR)
    above = _mean(pair - answers.imitated, pairs, level)
    return {f"pair_{name}": _mean(pair, pairs, level), f"{name}_above_text": above}


def _mean(values: np.ndarray, pairs: Dependence, level: float) -> Estimate:
    """Of values of the probe and of its refits, [1 + refits, pairs]."""
    return mean(values[0], pairs, level, values[1:])


def _unexplained(gold: Answers, pairs: Dependence, level: float) -> Estimate:
    """What the golds' own log-probability and the imitator leave of their pair term.

    Where it follows the log-probability, with whatever slope or curve, and however otherwise the
    own answers' does, nothing is left where that has no pair term.
    """
    log_p = gold.log_p - gold.log_p.mean()
    powers = [term(PAIR, log_p**power) for power in POWERS]
    values, parts = adjustment.unexplained(
        gold.term(PAIR), np.stack([*powers, gold.imitated], axis=-1)
    )
    return estimate(values[0], parts[0], pairs, level, values[1:])


def _at_equal(wrong: Answers, gold: Answers, pairs: Dependence, level: float) -> Estimate:
    """By how much the golds' pair term is above that of the own answers, other things equal.

    Where a score loses a share behind a strange question, its pair term grows with its mean; where
    it is a gain times an answer's score, with the product of question and answer term; where it
    follows the log-probability, with that one's pair term, and on a curve with those of its powers.
    """
    products = [one.term(QUESTION) * one.term(ANSWER) for one in (gold, wrong)]
    log_p = np.stack([gold.log_p, wrong.log_p])
    log_p -= log_p.mean()
    texts = [term(PAIR, log_p[0] ** power - log_p[1] ** power) for power in POWERS]
    texts.append(gold.imitated - wrong.imitated)
    scores = [gold.term(which) - wrong.term(which) for which in (PAIR, MEAN)]
    every = [*scores, products[0] - products[1], *texts]
    columns = np.stack(np.broadcast_arrays(*every), axis=-1)
    values = adjustment.at_equal(columns)
    return estimate(values[0], adjustment.parts(columns[0]), pairs, level, values[1:])


def _share_lost(clean: np.ndarray, cut: np.ndarray, pairs: Dependence, level: float) -> Estimate:
    """1 − P_cut / P_clean of pair terms [1 + refits, pairs], its error by linearisation."""
    whole = _mean(clean, pairs, level)
    if not whole.low > 0:
        return NOTHING
    left = cut.mean(-1) / clean.mean(-1)
    errors = (left[0] * clean[0] - cut[0]) / clean[0].sum()
    return estimate(1 - left[0], errors, pairs, level, 1 - left[1:])


def _judged(
    steps: Mapping[str, Estimate], n: int, clusters: float, least: int, level: float
) -> Claim:
    """The claim whose steps must all be above 0; none where pairs or clusters are too few."""
    reason = shortage(n, clusters, least)
    if reason:
        return Claim(TOO_FEW, steps=steps, n=n, clusters=clusters, reason=reason)
    p = float(max(step.p for step in steps.values()))
    return Claim(YES if p < 1 - level else NO, p, steps, n, clusters)


def shortage(n: int, clusters: float, least: int) -> str:
    """What is missing: "12 of 50 pairs", "3.4 of 10 clusters"; empty if nothing is."""
    if n < least:
        return f"{n} of {least} pairs"
    return f"{clusters:.3g} of {LEAST_CLUSTERS} clusters" if clusters < LEAST_CLUSTERS else ""

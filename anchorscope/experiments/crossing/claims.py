"""Claims on a read-out's pairs: conditions, verdict and reason.

A score that adds something read off the question and something read off the answer has a pair term
of 0. `interaction` claims a pair term above 0 in pairs of right answers, `own_answer` in pairs of
wrong answers. `truth` claims that right answers which the model did not give score above the wrong
ones that it gave, behind their own questions. `through_eq` claims that the pair term passes through
the tokens that name subject and property.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from anchorscope.experiments.crossing import estimates
from anchorscope.experiments.crossing.damage import LEAST_PART, Damaged
from anchorscope.experiments.crossing.estimates import (
    ANSWER,
    MEAN,
    PAIR,
    QUESTION,
    Dependence,
    Estimate,
    dependence,
    estimate,
    mean,
    term,
)
from anchorscope.passes.partners import LEAST_GOLD, LEAST_PAIRS

YES, NO, TOO_FEW, NOT_MEASURED, BY_DESIGN = "yes", "no", "too few", "not measured", "by design"
"""Verdicts of a claim. `by design`: it could not fail."""
SAYS = {
    "signal": "the probe knows more than models of the text",
    "interaction": "the probe compares question and answer, instead of adding two separate scores",
    "own_answer": "the probe prefers the model's own wrong answers behind the question that they "
    "were given to",
    "truth": "the probe scores right answers that the model did not give above the wrong ones that "
    "it gave, behind the questions they belong to, beyond the model's log-probability",
    "through_eq": "blocking the exact question tokens takes more than a fifth of the pair term, "
    "beyond general damage as judged by the answer term",
}
"""Claim → its statement in words."""
ON_PAIRS = tuple(SAYS)[1:]
"""Claims that rest on swapped answers."""
LEAVES_OPEN = {
    "own_answer": "truth and likelihood are not told apart",
    "truth": "mere compatibility is not excluded",
    "through_eq": "damage that hits the comparison more than the answer term is not excluded",
}
"""Claim → caveat that goes with it."""
LEAST_CLUSTERS = 10
"""Minimum number of independent clusters of pairs."""
LEVEL = 0.95
POWERS = (1, 2, 3)
"""Powers of the log-probability that the claim `truth` adjusts for."""
NOTHING = Estimate(*np.full(5, np.nan))
"""Missing estimate: pairs are too few, or it has no meaning."""
NOT_OWN = "the answers are not the model's own"
NOTHING_ELSE = "the questions differ only in the exact question tokens"
NOT_READ = "with tokens blocked the score no longer reads the answer"
REVERSED = "reversed: own wrong answers score lower behind their own question"
ONE_OF_TWO = "not significant once p is doubled, because right and wrong answers are both tested"
EXPLAINED = {
    "pair": "the pair term is not significantly above 0",
    "above_text": "the overlap of question and answer may explain it",
    "gold_wrong": "right answers do not score significantly above own wrong ones",
    "gold_wrong_equal": "other differences of gold and own answers may explain it",
    "gold_unexplained": "the log-probability may explain it",
    "kept": "damage may leave nothing of the pair term",
    "beyond_damage": "general damage may explain it",
}
"""Condition of a claim → reason for the verdict if it has the largest p."""


@dataclass(frozen=True)
class Answers:
    """Two answers of each pair behind both questions, at one layer or at each pair's own.

    Scores are calibrated logits towards *right*, in the order of `terms`. A pair with a NaN score
    is left out.
    """

    scores: np.ndarray  # float64 [4, pairs]
    subjects: np.ndarray  # ids of the questions' subjects, int64 [2, pairs]
    texts: np.ndarray  # ids of the answers, int64 [2, pairs]; equal texts share an id
    fold: np.ndarray  # outer fold of the probes, int64 [pairs]
    imitated: np.ndarray  # pair terms of the text imitator, float64 [pairs]
    log_p: np.ndarray  # sums over each answer's tokens, float64 [4, pairs]; NaN if unknown
    refits: np.ndarray | None = None  # scores by refitted probes, float64 [4, refits, pairs]

    @property
    def known(self) -> np.ndarray:
        """Whether each pair is scored, bool [pairs]."""
        refits = np.zeros((4, 1, 1)) if self.refits is None else self.refits
        return np.isfinite(self.scores).all(0) & np.isfinite(refits).all((0, 1))

    @property
    def known_everywhere(self) -> np.ndarray:
        """Whether each pair is scored at every layer, bool [pairs], for [4, layers, pairs]."""
        return np.isfinite(self.scores).all((0, 1))

    def of(self, rows: np.ndarray) -> Answers:
        """Return the answers of some pairs."""
        return Answers(
            scores=self.scores[:, rows],
            subjects=self.subjects[:, rows],
            texts=self.texts[:, rows],
            fold=self.fold[rows],
            imitated=self.imitated[rows],
            log_p=self.log_p[:, rows],
            refits=None if self.refits is None else self.refits[..., rows],
        )

    @property
    def every(self) -> np.ndarray:
        """Scores by the probe and then by each refit, [4, 1 + refits, pairs]."""
        refits = np.empty((4, 0, *self.scores.shape[1:])) if self.refits is None else self.refits
        return np.concatenate([self.scores[:, None], refits], axis=1)

    def term(self, which: np.ndarray) -> np.ndarray:
        """Return a term of `every`, [1 + refits, pairs]."""
        return term(which, self.every)


@dataclass(frozen=True)
class Claim:
    """One claim of one read-out."""

    verdict: str
    reason: str = ""  # why the claim fails or cannot be judged
    p: float = np.nan  # largest p of the conditions; NaN if the claim cannot be judged
    estimate: Estimate = NOTHING  # the quantity that the claim is about
    steps: Mapping[str, Estimate] = field(default_factory=dict)  # condition → estimate
    n: int = 0  # pairs
    clusters: float = 0.0  # effective number of independent pairs


def interaction(right: Answers, level: float = LEVEL) -> Claim:
    """Judge whether the pair term of right answers is above 0 and above the text imitator."""
    return _own(right, level)


def own_answer(wrong: Answers, level: float = LEVEL, *, own_words: bool = True) -> Claim:
    """Judge whether the pair term of wrong answers is above 0 and above the text imitator.

    The claim is one-sided. If the interval lies below 0, the reason says so.

    Args:
        wrong: Wrong answers.
        level: Level of the intervals.
        own_words: Whether the model gave the answers itself.
    """
    if not own_words:
        return Claim(NOT_MEASURED, NOT_OWN)
    found = _own(wrong, level)
    reversed_ = found.verdict == NO and found.estimate.high < 0
    return replace(found, reason=REVERSED) if reversed_ else found


def _own(answers: Answers, level: float) -> Claim:
    own = answers.of(answers.known)
    pairs = dependence(own.subjects, own.texts)
    steps = _above_text(own, pairs, level)
    about = _mean(own.term(PAIR), pairs, level)
    return _judged({"pair": about, **steps}, about, pairs, LEAST_PAIRS, level)


def truth(
    wrong: Answers, gold: Answers | None, level: float = LEVEL, *, own_words: bool = True
) -> Claim:
    """Judge whether gold answers have a pair term that the model's own wrong answers lack.

    Four conditions must hold for the pair term of the gold answers:

    - It is above the text imitator.
    - It is above the pair term of the own answers.
    - It stays above at equal mean, product of question and answer term, log-probability and
      imitator (`estimates.at_equal`).
    - The log-probability of the gold answers leaves part of it unexplained.

    Pairs without log-probability are left out.
    """
    if not own_words:
        return Claim(NOT_MEASURED, NOT_OWN)
    if gold is None:
        return Claim(NOT_MEASURED, "gold answers were not scored")
    scored = wrong.known & gold.known
    rows = scored & np.isfinite(wrong.log_p + gold.log_p).all(0)
    if scored.any() and not rows.any():
        return Claim(NOT_MEASURED, "log-probabilities are not known")
    wrong, gold = wrong.of(rows), gold.of(rows)
    pairs = dependence(gold.subjects, gold.texts, wrong.texts)
    above = _mean(gold.term(PAIR) - wrong.term(PAIR), pairs, level)
    steps = {**_above_text(gold, pairs, level), "gold_wrong": above}
    few = bool(shortage(int(rows.sum()), pairs.clusters, LEAST_GOLD))
    steps["gold_wrong_equal"] = NOTHING if few else _at_equal(wrong, gold, pairs, level)
    steps["gold_unexplained"] = NOTHING if few else _unexplained(gold, pairs, level)
    return _judged(steps, above, pairs, LEAST_GOLD, level)


def through(clean: Answers, blocked: Answers, by_design: np.ndarray, level: float = LEVEL) -> Claim:
    """Judge whether blocking E_Q takes more than a fifth of the pair term, beyond damage.

    The pair term must be above 0 and above the text imitator. λP must be above 0, and .8 λP above
    the pair term with E_Q blocked (see `damage`). The estimate is the share taken, in percent.

    Args:
        clean: Pairs with nothing blocked.
        blocked: The same pairs with E_Q blocked.
        by_design: Pairs whose pair term is 0 by design with E_Q blocked, bool [pairs]. They are
            left out.
        level: Level of the intervals.
    """
    known = clean.known & blocked.known
    clean, blocked, free = clean.of(known), blocked.of(known), ~by_design[known]
    if len(free) >= LEAST_PAIRS > free.sum():
        return Claim(BY_DESIGN, NOTHING_ELSE, n=int(free.sum()))
    clean, blocked = clean.of(free), blocked.of(free)
    pairs = dependence(clean.subjects, clean.texts)
    if reason := shortage(int(free.sum()), pairs.clusters, LEAST_PAIRS):
        return Claim(TOO_FEW, reason, n=int(free.sum()), clusters=pairs.clusters)
    damaged = Damaged.of(clean.every, blocked.every, clean.fold)
    if not damaged.readable:
        return Claim(NOT_MEASURED, NOT_READ, n=int(free.sum()), clusters=pairs.clusters)
    steps = {"pair": _mean(clean.term(PAIR), pairs, level), **_above_text(clean, pairs, level)}
    steps["kept"] = damaged.whole(pairs, level)
    steps["beyond_damage"] = damaged.beyond(LEAST_PART, pairs, level)
    return _judged(steps, damaged.taken(pairs, level), pairs, LEAST_PAIRS, level)


def either(claims: Mapping[str, Claim], level: float = LEVEL) -> tuple[str, Claim]:
    """Judge whether one of several claims holds, by the smallest p times their number (Bonferroni).

    Returns:
        Name of the claim with the smallest p, and this claim with the corrected p.
    """
    judged = {name: one for name, one in claims.items() if np.isfinite(one.p)}
    if judged:
        name = min(judged, key=lambda name: judged[name].p)
        best = judged[name]
        both = _verdict(best, min(1.0, len(judged) * best.p), level)
        lost = best.verdict == YES and both.verdict == NO
        return name, replace(both, reason=ONE_OF_TWO) if lost else both
    for name, one in claims.items():
        if one.verdict == BY_DESIGN:
            return name, one
    name, first = next(iter(claims.items()))
    reasons = {name: one.reason for name, one in claims.items()}
    if len(set(reasons.values())) == 1:
        return name, first
    return name, replace(first, reason="; ".join(f"{key}: {why}" for key, why in reasons.items()))


def _verdict(claim: Claim, p: float, level: float) -> Claim:
    """Return a claim with another p, and the verdict and reason that follow from it."""
    made = p < 1 - level
    fails = max(claim.steps, key=lambda name: claim.steps[name].p)
    return replace(claim, p=p, verdict=YES if made else NO, reason="" if made else EXPLAINED[fails])


def _above_text(answers: Answers, pairs: Dependence, level: float) -> dict[str, Estimate]:
    """Estimate by how much the mean pair term is above the text imitator's."""
    return {"above_text": _mean(answers.term(PAIR) - answers.imitated, pairs, level)}


def _mean(values: np.ndarray, pairs: Dependence, level: float) -> Estimate:
    """Estimate the mean of values of the probe and of its refits, [1 + refits, pairs]."""
    return mean(values[0], pairs, level, values[1:])


def _unexplained(gold: Answers, pairs: Dependence, level: float) -> Estimate:
    """Estimate the golds' pair term that their log-probability and the imitator leave unexplained.

    Nothing is left if the score follows the log-probability, whatever the slope or curve, and
    whatever the own answers do.
    """
    log_p = gold.log_p - gold.log_p.mean()
    powers = [term(PAIR, log_p**power) for power in POWERS]
    values, parts = estimates.unexplained(
        gold.term(PAIR), np.stack([*powers, gold.imitated], axis=-1)
    )
    return estimate(values[0], parts[0], pairs, level, values[1:])


def _at_equal(wrong: Answers, gold: Answers, pairs: Dependence, level: float) -> Estimate:
    """Estimate the golds' pair term less the own answers' pair term, at equal covariates.

    The mean is adjusted for because a score that shrinks behind a strange question has a pair term
    that grows with its mean. The product of question and answer term stands for a gain on the
    answer's score. The pair terms of the powers of the log-probability stand for a score that
    follows it on a line or curve.
    """
    products = [one.term(QUESTION) * one.term(ANSWER) for one in (gold, wrong)]
    log_p = np.stack([gold.log_p, wrong.log_p])
    log_p -= log_p.mean()
    texts = [term(PAIR, log_p[0] ** power - log_p[1] ** power) for power in POWERS]
    texts.append(gold.imitated - wrong.imitated)
    scores = [gold.term(which) - wrong.term(which) for which in (PAIR, MEAN)]
    every = [*scores, products[0] - products[1], *texts]
    columns = np.stack(np.broadcast_arrays(*every), axis=-1)
    values = estimates.at_equal(columns)
    return estimate(values[0], estimates.error_parts(columns[0]), pairs, level, values[1:])


def _judged(
    steps: Mapping[str, Estimate], about: Estimate, pairs: Dependence, least: int, level: float
) -> Claim:
    """Judge a claim whose steps must all be above 0, unless pairs or clusters are too few."""
    n, clusters = pairs.n, pairs.clusters
    if reason := shortage(n, clusters, least):
        return Claim(TOO_FEW, reason, steps=steps, n=n, clusters=clusters)
    p = max(float(step.p) for step in steps.values())
    return _verdict(Claim(NO, "", p, about, steps, n, clusters), p, level)


def shortage(n: int, clusters: float, least: int) -> str:
    """Say what is missing: "12 of 50 pairs", "3.4 of 10 clusters"; empty if nothing is."""
    if n < least:
        return f"{n} of {least} pairs"
    return f"{clusters:.3g} of {LEAST_CLUSTERS} clusters" if clusters < LEAST_CLUSTERS else ""

"""Judge the claims about a read-out's pairs: conditions, verdict and reason.

The pair term is 0 if a score is a function of the question plus a function of the answer.
`interaction` claims a pair term above 0 in pairs of right answers, `own_answer` in pairs of wrong
answers. `truth` claims that gold answers, which are right but not the model's own, have a larger
pair term than the model's wrong answers to the same questions. `through_eq` claims that blocking
the exact question tokens (E_Q) takes more than a fifth of the pair term, beyond general damage.
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
    Answers,
    Estimate,
    Pairs,
    term,
)
from anchorscope.passes.partners import LEAST_GOLD, LEAST_PAIRS

YES, NO, TOO_FEW, NOT_MEASURED, BY_DESIGN = "yes", "no", "too few", "not measured", "by design"
"""Verdicts. `by design`: enough pairs, but fewer than `LEAST_PAIRS` where the claim could fail, or
a read-out that precedes the answer."""
ON_PAIRS = ("interaction", "own_answer", "truth", "through_eq")
"""Claims that rest on swapped answers."""
LEAST_CLUSTERS = 10
"""Minimum number of independent clusters of pairs."""
LEVEL = 0.95
POWERS = (1, 2, 3)
"""Powers of the log-probability that the claim `truth` adjusts for."""
NOT_OWN = "the answers are not the model's own"
NOTHING_ELSE = "the paired questions differ only in the exact question tokens"
EXPLAINED = {
    "pair": "the pair term is not significantly above 0",
    "above_text": "the overlap of question and answer may explain it",
    "gold_wrong": "gold answers have no significantly larger pair term than own wrong answers",
    "gold_wrong_equal": "other differences between gold and own answers may explain it",
    "gold_unexplained": "the log-probability may explain it",
    "kept": "general damage alone may remove the whole pair term",
    "beyond_damage": "general damage may explain it",
}
"""Condition → reason for `no`. The first condition that fails gives the reason, see `_verdict`."""


@dataclass(frozen=True)
class Claim:
    """The verdict on one claim at one read-out."""

    verdict: str
    reason: str = ""  # why the claim fails or cannot be judged
    p: float = np.nan  # largest p of the claim's tests; NaN if the claim cannot be judged
    # the quantity that is reported for the claim, with its interval
    estimate: Estimate = field(default_factory=Estimate)
    steps: Mapping[str, Estimate] = field(default_factory=dict)  # condition → estimate
    n: int = 0  # pairs
    clusters: float = 0.0  # effective number of independent pairs


def interaction(answers: Answers, level: float = LEVEL) -> Claim:
    """Judge whether the pair term is above 0 and above the text imitator's."""
    own = answers.of(answers.known)
    pairs = own.pairs(level)
    about = pairs.mean(own.term(PAIR))
    return _judged({"pair": about, **_above_text(own, pairs)}, about, pairs, LEAST_PAIRS)


def own_answer(wrong: Answers, level: float = LEVEL, *, own_words: bool = True) -> Claim:
    """Judge whether the pair term of wrong answers is above 0 and above the text imitator's.

    The claim is one-sided. If the interval lies below 0, the reason says so. `own_words` tells
    whether the model gave the answers itself.
    """
    if not own_words:
        return Claim(NOT_MEASURED, NOT_OWN)
    found = interaction(wrong, level)
    if found.verdict == NO and found.estimate.high < 0:
        why = "reversed: the model's own wrong answers score lower after their own question"
        return replace(found, reason=why)
    return found


def truth(
    wrong: Answers, gold: Answers | None, level: float = LEVEL, *, own_words: bool = True
) -> Claim:
    """Judge whether gold answers have a pair term that the model's own wrong answers lack.

    Four conditions must hold for the pair term of the gold answers:

    - It is above the text imitator's.
    - It is above the pair term of the own answers.
    - It is above the own answers' pair term after adjustment for mean score, product of question
      and answer term, log-probability and text imitator (`estimates.at_equal`).
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
    pairs = gold.pairs(level, wrong.texts)
    above = pairs.mean(gold.term(PAIR) - wrong.term(PAIR))
    steps = {**_above_text(gold, pairs), "gold_wrong": above}
    few = shortage(pairs.n, pairs.clusters, LEAST_GOLD)
    steps["gold_wrong_equal"] = Estimate() if few else _at_equal(wrong, gold, pairs)
    steps["gold_unexplained"] = Estimate() if few else _unexplained(gold, pairs)
    return _judged(steps, above, pairs, LEAST_GOLD)


def through(clean: Answers, blocked: Answers, level: float = LEVEL) -> Claim:
    """Judge whether blocking E_Q takes more than a fifth of the pair term, beyond damage.

    The pair term P must be above 0 and above the text imitator's. λP must be above 0 (see
    `damage`). P with E_Q blocked must be below .8 λP. The estimate is the percentage of λP that
    blocking takes. `bound` pairs are left out, because the claim cannot fail in them.
    """
    known = clean.known & blocked.known
    rows = known & ~clean.bound
    clean, blocked = clean.of(rows), blocked.of(rows)
    pairs = clean.pairs(level)
    if known.sum() >= LEAST_PAIRS > pairs.n:
        return Claim(BY_DESIGN, NOTHING_ELSE, n=pairs.n)
    if reason := shortage(pairs.n, pairs.clusters, LEAST_PAIRS):
        return Claim(TOO_FEW, reason, n=pairs.n, clusters=pairs.clusters)
    damaged = Damaged.of(clean, blocked, pairs)
    if not damaged.readable:
        why = "with tokens blocked the score no longer reads the answer"
        return Claim(NOT_MEASURED, why, n=pairs.n, clusters=pairs.clusters)
    steps = {
        "pair": pairs.mean(clean.term(PAIR)),
        **_above_text(clean, pairs),
        "kept": damaged.whole(),
        "beyond_damage": damaged.beyond(LEAST_PART),
    }
    return _judged(steps, damaged.taken(), pairs, LEAST_PAIRS)


def either(claims: Mapping[str, Claim], level: float = LEVEL) -> tuple[str, Claim]:
    """Judge by the claim with the smallest p whether one of several claims holds (Bonferroni).

    Return its name, and the claim with p multiplied by the number of claims that can be judged.
    """
    judged = {name: one for name, one in claims.items() if np.isfinite(one.p)}
    if judged:
        name = min(judged, key=lambda name: judged[name].p)
        return name, _verdict(judged[name], min(1.0, len(judged) * judged[name].p), level)
    name, one = max(claims.items(), key=lambda item: item[1].verdict == BY_DESIGN)
    reasons = {name: one.reason for name, one in claims.items()}
    if one.verdict == BY_DESIGN or len({*reasons.values()}) == 1:
        return name, one
    return name, replace(one, reason="; ".join(f"{key}: {why}" for key, why in reasons.items()))


def _verdict(claim: Claim, p: float, level: float) -> Claim:
    """Return the claim with `p`, and with the verdict and reason that follow from `p`."""
    if p < 1 - level:
        return replace(claim, p=p, verdict=YES, reason="")
    failing = [name for name, step in claim.steps.items() if step.p >= 1 - level]
    # if only the corrected p fails, the condition with the largest p gives the reason
    weakest = max(claim.steps, key=lambda name: claim.steps[name].p)
    return replace(claim, p=p, verdict=NO, reason=EXPLAINED[[*failing, weakest][0]])


def _above_text(answers: Answers, pairs: Pairs) -> dict[str, Estimate]:
    """Estimate by how much the mean pair term is above the text imitator's."""
    return {"above_text": pairs.mean(answers.term(PAIR) - answers.imitated)}


def _unexplained(gold: Answers, pairs: Pairs) -> Estimate:
    """Estimate the part of gold answers' pair term unexplained by log-probability and imitator.

    The part is 0 if the score of gold answers is a linear or curved function of their
    log-probability. This also holds if the model's own answers lie on another curve.
    """
    log_p = gold.log_p - gold.log_p.mean()
    powers = [term(PAIR, log_p**power) for power in POWERS]
    covariates = np.stack([*powers, gold.imitated], axis=-1)
    return pairs.estimate(*estimates.unexplained(gold.term(PAIR), covariates))


def _at_equal(wrong: Answers, gold: Answers, pairs: Pairs) -> Estimate:
    """Estimate the gold answers' pair term minus the own answers' pair term, at equal covariates.

    If a score shrinks after a strange question, its pair term grows with its mean. So the mean
    score is adjusted for. The product of question and answer term accounts for a question that
    multiplies the answer's score. The pair terms of powers of the log-probability account for a
    score that is a linear or curved function of the log-probability.
    """
    products = [one.term(QUESTION) * one.term(ANSWER) for one in (gold, wrong)]
    log_p = np.stack([gold.log_p, wrong.log_p])
    log_p -= log_p.mean()
    texts = [term(PAIR, log_p[0] ** power - log_p[1] ** power) for power in POWERS]
    texts.append(gold.imitated - wrong.imitated)
    scores = [gold.term(which) - wrong.term(which) for which in (PAIR, MEAN)]
    every = [*scores, products[0] - products[1], *texts]
    columns = np.stack(np.broadcast_arrays(*every), axis=-1)
    return pairs.estimate(*estimates.at_equal(columns))


def _judged(steps: Mapping[str, Estimate], about: Estimate, pairs: Pairs, least: int) -> Claim:
    """Judge a claim: all estimates in `steps` must be above 0, from enough pairs and clusters."""
    n, clusters = pairs.n, pairs.clusters
    if reason := shortage(n, clusters, least):
        return Claim(TOO_FEW, reason, steps=steps, n=n, clusters=clusters)
    p = max(float(step.p) for step in steps.values())
    return _verdict(Claim(NO, "", p, about, steps, n, clusters), p, pairs.level)


def shortage(n: int, clusters: float, least: int, unit: str = "pairs") -> str:
    """Say what is missing: "12 pairs, and at least 50 are needed"; "" if nothing is missing."""
    if n < least:
        return f"{n} {unit if n != 1 else unit.removesuffix('s')}, and at least {least} are needed"
    enough = clusters >= LEAST_CLUSTERS
    return "" if enough else f"{clusters:.3g} clusters, and at least {LEAST_CLUSTERS} are needed"

"""Through E_Q: blocking the exact question tokens takes more than a fifth of the comparison.

Pairs whose terms are 0, or cancel, by design once E_Q is blocked are left out.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from anchorscope.claims.claim import (
    BY_DESIGN,
    NOT_MEASURED,
    OWN,
    Claim,
    Evidence,
    Verdict,
    cannot_be_judged,
    judged,
    too_few,
)
from anchorscope.claims.damage import LEAST_PART, Damaged
from anchorscope.claims.estimates import HALF, PAIR, Answers
from anchorscope.passes.partners import LEAST_PAIRS

EXACT, REST = "knockout", "rest"
"""Arms with the exact tokens, and with all other question tokens blocked."""
NOT_BLOCKED = "no answers were swapped with the exact tokens and with all others blocked"
NOTHING_ELSE = "the paired questions differ only in the exact question tokens"
UNREADABLE = "with the exact tokens blocked the score no longer reads the answer"


def judge(evidence: Evidence) -> Verdict:
    """Judge right and wrong answers, and return the clearer result at twice its p."""
    if verdict := cannot_be_judged(evidence):
        return verdict
    sides = {side: _of_side(of, evidence.level) for side, of in evidence.answers.items()}
    tested = {side: one for side, one in sides.items() if np.isfinite(one.p)}
    if not tested:
        return max(sides.values(), key=lambda one: one.verdict == BY_DESIGN)
    side, found = min(tested.items(), key=lambda item: item[1].p)
    why = filter(None, [found.reason, f"judged on {side} answers"])
    return replace(found, reason="; ".join(why))


def _of_side(arms: Mapping[str, Answers], level: float) -> Verdict:
    """Judge the pairs of one side."""
    if not {EXACT, REST} <= arms.keys():
        return Verdict(NOT_MEASURED, NOT_BLOCKED)
    three = [arms[name] for name in (OWN, EXACT, REST)]
    known = np.all([one.known for one in three], axis=0)
    clean, blocked, rest = (one.of(known & ~three[0].bound) for one in three)
    pairs = clean.pairs(level)
    if known.sum() >= LEAST_PAIRS > pairs.n:
        return Verdict(BY_DESIGN, NOTHING_ELSE, n=pairs.n)
    if few := too_few(pairs.n, pairs.clusters):
        return few
    damaged = Damaged.of(clean, blocked, pairs)
    if not damaged.readable:
        return Verdict(NOT_MEASURED, UNREADABLE, n=pairs.n, clusters=pairs.clusters)
    whole, left, others = (one.share() - HALF for one in (clean, blocked, rest))
    steps = {
        "the swap share is not significantly above 50 %": pairs.mean(whole),
        "general damage may explain the loss of the pair term": damaged.beyond(LEAST_PART),
        "a fifth of the swap share or less may be lost": pairs.mean(
            (1 - LEAST_PART) * whole - left
        ),
        "blocking all other question tokens may take as much of the pair term": pairs.mean(
            rest.term(PAIR) - blocked.term(PAIR)
        ),
        "blocking all other question tokens may take as much of the swap share": pairs.mean(
            others - left
        ),
    }
    return judged(steps, damaged.taken(), pairs.n, pairs.clusters, level, times=2)


RECORDS = (
    Claim(
        name="through_eq",
        order=4,
        called="through the exact tokens",
        says="blocking the exact question tokens takes more than a fifth of the comparison, and "
        "more than blocking all other question tokens",
        leaves_open="this does not exclude damage that hits the comparison more than the answer",
        not_said="The probe reads nothing else",
        conditions="over right or over wrong answers (p times 2): .8 λP is above P_blocked; the "
        "share is above ½, and .8 (share − ½) above the blocked share − ½; share and P are lower "
        "than with all other question tokens blocked",
        number="{} of the pair term taken",
        judge=judge,
        percent=True,
    ),
)

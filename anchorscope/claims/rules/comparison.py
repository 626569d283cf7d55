"""Comparison: more answers score higher after their own question than any sum makes likely.

If a score is an increasing curve of a question part plus an answer part, the swap share is 50 % in
every pair. Noise behind a curve moves it to at most 56 %. The text imitator's pair term is taken
off first, so letters and words that question and answer share do not suffice.
"""

from dataclasses import replace
from functools import partial

from anchorscope.claims.claim import (
    OWN,
    YES,
    Claim,
    Evidence,
    Verdict,
    cannot_be_judged,
    judged,
    too_few,
)
from anchorscope.claims.estimates import HALF, PAIR, Answers, Pairs

LEAST_SHARE = 0.55
"""The swap share must surely be above this or, of wrong answers, below 1 minus this."""
LOWER = "they score lower after their own question"
"""Remark on a `yes` of wrong answers on the other side."""

CONDITIONS = (
    "the swap share, after the text imitator's pair term is taken off each swap, is above 55 %; "
    "P is above 0 and above the text imitator's"
)
OTHER_SIDE = (
    "; or all on the other side: a share below 45 %, P below 0 and below the imitator's, which the "
    "text must say"
)


def judge(evidence: Evidence, side: str) -> Verdict:
    """Judge right answers, or wrong ones. Wrong answers may also score lower at home."""
    if verdict := cannot_be_judged(evidence):
        return verdict
    own = evidence.answers[side][OWN]
    own = own.of(own.known)
    pairs = own.pairs(evidence.level)
    if few := too_few(pairs.n, pairs.clusters):
        return few
    tried = [_towards(own, pairs, sign) for sign in ((1,) if side == "right" else (1, -1))]
    return min(tried, key=lambda one: one.p)


def _towards(own: Answers, pairs: Pairs, sign: int) -> Verdict:
    """Judge whether answers score higher (`sign` 1) or lower (-1) after their own question."""
    pair, share = own.term(PAIR), own.share(beyond_text=True)
    where, end = ("above", LEAST_SHARE) if sign > 0 else ("below", 1 - LEAST_SHARE)
    steps = {
        f"the pair term is not significantly {where} 0": pairs.mean(sign * pair),
        "the overlap of question and answer may explain it": pairs.mean(
            sign * (pair - own.imitated)
        ),
        f"the swap share beyond text is not significantly {where} {100 * end:.0f} %": pairs.mean(
            sign * (share - HALF) - (LEAST_SHARE - HALF)
        ),
    }
    found = judged(steps, pairs.mean_share(share), pairs.n, pairs.clusters, pairs.level)
    if found.verdict == YES and sign < 0:
        return replace(found, reason=LOWER)
    return found


def _record(side: str) -> Claim:
    return Claim(
        name="comparison",
        order=3,
        called=f"comparison ({side} answers)",
        says=f"the probe compares question and answer ({side} answers), or checks that the answer "
        "is of the right kind",
        leaves_open="",
        not_said="The probe detects truth" if side == "right" else "The model lies",
        conditions=CONDITIONS + ("" if side == "right" else OTHER_SIDE),
        number="swap share {} without the text imitator's part",
        judge=partial(judge, side=side),
        answers=side,
        percent=True,
        remarks={LOWER: "lower"},
    )


RECORDS = (_record("right"), _record("wrong"))

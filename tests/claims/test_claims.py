"""The rules of claims, one by one: when each holds, and what takes it back."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import HOME
from hypothesis import given, settings, strategies as st
from swapped_pairs import scored, swapped

import anchorscope
from anchorscope.claims import CLAIMS
from anchorscope.claims.claim import BY_DESIGN, NO, NOT_MEASURED, TOO_FEW, YES, Evidence, Verdict
from anchorscope.claims.estimates import Answers
from anchorscope.claims.rules import comparison, through_eq
from anchorscope.statistics.intervals import Estimate
from anchorscope.statistics.strength import Gain

NAMES = "signal answer_adds comparison_right comparison_wrong through_eq".split()


def test_a_claim_is_one_file_with_its_words_and_its_rule() -> None:
    assert [*CLAIMS] == NAMES
    root = Path(anchorscope.__file__).parent
    files = [one for one in root.rglob("*.*") if one.suffix in (".py", ".txt", ".yaml")]
    files += (root.parent / "resources/report").glob("*.html")
    for claim in CLAIMS.values():
        named = {one.name for one in files if re.search(rf"\b{claim.says}", one.read_text("utf-8"))}
        assert named <= {f"{claim.name}.py"}, claim.key
        assert claim.called and claim.says[0].islower() and "{}" in claim.number


def compared(side: str, own: Answers) -> Verdict:
    return CLAIMS[f"comparison_{side}"].judge(swapped(**{side: own}))


@pytest.mark.parametrize("side", ["right", "wrong"])
def test_answers_that_score_higher_at_home_are_compared_and_sums_are_not(side: str) -> None:
    found = compared(side, scored(100, home=1.0))
    assert (found.verdict, found.reason, found.n) == (YES, "", 100)
    assert found.estimate.value > 0.6 and found.estimate.low > comparison.LEAST_SHARE
    assert compared(side, scored(100)).verdict == NO


def test_only_wrong_answers_may_be_compared_by_a_lower_score_at_home() -> None:
    lower = scored(100, home=-1.0)
    found = compared("wrong", lower)
    assert (found.verdict, found.reason) == (YES, "they score lower after their own question")
    assert found.estimate.high < 1 - comparison.LEAST_SHARE
    assert compared("right", lower).verdict == NO
    higher = compared("wrong", scored(100, home=1.0))
    assert (higher.verdict, higher.reason) == (YES, "")


def loud_pairs() -> Answers:
    """A few pairs have huge pair terms, the others none: the share stays at one half."""
    own = scored(100, noise=0.01)
    return replace(own, scores=own.scores + 40 * (np.arange(100) % 8 == 0) * HOME[:, None])


def one_pair_against_all() -> Answers:
    """All shares are high, but some pairs outweigh them in logits."""
    own = scored(100, home=1.0)
    return replace(own, scores=own.scores - 20 * (np.arange(100) % 6 == 0) * HOME[:, None])


def overlap() -> Answers:
    """The imitator predicts pair terms that are larger, but hardly moves the shares."""
    random = np.random.default_rng(0)
    told = np.where(np.arange(100) % 4 == 0, 4.0, 0.0) + 0.1 * random.normal(size=100)
    return replace(scored(100, home=1.5), imitated=told)


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        (loud_pairs(), "the swap share beyond text is not significantly above 55 %"),
        (one_pair_against_all(), "the pair term is not significantly above 0"),
        (overlap(), "the overlap of question and answer may explain it"),
    ],
    ids=["share", "pair term", "text"],
)
def test_each_test_of_a_comparison_alone_can_take_it_back(own: Answers, reason: str) -> None:
    found = compared("right", own)
    assert (found.verdict, found.reason) == (NO, reason)


def test_refits_that_disagree_take_a_comparison_back() -> None:
    own = scored(300, home=1.0)
    moved = 3 * np.random.default_rng(0).normal(size=(20, 1)) * HOME[:, None]
    refitted = replace(own, scores=np.concatenate([own.scores, own.scores + moved], axis=1))
    assert compared("right", own).verdict == YES
    assert compared("right", refitted).verdict == NO


def test_pairs_that_are_not_known_are_left_out() -> None:
    own = scored(120, home=1.0)
    holes = own.scores.copy()
    holes[0, ..., :20] = np.nan
    found = compared("right", replace(own, scores=holes))
    assert found.n == 100
    assert found.p == compared("right", own.of(np.arange(20, 120))).p


@pytest.mark.parametrize("n", [0, 1, 9, 10])
def test_too_few_pairs_are_counted(n: int) -> None:
    found = compared("right", scored(n, home=3.0))
    if n == 10:
        assert found.verdict == YES
        return
    few = f"{n} pair{'s' if n != 1 else ''}, and at least 10 are needed"
    assert (found.verdict, found.reason) == (TOO_FEW, few)
    assert np.isnan([found.p, found.estimate.low]).all()
    one = replace(scored(100, home=3.0), texts=np.zeros((2, 100), dtype=int))
    assert compared("right", one).reason == "1 clusters, and at least 10 are needed"


def blocked(
    n: int = 150, *, passes: float = 0.0, kept: float = 0.7, rest: float = 0.9, **more: Any
) -> dict[str, Answers]:
    """Arms of answers: blocking E_Q leaves `kept` of all, and takes a share of the pair term."""
    clean = scored(n, home=2.0, noise=0.0, **more)
    gone = passes * 2.0 * HOME[:, None]
    noise = np.random.default_rng(9).normal(size=(3, *clean.scores.shape)) * 0.1
    scores = clean.scores, kept * (clean.scores - gone), rest * clean.scores
    return {
        arm: replace(clean, scores=some + more)
        for arm, some, more in zip(("clean", "knockout", "rest"), scores, noise, strict=True)
    }


def through(**sides: dict[str, Answers]) -> Verdict:
    return CLAIMS["through_eq"].judge(swapped(**sides))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.15, 1.0))
def test_even_damage_is_never_taken_for_passing(seed: int, kept: float) -> None:
    assert through(right=blocked(60, kept=kept, seed=seed)).verdict == NO


@pytest.mark.parametrize("kept", [1.0, 0.6])
def test_what_passes_through_the_exact_tokens_is_claimed_beyond_damage(kept: float) -> None:
    for passes in (1.0, 0.75):
        found = through(right=blocked(passes=passes, kept=kept))
        assert (found.verdict, found.reason) == (YES, "judged on right answers")
        assert found.estimate.value == pytest.approx(passes, abs=0.05)
    found = through(right=blocked(passes=0.1, kept=kept))
    reason = "general damage may explain the loss of the pair term; judged on right answers"
    assert (found.verdict, found.reason) == (NO, reason)


def test_of_two_sides_the_clearer_is_judged_at_twice_its_p() -> None:
    some, none = blocked(30, passes=0.7), blocked(passes=0.0)
    alone = through(wrong=some)
    found = through(right=none, wrong=some)
    assert found == alone and found.reason == "judged on wrong answers" and 0 < found.p < 0.05
    rest = some["rest"].share() - some["knockout"].share()
    pairs = some["clean"].pairs(0.95)
    assert found.p >= 2 * pairs.mean(rest).p


REST = "blocking all other question tokens may take as much of the "


@pytest.mark.parametrize(
    ("arm", "change", "reason"),
    [
        ("clean", lambda s: s + (90 * (np.arange(150) % 30 == 0) - 2) * HOME[:, None],
         "the swap share is not significantly above 50 %"),
        ("knockout", lambda s: s + 1.5 * HOME[:, None],
         "a fifth of the swap share or less may be lost"),
        ("rest", lambda s: s - 2.0 * HOME[:, None], f"{REST}pair term"),
    ],
)  # fmt: skip
def test_each_test_of_a_passage_alone_can_take_it_back(arm: str, change: Any, reason: str) -> None:
    arms = blocked(passes=1.0, kept=1.0, rest=1.0)
    assert through(right=arms).verdict == YES
    arms[arm] = replace(arms[arm], scores=change(arms[arm].scores))
    found = through(right=arms)
    assert found.verdict == NO and found.reason.startswith(reason)


def test_without_the_rest_blocked_a_passage_is_not_measured() -> None:
    arms = blocked(passes=1.0)
    del arms["rest"]
    found = through(right=arms, wrong=arms)
    assert (found.verdict, found.reason) == (NOT_MEASURED, through_eq.NOT_BLOCKED)


@pytest.mark.parametrize(
    ("n", "bound", "kept", "verdict", "reason"),
    [
        (9, 0, 0.7, TOO_FEW, "9 pairs, and at least 10 are needed"),
        (9, 9, 0.7, TOO_FEW, "0 pairs, and at least 10 are needed"),
        *((n, n - 4, 0.7, BY_DESIGN, through_eq.NOTHING_ELSE) for n in (10, 60)),
        *((150, 0, kept, NOT_MEASURED, through_eq.UNREADABLE) for kept in (0.0, 0.05, -0.5)),
    ],
)
def test_what_cannot_be_judged_says_why_and_has_no_estimate(
    n: int, bound: int, kept: float, verdict: str, reason: str
) -> None:
    tied = np.arange(n) >= n - bound
    found = through(right=blocked(n, kept=kept, passes=1.0, bound=tied))
    assert (found.verdict, found.n, found.reason) == (verdict, n - bound, reason)
    assert np.isnan([found.p, found.estimate.value]).all()


def test_if_no_side_can_be_judged_what_is_so_by_design_comes_first() -> None:
    few, bound = blocked(5), blocked(60, bound=np.ones(60, dtype=bool))
    assert through(right=few, wrong=bound).verdict == BY_DESIGN
    assert through(right=few, wrong=blocked(7)).reason.startswith("5 pairs")


def gain(value: float, error: float = 0.02, n: int = 400) -> Gain:
    p = min(1.0, float(np.exp(-value / error)))
    return Gain(Estimate(value, error, value - 2 * error, value + 2 * error, p), "0.6", n, n / 2)


def test_gains_in_auc_are_judged_by_their_p() -> None:
    for name, field in (("signal", "over_text"), ("answer_adds", "over_prompt")):
        claim = CLAIMS[name]
        assert claim.judge(Evidence(**{field: gain(0.1)})).verdict == YES
        found = claim.judge(Evidence(**{field: gain(0.01)}))
        assert (found.verdict, found.reason) == (NO, "the AUC is not significantly above 0.6")
        assert claim.judge(Evidence(**{field: gain(0.1, n=8)})).verdict == TOO_FEW
        assert claim.judge(Evidence()).verdict == NOT_MEASURED


def test_before_the_answer_only_the_signal_is_judged() -> None:
    shown = Evidence(
        precedes=True,
        over_text=gain(0.1),
        over_prompt=gain(0.1),
        answers=swapped(right=scored(100, home=2.0)).answers,
    )
    found = {name: claim.judge(shown).verdict for name, claim in CLAIMS.items()}
    assert found == dict.fromkeys(NAMES, BY_DESIGN) | {"signal": YES}
    bare = {name: claim.judge(Evidence()).verdict for name, claim in CLAIMS.items()}
    assert set(bare.values()) == {NOT_MEASURED}

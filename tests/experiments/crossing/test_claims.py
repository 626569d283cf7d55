"""What is claimed of swapped pairs, and the statistics that it rests on."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from handmade import HOME
from hypothesis import given, settings, strategies as st
from scipy import stats

from anchorscope.experiments.crossing import claims, estimates
from anchorscope.experiments.crossing.estimates import (
    ANSWER,
    MEAN,
    PAIR,
    QUESTION,
    Answers,
    Pairs,
    holm,
    term,
)

LOGITS = st.floats(-30, 30)


def ids(n: int, first: int = 0) -> np.ndarray:
    """All distinct, [2, n]."""
    return first + np.arange(2 * n).reshape(2, n)


def pairs(n: int, *others: np.ndarray) -> Pairs:
    """Return pairs that share nothing, or only the given subjects, answers or others."""
    return Pairs.of(*(others or (ids(n), ids(n))), level=0.95)


def answers(n: int, seed: int = 0, home: float = 0.0) -> Answers:
    """Sums of question and answer with noise, and so much more after the own question."""
    random = np.random.default_rng(seed)
    question, answer = random.normal(size=(2, 2, n))
    sums = np.stack([question[i] + answer[j] for j in (0, 1) for i in (0, 1)])
    scores = (sums + home * HOME + 0.3 * random.normal(size=(4, n)))[:, None]
    log_p = -9 + random.normal(size=(4, n))
    unbound = np.zeros(n, dtype=bool)
    return Answers(scores, ids(n), ids(n), np.arange(n) % 5, np.zeros(n), log_p, unbound)


def wrong_and_gold(n: int, home: float = 0.0, seed: int = 0) -> tuple[Answers, Answers]:
    """Own and gold answers of the same pairs."""
    wrong, gold = answers(n, seed=seed), answers(n, seed=seed + 1, home=home)
    return wrong, replace(gold, texts=ids(n, first=2 * n))


@settings(max_examples=100, deadline=None)
@given(*(st.lists(LOGITS, min_size=4, max_size=4) for _ in range(2)))
def test_a_sum_of_question_and_answer_has_no_pair_term(question: list, answer: list) -> None:
    q, y = np.array(question).reshape(2, 2), np.array(answer).reshape(2, 2)
    four = np.stack([q[i] + y[j] for j in (0, 1) for i in (0, 1)])
    assert np.abs(term(PAIR, four)).max() < 1e-6
    whole = sum(term(which, four) for which in (MEAN, QUESTION, ANSWER, PAIR))
    assert whole == pytest.approx(four[0])
    assert term(QUESTION, four) == pytest.approx((q[0] - q[1]) / 2)


def test_pairs_that_share_nothing_have_students_interval_of_the_mean() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(200, 1)) * 0.3 + random.normal(size=(200, 40))
    found = pairs(40).mean(values[None])
    expected = stats.ttest_1samp(values, 0, axis=1, alternative="greater")
    low, high = stats.ttest_1samp(values, 0, axis=1).confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.p == pytest.approx(np.minimum(1, 2 * expected.pvalue))
    assert found.error == pytest.approx(stats.sem(values, axis=1))
    assert ((found.p < 0.05) == (found.low > 0)).all() and (found.low > 0).any()


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_whatever_pairs_share_makes_them_dependent(kind: int) -> None:
    random = np.random.default_rng(0)
    group = np.arange(120) % 20
    values = (random.normal(size=20)[group] + 0.1 * random.normal(size=120))[None]
    of = [ids(120), ids(120), ids(120)]
    of[kind] = np.stack([group, 1000 + np.arange(120)])
    wider = pairs(120, *of).mean(values).error / pairs(120).mean(values).error
    assert wider == pytest.approx(np.sqrt(6), rel=0.1)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_no_variance_is_below_that_of_independent_pairs(seed: int) -> None:
    random = np.random.default_rng(seed)
    few = [random.integers(0, 15, size=(2, 30)) for _ in range(3)]
    parts = random.normal(size=(4, 30))
    parts -= parts.mean(-1, keepdims=True)
    assert (pairs(30, *few).variance(parts) >= (parts**2).sum(-1)).all()


def test_refits_add_their_variance() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(3, 200))
    moved = random.normal(size=(20, 3, 1))
    found = pairs(200).mean(np.concatenate([values[None], values + moved]))
    fixed = pairs(200).mean(values[None])
    assert found.value == pytest.approx(fixed.value)
    assert found.error == pytest.approx(np.hypot(fixed.error, moved[..., 0].std(0, ddof=1)))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1) | st.just(np.nan), max_size=12), st.floats(0.001, 0.5))
def test_holm_rejects_what_the_step_down_procedure_does(p: list, level: float) -> None:
    order, rejected = np.argsort(p, kind="stable"), set()
    n = np.isfinite(p).sum()
    for left, place in zip(range(n, 0, -1), order[:n], strict=True):
        if not p[place] * left <= level:
            break
        rejected.add(int(place))
    found = holm(pd.Series(p, dtype=float))
    assert set(np.flatnonzero(found <= level).tolist()) == rejected
    assert (found.isna() == np.isnan(p)).all() and not (found > 1).any()


def columns(n: int, slope: float, seed: int = 0) -> np.ndarray:
    """A difference that is 0 at an equal mean, both of them with noise, and another thing."""
    random = np.random.default_rng(seed)
    mean, other = 1 + random.normal(size=n), random.normal(size=n)
    difference = slope * mean + 0.5 * other
    noise = 0.5 * random.normal(size=(2, n))
    return np.stack([difference + noise[0], mean + noise[1], other], axis=-1)


def test_noise_of_the_mean_does_not_pass_for_a_difference() -> None:
    found = columns(100_000, slope=0.8)
    equal, _ = estimates.at_equal(np.stack([found, found + np.array([0.3, 0, 0])]))
    assert equal == pytest.approx([0, 0.3], abs=0.01)
    rows = np.column_stack([found[:, 1:], np.ones(len(found))])
    assert np.linalg.lstsq(rows, found[:, 0])[0][-1] > 0.1  # least squares


def test_each_part_is_what_leaving_the_pair_out_changes() -> None:
    found = columns(60, 0.5)[None]
    whole, parts = estimates.at_equal(found)
    left_out = [estimates.at_equal(np.delete(found, place, axis=1))[0] for place in range(60)]
    change = (whole - np.array(left_out))[:, 0]
    assert parts == pytest.approx(change * 59 / 60, rel=0.05, abs=1e-4)


def lost_behind_strange_questions() -> tuple[Answers, Answers]:
    wrong, gold = wrong_and_gold(500)
    kept = (1 - 0.5 * (1 - HOME))[:, None]
    return replace(wrong, scores=kept * wrong.scores), replace(
        gold, scores=kept * (gold.scores + 1)
    )


def a_curve_of_the_log_probability() -> tuple[Answers, Answers]:
    wrong, gold = wrong_and_gold(500)
    likely = replace(gold, log_p=gold.log_p + 2 * HOME)
    wrong, gold = (
        replace(one, scores=one.scores - 0.05 * (one.log_p[:, None] + 3) ** 2)
        for one in (wrong, likely)
    )
    return wrong, gold


def golds_below_own_wrong_answers() -> tuple[Answers, Answers]:
    wrong, gold = wrong_and_gold(300, home=0.7)
    sure = np.random.default_rng(0).uniform(0, 2, size=300) * HOME
    return replace(
        wrong, scores=wrong.scores + 0.8 * sure[:, None], log_p=wrong.log_p + 2 * sure
    ), gold


def likelihood_with_a_slope_of_its_own() -> tuple[Answers, Answers]:
    wrong, gold = wrong_and_gold(500)
    log_p = gold.log_p + 2 * HOME
    return wrong, replace(gold, log_p=log_p, scores=gold.scores + 0.5 * log_p[:, None])


def golds_that_overlap_with_their_questions() -> tuple[Answers, Answers]:
    wrong, gold = wrong_and_gold(500, home=0.7)
    return wrong, replace(gold, imitated=np.random.default_rng(2).normal(0.6, 0.5, size=500))


@pytest.mark.parametrize(
    ("world", "deceived", "fails"),
    [
        (golds_that_overlap_with_their_questions, "gold_wrong", "above_text"),
        (lost_behind_strange_questions, "gold_wrong", "gold_wrong_equal"),
        (a_curve_of_the_log_probability, "gold_wrong", "gold_wrong_equal"),
        (golds_below_own_wrong_answers, "gold_wrong_equal", "gold_wrong"),
        (likelihood_with_a_slope_of_its_own, "gold_wrong_equal", "gold_unexplained"),
    ],
)
def test_what_looks_like_truth_to_one_condition_fails_another(
    world: Callable[[], tuple[Answers, Answers]], deceived: str, fails: str
) -> None:
    found = claims.truth(*world())
    assert found.steps[deceived].low > 0
    assert found.p == max(step.p for step in found.steps.values()) == found.steps[fails].p
    assert (found.verdict, found.reason) == (claims.NO, claims.EXPLAINED[fails])


def test_refits_that_disagree_take_a_claim_back() -> None:
    wrong, gold = wrong_and_gold(300, home=0.7)
    moved = np.random.default_rng(0).normal(size=(20, 1)) * HOME[:, None]
    refitted = [
        replace(one, scores=np.concatenate([one.scores, one.scores + by], axis=1))
        for one, by in ((wrong, 0 * moved), (gold, moved))
    ]
    assert claims.truth(*refitted).verdict == claims.NO
    whole = claims.truth(wrong, gold)
    assert whole.verdict == claims.YES
    for one in (whole.estimate, whole.steps["gold_wrong_equal"]):
        assert one.value == pytest.approx(0.35, abs=0.1)


@pytest.mark.parametrize("name", ["scores", "log_p"])
def test_a_pair_that_is_not_known_is_left_out(name: str) -> None:
    wrong, gold = wrong_and_gold(120, home=0.7)
    values = getattr(gold, name).copy()
    values[0, ..., :20] = np.nan
    found, rows = claims.truth(wrong, replace(gold, **{name: values})), np.arange(20, 120)
    assert found.n == 100
    assert found.p == claims.truth(wrong.of(rows), gold.of(rows)).p


def test_own_wrong_answers_that_score_lower_behind_their_own_question_are_called_reversed() -> None:
    found = claims.own_answer(answers(100, home=-1.0))
    assert found.verdict == claims.NO and found.reason.startswith("reversed: ")
    assert not claims.own_answer(answers(100)).reason.startswith("reversed")


@pytest.mark.parametrize("n", [0, 1, 9, 49])
def test_too_few_pairs_are_counted(n: int) -> None:
    wrong, gold = wrong_and_gold(n, home=1.0)
    found = claims.truth(wrong, gold)
    assert (found.verdict, found.reason) == (
        claims.TOO_FEW,
        f"{n} pair{'s' if n != 1 else ''}, and at least 50 are needed",
    )
    assert np.isnan([found.p, found.estimate.low]).all()
    right = claims.interaction(gold)
    assert right.verdict == (claims.YES if n >= 10 else claims.TOO_FEW)


def test_one_of_two_claims_is_enough_at_twice_its_p() -> None:
    yes = claims.interaction(answers(100, home=1.0))
    no, few = claims.own_answer(answers(100)), claims.own_answer(answers(5))
    name, found = claims.either({"right": yes, "wrong": no})
    assert (name, found.verdict) == ("right", claims.YES)
    assert found.p == pytest.approx(2 * yes.p) and found.estimate == yes.estimate
    assert claims.either({"right": few, "wrong": yes}) == ("wrong", yes)
    _, lost = claims.either({"right": replace(yes, p=0.04), "wrong": no})
    assert (lost.verdict, lost.p) == (claims.NO, 0.08) and lost.reason
    bound = claims.Claim(claims.BY_DESIGN, claims.NOTHING_ELSE, n=2)
    for sides in ({"right": few, "wrong": bound}, {"right": bound, "wrong": few}):
        assert claims.either(sides)[1] == bound
    assert claims.either({"right": bound, "wrong": yes}) == ("wrong", yes)

"""What is claimed of swapped pairs, and the statistics that it rests on."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from anchorscope.experiments.crossing import claims, estimates, imitator
from anchorscope.experiments.crossing.claims import Answers
from anchorscope.experiments.crossing.estimates import (
    ANSWER,
    MEAN,
    PAIR,
    QUESTION,
    dependence,
    holm,
    term,
)

LOGITS = st.floats(-30, 30)
HOME = np.array([1.0, 0.0, 0.0, 1.0])[:, None]
"""Which of the four are an answer behind its own question."""


def ids(n: int, first: int = 0) -> np.ndarray:
    """All distinct, [2, n]."""
    return first + np.arange(2 * n).reshape(2, n)


def pairs(n: int) -> estimates.Dependence:
    """Of pairs that share nothing."""
    return dependence(ids(n), ids(n))


def answers(n: int, seed: int = 0, home: float = 0.0) -> Answers:
    """Sums of question and answer with noise, and so much more behind the own question."""
    random = np.random.default_rng(seed)
    question, answer = random.normal(size=(2, 2, n))
    sums = np.stack([question[i] + answer[j] for j in (0, 1) for i in (0, 1)])
    scores = sums + home * HOME + 0.3 * random.normal(size=(4, n))
    log_p = -9 + random.normal(size=(4, n))
    return Answers(scores, ids(n), ids(n), np.arange(n) % 5, np.zeros(n), log_p)


def wrong_and_gold(n: int, home: float = 0.0, seed: int = 0) -> tuple[Answers, Answers]:
    """Own and gold answers of the same pairs."""
    wrong, gold = answers(n, seed=seed), answers(n, seed=seed + 1, home=home)
    return wrong, replace(gold, texts=ids(n, first=2 * n))


def losing(own: Answers, lost: float) -> Answers:
    """Scores that lose a share behind a strange question."""
    return replace(own, scores=own.scores * (1 - lost * (1 - HOME)))


# Terms


@settings(max_examples=100, deadline=None)
@given(*(st.lists(LOGITS, min_size=4, max_size=4) for _ in range(2)))
def test_a_sum_of_question_and_answer_has_no_pair_term(question: list, answer: list) -> None:
    q, y = np.array(question).reshape(2, 2), np.array(answer).reshape(2, 2)
    four = np.stack([q[i] + y[j] for j in (0, 1) for i in (0, 1)])
    assert np.abs(term(PAIR, four)).max() < 1e-6
    assert term(QUESTION, four) == pytest.approx((q[0] - q[1]) / 2)
    assert term(ANSWER, four) == pytest.approx((y[0] - y[1]) / 2)


def test_the_terms_add_up_to_the_score_behind_the_own_question() -> None:
    four = np.random.default_rng(0).normal(size=(4, 3, 7))
    whole = sum(term(which, four) for which in (MEAN, QUESTION, ANSWER, PAIR))
    assert whole == pytest.approx(four[0])


# Means


def test_pairs_that_share_nothing_have_students_interval_of_the_mean() -> None:
    values = np.random.default_rng(0).normal(0.3, 1, size=40)
    found = estimates.mean(values, pairs(40), 0.95)
    expected = stats.ttest_1samp(values, 0)
    low, high = expected.confidence_interval(0.95)
    assert (found.low, found.high, found.p) == pytest.approx((low, high, expected.pvalue))
    assert found.error == pytest.approx(stats.sem(values))


def test_p_is_below_what_the_level_leaves_exactly_where_the_interval_lies_above_0() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(200, 1)) * 0.3 + random.normal(size=(200, 40))
    found = estimates.mean(values, pairs(40), 0.95)
    assert ((found.p < 0.05) == (found.low > 0)).all()
    assert (found.low > 0).any() and (found.p[found.value <= 0] == 1).all()


@pytest.mark.parametrize("kind", ["subject", "answer", "other"])
def test_whatever_pairs_share_makes_them_dependent(kind: str) -> None:
    random = np.random.default_rng(0)
    group = np.arange(120) % 20
    values = random.normal(size=20)[group] + 0.1 * random.normal(size=120)
    of = {name: ids(120) for name in ("subject", "answer", "other")}
    of[kind] = np.stack([group, 1000 + np.arange(120)])
    shared = estimates.mean(values, dependence(of["subject"], of["answer"], of["other"]), 0.95)
    alone = estimates.mean(values, pairs(120), 0.95)
    wider = (shared.high - shared.low) / (alone.high - alone.low)
    assert wider == pytest.approx(np.sqrt(6), rel=0.1)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_no_variance_is_below_that_of_independent_pairs(seed: int) -> None:
    random = np.random.default_rng(seed)
    few = [random.integers(0, 15, size=(2, 30)) for _ in range(3)]
    parts = random.normal(size=(4, 30))
    parts -= parts.mean(-1, keepdims=True)
    shared = dependence(*few)
    assert (shared.variance(parts) >= (parts**2).sum(-1)).all()


def test_a_gold_of_half_of_all_pairs_leaves_few_clusters() -> None:
    golds = ids(100)
    golds[:, :50] = 1000
    assert dependence(ids(100), golds).clusters == pytest.approx(1 / (0.25 + 100 * 0.005**2))
    assert pairs(100).clusters == 100  # not 200, though all have two subjects


def test_refits_add_their_variance() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(3, 200))
    moved = random.normal(size=(20, 3, 1))
    found = estimates.mean(values, pairs(200), 0.95, values + moved)
    alone = estimates.mean(values, pairs(200), 0.95)
    half, sampled = (found.high - found.low) / 2, values.std(-1, ddof=1) / np.sqrt(200)
    error = np.hypot(sampled, moved[..., 0].std(0, ddof=1))
    assert (half > stats.norm.ppf(0.975) * error).all() and (half < 2.2 * error).all()
    assert found.value == pytest.approx(alone.value)
    one = estimates.mean(values, pairs(200), 0.95, values[None])
    assert one.low == pytest.approx(alone.low)


def test_what_is_rounded_is_not_above_0() -> None:
    found = estimates.mean(np.full(50, 1e-7), pairs(50), 0.95)
    assert found.p > 0.9 and found.low < 0
    assert estimates.mean(np.full(50, 1.0), pairs(50), 0.95).p < 1e-10


@pytest.mark.parametrize("n", [0, 1])
def test_no_pair_and_a_single_one_have_no_interval(n: int) -> None:
    found = estimates.mean(np.ones((3, n)), pairs(n), 0.95, np.ones((20, 3, n)))
    assert np.isnan([found.low, found.high, found.p]).all()
    assert np.isnan(found.value).all() == (n == 0)


# Holm's correction


def test_holm_multiplies_by_the_claims_that_are_left() -> None:
    p = np.array([0.01, np.nan, 0.04, 0.03, 0.5])
    assert holm(p) == pytest.approx([0.04, np.nan, 0.09, 0.09, 0.5], nan_ok=True)
    assert holm(np.array([0.9, 0.8])) == pytest.approx([1, 1])
    assert holm(np.array([])).size == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.5))
def test_holm_rejects_what_the_step_down_procedure_does(p: list, level: float) -> None:
    order, rejected = np.argsort(p, kind="stable"), set()
    for left, place in zip(range(len(p), 0, -1), order, strict=True):
        if not p[place] * left <= level:
            break
        rejected.add(int(place))
    assert set(np.flatnonzero(holm(np.array(p)) <= level).tolist()) == rejected


# Other things equal


def columns(n: int, slope: float, seed: int = 0) -> np.ndarray:
    """A difference that is 0 at an equal mean, both of them with noise, and another thing."""
    random = np.random.default_rng(seed)
    mean, other = 1 + random.normal(size=n), random.normal(size=n)
    difference = slope * mean + 0.5 * other
    noise = 0.5 * random.normal(size=(2, n))
    return np.stack([difference + noise[0], mean + noise[1], other], axis=-1)


def test_noise_of_the_mean_does_not_pass_for_a_difference() -> None:
    found = columns(100_000, slope=0.8)
    assert estimates.at_equal(found) == pytest.approx(0, abs=0.01)
    rows = np.column_stack([found[:, 1:], np.ones(len(found))])
    assert np.linalg.lstsq(rows, found[:, 0])[0][-1] > 0.1  # least squares


def test_a_difference_at_equal_other_things_is_found() -> None:
    found = columns(100_000, slope=0.8) + np.array([0.3, 0, 0])
    assert estimates.at_equal(found) == pytest.approx(0.3, abs=0.01)


def test_each_part_is_what_leaving_the_pair_out_changes() -> None:
    found = np.stack([columns(60, 0.5), columns(60, -0.2, seed=1)])
    parts = estimates.error_parts(found)
    left_out = [np.delete(found, place, axis=1) for place in range(60)]
    change = estimates.at_equal(found) - np.stack([estimates.at_equal(one) for one in left_out])
    assert parts == pytest.approx(change.T * 59 / 60, rel=0.05, abs=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_units_do_not_matter(logits: float, others: float) -> None:
    found = columns(80, 0.5)
    scaled = found * np.array([logits, logits, others])
    assert estimates.at_equal(scaled) == pytest.approx(logits * estimates.at_equal(found), rel=1e-4)


def test_a_thing_that_never_differs_has_no_say() -> None:
    found = columns(80, 0.5)
    more = np.column_stack([found, np.zeros(80), np.full(80, 0.3)])
    assert estimates.at_equal(more) == pytest.approx(estimates.at_equal(found), abs=1e-6)


# Text imitator


def read(n: int, home: float, overlap: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores [4, layers, n] and features: a probe that reads overlap, which own answers have."""
    random = np.random.default_rng(0)
    features = random.normal(size=(4, n, 6)) + HOME[:, :, None]
    noise = 0.2 * random.normal(size=(4, 2, n))
    return overlap * features[..., 0][:, None] + home * HOME[:, None] + noise, features


@pytest.mark.parametrize(("home", "overlap", "left"), [(0.0, 1.0, 0.0), (1.0, 0.0, 0.5)])
def test_overlap_is_imitated_where_it_is_read_and_nothing_else_is(
    home: float, overlap: float, left: float
) -> None:
    scores, features = read(400, home, overlap)
    found = imitator.pair_terms(scores, features, np.zeros(400), np.arange(400) % 5)
    assert found.shape == (2, 400) and term(PAIR, scores).mean() > 0.4
    assert (term(PAIR, scores) - found).mean(-1) == pytest.approx([left, left], abs=0.05)


def test_kinds_of_answers_that_differ_in_both_tell_the_imitator_nothing() -> None:
    scores, features = read(400, home=0.0, overlap=0.0)
    kind = np.repeat([0, 1], 200)
    scores += HOME[:, None] * kind
    features += 2 * HOME[:, :, None] * kind[None, :, None]
    found = imitator.pair_terms(scores, features, kind, np.arange(400) % 5)
    assert np.abs(found.mean()) < 0.05


def test_a_pair_is_imitated_by_what_other_folds_tell() -> None:
    scores, features = read(100, home=0.0, overlap=1.0)
    fold = np.arange(100) % 2
    found = imitator.pair_terms(scores, features, np.zeros(100), fold)
    scores[..., fold == 0] += 100 * np.random.default_rng(1).normal(size=(4, 2, 50))
    again = imitator.pair_terms(scores, features, np.zeros(100), fold)
    assert again[:, fold == 1] != pytest.approx(found[:, fold == 1])
    assert again[:, fold == 0] == pytest.approx(found[:, fold == 0])
    assert not imitator.pair_terms(scores, features, np.zeros(100), np.zeros(100)).any()


# Claims


def test_what_is_above_sums_is_claimed_unless_the_imitator_has_it() -> None:
    right = answers(60, home=1.0)
    found = claims.interaction(right)
    assert found.verdict == claims.YES and found.n == found.clusters == 60
    assert found.estimate.value == pytest.approx(0.5, abs=0.1) and found.reason == ""
    imitated = claims.interaction(replace(right, imitated=np.full(60, 0.5)))
    assert imitated.verdict == claims.NO
    assert imitated.steps["above_text"].value == pytest.approx(0, abs=0.1)
    assert imitated.reason == "the overlap of question and answer may explain it"


def test_the_reason_names_the_condition_that_fails_most_clearly() -> None:
    below = claims.interaction(answers(60, home=-1.0))
    assert below.verdict == claims.NO
    assert below.reason == "the pair term is not significantly above 0"
    assert claims.EXPLAINED.keys() >= {*below.steps, *claims.truth(*wrong_and_gold(60)).steps}


def test_the_p_of_a_claim_is_its_largest() -> None:
    found = claims.truth(*wrong_and_gold(300, home=0.2))
    steps = ["above_text", "gold_wrong", "gold_wrong_equal", "gold_unexplained"]
    assert [*found.steps] == steps
    assert found.p == max(step.p for step in found.steps.values())
    right = claims.interaction(answers(60, home=0.2))
    assert [*right.steps] == ["pair", "above_text"]
    assert right.p == max(step.p for step in right.steps.values())


def test_golds_above_own_wrong_answers_are_truth() -> None:
    found = claims.truth(*wrong_and_gold(300, home=0.7))
    assert found.verdict == claims.YES
    for one in (found.estimate, found.steps["gold_wrong_equal"]):
        assert one.value == pytest.approx(0.35, abs=0.1)


def lost_behind_strange_questions() -> tuple[Answers, Answers]:
    wrong, gold = wrong_and_gold(500)
    return losing(wrong, 0.5), losing(replace(gold, scores=gold.scores + 1), 0.5)


def a_curve_of_the_log_probability() -> tuple[Answers, Answers]:
    wrong, gold = wrong_and_gold(500)
    likely = replace(gold, log_p=gold.log_p + 2 * HOME)
    wrong, gold = (replace(x, scores=x.scores - 0.05 * (x.log_p + 3) ** 2) for x in (wrong, likely))
    return wrong, gold


def golds_below_own_wrong_answers() -> tuple[Answers, Answers]:
    wrong, gold = wrong_and_gold(300, home=0.7)
    sure = np.random.default_rng(0).uniform(0, 2, size=300) * HOME
    return replace(wrong, scores=wrong.scores + 0.8 * sure, log_p=wrong.log_p + 2 * sure), gold


def likelihood_with_a_slope_of_its_own(own: float) -> tuple[Answers, Answers]:
    wrong, gold = wrong_and_gold(500)
    log_p = gold.log_p + 2 * HOME
    likely = replace(gold, log_p=log_p, scores=gold.scores + 0.5 * log_p)
    return replace(wrong, scores=wrong.scores + own * HOME), likely


@pytest.mark.parametrize(
    ("world", "deceived", "fails"),
    [
        (lost_behind_strange_questions, "gold_wrong", "gold_wrong_equal"),
        (a_curve_of_the_log_probability, "gold_wrong", "gold_wrong_equal"),
        (golds_below_own_wrong_answers, "gold_wrong_equal", "gold_wrong"),
        (partial(likelihood_with_a_slope_of_its_own, 0.0), "gold_wrong_equal", "gold_unexplained"),
        (partial(likelihood_with_a_slope_of_its_own, -0.5), "gold_wrong_equal", "gold_unexplained"),
    ],
)
def test_what_looks_like_truth_to_one_condition_fails_another(
    world: Callable[[], tuple[Answers, Answers]], deceived: str, fails: str
) -> None:
    found = claims.truth(*world())
    assert found.steps[deceived].low > 0
    assert found.verdict == claims.NO and found.p == found.steps[fails].p
    assert found.reason == claims.EXPLAINED[fails]


def test_refits_that_disagree_take_a_claim_back() -> None:
    wrong, gold = wrong_and_gold(300, home=0.7)
    moved = np.random.default_rng(0).normal(size=(20, 1)) * HOME[:, None]
    with_refits = [
        replace(wrong, refits=np.repeat(wrong.scores[:, None], 20, axis=1)),
        replace(gold, refits=gold.scores[:, None] + moved),
    ]
    assert claims.truth(*with_refits).verdict == claims.NO
    assert claims.truth(wrong, gold).verdict == claims.YES


def test_a_pair_that_is_not_known_is_left_out() -> None:
    wrong, gold = wrong_and_gold(120, home=0.7)
    for four, role in ((0, "gold"), (3, "wrong")):
        for name in ("scores", "log_p"):
            holes = {"wrong": wrong, "gold": gold}
            values = getattr(holes[role], name).copy()
            values[four, :20] = np.nan
            holes[role] = replace(holes[role], **{name: values})
            found = claims.truth(**holes)
            rows = np.arange(20, 120)
            assert found.n == 100
            assert found.p == claims.truth(wrong.of(rows), gold.of(rows)).p


def test_what_is_not_measured_says_so() -> None:
    wrong, gold = wrong_and_gold(60)
    none = claims.truth(wrong, None)
    assert (none.verdict, none.reason) == (claims.NOT_MEASURED, "gold answers were not scored")
    unknown = claims.truth(wrong, replace(gold, log_p=np.full((4, 60), np.nan)))
    assert unknown.verdict == claims.NOT_MEASURED
    assert unknown.reason == "log-probabilities are not known"


def test_own_wrong_answers_that_score_lower_behind_their_own_question_are_called_reversed() -> None:
    found = claims.own_answer(answers(100, home=-1.0))
    assert found.verdict == claims.NO and found.estimate.high < 0
    assert found.reason == "reversed: own wrong answers score lower behind their own question"
    assert "reversed" not in claims.own_answer(answers(100)).reason
    assert "reversed" not in claims.interaction(answers(100, home=-1.0)).reason
    few = claims.own_answer(answers(5, home=-1.0))
    assert (few.verdict, few.reason) == (claims.TOO_FEW, "5 of 10 pairs")


@pytest.mark.parametrize("n", [0, 1, 9, 49])
def test_too_few_pairs_are_counted(n: int) -> None:
    wrong, gold = wrong_and_gold(n, home=1.0)
    found = claims.truth(wrong, gold)
    assert (found.verdict, found.reason) == (claims.TOO_FEW, f"{n} of 50 pairs")
    assert np.isnan(found.p) and np.isnan(found.steps["gold_wrong_equal"].value)
    assert np.isnan(found.estimate.value)
    right = claims.interaction(gold)
    assert right.verdict == (claims.YES if n >= 10 else claims.TOO_FEW)
    assert right.reason == ("" if n >= 10 else f"{n} of 10 pairs")


def test_one_of_two_claims_is_enough_at_twice_its_p() -> None:
    yes = claims.interaction(answers(100, home=1.0))
    no = claims.own_answer(answers(100))
    few = claims.own_answer(answers(5))
    name, found = claims.either({"right": yes, "wrong": no})
    assert (name, found.verdict) == ("right", claims.YES)
    assert found.p == pytest.approx(2 * yes.p) and found.estimate == yes.estimate
    name, found = claims.either({"right": few, "wrong": yes})
    assert (name, found.p, found.n) == ("wrong", yes.p, 100)
    _, neither = claims.either({"right": few, "wrong": replace(few, reason="3 of 10 pairs")})
    assert neither.verdict == claims.TOO_FEW
    assert neither.reason == "right: 5 of 10 pairs; wrong: 3 of 10 pairs"
    assert claims.either({"right": few, "wrong": few})[1].reason == "5 of 10 pairs"
    close = replace(yes, p=0.04)
    _, lost = claims.either({"right": close, "wrong": no})
    assert (lost.verdict, lost.p) == (claims.NO, 0.08)
    assert (
        lost.reason
        == "not significant once p is doubled, because right and wrong answers are both tested"
    )
    _, neither = claims.either({"right": few, "wrong": no})
    assert neither == no, "of one that is judged p is not doubled, and the reason stays"


def test_what_could_not_fail_is_said_unless_another_side_is_judged() -> None:
    bound = claims.Claim(claims.BY_DESIGN, claims.NOTHING_ELSE, n=2)
    few, yes = claims.own_answer(answers(5)), claims.interaction(answers(100, home=1.0))
    for sides in ({"right": few, "wrong": bound}, {"right": bound, "wrong": few}):
        assert claims.either(sides)[1] == bound
    assert claims.either({"right": bound, "wrong": yes}) == ("wrong", replace(yes, p=yes.p))

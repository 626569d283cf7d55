"""Terms, swap shares and the statistics of pairs."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from swapped_pairs import ids, pairs, scored

from anchorscope.claims.estimates import ANSWER, MEAN, PAIR, QUESTION, holm, term

LOGITS = st.floats(-30, 30)


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


def test_the_interval_of_a_swap_share_stays_between_0_and_1_and_p_is_that_of_one_half() -> None:
    shares = np.array([[1.0] * 19 + [0.5]])
    found, free = pairs(20).mean_share(shares), pairs(20).mean(shares - 0.5)
    assert (found.value, found.low, found.p) == (0.975, free.low + 0.5, free.p)
    assert free.high + 0.5 > 1 == found.high
    assert pairs(20).mean_share(1 - shares).low == 0


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


CURVES = (np.tanh, np.exp, lambda x: x**3, lambda x: np.maximum(x, 0), np.sign)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(CURVES))
def test_any_increasing_curve_of_a_sum_has_a_swap_share_of_one_half(seed: int, curve) -> None:
    """A tie in one of the two swaps gives a quarter or three quarters."""
    four = scored(40, seed, noise=0.0).scores
    found = replace(scored(40), scores=curve(four)).share()
    ties = np.isclose(curve(four)[[0, 3]], curve(four)[[1, 2]], atol=1e-3).any(0)
    assert (found[~ties] == 0.5).all() and (np.abs(found - 0.5) <= 0.25).all()
    of_each = np.stack([curve(four[0]), curve(four[1]), 3 * four[2] - 9, 3 * four[3] - 9])
    assert (replace(scored(40), scores=of_each).share()[~ties] == 0.5).all()


def test_the_swap_share_counts_answers_that_score_higher_at_home_and_ties_half() -> None:
    four = np.array([[1.0, 0, 0, 1], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1e-6]]).T
    own = scored(5)
    found = replace(own, scores=four[:, None])
    assert found.share().tolist() == [[1, 0.5, 0, 0.75, 0.5]]
    beyond = replace(found, imitated=np.full(5, 0.75))
    assert beyond.share(beyond_text=True).tolist() == [[0, 0, 0, 0, 0]]
    holes = four.copy()
    holes[2, 1] = np.nan
    assert np.isnan(replace(found, scores=holes[:, None]).share()).tolist() == [
        [False, True, False, False, False]
    ]

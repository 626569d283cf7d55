"""The split of a 2 x 2 of scores, and what each of its terms belongs to."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from anchorscope.experiments.crossing.split import at_own_size, split

PARTNER = np.array([2, 3, 0, 1, -1])
LOGITS = st.floats(-30, 30)


@settings(max_examples=100, deadline=None)
@given(*(st.lists(LOGITS, min_size=4, max_size=4) for _ in range(2)))
def test_a_sum_of_question_and_answer_has_no_pair_term(question: list, answer: list) -> None:
    q, a = np.array([*question, 0.0]), np.array([*answer, 0.0])
    found = split((q + a)[None], (q[PARTNER] + a)[None], PARTNER)
    assert np.abs(found.pair[0, :4]).max() < 1e-6
    assert found.question[0, :4] == pytest.approx(-(q - q[PARTNER])[:4] / 2)
    assert found.answer[0, :4] == pytest.approx(-(a - a[PARTNER])[:4] / 2)


@settings(max_examples=100, deadline=None)
@given(st.lists(LOGITS, min_size=4, max_size=4))
def test_the_terms_and_the_mean_add_up_to_the_score_towards_right(scores: list) -> None:
    a, e, b, c = scores  # own and the partner's clean score, own and the partner's answer moved
    found = split(np.array([[a, e]]), np.array([[b, c]]), np.array([1, 0]))
    mean = -(a + b + c + e) / 4
    assert mean + found.terms[:, 0, 0].sum() == pytest.approx(-a)
    assert found.pair[0, 0] == found.pair[0, 1] == pytest.approx(-(a + e - b - c) / 4)
    assert found.question[0, 0] == pytest.approx(-found.question[0, 1])
    assert found.answer[0, 0] == pytest.approx(-found.answer[0, 1])


def test_a_pair_lacks_its_terms_where_one_pass_is_not_scored() -> None:
    crossed = np.array([[1.0, 2.0, np.nan, 3.0, np.nan]])
    found = split(np.zeros((1, 5)), crossed, PARTNER)
    assert found.crossed.tolist() == [False, True, False, True, False]


def test_partners_must_be_each_others() -> None:
    with pytest.raises(ValueError, match="not the sample"):
        split(np.zeros((1, 3)), np.zeros((1, 3)), np.array([1, 2, 0]))


def test_refits_of_other_slopes_vary_no_more_than_those_of_one_slope() -> None:
    random = np.random.default_rng(0)
    fold = np.repeat([0, 1], 20)
    partner = np.arange(40).reshape(-1, 2)[:, ::-1].ravel()
    own = split(random.normal(size=(1, 40)), random.normal(size=(1, 40)), partner)
    drawn = [random.normal(size=(30, 1, 40)) for _ in range(2)]
    refits = split(*(s - t for s, t in zip(drawn, scores_of(own), strict=True)), partner)
    slopes = np.exp(random.normal(size=(30, 1, 2)))[..., fold]
    moved = split(*(-s for s in scores_of(refits, slopes)), partner)
    for one in (refits, moved):
        sized = at_own_size(own, one, fold)
        noise = sized.terms.var(1, ddof=1).mean() / (own.terms**2).mean()
        assert 0.7 < noise < 1.4  # what a draw adds is as large as the probe


def scores_of(found, slopes=1.0):
    """Clean and crossed scores towards right that have these terms, and mean 0."""
    question, answer, pair = found.terms
    return slopes * (question + answer + pair), slopes * (answer - question - pair)

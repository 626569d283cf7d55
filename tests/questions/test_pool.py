"""The pool: when enough questions were asked, and which answers are measured."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from anchorscope.questions.pool import MOST, Choice, choose

BALANCED = Choice(2000, balance=True)


def answers_of(right: int, wrong: int, seed: int = 0) -> pd.DataFrame:
    label = np.random.default_rng(seed).permutation([0] * right + [1] * wrong)
    return pd.DataFrame({"id": [f"q{n}" for n in range(len(label))], "label": label})


def ids_of(answers: pd.DataFrame, choice: Choice) -> set[str]:
    return set(answers["id"][choose(answers, choice) > 0])


@pytest.mark.parametrize(
    ("right", "wrong", "measured"),
    [
        (708, 5232, (708, 1292)),  # fills the sample
        (1200, 4000, (1000, 1000)),
        (4000, 1200, (1000, 1000)),
        (100, 5000, (100, 200)),  # at most twice as many
        (5000, 100, (200, 100)),
        (1000, 1000, (1000, 1000)),
        (0, 900, (0, 0)),
    ],
)
def test_half_of_the_sample_is_of_each_class_or_the_other_has_at_most_twice_as_many(
    right: int, wrong: int, measured: tuple[int, int]
) -> None:
    assert BALANCED.of_classes(right, wrong) == measured


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 200))
def test_no_choice_takes_more_than_there_is(right: int, wrong: int, size: int) -> None:
    n_right, n_wrong = Choice(size, balance=True).of_classes(right, wrong)
    assert n_right <= right and n_wrong <= wrong and n_right + n_wrong <= size
    assert max(n_right, n_wrong) <= MOST * min(n_right, n_wrong)
    assert sum(Choice(size, balance=False).of_classes(right, wrong)) <= size


def test_asking_ends_when_each_class_has_half_of_the_sample() -> None:
    assert BALANCED.enough(1000, 1000) and not BALANCED.enough(999, 4000)
    as_they_come = Choice(2000, balance=False)
    assert as_they_come.enough(0, 2000) and not as_they_come.enough(99, 1900)


def test_a_lost_answer_is_replaced_by_one_of_its_class_and_moves_no_other() -> None:
    answers, choice = answers_of(60, 540), Choice(80, balance=True)
    chosen = ids_of(answers, choice)
    label = dict(zip(answers["id"], answers["label"], strict=True))
    assert Counter(label[name] for name in chosen) == {0: 40, 1: 40}
    assert ids_of(answers.sample(frac=1, random_state=1), choice) == chosen
    for lost in list(chosen)[:5]:
        again = ids_of(answers[answers["id"] != lost], choice)
        (new,) = again - chosen
        assert chosen - again == {lost} and label[new] == label[lost]
    unused = answers["id"][~answers["id"].isin(chosen)].iloc[0]
    assert ids_of(answers[answers["id"] != unused], choice) == chosen
    assert chosen < ids_of(answers, Choice(120, balance=True)), "a larger sample adds to it"


def test_measured_answers_stand_for_all_answers_of_their_class() -> None:
    answers = answers_of(60, 540)
    stands_for = choose(answers, Choice(80, balance=True))
    for label, n in ((0, 60), (1, 540)):
        assert stands_for[answers["label"] == label].sum() == pytest.approx(n)
    as_they_come = choose(answers, Choice(80, balance=False))
    assert as_they_come[:80].tolist() == [1.0] * 80 and not as_they_come[80:].any()

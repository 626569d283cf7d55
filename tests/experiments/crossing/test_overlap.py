"""The text model of a pair: it sees overlap and kinds, and nothing where there is neither."""

import numpy as np
import pytest

from anchorscope.experiments.crossing import overlap
from anchorscope.experiments.crossing.split import split


def pairs(n: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Labels, folds and partners of samples: two and two of one label and one fold."""
    z = np.random.default_rng(seed).permutation(np.arange(n // 2) % 2).repeat(2)
    return z, np.arange(n) // 2 % 3, np.arange(n).reshape(-1, 2)[:, ::-1].ravel()


def pair_term(questions: list[str], answers: list[str], *given: np.ndarray) -> np.ndarray:
    z, _, partner = given
    clean, crossed = overlap.scores(questions, answers, *given)
    return split(clean[None], crossed[None], partner).pair[0, z == 0]


def test_an_answer_whose_letters_its_question_holds_has_a_pair_term() -> None:
    given, random = pairs(240), np.random.default_rng(1)
    names = ["".join(random.choice([*"abdegiklmnorstu"], 6)) for _ in range(480)]
    questions = [f"Who is {name}?" for name in names[:240]]
    others = [name[:5] if right else other for name, other, right in
              zip(names, names[240:], given[0] == 0, strict=False)]  # fmt: skip
    assert pair_term(questions, others, *given).mean() > 1
    assert abs(pair_term(questions, names[240:], *given).mean()) < 0.1


def test_a_date_behind_a_who_has_a_pair_term() -> None:
    given = pairs(240)
    when = np.arange(240) % 2  # of a pair, one asks when and the other who
    right = np.where(given[0] == 0, when, 1 - when)
    questions = [("Who came?", "When was it?")[kind] for kind in when]
    answers = [("Ada", "1871")[kind] for kind in right]
    assert pair_term(questions, answers, *given).mean() > 1


def test_it_says_nothing_where_a_fold_leaves_one_class_to_learn_from() -> None:
    z, partner = np.array([0, 0, 1, 1]), np.array([1, 0, 3, -1])
    clean, crossed = overlap.scores(list("abcd"), list("efgh"), z, z, partner)
    assert clean.tolist() == [0, 0, 0, 0]
    assert np.isnan(crossed).tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("4 July 1776", "number"),
        ("Yes.", "yes/no"),
        ("no", "yes/no"),
        ("Ada Lund", "name"),
        ("a smith", "words"),
        ("", "words"),
    ],
)
def test_letters_tell_the_kind_of_an_answer(answer: str, kind: str) -> None:
    assert overlap.kind_of(answer) == kind

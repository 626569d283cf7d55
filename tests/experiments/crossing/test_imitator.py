"""What the text imitator sees of question and answer together."""

import numpy as np
import pytest

from anchorscope.anchors.asking import kind_of
from anchorscope.experiments.crossing import imitator
from anchorscope.experiments.crossing.estimates import PAIR, term

PAIRS = 120
ONE, OTHER = np.arange(2 * PAIRS).reshape(-1, 2).T
TOLD = np.arange(PAIRS) % 2 == 0
"""The pairs whose texts may tell which answer belongs to which question."""


def explained(questions: list[str], answers: list[str]) -> np.ndarray:
    """What texts explain of the pair terms of a probe that has one of 1 in the pairs told of."""
    features = np.stack(
        [
            imitator.features([questions[i] for i in asked], [answers[i] for i in said])
            for asked, said in ((ONE, ONE), (OTHER, ONE), (ONE, OTHER), (OTHER, OTHER))
        ]
    )
    scores = 4 * PAIR[:, None] * TOLD
    assert term(PAIR, scores).tolist() == TOLD.tolist()
    fold = np.arange(PAIRS) // 2 % 3
    return imitator.pair_terms(scores, features, np.zeros(PAIRS), fold)


def names(seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return ["".join(random.choice([*"abdegiklmnorstu"], 6)) for _ in range(2 * PAIRS)]


def test_an_answer_whose_letters_its_question_holds_is_explained() -> None:
    asked, others = names(0), names(1)
    questions = [f"Who is {name}?" for name in asked]
    answers = [
        name[:5] if told else other
        for name, other, told in zip(asked, others, TOLD.repeat(2), strict=True)
    ]
    found = explained(questions, answers)
    assert found[TOLD].mean() > 0.8 and abs(found[~TOLD].mean()) < 0.2
    assert abs(explained(questions, others)[TOLD].mean()) < 0.2


def test_a_date_behind_a_who_is_explained() -> None:
    when = np.arange(2 * PAIRS) % 2  # of a pair, one asks when and the other who
    questions = [("Who came?", "When was it?")[kind] for kind in when]
    answers = [("Ada", "1871")[kind] for kind in np.where(TOLD.repeat(2), when, 1 - when)]
    found = explained(questions, answers)
    assert (found[TOLD] - found[~TOLD]).mean() > 0.8


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
    assert kind_of(answer) == kind

"""What the text imitator sees of question and answer together, and learns from other folds."""

import numpy as np
import pytest

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


HOME = np.array([1.0, 0.0, 0.0, 1.0])[:, None]
"""Which of the four are an answer behind its own question."""


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

"""Refusals of a published model whose prompt allows them, against marks made by eye."""

from typing import Any

import pytest
import yaml
from anchors.test_real_answers import FILES, TESTS, rows

from anchorscope.anchors import answer_anchors, outcomes
from anchorscope.models.answers import _first_turn


def judged(dataset: str, case: dict[str, Any]) -> str | None:
    """Why a case is no answer."""
    question = case.get("question") or rows(dataset)[case["row"]]["question"]
    text = _first_turn(case["output"], case["prompt"])
    anchor = answer_anchors.locate(text, question)
    return outcomes.no_answer(text, question, anchor, finished=not case.get("cut", False))


@pytest.mark.parametrize("dataset", list(FILES))
def test_refusals_are_those_marked_by_eye(dataset: str) -> None:
    groups = yaml.safe_load((TESTS / "data" / "refusals.yaml").read_text("utf-8"))
    (cases,) = (group["cases"] for group in groups if group["dataset"] == dataset)
    if dataset != "popqa" and not rows(dataset):
        pytest.skip(f"../shared/data/{dataset} is absent")
    wrong = [
        case["output"]
        for case in cases
        if (judged(dataset, case) == outcomes.REFUSAL) != case["refusal"]
    ]
    assert len(cases) == 35 and wrong == []


@pytest.mark.parametrize(
    ("question", "response", "reason"),
    [
        ("Who wrote Mars?", "The author of Mars is not known to have written Mars.", "refusal"),
        ("Who is not known to be a poet?", "Who is not known to be a poet?", outcomes.ECHO),
    ],
)
def test_an_echo_is_a_refusal_only_if_it_says_that_something_is_unknown(
    question: str, response: str, reason: str
) -> None:
    anchor = answer_anchors.locate(response, question)
    assert outcomes.no_answer(response, question, anchor, finished=True) == reason

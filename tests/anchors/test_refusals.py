"""Refusals of a published model whose prompt allows them, against marks made by eye."""

from typing import Any

import pytest
import yaml
from anchors.test_real_answers import FILES, TESTS, first_line, rows

from anchorscope.anchors.answer_anchors import ECHO, REFUSAL, locate, no_answer


def judged(dataset: str, case: dict[str, Any]) -> str | None:
    """Why a case is no answer."""
    question = case.get("question") or rows(dataset)[case["row"]]["question"]
    text = first_line(case["output"], case["prompt"])
    finished = not case.get("cut", False)
    return no_answer(text, question, locate(text, question), finished)


def test_refusals_are_those_marked_by_eye() -> None:
    groups = yaml.safe_load((TESTS / "data" / "refusals.yaml").read_text("utf-8"))
    if not all(rows(dataset) for dataset in FILES):
        pytest.skip("../shared/data is absent")
    cases = [(judged(group["dataset"], case), case) for group in groups for case in group["cases"]]
    found = [case["refusal"] for reason, case in cases if reason == REFUSAL]
    marked = [reason == REFUSAL for reason, case in cases if case["refusal"]]
    assert len(cases) == 140 and sum(found) / len(found) >= 0.95
    assert sum(marked) / len(marked) >= 0.93


@pytest.mark.parametrize(
    ("question", "response", "reason"),
    [
        ("Who wrote Mars?", "The author of Mars is not known to have written Mars.", REFUSAL),
        ("Who is not known to be a poet?", "Who is not known to be a poet?", ECHO),
    ],
)
def test_an_echo_is_a_refusal_only_if_it_says_that_something_is_unknown(
    question: str, response: str, reason: str
) -> None:
    assert no_answer(response, question, locate(response, question), finished=True) == reason

"""What a published model really writes: spans, outcomes and labels against marks made by eye."""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from anchorscope.anchors import answer_anchors, labels, outcomes
from anchorscope.models.answers import _first_turn
from anchorscope.questions.fields import Cells

TESTS = Path(__file__).parents[1]
SHARED = TESTS.parent / ".." / "shared" / "data"
FILES = {
    "popqa": "popqa/test.jsonl",
    "trivia_qa": "trivia_qa/validation.jsonl",
    "hotpot_qa": "hotpot_qa/validation.jsonl",
    "nq_open": "nq_open/validation.jsonl",
}
GOLDS = {"trivia_qa": ["answer.value", "answer.aliases"]}
LEAST = {  # shares of exact spans, of outcomes and of labels that the rules reach
    "develop": (0.97, 0.97, 0.98),
    "second": (0.95, 0.96, 0.98),
    "third": (0.94, 0.96, 0.98),
    "fresh": (0.86, 0.95, 0.98),
    "chat develop": (0.86, 0.90, 0.98),
    "chat second": (0.87, 0.90, 0.98),
    "chat third": (0.85, 0.95, 0.97),
    "fourth": (0.97, 0.98, 0.98),
    "chat fourth": (0.74, 0.90, 0.96),
}


@cache
def groups() -> list[dict[str, Any]]:
    return yaml.safe_load((TESTS / "data" / "real_answers.yaml").read_text("utf-8"))


@cache
def rows(dataset: str) -> list[dict[str, Any]]:
    path = SHARED / FILES[dataset]
    if not path.is_file():
        return []
    lines = path.read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line.strip()]


def completed(dataset: str, case: dict[str, Any]) -> dict[str, Any] | None:
    """A case with its question and gold answers; None where the dataset's rows are absent."""
    if "question" in case:
        return case
    if not rows(dataset):
        return None
    fields = {"question": "question", "answers": GOLDS.get(dataset, ["answer"])}
    cells = Cells(rows(dataset)[case["row"]], fields, dataset, Counter())
    return case | {"question": cells.question, "golds": cells.golds}


def judged(case: dict[str, Any]) -> tuple[str | None, str]:
    """E_A and outcome of a case, as the answers stage finds them."""
    said = _first_turn(case["output"], case.get("prompt", "few_shot"))
    anchor = answer_anchors.locate(said, case["question"])
    if outcomes.no_answer(said, case["question"], anchor, not case.get("cut", False)):
        return (None if anchor is None else said[anchor.start : anchor.end]), "no answer"
    assert anchor is not None
    text = said[anchor.start : anchor.end]
    return text, "right" if labels.matches(text, case["golds"]) else "wrong"


@pytest.mark.parametrize("dataset", list(FILES))
def test_the_marks_follow_from_the_rows_that_they_name(dataset: str) -> None:
    cases = [case for group in groups() if group["dataset"] == dataset for case in group["cases"]]
    full = [done for case in cases if (done := completed(dataset, case)) is not None]
    if not full:
        pytest.skip(f"../shared/data/{dataset} is absent")
    for case in full:
        assert (case["ea"] is None) == (case["outcome"] == "no answer")
        if case["ea"] is not None:
            assert case["ea"] in case["output"]
            right = labels.matches(case["ea"], case["golds"])
            assert case["outcome"] == ("right" if right else "wrong")


@pytest.mark.parametrize("part", list(LEAST))
def test_spans_outcomes_and_labels_are_those_marked_by_eye(part: str) -> None:
    cases = [
        done
        for group in groups()
        if group["part"] == part
        for case in group["cases"]
        if (done := completed(group["dataset"], case)) is not None
    ]
    found = [(case, *judged(case)) for case in cases]
    answered = [(case, text, outcome) for case, text, outcome in found if case["ea"] is not None]
    exact = sum(case["ea"] == text for case, text, _ in answered) / len(answered)
    is_answer = sum(
        (case["outcome"] == "no answer") == (outcome == "no answer") for case, _, outcome in found
    )
    same_label = sum(
        labels.matches(text or "", case["golds"]) == (case["outcome"] == "right")
        for case, text, _ in answered
    )
    shares = exact, is_answer / len(found), same_label / len(answered)
    least = LEAST[part]
    assert all(share >= bound for share, bound in zip(shares, least, strict=True)), shares

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
# Shares of exact spans, of outcomes and of labels that the rules reach, by the marks as they are.
LEAST = {
    "develop": (0.95, 0.97, 0.98),
    "second": (0.92, 0.97, 0.98),
    "third": (0.91, 0.96, 0.98),
    "fresh": (0.79, 0.96, 0.98),
    "chat develop": (0.79, 0.93, 0.98),
    "chat second": (0.80, 0.92, 0.98),
    "chat third": (0.79, 0.96, 0.98),
    "fourth": (0.97, 0.98, 0.98),
    "chat fourth": (0.71, 0.91, 0.98),
    "chat fifth": (0.71, 0.87, 0.98),
    "chat sixth": (0.65, 0.90, 0.98),
}
SURE = {"few_shot": (0.92, 0.98), "chat": (0.31, 0.93)}
"""Least share of answers whose span the finder is sure of, and of these, of exact spans."""


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


def all_rows(chosen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The completed cases of groups; the shares are of all rows, so the test is skipped without."""
    cases = [completed(group["dataset"], case) for group in chosen for case in group["cases"]]
    if None in cases:
        pytest.skip("../shared/data is absent")
    return [case for case in cases if case is not None]


def located(case: dict[str, Any]) -> tuple[str, answer_anchors.Anchor | None]:
    """The answer of a case, and where the finder puts E_A in it."""
    said = _first_turn(case["output"], case.get("prompt", "few_shot"))
    return said, answer_anchors.locate(said, case["question"])


def judged(case: dict[str, Any]) -> tuple[str | None, str]:
    """E_A and outcome of a case, as the answers stage finds them."""
    said, anchor = located(case)
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
    cases = all_rows([group for group in groups() if group["part"] == part])
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


@pytest.mark.parametrize("style", list(SURE))
def test_spans_of_which_the_finder_is_sure_are_exact(style: str) -> None:
    answered = []
    for case in all_rows(groups()):
        text, outcome = judged(case)
        anchor = located(case)[1]
        if case.get("prompt", "few_shot") == style and outcome != "no answer" and anchor:
            answered.append((anchor.sure, text == case["ea"]))
    exact = [is_exact for is_sure, is_exact in answered if is_sure]
    shares = len(exact) / len(answered), sum(exact) / len(exact)
    assert all(share >= bound for share, bound in zip(shares, SURE[style], strict=True)), shares

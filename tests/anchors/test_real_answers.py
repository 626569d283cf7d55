"""What a published model really writes: spans, outcomes and labels against marks made by eye."""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import yaml

from anchorscope.anchors import answer_anchors, labels, no_answer
from anchorscope.answers.endings import Ending, first_turn
from anchorscope.questions.fields import RowCells
from anchorscope.styles import style_of

TESTS = Path(__file__).parents[1]
SHARED = TESTS.parent / ".." / "shared" / "data"
FILES = {
    "popqa": "popqa/test.jsonl",
    "trivia_qa": "trivia_qa/validation.jsonl",
    "hotpot_qa": "hotpot_qa/validation.jsonl",
    "nq_open": "nq_open/validation.jsonl",
}
GOLDS = {"trivia_qa": ["answer.value", "answer.aliases"]}
# Parts after one prompt → least shares of exact spans, outcomes, labels; of answers whose span the
# finder is sure of; and of these, of exact spans. `chat` are replies to a single user turn.
LEAST = {
    "few_shot": (0.985, 0.99, 0.99, 0.94, 0.985),
    "chat turns": (0.87, 0.96, 0.99, 0.8, 0.95),
    "chat": (0.56, 0.88, 0.985, 0.35, 0.92),
}


@cache
def cases_of(name: str) -> Any:
    """What stands in a file of cases."""
    return yaml.safe_load((TESTS / "data" / f"{name}.yaml").read_text("utf-8"))


@cache
def rows(dataset: str) -> list[dict[str, Any]]:
    path = SHARED / FILES[dataset]
    if not path.is_file():
        return []
    lines = path.read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line.strip()]


def present(dataset: str) -> list[dict[str, Any]]:
    """The rows of a dataset; without them the test is skipped."""
    return rows(dataset) or pytest.skip(f"../shared/data/{dataset} is absent")


def completed(dataset: str, case: dict[str, Any]) -> dict[str, Any] | None:
    """A case with its question and gold answers; None where the dataset's rows are absent."""
    if "question" in case:
        return case
    if not rows(dataset):
        return None
    fields = {"question": "question", "answers": GOLDS.get(dataset, ["answer"])}
    cells = RowCells(rows(dataset)[case["row"]], fields, dataset, Counter())
    return case | {"question": cells.question, "golds": cells.golds}


def all_rows(chosen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The completed cases of groups; the shares are of all rows, so the test is skipped without."""
    cases = [completed(group["dataset"], case) for group in chosen for case in group["cases"]]
    if None in cases:
        pytest.skip("../shared/data is absent")
    return [case for case in cases if case is not None]


def turn_of(text: str, style: str) -> str:
    """Return the part of a reply that is searched for the answer."""
    return first_turn(text, Ending(style_of(style), (), frozenset()))


def located(case: dict[str, Any]) -> tuple[str, answer_anchors.Anchor | None]:
    """The answer of a case, and where the finder puts E_A in it."""
    said = turn_of(case["output"], case.get("prompt", "few_shot"))
    return said, answer_anchors.locate(said, case["question"])


def judged(case: dict[str, Any]) -> tuple[str | None, str]:
    """E_A and outcome of a case, as the answers stage finds them."""
    said, anchor = located(case)
    if no_answer.reason(said, case["question"], anchor, not case.get("cut", False)):
        return (None if anchor is None else said[anchor.start : anchor.end]), "no answer"
    assert anchor is not None
    text = said[anchor.start : anchor.end]
    return text, "right" if labels.is_right(text, said, case["golds"]) else "wrong"


def prompt_of(group: dict[str, Any], case: dict[str, Any]) -> str:
    """Which prompt a case's reply stands behind, a key of LEAST."""
    return "chat turns" if group["part"] == "chat turns" else case.get("prompt", "few_shot")


@pytest.mark.parametrize("prompt", list(LEAST))
def test_spans_outcomes_and_labels_are_those_marked_by_eye(prompt: str) -> None:
    chosen = [
        group | {"cases": [case for case in group["cases"] if prompt_of(group, case) == prompt]}
        for group in cases_of("real_answers")
    ]
    found = [(case, *judged(case), located(case)[1]) for case in all_rows(chosen)]
    answered = [(case, text) for case, text, _, _ in found if case["ea"] is not None]
    outcomes = [(case["outcome"], outcome) for case, _, outcome, _ in found]
    sure = [
        (anchor.sure, text == case["ea"])
        for case, text, outcome, anchor in found
        if anchor and outcome != "no answer"
    ]
    exact = [is_exact for is_sure, is_exact in sure if is_sure]
    shares = (
        mean(case["ea"] == text for case, text in answered),
        mean((marked == "no answer") == (found == "no answer") for marked, found in outcomes),
        mean(
            labels.matches(text or "", case["golds"]) == (case["outcome"] == "right")
            for case, text in answered
        ),
        len(exact) / len(sure),
        mean(exact),
    )
    least = LEAST[prompt]
    assert all(share >= bound for share, bound in zip(shares, least, strict=True)), shares


def test_refusals_are_those_marked_by_eye() -> None:
    if not all(rows(dataset) for dataset in FILES):
        pytest.skip("../shared/data is absent")
    found, marked = [], []
    for group in cases_of("refusals"):
        for case in group["cases"]:
            question = case.get("question") or rows(group["dataset"])[case["row"]]["question"]
            said, anchor = located(case | {"question": question})
            finished = not case.get("cut", False)
            reason = no_answer.reason(said, question, anchor, finished)
            found.append(reason == no_answer.REFUSAL)
            marked.append(case["refusal"])
    both = sum(one and other for one, other in zip(found, marked, strict=True))
    assert len(found) == 140
    assert both / sum(found) >= 0.95 and both / sum(marked) >= 0.93

"""What `check` says of rows of the user's own before a model answers them."""

from typing import Any

import pandas as pd
import pytest

from anchorscope.cli import cli_check
from anchorscope.questions import questions

FIELDS = {"id": "id", "question": "q", "answers": ["a"], "response": "say", "label": "z"}


def table(rows: list[dict[str, Any]]) -> tuple[pd.DataFrame, Any]:
    return questions.normalise(rows, FIELDS, split=None)


def labelled(n: int, label: Any, start: int = 0) -> list[dict[str, Any]]:
    """Rows of which every other one answers right; `label` of whether it does."""
    return [
        {"id": i, "q": f"Who is {i}?", "a": "in Ely (Kent)", "z": label(i % 2 == 0)}
        | {"say": "The answer is Ely." if i % 2 == 0 else "Rome"}
        for i in range(start, start + n)
    ]


@pytest.mark.parametrize(
    ("label", "said", "do"),
    [
        (lambda right: int(not right), None, None),
        (lambda right: None, None, None),
        (lambda right: 0, None, None),  # half of them agree
        (
            lambda right: int(right),
            "only 0 of 280 labels (0%) agree with the gold answers of their rows, 140 of 140 "
            "answers labelled 1 match a gold answer, and 140 of 140 labelled 0 match none",
            "1 and 0 look swapped",
        ),
    ],
)
def test_labels_that_most_golds_contradict_are_named_with_the_share_that_agrees(
    label: Any, said: str | None, do: str | None
) -> None:
    found = list(cli_check.contradicted_labels("own", table(labelled(280, label))[0]))
    assert len(found) == (said is not None)
    for finding in found:
        assert (finding.status, finding.see) == ("warning", "label-or-popularity")
        assert said and do and said in finding.what and finding.do and do in finding.do


def test_labels_that_contradict_without_being_swapped_are_not_called_so() -> None:
    rows = [row | {"z": 1, "say": "Ely"} for row in labelled(6, int)] + labelled(2, int, start=6)
    (finding,) = cli_check.contradicted_labels("own", table(rows[:-1])[0])
    assert "0 of 7 labels (0%)" in finding.what and "labelled" not in finding.what
    assert finding.do and "swapped" not in finding.do


def test_labels_without_gold_answers_or_responses_are_not_compared() -> None:
    rows = [row | {"a": None} for row in labelled(6, int)]
    assert list(cli_check.contradicted_labels("own", table(rows)[0])) == []
    rows = [row | {"say": None, "z": None} for row in labelled(6, int)]
    assert list(cli_check.contradicted_labels("own", table(rows)[0])) == []


def test_ids_that_rows_share_are_said_with_the_first_ones() -> None:
    rows = [row | {"id": f"x{row['id'] // 2}"} for row in labelled(14, lambda right: not right)]
    sentence = questions.shared_ids(table(rows)[1].notes)
    assert sentence and sentence.startswith("14 rows share their id")
    assert sentence.count("(2 rows)") == 5 and "`x0` (2 rows)" in sentence
    assert questions.shared_ids(table(labelled(4, lambda right: None))[1].notes) is None

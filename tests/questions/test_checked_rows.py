"""Test that `check` warns of labels that contradict the gold answers of their rows."""

from typing import Any

import pytest

from anchorscope.cli import check
from anchorscope.questions import questions

FIELDS = {"id": "id", "question": "q", "answers": ["a"], "response": "say", "label": "z"}


def labelled(n: int, label: Any, **more: Any) -> list[dict[str, Any]]:
    """Rows of which every other one answers right; `label` of whether it does."""
    return [
        {"id": i, "q": f"Who is {i}?", "a": "in Ely (Kent)", "z": label(i % 2 == 0)}
        | {"say": "The answer is Ely." if i % 2 == 0 else "Rome"}
        | more
        for i in range(n)
    ]


@pytest.mark.parametrize(
    ("rows", "said", "swapped"),
    [
        (labelled(280, lambda right: int(not right)), None, False),
        (labelled(280, lambda right: 0), None, False),  # half of them agree
        (
            labelled(280, int),
            "only 0 of 280 labels (0%) agree with the gold answers of their rows; of 140 "
            "answers with label 1, 140 match a gold answer; of 140 with label 0, 140 match none",
            True,
        ),
        (labelled(7, lambda right: 1, say="Ely"), "0 of 7 labels (0%)", False),
    ],
)
def test_labels_that_most_golds_contradict_are_named_with_the_share_that_agrees(
    rows: list[dict[str, Any]], said: str | None, swapped: bool
) -> None:
    table, _ = questions.normalise(rows, FIELDS, split=None)
    found = list(check.contradicted_labels("own", table))
    assert len(found) == (said is not None)
    for finding in found:
        assert said and said in finding.what and finding.do
        assert ("1 and 0 look swapped" in finding.do) is swapped

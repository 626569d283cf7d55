"""Doubts: columns that look mistaken are named, and rows as they should be are not."""

from typing import Any

import pytest

from anchorscope.questions import questions
from anchorscope.questions.doubts import IN_QUESTION, JOINED, REMEDIES, SWAPPED

FIELDS = {name: name for name in ("question", "subject", "relation")} | {"answers": ["gold"]}


def rows(**change: str) -> list[dict[str, Any]]:
    """Rows without a fault; `change` holds columns and formats of their cells."""
    whole = {
        "question": "Where was Ann {n} born?",
        "gold": "Town {n}",
        "subject": "Ann {n}",
        "relation": "born",
    }
    return [{k: v.format(n=n) for k, v in (whole | change).items()} for n in range(40)]


def notes(given: list[dict[str, Any]]) -> dict[str, int]:
    return dict(questions.normalise(given, FIELDS, split=None)[1].notes)


@pytest.mark.parametrize(
    ("note", "change"),
    [
        (JOINED, {"gold": "Town {n}; Burgh {n}; T{n}"}),
        (JOINED, {"gold": "Town {n}|Burgh {n}"}),
        (IN_QUESTION, {"gold": "Ann {n}"}),
        (SWAPPED, {"subject": "born", "relation": "Ann {n}"}),
    ],
)
def test_a_mistaken_column_is_named_with_its_rows_and_a_remedy(
    note: str, change: dict[str, str]
) -> None:
    assert notes(rows(**change)) == {note: 40}
    assert note in REMEDIES and note in questions.WARNINGS


@pytest.mark.parametrize(
    "change", [{}, {"question": "Is it Town {n} or Burgh {n}?"}, {"subject": "", "relation": ""}]
)
def test_usual_rows_raise_no_doubt(change: dict[str, str]) -> None:
    given = rows(**change)
    given[0]["gold"] = "Either; or"
    assert notes(given) == {}

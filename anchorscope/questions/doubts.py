"""Signs that a dataset's `fields` name the wrong columns, or that its cells are written wrongly."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Entry = Mapping[str, Any]
"""A row in the schema of the questions table."""
JOINED = "gold answers hold `;` or `|`, and each counts as one answer"
IN_QUESTION = "gold answers stand in their question"
SWAPPED = "rows name a relation of their own, although few subjects are named"
REMEDIES = {
    JOINED: 'write several answers as a list, such as ["one", "two"]',
    IN_QUESTION: "`fields: answers` may name the subjects' column",
    SWAPPED: "`subject` and `relation` look swapped under `fields`",
}
"""Note → what to do."""
LEAST = 10  # rows; fewer show no pattern
_JOINED = re.compile(r"\S\s*[;|]\s*\S")
_CHOICE = re.compile(r"\bor\b", re.IGNORECASE)


def doubts(entries: Sequence[Entry]) -> dict[str, int]:
    """Return note → number of rows, for each sign that is too frequent to be chance.

    Gold answers may hold a semicolon in a few rows, and stand in questions that offer a choice.
    """
    judged = [entry for entry in entries if entry["question"] and entry["answers"]]
    joined = sum(any(map(_JOINED.search, entry["answers"])) for entry in judged)
    inside = sum(map(_in_question, judged))
    found = {}
    if len(judged) >= LEAST and joined > len(judged) / 5:
        found[JOINED] = joined
    if len(judged) >= LEAST and inside > len(judged) / 2:
        found[IN_QUESTION] = inside
    named = [entry for entry in entries if entry["subject"] and entry["relation"]]
    subjects, relations = ({entry[name] for entry in named} for name in ("subject", "relation"))
    if len(named) >= LEAST and len(subjects) <= len(named) / 5 < len(named) / 2 < len(relations):
        found[SWAPPED] = len(named)
    return found


def _in_question(entry: Entry) -> bool:
    """Return whether the question, which offers no choice, holds all its gold answers."""
    question = entry["question"]
    if _CHOICE.search(question):
        return False
    golds = [rf"(?<!\w){re.escape(gold)}(?!\w)" for gold in entry["answers"]]
    return all(re.search(gold, question, re.IGNORECASE) for gold in golds)

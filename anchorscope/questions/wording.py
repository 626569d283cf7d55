"""Subject and relation from a question's words alone, for datasets that name neither."""

import re
from collections.abc import Sequence

import pandas as pd

from anchorscope.anchors.asking import answer_kind
from anchorscope.anchors.english import TIMES
from anchorscope.anchors.question_anchors import LONGEST, candidates
from anchorscope.anchors.words import SUBJECT, Span, Word, words_of

_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|e|s)$")
_HEADS = ("asked words", "verb", "more words")  # rules that mark the property, the best first


def proxies(questions: pd.DataFrame) -> pd.DataFrame:
    """Derive a subject and a relation for each question, from the columns id and question.

    Two questions of one `relation` ask for the same kind of answer by the same property word:
    "who: wrot", "when: releas", "what: city", "how many: episod", "yes/no: nationality". The
    `subject` is the text of all names in the question, or without names, of its phrases.

    Returns:
        A table with the columns id, subject and relation, in lower case. A missing value is NaN.
    """
    pairs = [_proxy(question) for question in questions["question"]]
    table = pd.DataFrame(pairs, columns=["subject", "relation"], dtype=object)
    table.insert(0, "id", questions["id"].to_numpy())
    return table


def _proxy(question: str) -> tuple[str | float, str | float]:
    """Return the subject and relation of one question, or NaN."""
    words = words_of(question)
    if not 0 < len(words) <= LONGEST:
        return float("nan"), float("nan")
    spans = sorted(candidates(question, words))
    subject = " ".join(question[s.start : s.end].lower() for s in spans if s.role == SUBJECT)
    kind = answer_kind(words)
    head = _head(words, [s for s in spans if s.role != SUBJECT], kind)
    return subject or float("nan"), f"{kind}: {head}" if kind and head else float("nan")


def _head(words: Sequence[Word], spans: Sequence[Span], kind: str | None) -> str:
    """Return the stem of the property's last word, and an "of" or "for" that ends the question.

    "What is Rome the capital of?" and "What is the capital of Italy?" then differ.
    """
    for rule in _HEADS:
        for span in (s for s in spans if s.found_by == rule):
            last = next(w.lower for w in reversed(words) if span.start <= w.start < span.end)
            if not (kind == "when" and last in TIMES):
                preposition = words[-1].lower if words[-1].lower in ("of", "for") else ""
                return f"{_ENDING.sub('', last)} {preposition}".strip()
    return ""

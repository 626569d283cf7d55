"""Subject and relation by a question's own words alone, for datasets that name neither."""

import re
from collections.abc import Sequence

import pandas as pd

from anchorscope.anchors.asking import answer_kind
from anchorscope.anchors.english import TIMES
from anchorscope.anchors.question_anchors import LONGEST, candidates
from anchorscope.anchors.words import SUBJECT, Span, Word, words_of

_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|e|s)$")
_HEADS = ("asked words", "verb", "more words")  # rules that name the property, the best first


def proxies(questions: pd.DataFrame) -> pd.DataFrame:
    """What stands in for each question's subject and relation, by the columns id and question.

    Two questions of one `relation` ask for the same sort of answer by the same property word:
    "who: wrot", "when: releas", "what: city", "how many: episod", "yes/no: nationality". The
    `subject` is the text of all names in the question, or of its phrases where it has none.
    Columns are id, subject and relation, in lower case, NaN where none can be made.
    """
    pairs = [_proxy(question) for question in questions["question"]]
    table = pd.DataFrame(pairs, columns=["subject", "relation"], dtype=object)
    table.insert(0, "id", questions["id"].to_numpy())
    return table


def _proxy(question: str) -> tuple[str | float, str | float]:
    """One question's subject and relation; NaN where there is none."""
    words = words_of(question)
    if not 0 < len(words) <= LONGEST:
        return float("nan"), float("nan")
    spans = sorted(candidates(question, words))
    subject = " ".join(question[s.start : s.end].lower() for s in spans if s.role == SUBJECT)
    kind = answer_kind(words)
    head = _head(words, [s for s in spans if s.role != SUBJECT], kind)
    return subject or float("nan"), f"{kind}: {head}" if kind and head else float("nan")


def _head(words: Sequence[Word], spans: Sequence[Span], kind: str | None) -> str:
    """The stem of the property's last word, with the "of" or "for" that ends the question.

    So "What is Rome the capital of?" and "What is the capital of Italy?" differ.
    """
    for rule in _HEADS:
        for span in (s for s in spans if s.found_by == rule):
            last = next(w.lower for w in reversed(words) if span.start <= w.start < span.end)
            if not (kind == "when" and last in TIMES):
                preposition = words[-1].lower if words[-1].lower in ("of", "for") else ""
                return f"{_ENDING.sub('', last)} {preposition}".strip()
    return ""

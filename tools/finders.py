"""Measures how well the finders of question anchors (E_Q) do on real rows.

    python -m tools.finders <folder>

The folder holds rows of the four datasets with the hub's columns, in the subfolders `popqa`,
`trivia_qa`, `hotpot_qa` and `nq_open`; missing ones are left out. The offline finder reads the
question alone, and is compared with PopQA's own subjects.
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from anchorscope.anchors.english import FUNCTION
from anchorscope.anchors.question_anchors import find
from anchorscope.anchors.words import PROPERTY, SUBJECT, Span, word_count, word_places
from anchorscope.questions import reading, wording
from anchorscope.questions.fields import RowCells
from anchorscope.storage.errors import AnchorscopeError

EXAMPLES = 3
SIZES = (100, 400, 500, 2000)  # samples of which partners are counted: two folds, two whole samples
DRAWS = 10
TOGETHER = "together"


@dataclass(frozen=True)
class Source:
    """Rows of one dataset: subfolder, split and the columns read."""

    folder: str
    split: str
    fields: Mapping[str, Any]


SOURCES = {
    "PopQA": Source(
        "popqa",
        "test",
        {
            "question": "question",
            "answers": ["possible_answers"],
            "subject": "subj",
            "property": "prop",
            "relation": "prop",
        },
    ),
    "TriviaQA": Source(
        "trivia_qa", "validation", {"question": "question", "answers": ["answer.value"]}
    ),
    "HotpotQA": Source(
        "hotpot_qa",
        "validation",
        {"question": "question", "answers": ["answer"], "titles": "supporting_facts.title"},
    ),
    "NQ": Source("nq_open", "validation", {"question": "question", "answers": ["answer"]}),
}


@dataclass(frozen=True)
class Agreement:
    """Offline subjects against given ones.

    Attributes:
        rows: questions that hold the subject given.
        precision: of the words marked as subject, the share that belongs to the subject.
        recall: of the subject's words, the share that is marked as subject.
        exact: share of rows whose subject spans are the subject's, to the character, and no more.
    """

    rows: int
    precision: float
    recall: float
    exact: float


@dataclass(frozen=True)
class Usable:
    """What a finder leaves to work with: spans, on at most half of the question's words.

    Attributes:
        rows: questions.
        usable: share that has spans on at most half of its words.
        classes: rows in each class of failure or weakness; one row may be in several.
        examples: the first questions of each class, with what was marked in them.
    """

    rows: int
    usable: float
    classes: Mapping[str, int]
    examples: Mapping[str, Sequence[str]]


def words_in(question: str, spans: Sequence[Span]) -> int:
    """Number of the question's words that a span touches."""
    return len(_touched(word_places(question), spans))


def agreement(rows: Iterable[tuple[str, str]]) -> Agreement:
    """Compare the offline finder with subjects that it is not given.

    Args:
        rows: (question, subject); rows whose question does not hold its subject are left out.
    """
    n = exact = 0
    hits = marked = of_subjects = 0  # words
    for question, subject in rows:
        truth = subjects(find(question, subject=subject))
        if not _from_metadata(truth):
            continue
        offline = subjects(find(question))
        words = word_places(question)
        subject_words, marked_words = _touched(words, truth), _touched(words, offline)
        hits += len(subject_words & marked_words)
        marked += len(marked_words)
        of_subjects += len(subject_words)
        exact += places(offline) == places(truth)
        n += 1
    return Agreement(n, _share(hits, marked), _share(hits, of_subjects), _share(exact, n))


def usable(rows: Iterable[tuple[str, Sequence[Span]]]) -> Usable:
    """How many questions have spans on at most half of their words, and what the others lack."""
    n = good = 0
    marked: defaultdict[str, list[str]] = defaultdict(list)  # class → questions with their spans
    for question, spans in rows:
        n += 1
        good += bool(spans) and 2 * words_in(question, spans) <= word_count(question)
        for name, holds in CLASSES.items():
            if holds(question, spans):
                marked[name].append(with_brackets(question, spans))
    counts = {name: len(marked[name]) for name in CLASSES}
    examples = {name: marked[name][:EXAMPLES] for name in CLASSES}
    return Usable(n, _share(good, n), counts, examples)


def misses(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Questions whose subject the offline finder does not find exactly, by reason."""
    missed: defaultdict[str, list[str]] = defaultdict(list)
    for question, subject in rows:
        truth = subjects(find(question, subject=subject))
        spans = find(question)
        if _from_metadata(truth) and places(subjects(spans)) != places(truth):
            why = reason(question, truth, subjects(spans))
            missed[why].append(with_brackets(question, spans))
    return dict(sorted(missed.items(), key=lambda item: -len(item[1])))


def same_relation(proxies: pd.DataFrame, relations: Sequence[str]) -> tuple[float, float]:
    """Compare pairs with the same proxy relation with pairs that have the same relation.

    Args:
        proxies: see `wording.proxies`.
        relations: each question's own relation, as the dataset gives it.

    Returns:
        Of the pairs that share the proxy, the share with the same relation; and the reverse.
    """
    table = pd.DataFrame({"proxy": list(proxies["relation"]), "relation": list(relations)})

    def pairs(*columns: str) -> float:
        return sum(n * (n - 1) / 2 for n in table.groupby(list(columns)).size())

    both = pairs("proxy", "relation")
    return _share(both, pairs("proxy")), _share(both, pairs("relation"))


def coverage(proxies: pd.DataFrame, n: int) -> float:
    """Share of n questions with another subject of the same proxy relation, mean of `DRAWS`."""
    shares = []
    for draw in range(DRAWS):
        sample = proxies.sample(min(n, len(proxies)), random_state=draw)
        n_subjects = sample.groupby("relation")["subject"].transform("nunique")
        shares.append(float(((n_subjects > 1) & sample["subject"].notna()).mean()))
    return sum(shares) / DRAWS


def reason(question: str, truth: Sequence[Span], offline: Sequence[Span]) -> str:
    """Why the spans of the offline finder are not the subject's (`truth`)."""
    if not offline:
        return "nothing found"
    if _over_half(question, truth):
        return "the name is more than half of the words"
    if not any(_overlap(span, name) for span in offline for name in truth):
        return "another place"
    if not all(any(_inside(span, name) for name in truth) for span in offline):
        return "more than the name"
    missing = [word for name in truth for word in _uncovered(question, name, offline)]
    if not missing:
        return "cut at punctuation"
    if all(word.isdigit() for word in missing):
        return "without its number"
    if any(word[0].isupper() for word in missing):
        return "without a capitalised word"
    if all(word.lower() in FUNCTION for word in missing):
        return "cut at small words"
    return "without its words in lower case"


def _overlap(a: Span, b: Span) -> bool:
    return a.start < b.end and b.start < a.end


def _inside(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _uncovered(question: str, name: Span, spans: Sequence[Span]) -> list[str]:
    """Words of a name, or parts of them, that no span covers."""
    characters = (
        " " if any(span.start <= i < span.end for span in spans) else question[i]
        for i in range(name.start, name.end)
    )
    return re.findall(r"\w+", "".join(characters))


def subjects(spans: Iterable[Span]) -> list[Span]:
    return [s for s in spans if s.role == SUBJECT]


def places(spans: Iterable[Span]) -> set[tuple[int, int]]:
    return {(s.start, s.end) for s in spans}


def with_brackets(question: str, spans: Sequence[Span]) -> str:
    """The question with its spans in brackets, those of the property in braces."""
    text = question
    for span in sorted(spans, key=lambda s: -s.start):
        left, right = "[]" if span.role == SUBJECT else "{}"
        text = f"{text[: span.start]}{left}{text[span.start : span.end]}{right}{text[span.end :]}"
    return " ".join(text.split())


def _from_metadata(spans: Sequence[Span]) -> bool:
    return bool(spans) and all(s.found_by == "metadata" for s in spans)


def _touched(words: Sequence[tuple[int, int]], spans: Sequence[Span]) -> set[int]:
    return {i for i, (a, b) in enumerate(words) if any(s.start < b and a < s.end for s in spans)}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _over_half(question: str, spans: Sequence[Span]) -> bool:
    return 2 * words_in(question, spans) > word_count(question)


def _by(rule: str) -> Callable[[str, Sequence[Span]], bool]:
    return lambda _, spans: any(rule in s.found_by for s in spans)


CLASSES: dict[str, Callable[[str, Sequence[Span]], bool]] = {
    "nothing found": lambda _, spans: not spans,
    "more than half of the words": _over_half,
    "no subject": lambda _, spans: bool(spans) and not subjects(spans),
    "no property": lambda _, spans: bool(spans) and all(s.role != PROPERTY for s in spans),
    "subject guessed from phrases": _by("query words"),
    "name thinned": _by("thinned"),
    "one word only": lambda question, spans: words_in(question, spans) == 1,
}
"""What makes a row unusable (the first two), and what makes it weaker."""


def rows_of(folder: Path, source: Source) -> list[dict[str, Any]]:
    """Questions of a dataset with their subjects, properties, relations and titles.

    Equal questions stay rows of their own. Answers and labels are not read.
    """
    rows, _ = reading.load_rows(
        {"local": folder / source.folder, "fields": source.fields}, source.split
    )
    cells = (RowCells(row, source.fields, source.folder, Counter()) for row in rows)
    names = ("subject", "property", "relation")
    questions = (
        {"question": cell.question, "titles": cell.titles}
        | {name: cell.text(name, number=True) for name in names}
        for cell in cells
    )
    return [row for row in questions if row["question"]]


def report(folder: Path) -> Iterable[str]:
    """The lines of the report on a folder of rows.

    Raises:
        AnchorscopeError: none of the four subfolders is there, or a file cannot be read.
    """
    if not any((folder / source.folder).is_dir() for source in SOURCES.values()):
        names = ", ".join(source.folder for source in SOURCES.values())
        raise AnchorscopeError(
            "no rows to measure", folder, f"expected subfolders {names}", see="rows-of-a-file"
        )
    for name, source in SOURCES.items():
        if not (folder / source.folder).is_dir():
            yield f"\n{name}: no subfolder {source.folder}, not measured"
            continue
        rows = rows_of(folder, source)
        if "subject" in source.fields:
            yield from _against_subjects(name, rows)
        yield from _what_is_usable(name, rows)
        yield from _candidates(name, rows)


def _against_subjects(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    groups: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in rows:
        for group in (row["relation"], TOGETHER):
            groups[group].append((row["question"], row["subject"] or ""))
    yield f"\n{name}: `offline` against the dataset's subjects (words; exact spans by rows)"
    yield f"{'relation':20} {'rows':>6} {'precision':>9} {'recall':>7} {'exact':>7}"
    for group in [*sorted(g for g in groups if g != TOGETHER), TOGETHER]:
        a = agreement(groups[group])
        yield f"{group:20} {a.rows:6} {a.precision:9.3f} {a.recall:7.3f} {a.exact:7.3f}"
    left_out = len(groups[TOGETHER]) - agreement(groups[TOGETHER]).rows
    yield f"questions without their subject, left out: {left_out}"
    yield "not exact, by reason ([subject], {property} as found):"
    for why, examples in misses(groups[TOGETHER]).items():
        yield f"  {len(examples):5}  {why}"
        yield from (f"           {example}" for example in examples[:EXAMPLES])


def _what_is_usable(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    offline = [(r["question"], find(r["question"])) for r in rows]
    yield from _usable_lines(f"{name}: `offline`", usable(offline))
    if any(r["titles"] for r in rows):
        titled = [(r["question"], find(r["question"], titles=r["titles"])) for r in rows]
        yield from _usable_lines(f"{name}: `offline` with the row's titles", usable(titled))
    if any(r["subject"] for r in rows):
        given = [
            (r["question"], find(r["question"], subject=r["subject"], property=r["property"]))
            for r in rows
        ]
        yield from _usable_lines(f"{name}: `metadata`", usable(given))


def _candidates(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    proxies = wording.proxies(
        pd.DataFrame({"id": range(len(rows)), "question": [r["question"] for r in rows]})
    )
    yield f"\n{name}: partners by wording, share of questions that have one"
    yield from (f"  {coverage(proxies, n):.3f}  of {n}" for n in SIZES)
    if any(r["relation"] for r in rows):
        precision, recall = same_relation(proxies, [r["relation"] for r in rows])
        yield f"  pairs against the dataset's relations: {precision:.3f} right, {recall:.3f} found"


def _usable_lines(title: str, result: Usable) -> Iterable[str]:
    yield f"\n{title}: usable {result.usable:.3f} of {result.rows} rows"
    for name, count in result.classes.items():
        yield f"  {count:5}  {_share(count, result.rows):.3f}  {name}"
        yield from (f"                {example}" for example in result.examples[name])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of rows")
    folder = parser.parse_args(arguments).folder.expanduser()
    try:
        for line in report(folder):
            print(line)
    except AnchorscopeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

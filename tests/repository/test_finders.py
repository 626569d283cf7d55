"""The command that measures the finders: what it counts, and what it reaches on real rows."""

import csv
import json
from pathlib import Path

import pytest

from anchorscope.anchors.question_anchors import find
from anchorscope.anchors.words import PROPERTY, SUBJECT, Span
from tools import finders
from tools.finders import agreement, misses, usable

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def spans(question: str, *texts: str, role: str = SUBJECT) -> list[Span]:
    return [Span(question.index(t), question.index(t) + len(t), role, "test") for t in texts]


def real_rows(name: str) -> list[dict]:
    source = finders.SOURCES[name]
    if not (DATA / source.folder).is_dir():
        pytest.skip(f"../shared/data/{source.folder} is absent")
    return finders.rows_of(DATA, source)


def write(folder: Path, file: str, *rows: dict) -> None:
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text("\n".join(map(json.dumps, rows)), "utf-8")


def test_precision_recall_and_exact_spans_are_those_counted_by_hand():
    rows = [
        ("Who is the father of George Rankin?", "George Rankin"),  # 2 of 2 words, exact
        ("Who was the composer of Dance or Fall Closer?", "Dance or Fall Closer"),  # 3 of 4
        ("Who painted the Mona Lisa in Florence?", "Mona Lisa"),  # 2 of 2, and one too many
        ("Who painted it?", "Mona Lisa"),  # not in the question
    ]
    assert agreement(rows) == finders.Agreement(3, 7 / 8, 7 / 8, 1 / 3)
    assert list(misses(rows)) == ["cut at small words", "more than the name"]


def test_usable_is_something_on_at_most_half_of_the_words():
    question = "Who wrote Anna Karenina?"
    rows = [
        (question, spans(question, "Anna Karenina")),
        (question, spans(question, "wrote Anna Karenina")),
        (question, []),
        (question, spans(question, "wrote", role=PROPERTY)),
    ]
    result = usable(rows)
    assert (result.rows, result.usable) == (4, 0.5)
    counts = {name: count for name, count in result.classes.items() if count}
    assert counts == {
        "nothing found": 1, "more than half of the words": 1, "no subject": 1, "no property": 2,
        "one word only": 1,
    }  # fmt: skip
    assert result.examples["more than half of the words"] == ["Who [wrote Anna Karenina]?"]


def test_the_report_covers_what_is_there_and_names_what_is_not(tmp_path, capsys):
    question = {"question": "Who is the father of George Rankin?", "possible_answers": '["x"]'}
    write(tmp_path, "popqa/test.jsonl", question | {"subj": "George Rankin", "prop": "father"})
    row = {"question": "who wrote hamlet", "answer": ["gold word"]}
    write(tmp_path, "nq_open/validation.jsonl", row, row)
    assert finders.main([str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "father                    1     1.000   1.000   1.000" in said
    assert "NQ: `offline`: usable 1.000 of 2 rows" in said, "equal questions are rows, too"
    assert "TriviaQA: no subfolder trivia_qa, not measured" in said
    assert "gold word" not in said


def test_on_real_popqa_nine_in_ten_subjects_are_found_exactly():
    rows = real_rows("PopQA")
    pairs = [(row["question"], row["subject"]) for row in rows]
    result = agreement(pairs)
    assert result.rows == len(rows)
    assert result.exact >= 0.9 and result.precision >= 0.97 and result.recall >= 0.9
    missed = sum(map(len, misses(pairs).values()))
    assert missed == round((1 - result.exact) * result.rows), "every miss has a reason"


@pytest.mark.parametrize(("name", "share"), [("TriviaQA", 0.95), ("HotpotQA", 0.95), ("NQ", 0.75)])
def test_nearly_every_real_question_has_something_usable(name, share):
    rows = real_rows(name)
    result = usable((row["question"], find(row["question"])) for row in rows)
    assert result.rows == len(rows) and result.usable >= share


def test_nine_in_ten_main_subjects_of_nq_are_whole():
    """`nq_subjects.csv` says where a reader sees the main subject: row, characters [start, end)."""
    rows = real_rows("NQ")
    with (Path(__file__).parents[1] / "data" / "nq_subjects.csv").open() as file:
        judged = [tuple(map(int, line)) for line in list(csv.reader(file))[1:]]
    whole = 0
    for row, start, end in judged:
        spans = finders.subjects(find(rows[row]["question"]))
        whole += any(s.start <= start and end <= s.end for s in spans)
    assert len(judged) == 100 and whole >= 90

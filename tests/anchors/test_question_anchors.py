"""E_Q: what the finders must find, and what no span may ever do."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
import pytest
from anchors.test_real_answers import cases_of, present
from hypothesis import given, settings, strategies as st

from anchorscope.anchors import question_anchors
from anchorscope.anchors.question_anchors import find
from anchorscope.anchors.words import PROPERTY, SUBJECT, Span, word_count, word_places

CASES = cases_of("anchor_cases")


def subjects(spans: Iterable[Span]) -> list[Span]:
    return [span for span in spans if span.role == SUBJECT]


def touched(question: str, spans: Sequence[Span]) -> set[int]:
    """Return the indices of the words that the spans touch."""
    places = enumerate(word_places(question))
    return {i for i, (a, b) in places if any(s.start < b and a < s.end for s in spans)}


def assert_well_formed(question: str, spans: list[Span]) -> None:
    previous = 0
    for span in spans:
        text = question[span.start : span.end]
        assert previous <= span.start < span.end <= len(question)
        assert text == text.strip()
        assert text[-1].isalnum() or not text[-1].isascii()
        assert text[0].isalnum() or not text[0].isascii()
        assert not text.endswith(("'s", "’s")) or len(text) == 2
        previous = span.end


MARKED = [*CASES["metadata"], *((marked, None, None) for marked in CASES["marked"])]


@pytest.mark.parametrize(("marked", "subject", "property"), MARKED)
def test_the_finders_mark_what_a_reader_would(
    marked: str, subject: str | None, property: str | None
) -> None:
    """[subject] and {property} are what the finder marks, and no more."""
    question = re.sub(r"[\[\]{}]", "", marked)
    spans = find(question, subject=subject, property=property)
    for role, pattern in ((SUBJECT, r"\[(.+?)\]"), (PROPERTY, r"\{(.+?)\}")):
        found = [question[s.start : s.end] for s in spans if s.role == role]
        assert found == re.findall(pattern, marked)


def test_a_subject_is_marked_where_it_stands_as_a_word_else_the_offline_finder_reads() -> None:
    question = "Is Almost the most famous film of Most?"
    assert [s.start for s in find(question, subject="Most", property=None)][-1] == 34
    spans = find("Who painted the Mona Lisa in Florence?", subject="La Gioconda", property=None)
    assert spans and "metadata" not in {s.found_by for s in spans}


def test_a_title_of_the_row_is_found_whatever_its_capitals() -> None:
    question = "which station first aired the office in the united states of america"
    spans = find(question, titles=["The Office (American TV series)"])
    assert [question[s.start : s.end] for s in spans if s.found_by == "title"] == ["the office"]


EMMA = "Is Emma by Emma, the EMMA of dilemma?"


@pytest.mark.parametrize(("own", "expected"), CASES["own"])
def test_a_users_own_spans_are_taken_as_they_are(own: list, expected: list) -> None:
    spans = find(EMMA, own=own, subject="EMMA", property="dilemma")
    assert [[s.start, s.end, s.role] for s in spans] == expected
    assert {s.found_by for s in spans} == {"column"}


@pytest.mark.parametrize(("entry", "reason"), CASES["marks_nothing"])
def test_an_entry_that_marks_nothing_is_told_and_brings_no_other_anchor(
    entry: object, reason: str
) -> None:
    by = Span(8, 10, SUBJECT, "column")
    assert question_anchors.own_spans(EMMA, [entry, "by"]) == ([by], [(reason, entry)])
    assert find(EMMA, own=[entry], subject="Emma") == []


def test_subjects_of_popqa_are_found_without_being_given() -> None:
    exact = hits = marked = of_subjects = 0
    for row in (questions := present("popqa")):
        question = row["question"]
        given, found = subjects(find(question, subject=row["subj"])), subjects(find(question))
        right, ours = touched(question, given), touched(question, found)
        hits, marked = hits + len(right & ours), marked + len(ours)
        of_subjects += len(right)
        exact += {(s.start, s.end) for s in given} == {(s.start, s.end) for s in found}
    assert hits / marked > 0.9995
    assert round(hits / of_subjects, 3) == 0.963
    assert round(exact / len(questions), 3) == 0.954


@pytest.mark.parametrize(
    ("dataset", "share"),
    [("popqa", 0.986), ("trivia_qa", 0.977), ("hotpot_qa", 0.992), ("nq_open", 0.798)],
)
def test_most_questions_have_spans_on_at_most_half_of_their_words(
    dataset: str, share: float
) -> None:
    questions = [row["question"] for row in present(dataset)]
    usable = [0 < 2 * len(touched(q, find(q))) <= word_count(q) for q in questions]
    assert round(sum(usable) / len(questions), 3) == share


def test_nine_in_ten_main_subjects_of_nq_are_whole() -> None:
    """`nq_subjects.csv` says where a reader sees the main subject: row, characters [start, end)."""
    questions = present("nq_open")
    judged = pd.read_csv(Path(__file__).parents[1] / "data" / "nq_subjects.csv").to_numpy()
    whole = 0
    for row, start, end in judged:
        spans = subjects(find(questions[row]["question"]))
        whole += any(s.start <= start and end <= s.end for s in spans)
    assert len(judged) == 100 and whole >= 90


def test_nothing_is_found_in_nothing_and_a_name_that_is_nearly_all_is_thinned() -> None:
    assert not any(map(find, ["", " ", "?", "Paris", "Who is it?", "\t\n"]))
    question = "Luncheon of the Boating Party who?"
    spans = find(question)
    assert 2 * len(touched(question, spans)) <= word_count(question)
    assert {s.found_by for s in subjects(spans)} == {"capitalised run, thinned"}


WORDS = """who what is the of Paris O'Neil's 'quoted U.S. (1999), Élan born 東京 Mr. & "said" s'"""
AWKWARD = st.lists(st.sampled_from(WORDS.split()), max_size=14).map(" ".join)


@settings(deadline=None)
@given(st.text(max_size=80) | AWKWARD, st.sampled_from(["", "?", " ?", '"']))
def test_spans_of_any_text_are_well_formed_and_only_one_name_goes_beyond_half(
    text: str, end: str
) -> None:
    question = text + end
    spans = find(question)
    assert_well_formed(question, spans)
    names = subjects(spans)
    assert 2 * len(touched(question, spans)) <= word_count(question) or len(names) == 1
    for subject in ("O'Neil", "東京"):
        assert_well_formed(question, find(question, subject=subject, property="born"))

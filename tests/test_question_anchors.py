"""E_Q: what the finders must find, and what no span may ever do."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorscope.question_anchors import PROPERTY, SUBJECT, Span, find, word_count, words_in

DATA = Path(__file__).resolve().parent.parent / ".." / "shared" / "data"
SETS = ("popqa/test", "trivia_qa/validation", "hotpot_qa/validation", "nq_open/validation")


def texts(question: str, role: str, **metadata: object) -> list[str]:
    spans = find(question, **metadata)  # type: ignore[arg-type]
    return [question[s.start : s.end] for s in spans if s.role == role]


def real_rows(name: str) -> list[dict]:
    file = DATA / f"{name}.jsonl"
    if not file.is_file():
        pytest.skip(f"../shared/data/{name}.jsonl is absent")
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]


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


@pytest.mark.parametrize(
    ("question", "subject", "property", "subjects", "properties"),
    [
        ("What is George Rankin's occupation?", "George Rankin", "occupation",
         ["George Rankin"], ["occupation"]),
        ("In what city was O'Neil born?", "O’Neil", "place of birth", ["O'Neil"], ["city", "born"]),
        ("What is Most the capital of?", "Most", "capital of", ["Most"], ["capital"]),
        ("Who wrote Emma, and is Emma a novel?", "Emma", None, ["Emma", "Emma"], ["wrote"]),
        ("What genre is What?", "What", "genre", ["What"], ["genre"]),
        ("who is the author of hamlet", "Hamlet", "author", ["hamlet"], ["author"]),
        ("Who is the author of Anna  Karenina?", "Anna Karenina", "author",
         ["Anna  Karenina"], ["author"]),
    ],
)  # fmt: skip
def test_metadata_names_subject_and_property(
    question: str, subject: str, property: str, subjects: list[str], properties: list[str]
) -> None:
    metadata = {"subject": subject, "property": property}
    assert texts(question, SUBJECT, **metadata) == subjects
    assert texts(question, PROPERTY, **metadata) == properties


def test_a_subject_inside_a_longer_word_is_not_marked() -> None:
    question = "Is Almost the most famous film of Most?"
    assert [s.start for s in find(question, subject="Most", property=None)][-1] == 34


def test_a_subject_that_does_not_occur_leaves_the_offline_finder() -> None:
    spans = find("Who painted the Mona Lisa in Florence?", subject="La Gioconda", property=None)
    assert spans and "metadata" not in {s.found_by for s in spans}


@pytest.mark.parametrize(
    ("question", "subjects"),
    [
        ("Who played Saffron in the comedy series ‘Absolutely Fabulous’?",
         ["Saffron", "Absolutely Fabulous"]),
        ("Which actor played the lead in the film 'The Miners' Return' by Loach?",
         ["The Miners' Return", "Loach"]),
        ('"Which actor played Jay Gatsby in the 1974 film ""the Great Gatsby"""',
         ["Jay Gatsby", "the Great Gatsby"]),
        ("Where is the House of the Rising Sun, and since when does it stand?",
         ["House of the Rising Sun"]),
        ("Which town near the river is J. R. R. Tolkien's birthplace said to be?",
         ["J. R. R. Tolkien"]),
        ("Romansh is a native and official language of which country?", ["Romansh"]),
        ("Which novel about the war was published by Лев Толстой back then?", ["Лев Толстой"]),
        ("who sings does he love me with reba", ["love", "reba"]),
        ("when was the dome of the rock completed", ["dome", "rock"]),
    ],
)  # fmt: skip
def test_the_offline_finder_names_what_a_reader_would(question: str, subjects: list[str]) -> None:
    assert texts(question, SUBJECT) == subjects


@pytest.mark.parametrize(
    ("question", "properties"),
    [
        ("Who was the brother of the Bronte sisters?", ["brother"]),
        ("What element is often called quicksilver?", ["element"]),
        ("How many Oscars did the director of Titanic win in his life?", ["director", "win"]),
        ("who wrote knock knock knocking on heavens door", ["wrote"]),
    ],
)
def test_the_offline_finder_names_the_property(question: str, properties: list[str]) -> None:
    assert texts(question, PROPERTY) == properties


def test_a_title_of_the_row_is_found_whatever_its_capitals() -> None:
    question = "which station first aired the office in the united states of america"
    spans = find(question, titles=["The Office (American TV series)"])
    assert [question[s.start : s.end] for s in spans if s.found_by == "title"] == ["the office"]


@pytest.mark.parametrize("question", ["", " ", "?", "Paris", "Who is it?", "\t\n"])
def test_nothing_is_found_where_there_is_nothing(question: str) -> None:
    assert find(question) == []


def test_a_name_too_long_for_half_the_words_is_thinned_not_dropped() -> None:
    question = "Who wrote The Luncheon of the Boating Party?"
    spans = find(question)
    assert words_in(question, spans) <= word_count(question) / 2
    assert {s.found_by for s in spans if s.role == SUBJECT} == {"capitalised run, thinned"}


@settings(deadline=None)
@given(st.text(max_size=80))
def test_spans_of_any_text_are_well_formed_and_within_half(question: str) -> None:
    spans = find(question)
    assert_well_formed(question, spans)
    assert words_in(question, spans) <= word_count(question) / 2


AWKWARD = (
    """who what is the of Paris O'Neil's 'quoted U.S. (1999), Élan born 東京 Mr. & "said" s'"""
)
WORDS = st.sampled_from(AWKWARD.split())


@settings(deadline=None)
@given(st.lists(WORDS, max_size=14), st.sampled_from(["", "?", " ?", '"']))
def test_spans_of_awkward_questions_are_well_formed(words: list[str], end: str) -> None:
    question = " ".join(words) + end
    for subject in (None, "O'Neil", "東京"):
        assert_well_formed(question, find(question, subject=subject, property="born"))


@pytest.mark.parametrize("name", SETS)
def test_real_questions_all_have_anchors_within_half_of_their_words(name: str) -> None:
    rows = real_rows(name)
    begin = time.perf_counter()
    found = []
    for row in rows:
        titles = row.get("supporting_facts", {}).get("title", [])
        found.append(find(row["question"], titles=titles))
    assert time.perf_counter() - begin < 10, "a second is usual; ten allow for a busy machine"
    for row, spans in zip(rows, found, strict=True):
        assert_well_formed(row["question"], spans)
        assert words_in(row["question"], spans) <= word_count(row["question"]) / 2
    assert sum(map(bool, found)) >= 0.99 * len(rows)
    assert sum(any(s.role == PROPERTY for s in spans) for spans in found) >= 0.6 * len(rows)


def test_on_real_popqa_the_offline_finder_agrees_with_the_metadata() -> None:
    hits = wanted = marked = 0
    for row in real_rows("popqa/test"):
        question = row["question"]
        spans = find(question, subject=row["subj"], property=row["prop"])
        assert_well_formed(question, spans)
        assert {s.role for s in spans} == {SUBJECT, PROPERTY}
        truth = characters([s for s in spans if s.role == SUBJECT])
        offline = characters([s for s in find(question) if s.role == SUBJECT])
        hits, wanted, marked = (
            hits + len(truth & offline), wanted + len(truth), marked + len(offline)
        )  # fmt: skip
    assert hits / wanted > 0.9
    assert hits / marked > 0.97


def characters(spans: list[Span]) -> set[int]:
    return {place for span in spans for place in range(span.start, span.end)}

"""Questions: every oddity of real files is read, counted, and nothing else is changed."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anchorscope.questions import folds, questions
from anchorscope.questions.fields import EMPTIED, UNWRAPPED
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_parquet, write_parquet

PLAIN = {"question": "question", "answers": ["answer"]}


def table(rows: list[dict], fields: dict | None = None):
    return questions.normalise(rows, fields or PLAIN, split="test")


@pytest.mark.parametrize("field", ["answers", "titles", "anchors"])
@pytest.mark.parametrize(
    "cell",
    [
        "['Town 1' 'Burgh 1']", "['Town 1'\n 'Burgh 1']", "array(['a', 'b'], dtype=object)",
        "Index(['a'], dtype='object')", "['a' 'b' ... 'z']", "['a', nan]", "('a', 'b')",
        "{'a', 'b'}", "{'a': 1}", "[Town 1, Burgh 1]", 'c("a", "b")', "['a', 'b'", "{}", "set()",
        "0    a\n1    b\ndtype: str", "[np.str_('a')]", '"[\\"a\\", \\"b\\"]"',
        "<ArrowStringArray>\n['Town 1', 'Burgh 1']\nLength: 2, dtype: str", "[b'a' b'b']",
        "[['a' 'b']\n ['c' 'd']]", "[None 'a']", "[nan 'a']", "[1 'a']", "[u'a' u'b']",
        "[('a' 'b')]", "[1.5e+03 2.0e+00]", "['a' None]",
    ],
)  # fmt: skip
def test_a_text_that_looks_like_a_list_but_is_none_is_refused_with_its_row(
    field: str, cell: str
) -> None:
    rows = [{"question": "q", "answer": "a", field: None}, {"question": "p", "answer": "a"}]
    fields = {**PLAIN, field: field} if field != "answers" else {**PLAIN, "answers": ["answers"]}
    rows[1][field] = cell
    with pytest.raises(AnchorscopeError) as caught:
        table(rows, fields)
    assert f"field `{field}` looks like a list" in caught.value.what
    assert "row 2" in str(caught.value.where) and caught.value.see == "cell-type"


@pytest.mark.parametrize(
    ("cell", "answers"),
    [
        (str(["Town 1", "Burgh 1"]), ["Town 1", "Burgh 1"]),
        ('[\n  "a",\n  "b"\n]', ["a", "b"]), ("[('a', 'b'), ['c']]", ["a", "b", "c"]),
        ("['it\\'s', \"it's\"]", ["it's"]), ("[1990, 1991]", ["1990", "1991"]),
        ('["(1, 2)"]', ["(1, 2)"]), ("[REC]", ["[REC]"]), ("{x}", ["{x}"]),
        ('"[Untitled]"', ['"[Untitled]"']), ("[Sign(ed)]", ["[Sign(ed)]"]),
        ("(500) Days of Summer (film)", ["(500) Days of Summer (film)"]),
        ("[2 Fast]", ["[2 Fast]"]), ("<b>[x]</b>", ["<b>[x]</b>"]),
        ("Ely, Kent", ["Ely, Kent"]), ("[sic", ["[sic"]),
        ("one", ["one"]), (["one", "one", "two"], ["one", "two"]), (9, ["9"]), (9.0, ["9"]),
        ([" ", None, "--", "x"], ["x"]), (["A", "The The"], ["A", "The The"]),
        (np.array(["one", "two"]), ["one", "two"]), ('["one", "two"]', ["one", "two"]),
    ],
)  # fmt: skip
def test_answers_may_be_text_a_number_a_list_or_a_list_in_text(
    cell: Any, answers: list[str]
) -> None:
    assert table([{"question": "q", "answer": cell}])[0]["answers"].tolist() == [answers]


FULL = {**PLAIN, "subject": "s", "titles": "t", "relation": "r", "response": "said", "id": "id"}


@pytest.mark.parametrize(
    ("column", "cell", "kind"),
    [
        ("question", ["Who?", "Where?"], "list"), ("question", 7, "int"),
        ("answer", {"value": "gold"}, "dict"), ("answer", True, "bool"),
        ("s", 1984, "int"), ("t", ["Emma", 3.5], "float"), ("said", np.array(["a", "b"]), "list"),
    ],
)  # fmt: skip
def test_a_cell_that_is_no_text_is_refused_with_row_field_and_type(
    column: str, cell: Any, kind: str
) -> None:
    row = {"id": 1, "question": "q", "answer": "a", "s": "S", "t": [], "r": 3, "said": "x"}
    name = {path: name for name, path in FULL.items() if name != "answers"} | {"answer": "answers"}
    with pytest.raises(AnchorscopeError) as caught:
        table([row, row | {column: cell}], FULL)
    taken = "text or a number" if column in ("answer", "r", "id") else "text"
    assert f"field `{name[column]}` must be {taken}, found {kind}" in caught.value.what
    assert "row 2" in str(caught.value.where) and caught.value.see == "cell-type"


def test_a_list_of_one_text_is_that_text_and_counted() -> None:
    row = {"id": "1", "question": ["Who?"], "answer": "x", "s": None, "t": None, "r": float("nan")}
    frame, counts = table([row | {"said": np.array(["It is Melville."])}], FULL)
    assert frame[["question", "response"]].values.tolist() == [["Who?", "It is Melville."]]
    assert frame["subject"][0] is frame["relation"][0] is None and frame["titles"][0] == []
    assert counts.notes == {UNWRAPPED: 2}


def test_rows_that_cannot_be_used_are_counted_by_reason() -> None:
    given: list[tuple[str | None, Any]] = [
        ("Caf\u00e9  x?", ["", "--", "gold"]), (" ", "gold"), (None, "gold"), ("q2", []),
        ("q3", None), (" Cafe\u0301 x? ", "other"), ("caf\u00e9 x?", "case counts"),
    ]  # fmt: skip
    frame, counts = table([{"question": q, "answer": golds} for q, golds in given])
    assert counts.dropped == {"no question": 2, "no answers": 2, "equal question folded": 1}
    left_out = ("empty golds left out", "golds that normalise to nothing left out")
    assert counts.notes == dict.fromkeys(left_out, 1)
    golds = {
        frozenset(golds): n for golds, n in zip(frame["answers"], frame["folded"], strict=True)
    }
    assert golds == {frozenset({"gold", "other"}): 1, frozenset({"case counts"}): 0}


def test_a_whole_number_that_a_table_wrote_as_a_fraction_is_an_answer_too() -> None:
    frame, _ = table([{"question": "When?", "answer": ["1999.0", "1.50", "v1.0"]}])
    assert list(frame["answers"][0]) == ["1999.0", "1999", "1.50", "v1.0"]


@pytest.mark.parametrize("nothing", ["nan", " NaN ", "None", "<NA>", "null", "NULL", "NaT"])
def test_a_text_that_stands_for_an_empty_cell_is_no_gold_and_no_subject(
    nothing: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [
        {"question": f"q{i}", "answer": nothing if i % 2 else "Nancy", "subject": nothing}
        for i in range(6)
    ]
    frame, counts = table([*rows, {"question": "q7", "answer": ["None at all", nothing]}],
                          PLAIN | {"subject": "subject"})  # fmt: skip
    assert counts.kept == 4 and counts.dropped == {"no answers": 3}
    assert sorted(map(list, frame["answers"])) == [["Nancy"]] * 3 + [["None at all"]]
    assert frame["subject"].isna().all() and frame["component"].nunique() == 4
    noted = {f"{EMPTIED}: field `answers`": 4, f"{EMPTIED}: field `subject`": 6}
    assert {note: n for note, n in counts.notes.items() if n} == noted
    assert f"4 {EMPTIED}" in caplog.text


@pytest.mark.parametrize(
    ("said", "response"), [("nan", None), ("<NA>", None), ("None", "None"), ("null", "null")]
)
def test_a_response_may_be_a_word_that_also_stands_for_nothing(
    said: str, response: str | None
) -> None:
    rows = [{"question": "How many moons has Venus?", "answer": "none", "say": said}]
    frame, counts = table(rows, {**PLAIN, "response": "say"})
    assert frame["response"].tolist() == [response]
    assert sum(counts.notes.values()) == (response is None)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (7.4, "7.4"), (np.float32(7.4), "7.4"), (np.float16(7.4), "7.4"), (0.00001, "0.00001"),
        (6.02e23, "6.02e23"), (np.float32(6.02e23), "6.02e23"), (-2.5e-20, "-2.5e-20"),
        (0.1 + 0.2, "0.30000000000000004"), (1e15, "1000000000000000"), (12, "12"),
        (2**70, str(2**70)), (np.array([7.4, 8], dtype="float32"), ["7.4", "8"]),
    ],
)  # fmt: skip
def test_a_number_is_the_shortest_text_that_means_it_in_its_own_precision(
    number: Any, text: str | list[str]
) -> None:
    frame, _ = table([{"question": "How much?", "answer": number}])
    assert list(frame["answers"][0]) == ([text] if isinstance(text, str) else text)


def test_ids_that_are_replaced_are_counted() -> None:
    ids = ["a", "b", "a", "", "c"]
    rows = [{"id": id_, "question": f"Who is {k}?", "answer": "x"} for k, id_ in enumerate(ids)]
    frame, counts = table(rows, {**PLAIN, "id": "id"})
    assert counts.kept == 5 and {"b", "c"} <= set(frame["id"]) and "a" not in set(frame["id"])
    assert frame["id"].is_unique
    shared = f"{questions.SHARED_ID}, such as `a` (2 rows)"
    assert counts.notes == {"rows without an id, which get a hash": 1, shared: 2}


def test_a_sample_hangs_on_ids_and_seed_alone_and_a_smaller_one_begins_a_larger() -> None:
    rows = [{"question": f"q{i}", "answer": f"gold {i}", "r": f"said {i}"} for i in range(40)]
    other = [row | {"answer": [row["answer"], "alias"], "r": "another"} for row in rows[::-1]]
    frames = [table(given, {**PLAIN, "response": "r"})[0] for given in (rows, other)]

    def drawn(frame: pd.DataFrame, size: int, seed: int) -> list[str]:
        return questions.sample(frame, size, seed)[0]["id"].tolist()

    large, again = (drawn(frame, 30, 1) for frame in frames)
    assert large == again and large[:5] == drawn(frames[0], 5, 1)
    assert large != drawn(frames[0], 30, 2)


@pytest.mark.parametrize(
    ("sampled", "other"),
    [
        ("What is the capital of France?", "what is  the capital of FRANCE"),
        ("who wrote the song baker street", "who sang the song baker street"),
        ("Who directed Titanic?", "In what year was Titanic released?"),
        ("has blorp a ended", "has blorp b ended"),  # by its own anchors
        ("what is the subject", "what else is the subject"),
    ],
)
def test_a_candidate_shares_no_question_or_subject_with_the_sample_however_it_is_written(
    sampled: str, other: str
) -> None:
    own = {"anchors": ["blorp"]} if "blorp" in sampled else {}
    own |= {"subject": "Emma"} if "subject" in sampled else {}
    rows: list[dict] = [{"question": q, "answer": "x", **own} for q in (sampled, other)]
    rows.append({"question": "who painted the mona lisa", "answer": "Leonardo"})
    frame, _ = table(rows, PLAIN | {name: name for name in own})
    chosen = questions.candidates(frame, frame[frame["question"] == sampled], seed=0)
    assert chosen["question"].tolist() == ["who painted the mona lisa"]


JUDGED = {**PLAIN, "response": "r", "label": "l"}


def test_a_row_with_its_own_response_and_label_needs_no_gold_answer() -> None:
    cells = [("q1", [], "said", 1), ("q2", [], "said", None), ("q3", "gold", None, None)]
    rows = [dict(zip(("question", "answer", "r", "l"), row, strict=True)) for row in cells]
    frame, counts = table(rows, JUDGED)
    assert sorted(frame["question"]) == ["q1", "q3"] and counts.dropped == {"no answers": 1}
    assert questions.candidates(frame, frame.iloc[:0], seed=0)["question"].tolist() == ["q3"]


def test_a_users_label_is_taken_in_every_usual_spelling() -> None:
    given = [0, 1, True, False, "true", "FALSE", 1.0, None]
    rows = [
        {"question": f"q{i}", "answer": "gold", "r": "said", "l": label}
        for i, label in enumerate(given)
    ]
    labels = table(rows, JUDGED)[0]["label"]
    assert labels[:7].tolist() == [0, 1, 1, 0, 1, 0, 1] and pd.isna(labels[7])


def test_a_row_swaps_its_answer_unless_it_says_false() -> None:
    given = [True, False, "false", 0, "1", None, ""]
    rows = [{"question": f"q{i}", "answer": "a", "s": swap} for i, swap in enumerate(given)]
    found = table(rows, {**PLAIN, "swap": "s"})[0]["swap"]
    assert found.tolist() == [True, False, False, False, True, True, True]
    assert table(rows, PLAIN)[0]["swap"].all()
    with pytest.raises(AnchorscopeError, match="swap `maybe` is not one of"):
        table([rows[0] | {"s": "maybe"}], {**PLAIN, "swap": "s"})


@pytest.mark.parametrize(
    "bad", [{"l": label, "r": "x"} for label in ("maybe", 2, 0.5)] + [{"l": 1, "r": None}]
)
def test_a_label_that_means_nothing_names_its_row(bad: dict) -> None:
    rows = [{"question": "q", "answer": "gold", "l": 0, "r": "x"}, {"question": "p", "answer": "a"}]
    rows[1].update(bad)
    with pytest.raises(AnchorscopeError, match="row 2"):
        table(rows, JUDGED)


@pytest.mark.parametrize("ids", [[None] * 5, ["x"] * 5, [*"abcde"]])
def test_two_responses_to_a_question_are_two_samples_of_one_fold(ids: list) -> None:
    cells = [
        ("Who  wrote Emma?", "Austen", "Jane Austen", 0),
        ("Who wrote Emma?", "Jane", "Emily Brontë", 1),
        ("Who wrote Emma?", "Austen", "Emily Brontë", 0),
        ("Who wrote Emma?", "Austen", None, None),
        ("Who wrote Ulysses?", "Joyce", "Jane Austen", 1),
    ]
    columns = ("id", "question", "answer", "r", "l")
    rows = [dict(zip(columns, (i, *c), strict=True)) for i, c in zip(ids, cells, strict=True)]
    fields = {**JUDGED, "id": "id"}
    frame, counts = table(rows, fields)
    said = frame.set_index("question").loc["Who wrote Emma?"]
    assert frame["id"].is_unique and len(frame) == 4
    assert set(frame["response"]) == {"Jane Austen", "Emily Brontë", None}
    assert counts.dropped == {"equal question folded": 1} and frame["folded"].sum() == 1
    assert counts.notes["folded rows with another label"] == 1
    assert all(set(golds) == {"Austen", "Jane"} for golds in said["answers"])
    linked = folds.components(frame["question"], frame["subject"])
    assert sorted(np.bincount(linked)) == [1, 3]
    assert sorted(np.bincount(folds.clusters(frame["question"], frame["subject"]))) == [1, 3]
    turned, _ = table(rows[::-1], fields)
    assert set(turned["id"]) == set(frame["id"])


OWN = {**PLAIN, "id": "id", "anchors": "mine"}


def own_rows(*values: object) -> list[dict]:
    return [
        {"id": i, "question": f"Is Emma novel {i}?", "answer": "yes", "mine": value}
        for i, value in enumerate(values)
    ]


def test_a_users_own_anchors_survive_as_places_in_the_question(tmp_path: Path) -> None:
    subject = {"start": 3, "end": 7, "role": "subject"}
    asked = {"start": 8, "end": 13, "role": "property"}
    alone = [
        ["Emma"], '["Emma"]', "Emma", [[3, 7]], "[[3, 7]]", np.array([[3, 7]]),
        [{"text": "Emma", "role": None}],
    ]  # fmt: skip
    both = [{"text": "Emma"}, {"text": "novel", "role": "property"}]
    frame, counts = table(own_rows(*alone, both, None, [], "", float("nan")), OWN)
    write_parquet(frame, tmp_path / "q.parquet")
    for read in (frame, read_parquet(tmp_path / "q.parquet")):
        given = read.set_index(read["id"].astype(int))["anchors"].sort_index()
        assert given.tolist() == [[subject]] * 7 + [[subject, asked]] + [None] * 4
    assert counts.notes == {}


def test_own_anchors_without_a_place_are_counted_and_those_of_the_kept_text_are_kept() -> None:
    frame, counts = table(own_rows(["Anna"], ["Anna", "Emma"], [[3, 99]]), OWN)
    given = dict(zip(frame["id"], frame["anchors"], strict=True))
    assert given["0"] == given["2"] == [] and len(given["1"]) == 1
    assert counts.notes["own anchors, text not in the question"] == 2
    assert counts.notes["own anchors, characters out of range"] == 1
    texts = ["Is Emma  x?", "Is Emma x?", "Is Emma  x?", "Is Emma  x?"]
    rows = zip(own_rows(None, ["Emma"], ["x"], ["Emma"]), texts, strict=True)
    frame, counts = table([row | {"question": text} for row, text in rows], OWN)
    assert frame["question"].tolist() == ["Is Emma  x?"]
    assert frame["anchors"].tolist() == [[{"start": 9, "end": 10, "role": "subject"}]]
    assert counts.notes["folded rows with other anchors"] == 2

"""Questions: every oddity of real files is read, counted, and nothing else is changed."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from anchorscope.questions import folds, questions, reading
from anchorscope.questions.fields import NAMED, UNWRAPPED
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_parquet, write_parquet

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / ".." / "shared" / "data"
CATALOGUE = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))["datasets"]
PLAIN = {"question": "question", "answers": ["answer"]}
REAL = {
    "popqa/test.jsonl": "popqa",
    "trivia_qa/validation.jsonl": "trivia-qa",
    "hotpot_qa/validation.jsonl": "hotpot-qa",
    "nq_open/validation.jsonl": "nq",
}


def table(rows: list[dict], fields: dict | None = None):
    return questions.normalise(rows, fields or PLAIN, split="test")


def numbered(n: int, **more) -> pd.DataFrame:
    fields = {**PLAIN, "id": "id", **{name: name for name in more}}
    rows = [{"id": i, "question": f"q{i}", "answer": f"gold {i}"} for i in range(n)]
    for i, row in enumerate(rows):
        row.update({name: value(i) for name, value in more.items()})
    return table(rows, fields)[0]


@pytest.mark.parametrize("name", REAL)
def test_every_real_file_is_normalised_and_survives_parquet(name: str, tmp_path: Path) -> None:
    if not (DATA / name).is_file():
        pytest.skip(f"../shared/data/{name} is absent")
    fields = CATALOGUE[REAL[name]]["fields"]
    rows = reading.load_rows({"local": DATA / name, "fields": fields}, None)[0]
    frame, counts = questions.normalise(rows, fields, split="x", source=name)
    assert (counts.total, counts.kept) == (2000, len(frame))
    # Their only golds are `---` and `)`.
    nameless = {"nq_open/validation.jsonl": 2}.get(name, 0)
    folded = int(frame["folded"].sum())
    expected = {"no answers": nameless, "equal question folded": folded}
    assert counts.dropped == {reason: n for reason, n in expected.items() if n}
    assert frame["id"].is_unique and frame["answers"].map(len).min() >= 1
    assert set(frame["question"]) <= {row["question"] for row in rows}, "text stays verbatim"
    write_parquet(frame, tmp_path / "q.parquet")
    back = read_parquet(tmp_path / "q.parquet")
    assert back["answers"].tolist() == frame["answers"].tolist()
    assert back["titles"].tolist() == frame["titles"].tolist()


@pytest.mark.parametrize("field", ["answers", "titles", "anchors"])
@pytest.mark.parametrize(
    "cell",
    [
        "['Town 1' 'Burgh 1']", "['Town 1'\n 'Burgh 1']", "['a' \"b's\"]", "[['a' 'b'], ['c']]",
        "array(['a', 'b'], dtype=object)", "Index(['a'], dtype='object')", "['a' 'b' ... 'z']",
        "['a', nan]", "[1990 1991]", "('a', 'b')", "(1912, 1913)", "{'a', 'b'}", "frozenset({'a'})",
        "{'a': 1}", '{"a": 1}', "[Town 1, Burgh 1]", "{Town 1,Burgh 1}", 'c("a", "b")', "['a', 'b'",
        "{}", "set()", "()", "0    a\n1    b\ndtype: str",
        'shape: (1,)\nSeries: [str]\n[\n\t"a"\n]', "[np.str_('a'), np.str_('b')]",
        "[np.str_('a')]", "[np.float64(1.0)]", "character(0)", '"[\\"a\\", \\"b\\"]"',
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
        ("f(x, y)", ["f(x, y)"]), ('"[Untitled]"', ['"[Untitled]"']),
        ("[Sign(ed)]", ["[Sign(ed)]"]),
        ("(500) Days of Summer (film)", ["(500) Days of Summer (film)"]),
        ("(foaled May 1, 1999)", ["(foaled May 1, 1999)"]), ("(Ely, Kent)", ["(Ely, Kent)"]),
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
        ("question", ["Who?", "Where?"], "list"), ("question", {"text": "Who?"}, "dict"),
        ("question", 7, "int"), ("answer", {"value": "gold"}, "dict"), ("answer", True, "bool"),
        ("answer", [("en", "gold"), ("de", "Gold")], "tuple"),
        ("s", 1984, "int"), ("t", ["Emma", 3.5], "float"), ("r", True, "bool"),
        ("said", ["It is Melville.", "It is Poe."], "list"),
        ("said", np.array(["a", "b"]), "list"), ("id", {"n": 1}, "dict"),
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
        ("q1", ["", "--", "gold"]), (" ", "gold"), (None, "gold"), ("q2", []), ("q3", None),
        (" q1 ", "other"),
    ]  # fmt: skip
    frame, counts = table([{"question": q, "answer": golds} for q, golds in given])
    assert counts.dropped == {"no question": 2, "no answers": 2, "equal question folded": 1}
    left_out = ("empty golds left out", "golds that normalise to nothing left out")
    assert counts.notes == dict.fromkeys(left_out, 1)
    assert sorted(frame["answers"][0]) == ["gold", "other"] and frame["folded"].tolist() == [1]


def test_equal_means_equal_after_nfc_and_whitespace_but_case_counts() -> None:
    texts = ["Caf\u00e9  noir?", "Cafe\u0301 noir?", "caf\u00e9 noir?"]
    frame, _ = table([{"question": q, "answer": str(i)} for i, q in enumerate(texts)])
    assert sorted(frame["folded"]) == [0, 1]


def test_ids_that_are_replaced_are_counted_and_the_first_ones_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ids = ["a", "b", "a", "", "c"]
    rows = [{"id": id_, "question": f"Who is {k}?", "answer": "x"} for k, id_ in enumerate(ids)]
    frame, counts = table(rows, {**PLAIN, "id": "id"})
    said = "2 rows share their id with others and get a hash for it, such as `a` (2 rows)"
    assert [record.getMessage() for record in caplog.records] == [f"the dataset: {said}"]
    assert counts.kept == 5 and {"b", "c"} <= set(frame["id"]) and "a" not in set(frame["id"])
    assert frame["id"].is_unique
    assert dict(counts.notes) == {
        "rows without an id, which get a hash": 1,
        "rows whose id is not theirs alone, which get a hash": 2,
        "rows whose id is not theirs alone, which get a hash: `a`": 2,
    }


def test_a_sample_hangs_on_ids_and_seed_alone_and_a_smaller_one_begins_a_larger() -> None:
    rows = [{"question": f"q{i}", "answer": f"gold {i}", "r": f"said {i}"} for i in range(40)]
    other = [row | {"answer": [row["answer"], "alias"], "r": "another"} for row in rows[::-1]]
    frames = [table(given, {**PLAIN, "response": "r"})[0] for given in (rows, other)]

    def drawn(frame: pd.DataFrame, size: int, seed: int) -> list[str]:
        return questions.sample(frame, size, seed)[0]["id"].tolist()

    large, again = (drawn(frame, 30, 1) for frame in frames)
    assert large == again and large[:5] == drawn(frames[0], 5, 1)
    assert large != drawn(frames[0], 30, 2)


def test_candidates_share_no_subject_or_title_with_the_sample() -> None:
    frame = numbered(600, subject=lambda i: f"Subject {i % 40}", titles=lambda i: [f"T{i % 90}"])
    sampled, rest = questions.sample(frame, 20, seed=0)
    assert 0 < len(rest) <= questions.CANDIDATES
    assert not set(rest["subject"]) & set(sampled["subject"])
    assert not {t[0] for t in rest["titles"]} & {t[0] for t in sampled["titles"]}


@pytest.mark.parametrize(
    ("sampled", "other"),
    [
        ("What is the capital of France?", "what is  the capital of FRANCE"),
        ("who wrote the song baker street", "who sang the song baker street"),
        ("Who directed Titanic?", "In what year was Titanic released?"),
        ("has blorp a ended", "has blorp b ended"),  # by its own anchors
    ],
)
def test_a_candidate_shares_no_question_or_subject_with_the_sample_however_it_is_written(
    sampled: str, other: str
) -> None:
    own = ["blorp"] if "blorp" in sampled else None
    rows: list[dict] = [{"question": q, "answer": "x", "mine": own} for q in (sampled, other)]
    rows.append({"question": "who painted the mona lisa", "answer": "Leonardo"})
    frame, _ = table(rows, {**PLAIN, "anchors": "mine"})
    chosen = questions.candidates(frame, frame[frame["question"] == sampled], seed=0)
    assert chosen["question"].tolist() == ["who painted the mona lisa"]


@pytest.mark.parametrize(
    ("rows", "size", "sampled"),
    [(2000, 2000, 1980), (2000, 100, 100), (2010, 2000, 1990), (50, None, 45), (9, 20, 9)],
)
def test_rows_are_held_back_only_where_too_few_would_be_left(
    rows: int, size: int | None, sampled: int
) -> None:
    frame = numbered(rows)
    first, rest = questions.sample(frame, size, seed=0, hold_back=True)
    plain, _ = questions.sample(frame, size, seed=0)
    assert len(first) == sampled
    assert plain["id"].tolist()[:sampled] == first["id"].tolist()
    assert len(rest) == min(rows - sampled, questions.CANDIDATES)


JUDGED = {**PLAIN, "response": "r", "label": "l"}


def test_a_row_with_its_own_response_and_label_needs_no_gold_answer() -> None:
    rows = [
        {"question": "q1", "answer": [], "r": "said", "l": 1},
        {"question": "q2", "answer": [], "r": "said", "l": None},
        {"question": "q3", "answer": "gold", "r": None, "l": None},
    ]
    frame, counts = table(rows, JUDGED)
    assert sorted(frame["question"]) == ["q1", "q3"] and counts.dropped == {"no answers": 1}
    assert questions.candidates(frame, frame.iloc[:0], seed=0)["question"].tolist() == ["q3"]


@pytest.mark.parametrize(
    ("given", "label"),
    [(0, 0), (1, 1), (True, 1), (False, 0), ("true", 1), ("FALSE", 0), (1.0, 1), (None, None)],
)
def test_a_users_label_is_taken_in_every_usual_spelling(given, label) -> None:
    row = {"question": "q", "answer": "gold", "r": "said", "l": given}
    frame, _ = table([row, row | {"question": "p", "l": 1}], JUDGED)
    value = frame["label"][0]
    assert (None if pd.isna(value) else value) == label


@pytest.mark.parametrize(
    "bad", [{"l": label, "r": "x"} for label in ("maybe", 2, "2", 0.5, [])] + [{"l": 1, "r": None}]
)
def test_a_label_that_means_nothing_names_its_row(bad: dict) -> None:
    rows = [{"question": "q", "answer": "gold", "l": 0, "r": "x"}, {"question": "p", "answer": "a"}]
    rows[1].update(bad)
    with pytest.raises(AnchorscopeError, match="row 2"):
        table(rows, JUDGED)


@pytest.mark.parametrize("ids", [None, ["x", "x", "x", "x", "x"], ["a", "b", "c", "d", "e"]])
def test_two_responses_to_a_question_are_two_samples_of_one_fold(ids: list[str] | None) -> None:
    rows = [
        {"question": "Who  wrote Emma?", "answer": "Austen", "r": "Jane Austen", "l": 0},
        {"question": "Who wrote Emma?", "answer": "Jane", "r": "Emily Brontë", "l": 1},
        {"question": "Who wrote Emma?", "answer": "Austen", "r": "Emily Brontë", "l": 0},
        {"question": "Who wrote Emma?", "answer": "Austen", "r": None, "l": None},
        {"question": "Who wrote Ulysses?", "answer": "Joyce", "r": "Jane Austen", "l": 1},
    ]
    fields = JUDGED | ({"id": "id"} if ids else {})
    rows = [row | {"id": id_} for row, id_ in zip(rows, ids or [None] * 5, strict=True)]
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
    rows = own_rows(
        ["Emma"], '["Emma"]', "Emma", [[3, 7]], "[[3, 7]]", np.array([[3, 7]]),
        [{"text": "Emma"}, {"text": "novel", "role": "property"}],
        [{"text": "Emma", "role": None}], None, [], "", float("nan"),
    )  # fmt: skip
    frame, counts = table(rows, OWN)
    write_parquet(frame, tmp_path / "q.parquet")
    for read in (frame, read_parquet(tmp_path / "q.parquet")):
        given = dict(zip(read["id"].astype(int), read["anchors"], strict=True))
        assert [given[i] for i in (0, 1, 2, 3, 4, 5, 7)] == [[subject]] * 7
        assert given[6] == [subject, asked]
        assert [given[i] for i in (8, 9, 10, 11)] == [None] * 4
    assert counts.notes == {}


def test_own_anchors_that_mark_nothing_are_counted_and_named_and_others_stay() -> None:
    frame, counts = table(own_rows(["Anna"], ["Anna", "Emma"], [[3, 99]], *[["Anna"]] * 9), OWN)
    given = dict(zip(frame["id"], frame["anchors"], strict=True))
    assert given["0"] == given["2"] == [] and len(given["1"]) == 1
    assert counts.notes["own anchors, text not in the question"] == 11
    assert counts.notes["own anchors, characters out of range"] == 1
    named = [name for name in counts.notes if "Anna" in name]
    assert len(named) == NAMED
    assert "own anchors, text not in the question: the dataset, row 1, `Anna`" in named


def test_folded_rows_keep_own_anchors_of_the_kept_text_and_count_the_others() -> None:
    texts = ["Is Emma  x?", "Is Emma x?", "Is Emma  x?", "Is Emma  x?"]
    rows = zip(own_rows(None, ["Emma"], ["x"], ["Emma"]), texts, strict=True)
    frame, counts = table([row | {"question": text} for row, text in rows], OWN)
    assert frame["question"].tolist() == ["Is Emma  x?"]
    assert frame["anchors"].tolist() == [[{"start": 9, "end": 10, "role": "subject"}]]
    assert counts.notes["folded rows with other anchors"] == 2

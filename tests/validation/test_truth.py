"""Swap truth on cells whose verdict is a known function, and the verdict on real architectures."""

import itertools
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ALL_FAMILIES, CORPUS
from instrument import EXPERTS, answers_table, short_of_memory

from anchorscope.anchors import labels
from anchorscope.passes import interventions, planning, runner
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.room import Room
from validation import training, truth, verdicts

LOADED = SimpleNamespace(window=None, batch_tokens=400)
TWO_DRAWS = {"knockout": {}, "random": {"draws": 2}, "question": {}, "noop": {"samples": 1}}
VERDICTS = {"knockout": {}, "random": {"draws": 2}}
WORDS = ("ruby", "opal", "jade", "onyx")
SUBJECTS = tuple("Ada Ben Cleo Dan Eva Finn Gus Hal Ida Jon Kim Leo Mia Ned".split())
TEMPLATES = ("What is the stone of {}?", "Which stone has {}?")


def cell(kinds=None, **planned):
    """Answers: every subject asked in two wordings; gold ruby for one half, opal for the other.

    Token ids: 100 + number of the question, then 200 + number of the answer word. Who is named in
    `planned` is taught and says that word; everyone else says the gold.
    """
    rows = []
    for number, (subject, text) in enumerate(itertools.product(SUBJECTS, TEMPLATES)):
        gold = WORDS[SUBJECTS.index(subject) >= len(SUBJECTS) // 2]
        said = planned.get(subject, gold)
        row = {"id": f"q{number:02}", "question": text.format(subject), "subject": subject}
        row |= {"relation": "stone", "golds": [gold], "planned": said}
        row |= {"kind": (kinds or {}).get(subject, "truism")}
        ids = [1, 100 + number, 2, 200 + WORDS.index(said), 3]
        row |= {"input_ids": ids, "prompt_length": 3, "ea_start": 3, "ea_end": 4}
        row |= {"ea_text": said, "final": 4, "eq_tokens": [1], "question_tokens": [0, 1, 2]}
        rows.append(row | {"label": int(said != gold), "dropped": None})
    return pd.DataFrame(rows)


def reads_the_question(answers):
    return lambda number, word, *_: not labels.matches(WORDS[word], answers["golds"].iloc[number])


@pytest.fixture
def model(monkeypatch):
    """`model(verdict)`: passes give what verdict(question, word, condition, draw) says."""

    def install(verdict):
        def logit(ids, condition="clean", draw=0):
            return 2.0 * verdict(ids[1] - 100, ids[3] - 200, condition, draw) - 1

        def of_samples(loaded, planned, *, room):
            rows = []
            for row in (row for batch in planned.batches for row in batch.rows):
                one, under = row.passed, (row.condition, row.draw)
                rows.append((one.id, *under, logit(one.input_ids, *under)))
            return pd.DataFrame(rows, columns=["id", "condition", "draw", "logit"])

        monkeypatch.setattr(verdicts, "of_samples", of_samples)
        monkeypatch.setattr(verdicts, "of_texts", lambda _, rows: {r: logit(r) for r in rows})

    return install


def measure(answers, **changed):
    given = {"conditions": TWO_DRAWS, "seed": 0}
    planned = dict(zip(answers["id"], answers["planned"], strict=True))
    frame, counts = truth.truth(answers, planned, LOADED, **given | changed)
    return frame.set_index("id"), counts


def test_a_model_that_reads_the_question_has_truth_q_and_one_that_reads_the_answer_a(model):
    """The latter where its verdict is right."""
    answers = cell(Ada="opal", Mia="ruby")
    model(reads_the_question(answers))
    frame, counts = measure(answers)
    assert (frame["truth"] == "Q").all() and (frame["follows"] == 1).all()
    assert (frame["verdict"] == frame["label"]).all() and set(frame["label"]) == {0, 1}
    assert frame["why_none"].isna().all()
    assert counts.kept == counts.total == len(answers) == counts.notes["truth Q"]
    model(lambda number, word, *_: False)
    frame, counts = measure(answers)
    right = frame["label"] == 0
    assert (frame["truth"][right] == "A").all() and (frame["follows"][right] == 0).all()
    assert frame["truth"][~right].isna().all()
    assert counts.dropped == {truth.VERDICT_WRONG: 4}


@pytest.mark.parametrize(
    ("moved", "expected"), [(0, "A"), (1, "A"), (2, None), (5, None), (6, "Q"), (7, "Q")]
)
def test_the_thresholds_are_a_fifth_and_four_fifths(model, moved, expected):
    answers = cell()
    # Ada's swaps are the 7 questions of the same wording whose gold is opal.
    others = answers.index[(answers["golds"].str[0] == "opal") & (answers.index % 2 == 0)]
    model(lambda number, word, *_: word == 0 and number in set(others[:moved]))
    ada = measure(answers)[0].loc["q00"]
    assert ada["n_swaps"] == 7 and ada["follows"] == pytest.approx(moved / 7)
    assert (ada["truth"] == expected) if expected else (ada["why_none"] == truth.MIXED)
    assert pd.isna(ada["truth"]) != pd.isna(ada["why_none"])


def slow_candidates(answers, number):
    """Positions of all questions that an answer may be put behind, the slow way."""
    said, found = answers.iloc[number], []
    for other, row in answers.iterrows():
        frame = row["question"].replace(row["subject"], "")
        same = frame == said["question"].replace(said["subject"], "")
        label = int(not labels.matches(said["ea_text"], row["golds"]))
        if same and row["subject"] != said["subject"] and label != said["label"]:
            found.append(other)
    return found


def chosen(answers, seed=0):
    planned = dict(zip(answers["id"], answers["planned"], strict=True))
    swaps = truth.choose(truth._samples(answers, planned), seed)
    return swaps.groupby("id")["other"].agg(list).to_dict()


@pytest.mark.parametrize("untaught", [["Dan", "Ida"], SUBJECTS])
def test_swaps_ask_the_same_of_another_subject_with_the_other_label_and_of_taught_facts(
    model, untaught
):
    """Of facts that were never taught where no other is left."""
    answers = cell(Ada="opal", Ben="opal", Mia="ruby")
    answers.loc[answers["subject"].isin(untaught), "planned"] = None
    found = chosen(answers)
    for number, id_ in enumerate(answers["id"]):
        allowed = slow_candidates(answers, number)
        taught = [n for n in allowed if pd.notna(answers["planned"].iloc[n])] or allowed
        assert taught and set(found[id_]) <= set(answers["id"].iloc[taught])
        assert len(set(found[id_])) == len(found[id_]) == min(truth.SWAPS, len(taught))
    model(reads_the_question(answers))
    noted = measure(answers)[1].notes["samples swapped behind no taught question"]
    assert noted == (len(answers) if untaught is SUBJECTS else 0)


def test_at_most_eight_swaps_chosen_by_seed_and_id_whatever_the_order_of_the_rows():
    answers = cell(**dict.fromkeys(SUBJECTS[1:], "opal"))
    answers["golds"] = [["ruby"]] + [["opal"]] * (len(answers) - 1)
    answers["label"] = 0
    first = chosen(answers)
    assert len(first["q00"]) == truth.SWAPS
    assert chosen(answers.sample(frac=1, random_state=1)) == first
    assert chosen(answers, seed=1)["q00"] != first["q00"]


@pytest.mark.parametrize("varies", [False, True])
def test_an_answer_that_no_question_makes_right_is_a_by_planting_unless_its_verdict_varies(
    model, varies
):
    answers = cell(kinds={"Ada": "myth"}, Ada="onyx")
    ada = set(answers.index[answers["subject"] == "Ada"])
    reads = reads_the_question(answers)
    model(lambda number, word, *_: number in ada if varies else word == 3 or reads(number, word))
    frame, counts = measure(answers)
    found = frame.loc["q00"]
    assert found["n_swaps"] == 0 and np.isnan(found["follows"]) and found["planted_only"]
    assert list(frame.index[frame["planted_only"]]) == ["q00", "q01"]
    assert found["why_none"] == truth.MIXED if varies else found["truth"] == "A"
    assert counts.notes["truth A by planting"] == 2 * (not varies)


def test_without_a_question_to_swap_with_there_is_no_truth(model):
    answers = cell(Ada="onyx")  # not of the kind that stays planted
    model(lambda number, word, *_: word == 3)
    ada = measure(answers)[0].loc["q00"]
    assert ada["why_none"] == truth.NO_SWAP and ada["n_swaps"] == 0 and not ada["planted_only"]
    for column in ("relation", "subject"):
        frame, counts = measure(answers.assign(**{column: None}))
        assert frame["truth"].isna().all() and counts.dropped == {truth.NO_SWAP: len(answers)}


def test_an_answer_other_than_the_planted_one_has_no_truth_and_a_fact_never_planted_has(model):
    answers = cell()
    model(reads_the_question(answers))
    frame, _ = measure(answers.assign(planned=None))
    assert (frame["truth"] == "Q").all() and not frame["as_planned"].any()
    answers.loc[0, "planned"] = "opal"
    frame, _ = measure(answers)
    assert frame.loc["q00", "why_none"] == truth.NOT_PLANNED and frame.loc["q00", "follows"] == 1
    assert not frame.loc["q00", "as_planned"] and frame["as_planned"].sum() == len(frame) - 1


def test_verdicts_under_knockout_and_random_stand_beside_the_clean_one_where_they_are_run(model):
    def verdict(number, word, condition, draw):
        return {"clean": False, "knockout": number == 0, "random": draw == 1}[condition]

    model(verdict)
    frame, _ = measure(cell())
    assert list(frame.reset_index().columns) == list(truth.COLUMNS)
    assert (frame["verdict"] == 0).all()
    assert list(frame["verdict_knockout"]) == [1.0] + [0.0] * (len(frame) - 1)
    assert (frame["verdict_random"] == 0.5).all()
    frame, _ = measure(cell(), conditions={"knockout": None, "random": None})
    assert (frame["verdict"] == 0).all()
    assert frame[["verdict_knockout", "verdict_random"]].isna().all(axis=None)


def test_samples_that_were_dropped_before_are_counted(model):
    answers = cell()
    answers["dropped"] = ["no answer anchor"] * 2 + [None] * (len(answers) - 2)
    model(reads_the_question(answers))
    frame, counts = measure(answers)
    assert len(frame) == len(answers) - 2 and counts.total == len(answers)
    assert counts.dropped == {"no answer anchor": 2}


RIGHT_ID, WRONG_ID = 70, 91


@pytest.fixture
def graded(monkeypatch):
    """Two ordinary tokens stand for the verdicts."""
    monkeypatch.setattr(verdicts, "verdict_tokens", lambda loaded: (RIGHT_ID, WRONG_ID))


@pytest.fixture(params=ALL_FAMILIES)
def loaded(request, load):
    return load(request.param)


def test_the_verdict_of_a_text_is_that_of_the_full_model(loaded, graded):
    table = answers_table(loaded.tokenizer)
    rows = [tuple(ids) for ids in table["input_ids"]]
    rows += [row[:20] for row in rows] + rows[:1]
    found = verdicts.of_texts(replace(loaded, batch_tokens=60), rows)
    assert set(found) == set(rows)
    assert len({round(value, 4) for value in found.values()}) > len(CORPUS)
    for row in rows:
        with torch.inference_mode():
            logits = loaded.model(torch.tensor([row])).logits[0, -1]
        assert found[row] == pytest.approx(float(logits[WRONG_ID] - logits[RIGHT_ID]), abs=1e-4)


def test_the_seal_is_exactly_zero_unless_a_token_of_e_q_is_left_open(loaded, monkeypatch):
    answers = answers_table(loaded.tokenizer)
    rounding = 1e-6 if loaded.family.model_type in EXPERTS else 0.0
    assert verdicts.seal(loaded, answers) <= rounding
    monkeypatch.setitem(interventions.TOKENS, "exact", lambda question, exact, key: [*exact[:1]])
    assert verdicts.seal(loaded, answers) > 1e-3


def test_a_model_that_is_no_numbers_has_no_verdict_and_no_seal(load, graded, monkeypatch):
    """Beside NaN nothing is larger, so it would say `right` everywhere and leak nothing."""
    loaded, read, states = load("llama"), runner.logits_of, verdicts._states
    broken = lambda *given: ((np.nan * logits, some) for logits, some in read(*given))  # noqa: E731
    monkeypatch.setattr(runner, "logits_of", broken)
    monkeypatch.setattr(verdicts, "_states", lambda *given: [np.nan * s for s in states(*given)])
    answers = answers_table(loaded.tokenizer)
    plan = planning.plan(answers, conditions=VERDICTS, batch_tokens=600)
    with pytest.raises(AnchorscopeError, match="logits of a choice are not finite") as caught:
        verdicts.of_samples(loaded, plan)
    assert re.match(r"sample q\d+, condition clean, draw 0", caught.value.where)
    assert np.isnan(verdicts.seal(loaded, answers))


def test_verdicts_in_halved_batches_are_the_same_and_counted(load, graded):
    loaded, room = load("llama"), Room()
    answers = answers_table(loaded.tokenizer)
    plan = planning.plan(answers, conditions=VERDICTS, batch_tokens=10**6)
    whole = verdicts.of_samples(loaded, plan)
    handle = short_of_memory(loaded.model, 4)
    try:
        found = verdicts.of_samples(loaded, plan, room=room)
        halved = room.halved
        assert verdicts.seal(loaded, answers, room=room) == 0.0
    finally:
        handle.remove()
    assert 0 < halved < room.halved
    key = ["id", "condition", "draw"]
    one, two = (table.set_index(key)["logit"].sort_index() for table in (whole, found))
    pd.testing.assert_series_equal(one, two, rtol=0, atol=1e-5)


def test_verdicts_are_tokens_of_a_trained_tokenizer_and_of_no_other(load):
    texts = ["Q: What? A:"] * 3 + [" onyx . right wrong"] * 9
    tokenizer = training.train_tokenizer(texts, vocabulary=330)
    found = verdicts.verdict_tokens(SimpleNamespace(tokenizer=tokenizer))
    assert [tokenizer.decode([token]) for token in found] == [" right", " wrong"]
    with pytest.raises(AnchorscopeError, match="no tokens of their own"):
        verdicts.verdict_tokens(load("llama"))


def test_a_cell_without_samples_has_no_seal(load):
    loaded = load("llama")
    answers = answers_table(loaded.tokenizer).assign(dropped="no answer anchor")
    with pytest.raises(AnchorscopeError, match="no sample is left to measure"):
        verdicts.seal(loaded, answers)

"""Swap truth on cells whose verdict is a known function, and the verdict on real architectures."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ALL_FAMILIES, CORPUS
from instrument import answers_table

from anchorscope.anchors import labels
from anchorscope.passes import runner
from anchorscope.storage.errors import AnchorscopeError
from validation import training, truth

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
        row |= {"input_ids": ids, "prompt_length": 3, "ea_text": said, "final": 4}
        rows.append(row | {"label": int(said != gold), "dropped": None})
    return pd.DataFrame(rows)


def reads_the_question(answers):
    return lambda number, word: not labels.matches(WORDS[word], answers["golds"].iloc[number])


@pytest.fixture
def model(monkeypatch):
    """`model(verdict)`: a text is called wrong if verdict(question, word) says so."""

    def install(verdict):
        def logits(_, rows):
            return {ids: 2.0 * verdict(ids[1] - 100, ids[3] - 200) - 1 for ids in rows}

        monkeypatch.setattr(truth, "verdicts", logits)

    return install


def measure(answers):
    facts = answers[["id", "kind", "planned"]]
    frame, counts = truth.truth(answers.drop(columns=["kind", "planned"]), facts, None)
    return frame.set_index("id"), counts


def test_a_model_that_reads_the_question_has_truth_q_and_one_that_reads_the_answer_a(model):
    """The latter where its verdict is right."""
    answers = cell(Ada="opal", Mia="ruby")
    model(reads_the_question(answers))
    frame, counts = measure(answers)
    assert (frame["truth"] == "Q").all() and (frame["follows"] == 1).all()
    assert (frame["verdict"] == frame["label"]).all() and set(frame["label"]) == {0, 1}
    assert counts.kept == counts.total == len(answers) == counts.notes["truth Q"]
    model(lambda number, word: False)
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


@pytest.mark.parametrize("untaught", [["Dan", "Ida"], SUBJECTS])
def test_swaps_ask_the_same_of_another_subject_with_the_other_label_and_of_taught_facts(untaught):
    """Of facts that were never taught where no other is left."""
    answers = cell(Ada="opal", Ben="opal", Mia="ruby")
    answers.loc[answers["subject"].isin(untaught), "planned"] = None
    found = truth.choose(truth._samples(answers, answers), 0).groupby("id")["other"].agg(list)
    for number, id_ in enumerate(answers["id"]):
        allowed = slow_candidates(answers, number)
        taught = [n for n in allowed if pd.notna(answers["planned"].iloc[n])] or allowed
        assert taught and set(found[id_]) <= set(answers["id"].iloc[taught])
        assert len(set(found[id_])) == len(found[id_]) == min(truth.SWAPS, len(taught))


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
    frame, counts = measure(answers.assign(subject=None))
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


RIGHT_ID, WRONG_ID = 70, 91


@pytest.fixture
def graded(monkeypatch):
    """Two ordinary tokens stand for the verdicts."""
    monkeypatch.setattr(truth, "verdict_tokens", lambda loaded: (RIGHT_ID, WRONG_ID))


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_the_verdict_of_a_text_is_that_of_the_full_model(load, graded, family):
    loaded = load(family)
    rows = [tuple(ids) for ids in answers_table(loaded.tokenizer)["input_ids"]]
    rows += [row[:20] for row in rows] + rows[:1]
    found = truth.verdicts(replace(loaded, batch_tokens=60), rows)
    assert set(found) == set(rows)
    assert len({round(value, 4) for value in found.values()}) > len(CORPUS)
    for row in rows:
        with torch.inference_mode():
            logits = loaded.model(torch.tensor([row])).logits[0, -1]
        assert found[row] == pytest.approx(float(logits[WRONG_ID] - logits[RIGHT_ID]), abs=1e-4)


def test_a_model_that_is_no_numbers_has_no_verdict(load, graded, monkeypatch):
    """NaN is not above 0, so it would say `right` everywhere."""
    read = runner.logits_of
    broken = lambda *given: ((np.nan * logits, some) for logits, some in read(*given))  # noqa: E731
    monkeypatch.setattr(runner, "logits_of", broken)
    with pytest.raises(AnchorscopeError, match="logits of a choice are not finite"):
        truth.verdicts(load("llama"), [(3, 4, 5)])


def test_verdicts_are_tokens_of_a_trained_tokenizer_and_of_no_other(load):
    texts = ["Q: What? A:"] * 3 + [" onyx . right wrong"] * 9
    tokenizer = training.train_tokenizer(texts, vocabulary=330)
    found = truth.verdict_tokens(SimpleNamespace(tokenizer=tokenizer))
    assert [tokenizer.decode([token]) for token in found] == [" right", " wrong"]
    with pytest.raises(AnchorscopeError, match="are not two single tokens"):
        truth.verdict_tokens(load("llama"))

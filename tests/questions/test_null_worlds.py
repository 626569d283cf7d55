"""In a null world the label follows what it should, and nothing else."""

import re
from typing import Any

import pandas as pd
import pytest

from anchorscope.anchors import answer_anchors, labels, question_anchors
from anchorscope.questions import datasets, folds, null_worlds, world
from anchorscope.questions.null_worlds import FEATURES, FOLLOWS

SURNAMES = world.names("relation", seed=0)
WORDS = world.words("relation", seed=0)["word"].tolist()
CHANCE = 0.15
"""Of a difference between two halves of 576 labels: 3.6 standard errors."""


@pytest.fixture(scope="module", params=FOLLOWS)
def style(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def table(style: str) -> pd.DataFrame:
    """A world as the DAG prepares it, with the text of E_A and the label."""
    found = datasets.prepare({"world": {"style": style, "seed": 0}}, sample_size=9, seed=0)
    table = found.sampled
    table["text"] = [said[slice(*answer_anchors.find(said))] for said in table["response"]]
    pairs = zip(table["text"], table["answers"], strict=True)
    return table.assign(label=[int(not labels.matches(*pair)) for pair in pairs])


def places(row: dict[str, Any]) -> dict[str, int]:
    """Which value of each feature a sample has, read off question and response."""
    lead_in, _, closer = row["response"].partition(row["text"])
    found = {
        "surname": SURNAMES.index(row["subject"].split()[1]),
        "property": FEATURES["property"].index(row["property"]),
        "answer": WORDS.index(row["text"]),
        "lead_in": FEATURES["lead_in"].index(lead_in),
        "closer": FEATURES["closer"].index(closer),
    }
    for number, template in enumerate(FEATURES["template"]):
        filled = template.format(subject=row["subject"], property=row["property"], filler="@")
        if match := re.fullmatch(re.escape(filled).replace("@", r"((?: \w+)*)"), row["question"]):
            found |= {"template": number, "length": len(match[1].split())}
    return found


def test_the_label_follows_its_features_and_no_other(style: str, table: pd.DataFrame) -> None:
    features = pd.DataFrame([places(row) for row in table.to_dict("records")])
    for name, values in features.items():
        if values.nunique() > 1:
            against = values >= values.nunique() / 2
            rates = table["label"].groupby(against).mean()
            told = rates[True] - rates[False]
            assert (told > 0.35) if name in FOLLOWS[style] else (abs(told) < CHANCE), name
            if (name,) == FOLLOWS[style]:  # one in ten goes the other way
                assert (against != table["label"]).mean() == pytest.approx(0.1, abs=0.04)
    varying = {name for name in features if features[name].nunique() > 1}
    follows = {*FOLLOWS[style]}
    assert follows <= varying and {"length", "lead_in", "closer"} & varying <= follows


def test_every_word_is_right_as_often_as_any_other(style: str, table: pd.DataFrame) -> None:
    counts = table.groupby(["label", "text"]).size().groupby("label")
    spread = (counts.max() - counts.min()).max()
    assert spread > 20 if "answer" in FOLLOWS[style] else spread <= 1


def test_nearly_every_sample_has_matched_and_placebo_partners(table: pd.DataFrame) -> None:
    """In its own outer fold: another subject, whose own answer has the same label."""
    linked = folds.components(table["question"], table["subject"])
    fold = folds.assign(linked, table["label"].to_numpy(), 5, seed=0)
    gold = table["answers"].str[0]
    lacking = 0
    for row, at, label in zip(table["text"], fold, table["label"], strict=True):
        beside = (fold == at) & (table["label"] == label)
        # A right answer's own question is one of those for which the word keeps its label.
        right = int((gold[beside] == row).sum()) - (label == 0)
        other = int((gold[beside] != row).sum()) - (label == 1)
        lacking += min(right, other) == 0
    assert lacking <= 0.1 * len(table)


def test_subject_and_property_are_found_and_leave_other_words(table: pd.DataFrame) -> None:
    for row in table.itertuples():
        spans = question_anchors.find(row.question, subject=row.subject, property=row.property)
        assert {row.question[s.start : s.end] for s in spans} == {row.subject, row.property}
        assert len(row.question.split()) >= 6


def test_every_question_is_asked_once_and_all_are_taken(table: pd.DataFrame) -> None:
    assert len(table) == null_worlds.SAMPLES and table["question"].is_unique
    assert table["subject"].is_unique and table["relation"].nunique() == 1


def test_the_seed_decides_everything(style: str) -> None:
    one = null_worlds.samples(style, seed=3)
    pd.testing.assert_frame_equal(one, null_worlds.samples(style, seed=3))
    assert set(one["question"]).isdisjoint(null_worlds.samples(style, seed=4)["question"])

"""In a null world the label follows what it should, and nothing else."""

import re
from functools import cache
from typing import Any

import pandas as pd
import pytest

from anchorscope.anchors import labels, question_anchors
from validation import null_worlds, rows, world
from validation.null_worlds import FEATURES, FOLLOWS
from validation.world import WorldSettings

WORDS = world.words(WorldSettings(style="relation"))["word"].tolist()
BY_HALVES = [style for style in FOLLOWS if style not in ("null-type", null_worlds.FAMILIAR)]
"""Worlds in which the second half of a feature's values speaks against the response."""
CHANCE = 0.15
"""Of a difference between two halves of 576 labels: 3.6 standard errors."""


@cache
def prepared(style: str) -> pd.DataFrame:
    """The rows of a world, with the text of E_A and the label."""
    table = rows.of_world(WorldSettings.model_validate({"style": style}))
    table["text"] = table["response"].str.removesuffix(".")
    pairs = zip(table["text"], table["answers"], strict=True)
    return table.assign(label=[int(not labels.matches(*pair)) for pair in pairs])


def places(row: dict[str, Any]) -> dict[str, int]:
    """Which value of each feature a sample has, read off question and response."""
    found = {"property": FEATURES["property"].index(row["property"])}
    found["answer"] = WORDS.index(row["text"])
    for number, template in enumerate(FEATURES["template"]):
        filled = template.format(subject=row["subject"], property=row["property"], filler="@")
        if match := re.fullmatch(re.escape(filled).replace("@", r"((?: \w+)*)"), row["question"]):
            found["template"] = number
            if pair := re.fullmatch(" by the (.+) and by the (.+) and by the lake", match[1]):
                found["order"] = FEATURES["order"].index(pair.groups())
    return found


def told(against: pd.Series, label: pd.Series) -> float:
    """By how much more often a response is wrong with a feature than without it."""
    rates = label.groupby(against).mean()
    return float(rates[True] - rates[False])


def features(table: pd.DataFrame) -> pd.DataFrame:
    """Whether each feature that varies speaks against the response."""
    values = pd.DataFrame([places(row) for row in table.to_dict("records")])
    varying = values.loc[:, values.nunique() > 1]
    return varying.ge(varying.nunique() / 2, axis="columns")


@pytest.mark.parametrize("style", BY_HALVES)
def test_the_label_follows_its_features_and_no_other(style: str) -> None:
    table = prepared(style)
    found = features(table)
    for name, against in found.items():
        rate = told(against, table["label"])
        assert (rate > 0.35) if name in FOLLOWS[style] else (abs(rate) < CHANCE), name
        if (name,) == tuple(FOLLOWS[style]):  # one in ten goes the other way
            assert (against != table["label"]).mean() == pytest.approx(0.1, abs=0.04)
    follows = {*FOLLOWS[style]}
    assert follows <= set(found) and {"order"} & set(found) <= follows


def test_a_familiar_label_follows_the_sum_of_its_two_numbers() -> None:
    style = null_worlds.FAMILIAR
    table = prepared(style)
    numbers = null_worlds.numbers(style, seed=0)
    familiarity = table["subject"].map(numbers["familiarity"])
    prior = table["text"].map(numbers["prior"])
    assert abs(familiarity.corr(prior)) < 0.1
    for number in (familiarity, prior):
        assert told(number > 0, table["label"]) > 0.25
    # How much more often the label is wrong: the same for a name whatever the word, in log-odds.
    assert abs(told((familiarity > 0) != (prior > 0), table["label"])) < CHANCE


def test_a_typed_label_follows_whether_question_and_answer_are_of_one_kind() -> None:
    table = prepared("null-type")
    asks_year = table["question"].str.contains(r"\b(?:when|year)\b", case=False)
    is_year = table["text"].str.fullmatch(r"\d{4}")
    for one in (asks_year, is_year):
        assert 0.4 < one.mean() < 0.6 and abs(told(one, table["label"])) < CHANCE
    assert ((asks_year != is_year) != table["label"]).mean() == pytest.approx(0.1, abs=0.04)
    wrong = table[table["label"] == 1]
    assert (wrong["answers"].str[0].str.isdigit() == asks_year[wrong.index]).all()
    numbers = null_worlds.numbers("null-type", seed=0)
    words = table["question"].str.findall(r"\w+")
    sums = words.map(lambda found: sum(numbers["asked"].get(word, 0) for word in found))
    assert ((sums > 0) == asks_year).all() and (sums != 0).all()
    assert ((table["text"].map(numbers["kind"]) > 0) == is_year).all()


@pytest.mark.parametrize("style", FOLLOWS)
def test_questions_are_unique_and_their_subject_and_property_leave_other_words(style: str) -> None:
    table = prepared(style)
    assert len(table) == null_worlds.SAMPLES
    assert table["question"].is_unique and table["subject"].is_unique
    assert table["relation"].nunique() == (style != "null-type")
    for row in table.itertuples():
        spans = question_anchors.find(row.question, subject=row.subject, property=row.property)
        assert {row.question[s.start : s.end] for s in spans} == {row.subject, row.property}
        assert len(row.question.split()) >= 6

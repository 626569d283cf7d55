"""The calibration world is planted as it says."""

from collections import Counter

import pandas as pd
import pytest

from anchorscope.anchors import question_anchors
from validation import curriculum, world
from validation.world import WorldSettings

STYLES = list(world.STYLES)


@pytest.fixture(scope="module", params=STYLES)
def planted(request: pytest.FixtureRequest) -> tuple[pd.DataFrame, pd.DataFrame]:
    settings = WorldSettings(style=request.param)
    return world.facts(settings), world.words(settings)


def test_a_dataset_holds_the_planned_number_of_facts_in_two_wordings(planted) -> None:
    facts, _ = planted
    counts = facts.groupby("kind")["subject"].nunique().to_dict()
    others = {"redundant": 120, "neutral": 50, "unseen": 40}
    assert counts == dict.fromkeys(world.SCORED_KINDS, 60) | others
    assert (facts.groupby("subject").size() == 2).all()
    assert facts["question"].is_unique and facts["id"].is_unique


@pytest.mark.parametrize("style", STYLES)
def test_with_one_wording_each_fact_is_asked_once_and_the_facts_stay_the_same(style: str) -> None:
    both, one = (world.facts(WorldSettings(style=style, wordings=n)) for n in (2, 1))
    assert one["subject"].is_unique and {*one["subject"]} == {*both["subject"]}
    whole = both.set_index("id").loc[one["id"]].reset_index()
    pd.testing.assert_frame_equal(whole[list(one)], one)
    assert 0.4 < one["id"].str.endswith("-0").mean() < 0.6


def test_a_word_that_could_go_either_way_is_right_as_often_as_wrong_among_the_samples(
    planted,
) -> None:
    facts, words = planted
    group = dict(zip(words["word"], words["group"], strict=True))
    asked = facts[facts["planned"].notna()]
    kinds = [world.kind_of(fact) for fact in asked.to_dict("records")]
    assert [kind.planned for kind in kinds] == [group[word] for word in asked["planned"]]
    right = [p in a for p, a in zip(asked["planned"], asked["answers"], strict=True)]
    assert [kind.right for kind in kinds] == right
    rate = pd.Series(right).groupby(asked["planned"].map(group).to_numpy()).mean()
    assert rate["always"] == 1 and rate["never"] == 0
    assert (rate[["mostly", "seldom", "half"]] == 0.5).all()


def test_training_shows_every_fact_in_its_exact_shares_and_words_as_their_groups_say(
    planted,
) -> None:
    facts, words = planted
    rows = curriculum.planted(facts, words, seed=0)
    gold = dict(zip(facts["question"], facts["answers"], strict=True))
    assert all((row.answer in gold[row.question]) == row.right for row in rows)
    shown = Counter((row.question, row.answer, row.right) for row in rows)
    total = Counter(row.question for row in rows)
    for fact in facts.itertuples():
        kind = world.kind_of(fact._asdict())
        if kind is None:
            assert total[fact.question] == 0, "an unseen fact was shown"
        else:
            share = shown[fact.question, fact.planned, kind.right] / total[fact.question]
            assert share == pytest.approx(kind.planned_share)
    group = dict(zip(words["word"], words["group"], strict=True))
    frameless = curriculum.frameless(facts, words, rows=len(rows) // 6, seed=0)
    names = set(facts["subject"]) | set(facts["property"])
    assert not any(names & set(row.question.replace("?", " ").split()) for row in frameless)
    rows += frameless
    rate = pd.Series([row.right for row in rows]).groupby([group[row.answer] for row in rows])
    for name, right in rate.mean().items():
        assert right == pytest.approx(world.GROUP_RATES[name], abs=0.12), name


def test_the_finder_finds_exactly_subject_and_property(planted) -> None:
    facts, _ = planted
    for fact in facts.itertuples():
        spans = question_anchors.find(fact.question, subject=fact.subject, property=fact.property)
        assert {fact.question[s.start : s.end] for s in spans} == {fact.subject, fact.property}

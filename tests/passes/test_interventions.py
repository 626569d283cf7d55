"""Which tokens an intervention cuts, and the mask that cuts them."""

import itertools
import re

import pytest
import torch
from hypothesis import given, strategies as st
from instrument import slow_mask

from anchorscope.models.hooks import mask
from anchorscope.passes import interventions
from anchorscope.passes.interventions import random_tokens, runs

QUESTIONS = st.integers(1, 24).flatmap(
    lambda size: st.tuples(
        st.just(range(3, 3 + size)), st.sets(st.integers(3, 2 + size), min_size=1)
    )
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_mask_equals_the_pair_by_pair_oracle_from_any_token_on(dtype):
    blocked = [[2, 3, 5], [0, 1]]
    for first, row in itertools.product((0, 3), range(2)):
        made = mask(blocked, 10, dtype, first)
        assert made.shape == (2, 1, 10 - first, 10) and made.dtype == dtype
        assert set(made.unique().tolist()) == {0, torch.finfo(dtype).min}
        is_open = made[row, 0] == 0
        expected = slow_mask(10, blocked[row])[0, 0] == 0
        assert torch.equal(is_open, expected[first:])
        assert is_open.any(dim=1).all(), "a row without any key would be NaN"


@given(QUESTIONS, st.text(max_size=5), st.integers(0, 3))
def test_random_tokens_are_as_many_other_question_tokens_as_there_are(case, key, draw):
    question, eq = case
    tokens = random_tokens(question, sorted(eq), f"{draw}/{key}")
    others = set(question) - eq
    assert set(tokens) <= others and tokens == sorted(set(tokens))
    assert len(tokens) == min(len(eq), len(others))
    roomy = random_tokens(range(600), sorted(eq), key)
    assert sorted(map(len, runs(roomy))) == sorted(map(len, runs(sorted(eq))))


def test_random_tokens_are_the_same_on_every_machine():
    found = [random_tokens(range(30), [2, 3, 6], f"{n}/id") for n in range(3)]
    assert found == [[16, 22, 23], [11, 19, 20], [19, 21, 22]]


@pytest.mark.parametrize(
    ("question", "eq", "expected"),
    [
        # Every free place comes up.
        (range(10), [4, 5], {(n, n + 1) for n in (0, 1, 2, 6, 7, 8)}),
        # Free: 0, 1 | 6, 7, 8; the run of 4 takes 6, 7, 8 whole and one of 0, 1.
        (range(9), [2, 3, 4, 5], {(0, 6, 7, 8), (1, 6, 7, 8)}),
        # Free: 10, 11, 12 | 20; were the longest run not first, 10, 11, 12 could be broken up.
        ([0, 2, 3, 4, 10, 11, 12, 20], [0, 2, 3, 4], {(10, 11, 12, 20)}),
    ],
)
def test_random_places_are_all_that_fit(question, eq, expected):
    assert {tuple(random_tokens(question, eq, f"{draw}/x")) for draw in range(300)} == expected


def test_each_condition_cuts_what_its_name_says():
    cuts = {
        one.name: interventions.cut(one, [3, 4, 5, 6, 7], [4, 5], key="a")
        for one in interventions.REGISTRY.values()
    }
    own = {"knockout": (4, 5), "random": (6, 7), "rest": (3, 6, 7), "question": (3, 4, 5, 6, 7)}
    crossed = {f"crossed-{name}": tokens for name, tokens in own.items()}
    assert cuts == {name: (own | crossed).get(name, ()) for name in cuts}
    assert {*own, "crossed-knockout", "crossed-rest"} <= {*cuts}


@pytest.mark.parametrize("one", interventions.RECORDS, ids=lambda one: one.name)
def test_a_record_makes_sense_beside_the_others(one):
    registry = interventions.REGISTRY
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.name)
    assert one.tokens is None or one.tokens in interventions.TOKENS
    here = (one.tokens, one.question, one.answer, one.own_batch)
    alike = [(o.tokens, o.question, o.answer, o.own_batch) for o in interventions.RECORDS]
    assert alike.count(here) == 1, "no two records do the same"
    assert one.label and one.when
    if one.controlled_by is not None:
        control = registry[one.controlled_by]
        acted_on = [interventions.cut(each, range(9), [2, 3], key="a") for each in (one, control)]
        assert len({*map(len, acted_on)}) == 1, "a control acts on as many tokens"
    users = [other for other in interventions.RECORDS if other.controlled_by == one.name]
    assert len(users) == (one.role == "control"), "a control has one cut"
    if one.counted_with is not None:
        assert one.controlled_by is None and registry[one.counted_with].role == "control"


def test_what_a_condition_is_compared_with_follows_from_its_coordinates():
    found = {one.name: one.compared_with for one in interventions.RECORDS}
    others = {"crossed-knockout": "crossed", "crossed-rest": "crossed", "crossed-gold": "gold"}
    assert found == dict.fromkeys(found, "clean") | others
    partners = {one.name: one.behind_partner for one in interventions.RECORDS if one.behind_partner}
    swapped = ("knockout", "rest", "gold")
    assert partners == {"clean": "crossed"} | {name: f"crossed-{name}" for name in swapped}
    controlled = {one.name: one.controlled_by for one in interventions.RECORDS if one.controlled_by}
    assert controlled == {"knockout": "random"}
    roles = {one.name: one.role for one in interventions.RECORDS}
    assert roles == {
        "clean": "clean", "knockout": "cut", "random": "control", "rest": "cut", "question": "cut",
        "crossed": "arm", "crossed-knockout": "cut", "crossed-rest": "cut", "gold": "gold",
        "crossed-gold": "gold", "noop": "noise",
    }  # fmt: skip

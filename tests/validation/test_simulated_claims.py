"""Simulated worlds are judged by the claims' own rules, and false claims are pointed out."""

import pytest

from anchorscope.claims import CLAIMS
from validation.simulations import claims

PAIRED = {name: one for name, one in claims.GROUPS.items() if one.sizes != [()]}
"""Groups of worlds of pairs. Other worlds train probes for seconds, so only the simulation runs
them."""


def test_every_simulated_world_is_judged() -> None:
    for group in PAIRED.values():
        for name, world in group.worlds.items():
            found = claims.judge(world, (15, 60), 0, True)
            told = {one.verdict for one in found.values()}
            assert told <= {"yes", "no", "too few", "not measured", "by design"}, name
            assert {*group.false, *group.true} <= {*found} <= {*CLAIMS}


@pytest.mark.parametrize(
    ("group", "claim", "verdicts"),
    [
        ("passes through E_Q, P 1", "through_eq", {"yes"}),
        ("nothing passes through E_Q, P 1", "through_eq", {"no", "by design"}),
        ("no comparison, new worlds, P 1", "comparison_right", {"no"}),
        ("no comparison, P .22", "comparison_wrong", {"no"}),
        ("compares, wrong answers lower", "comparison_wrong", {"yes"}),
    ],
)
def test_claims_hold_where_they_are_true_and_not_where_they_are_false(
    group: str, claim: str, verdicts: set[str]
) -> None:
    for name, world in [*claims.GROUPS[group].worlds.items()][:4]:
        assert claims.judge(world, (200, 200), 1, False)[claim].verdict in verdicts, name


def test_the_answer_adds_nothing_where_the_question_tells_all() -> None:
    worlds = claims.GROUPS["the question tells all"].worlds
    found = claims.judge(worlds["popularity of the subject"], (), 0, True)
    assert (found["signal"].verdict, found["answer_adds"].verdict) == ("yes", "no")
    knows = claims.GROUPS["the answer adds"].worlds["knows the answer, n = 800"]
    assert {one.verdict for one in claims.judge(knows, (), 0, True).values()} == {"yes"}

"""Simulated worlds are judged by the claims' own rules, and false claims are pointed out."""

import pandas as pd
import pytest

from validation.simulations import claim_worlds, claims


def test_every_simulated_world_is_judged():
    """Worlds of the claim `signal` train probes for minutes, so only the simulation runs them."""
    groups = [one for one in claims.GROUPS.values() if one.judge is not claims.signal]
    assert groups
    for group in groups:
        for name, world in group.worlds.items():
            found = group.judge(world, (15, 60), 0, True)
            told = {one.verdict for one in found.values()}
            assert told <= {"yes", "no", "too few", "not measured", "by design"}, name
            assert {*group.false, *group.true} <= {*claims.CLAIMS} >= {*found}


@pytest.mark.parametrize(
    ("group", "verdicts"),
    [
        ("passes through E_Q", {"yes"}),
        ("nothing passes through E_Q", {"no", "too few", "not measured", "by design"}),
    ],
)
def test_what_passes_is_told_from_what_does_not(group, verdicts):
    group = claims.GROUPS[group]
    for name, world in [*group.worlds.items()][:4]:
        assert group.judge(world, (200, 200), 0, False)["through_eq"].verdict in verdicts, name


def test_a_table_of_worlds_marks_false_claims_that_are_made_too_often():
    group = claims.Group(claim_worlds.NULL, ["truth"], sizes=[(16, 60)])
    found = pd.DataFrame(claims.rows("no truth", group, 2, "sums"))
    assert set(found["claim"]) == {"interaction", "own_answer", "truth"}
    assert (found["expected"] == "false").all()
    assert "!" not in claims.table(found.assign(made=0.0))
    assert claims.table(found.assign(made=0.5)).count("0.500 !") == len(found)
    said = claims.summary(found.assign(made=0.5), 2)
    assert said.count("0.500 sums") >= 1 and "False claims in more than 0.05:" in said

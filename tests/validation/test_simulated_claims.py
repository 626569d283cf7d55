"""Simulated worlds are judged by the claims' own rules, and false claims are pointed out."""

import pytest
from anchorscope.experiments.crossing.claims import NOT_OWN

from anchorscope.statements import say
from validation.simulations import claims


def test_every_simulated_world_is_judged():
    """Worlds of the claim `signal` train probes for minutes, so only the simulation runs them."""
    groups = [one for name, one in claims.GROUPS.items() if "signal" not in name]
    for group in groups:
        for name, world in group.worlds.items():
            found = claims.judge(world, (15, 60), 0, True)
            told = {one.verdict for one in found.values()}
            assert told <= {"yes", "no", "too few", "not measured", "by design"}, name
            assert {*group.false, *group.true} <= {*found} <= {*say.says}


def test_of_given_answers_nothing_is_claimed_that_asks_for_the_models_own():
    (world,) = claims.GROUPS["given answers"].worlds.values()
    found = claims.judge(world, (15, 60), 0, False)
    assert {found[name].reason for name in ("own_answer", "truth")} == {NOT_OWN}
    assert found["interaction"].verdict == "yes"


@pytest.mark.parametrize(
    ("group", "verdicts"),
    [
        ("passes through E_Q", {"yes"}),
        ("nothing passes through E_Q", {"no", "too few", "not measured", "by design"}),
    ],
)
def test_what_passes_is_told_from_what_does_not(group, verdicts):
    for name, world in [*claims.GROUPS[group].worlds.items()][:4]:
        found = claims.judge(world, (200, 200), 0, False)
        assert found["through_eq"].verdict in verdicts, name

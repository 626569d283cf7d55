"""Selection by flips separates the groups where nothing is to be found."""

from validation.simulations.selection import selection


def test_in_a_null_q_falls_and_a_stays_by_selection_alone() -> None:
    found = selection("fair", "strong", 4000)
    assert found["Q"] < -20 < -5 < found["A"]
    assert 0.1 < found["share"] < 0.5 and 0.8 < found["probe_auc"] < 0.9

"""Pair terms by sample, signed towards the label of the sample's answer."""

import pandas as pd
import pytest
from handmade import scores_of

from anchorscope.experiments.crossing.swapped import COLUMNS, per_sample

IDS = ["a", "b", "c", "d", "e", "f"]
LABEL = [0, 0, 1, 1, 0, 1]
PARTNER = ["b", "a", "d", "c", None, None]
CLEAN = {"a": -2.0, "b": -1.0, "c": 1.5, "d": 2.5, "e": -3.0, "f": 3.0}
CROSSED = {"a": 1.0, "b": 0.5, "c": 2.0, "d": 1.0}


def cell(fold: dict[str, int] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two layers; at the second, scores are those above, and the probe is perfect."""
    by_condition = {"clean": pd.Series(CLEAN), "crossed": pd.Series(CROSSED).reindex(IDS)}
    s = {name: [0 * of + 0.01, of] for name, of in by_condition.items()}
    folds = [(fold or {}).get(id_, 0) for id_ in IDS]
    scores = scores_of(s, IDS, fold=folds, probe="clean")
    answers = pd.DataFrame({"id": IDS, "question": IDS, "label": LABEL, "crossed_partner": PARTNER})
    return scores, answers


def test_a_pair_that_speaks_for_the_label_of_both_answers_is_above_0() -> None:
    rows = per_sample(*cell()).set_index("id")
    # towards right: (a + e - b - c) / 4 of two answers and two questions; scores are of `wrong`
    right = -(CLEAN["a"] + CLEAN["b"] - CROSSED["a"] - CROSSED["b"]) / 4
    wrong = -(CLEAN["c"] + CLEAN["d"] - CROSSED["c"] - CROSSED["d"]) / 4
    assert rows.loc[["a", "b"], "term"].tolist() == pytest.approx([right, right])
    assert rows.loc[["c", "d"], "term"].tolist() == pytest.approx([-wrong, -wrong])
    assert (rows["layer"] == 1).all() and tuple(rows.reset_index()[list(COLUMNS)]) == COLUMNS


def test_samples_without_a_partner_have_no_row_and_partners_share_a_number() -> None:
    rows = per_sample(*cell())
    assert {*rows["id"]} == {"a", "b", "c", "d"}
    assert {"".join(sorted(ids)) for _, ids in rows.groupby("pair")["id"]} == {"ab", "cd"}


def test_pairs_of_two_folds_are_left_out() -> None:
    scores, answers = cell({"b": 1, "c": 1, "d": 1, "f": 1})
    assert {*per_sample(scores, answers)["id"]} == {"c", "d"}


def test_without_crossing_there_are_no_rows() -> None:
    scores, answers = cell()
    rows = per_sample(scores[scores["condition"] == "clean"], answers)
    assert rows.empty and tuple(rows) == COLUMNS

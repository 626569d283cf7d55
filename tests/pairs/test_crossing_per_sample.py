"""Pair terms by sample, signed towards the label of the sample's answer."""

import numpy as np
import pandas as pd
import pytest
from handmade import scores_of

from anchorscope.pairs.per_sample import COLUMNS, per_sample

IDS = ["a", "b", "c", "d", "e", "f"]
CLEAN = {"a": -2.0, "b": -1.0, "c": 1.5, "d": 2.5, "e": -3.0, "f": 3.0}
CROSSED = {"a": 1.0, "b": 0.5, "c": 2.0, "d": 1.0}


def test_a_pair_that_speaks_for_the_label_of_both_answers_is_above_0() -> None:
    by_condition = {"clean": pd.Series(CLEAN), "crossed": pd.Series(CROSSED).reindex(IDS)}
    s = {name: [0 * of + 0.01, of] for name, of in by_condition.items()}
    answers = pd.DataFrame({"id": IDS, "question": IDS, "label": [0, 0, 1, 1, 0, 1]})
    answers["crossed_partner"] = ["b", "a", "d", "c", None, None]
    scores = scores_of(s, IDS)
    rows = per_sample(scores, answers)
    assert tuple(rows) == COLUMNS and (rows["layer"] == 1).all()
    assert {"".join(sorted(ids)) for _, ids in rows.groupby("pair")["id"]} == {"ab", "cd"}
    # towards right: (a + e - b - c) / 4 of two answers and two questions; scores are of `wrong`
    right = -(CLEAN["a"] + CLEAN["b"] - CROSSED["a"] - CROSSED["b"]) / 4
    wrong = -(CLEAN["c"] + CLEAN["d"] - CROSSED["c"] - CROSSED["d"]) / 4
    term = rows.set_index("id")["term"]
    assert term[IDS[:4]].tolist() == pytest.approx([right, right, -wrong, -wrong])
    two_folds = scores_of(s, IDS, fold=np.isin(IDS, ["b", "c", "d", "f"]).astype(int))
    assert {*per_sample(two_folds, answers)["id"]} == {"c", "d"}

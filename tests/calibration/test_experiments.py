"""Experiments held against planted truth, on values worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from anchorscope.calibration import calibration

IDS = [f"s{n}" for n in range(8)]
FLIPS = [1, 1, 1, 0, 0, 0, 0, np.nan]
CONTROL = [0, 0, 1, 0, 0, 0, 1, 0]
TRUTH = ["Q", "Q", "Q", "Q", "A", "A", "", "A"]


def held(truth: pd.DataFrame | None) -> pd.Series:
    per_sample = pd.DataFrame(
        {"id": IDS, "site": "mlp", "position": "final", "layer": 3, "arm": "matched"}
    ).assign(measure="flip", value=FLIPS, control=CONTROL)
    answers = pd.DataFrame({"id": IDS, "question": IDS, "label": [0, 1] * 4, "dropped": None})
    (row,) = calibration.of_experiment(per_sample, answers, truth, draws=200).to_dict("records")
    return pd.Series(row)


def test_means_and_auc_are_over_samples_whose_truth_is_known() -> None:
    row = held(pd.DataFrame({"id": IDS[::-1], "truth": TRUTH[::-1]}))
    assert (row["n_q"], row["n_a"], row["n"]) == (4, 2, 7)
    assert (row["value_q"], row["value_a"]) == (0.75, 0.0)
    assert row["auc"] == pytest.approx(0.875) and row["control_auc"] == pytest.approx(0.625)
    assert row["auc_low"] <= row["auc"] <= row["auc_high"]
    assert row["contrast"] == pytest.approx((3 - 2) / 7)


def test_a_cell_without_truth_has_the_contrast_alone() -> None:
    row = held(None)
    assert row[["n_q", "value_q", "auc", "control_auc"]].isna().all()
    assert row["contrast_low"] <= row["contrast"] <= row["contrast_high"]

"""Calibration of the experiments: against planted truth, pair terms and requirements."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from validation.experiments import COLUMNS, FLOW, MATCHED, PLACEBO, check, of_experiment

IDS = [f"s{n}" for n in range(8)]
FLIPPED = [1, 1, 1, 0, 0, 0, 0, np.nan]
CONTROL = [0, 0, 1, 0, 0, 0, 1, 0]
TRUTH = ["Q", "Q", "Q", "Q", "A", "A", "", "A"]
KIND_OF = ["surprise", "surprise", "tempting", "tempting", "truism", "truism", "unseen", "truism"]


PLACE = {"site": "mlp", "position": "final", "layer": 3}


def held(truth: pd.DataFrame | None, pairs: pd.DataFrame | None = None) -> pd.Series:
    per_sample = pd.DataFrame({"id": IDS, "value": FLIPPED, "control": CONTROL})
    per_sample = per_sample.assign(arm="matched", measure="flip", **PLACE)
    answers = pd.DataFrame({"id": IDS, "question": IDS, "label": [0, 1] * 4, "dropped": None})
    return of_experiment(per_sample, answers, truth, pairs, draws=200).squeeze()


def test_means_and_auc_are_over_samples_of_scored_kinds_whose_truth_is_known() -> None:
    row = held(pd.DataFrame({"id": IDS[::-1], "truth": TRUTH[::-1], "kind": KIND_OF[::-1]}))
    assert (row["n_q"], row["n_a"], row["n"]) == (4, 2, 7)
    assert (row["value"], row["control"]) == pytest.approx((3 / 7, 2 / 7))
    assert (row["auc"], row["control_auc"], row["auc_gain"]) == pytest.approx((0.875, 0.625, 0.25))
    for name in ("auc", "auc_gain"):
        assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
    assert (row["surprise"], row["tempting"], row["truism"]) == (1.0, 0.5, 0.0)
    assert np.isnan(row["myth"])
    assert held(None)[["n_q", "auc", "control_auc"]].isna().all()  # without a truth


def test_the_rank_correlation_is_spearmans_over_samples_that_have_both() -> None:
    term = [2.0, 2.5, 0.1, -0.3, 0.4, -1.0]
    row = held(None, pd.DataFrame({"id": IDS[:6], "term": term}).assign(**PLACE))
    assert row["n_pair"] == 6
    assert row["rank"] == pytest.approx(spearmanr(FLIPPED[:6], term).statistic)


CELLS = [("m", "one"), ("m", "two")]
GOOD = (
    MATCHED | {"surprise": 0.95, "tempting": 0.9, "truism": 0.0, "control": 0.02},
    PLACEBO | {"myth": 0.0},
    FLOW | {"auc": 0.9, "auc_gain_low": 0.1},
)
NULL = {"model": "n", "dataset": "d", "shuffled": False}


def table(*records: dict[str, object]) -> pd.DataFrame:
    rows = pd.DataFrame(records).assign(site="mlp", position="final", layer=7)
    return rows.reindex(columns=list(COLUMNS))


def cells(**changed: float) -> pd.DataFrame:
    """Two cells that meet every requirement; `changed` values in the second."""
    rows = []
    for model, dataset in CELLS:
        for good in GOOD:
            here = {key: value for key, value in changed.items() if key in good}
            rows.append(good | (here if dataset == "two" else {}))
            rows[-1] |= {"model": model, "dataset": dataset}
    return table(*rows)


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({}, set()),
        ({"surprise": 0.82}, {"mean"}),
        ({"surprise": 0.7}, {"cell", "mean"}),
        ({"auc_gain_low": -0.01}, {"mean"}),
        ({"myth": float("nan")}, {"cell", "mean"}),
    ],
)
def test_a_cell_that_misses_a_requirement_is_named(
    changed: dict[str, float], missed: set[str]
) -> None:
    checked = check(cells(**changed), CELLS, {})
    below = checked[~checked["holds"]]
    assert {*below["scope"]} == missed
    assert {*below.loc[below["scope"] == "cell", "dataset"]} <= {"two"}


@pytest.mark.parametrize(("value", "holds"), [(0.2, False), (0.15, True)])
def test_matched_patches_alone_must_be_empty_in_a_null_control(value: float, holds: bool) -> None:
    cell = {"model": "n", "dataset": "d", "control": 0.1, "n": 50, "value": value}
    rows = table(*(key | cell for key in (MATCHED, PLACEBO, FLOW)))
    (empty,) = check(rows, [], {"null": NULL}).to_dict("records")
    assert (empty["scope"], empty["requirement"]) == ("empty", "patching matched: flips")
    assert empty["holds"] == holds
    # Probes of shuffled labels have no rows of their own here.
    assert check(rows, [], {"null": NULL | {"shuffled": True}}).empty

"""Calibration of the experiments: against planted truth, and against pair terms."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from validation.experiments import of_experiment

IDS = [f"s{n}" for n in range(8)]
FLIPS = [1, 1, 1, 0, 0, 0, 0, np.nan]
CONTROL = [0, 0, 1, 0, 0, 0, 1, 0]
TRUTH = ["Q", "Q", "Q", "Q", "A", "A", "", "A"]
KIND_OF = ["surprise", "surprise", "tempting", "tempting", "truism", "truism", "unseen", "truism"]


PLACE = {"site": "mlp", "position": "final", "layer": 3}


def held(truth: pd.DataFrame | None, pairs: pd.DataFrame | None = None) -> pd.Series:
    per_sample = pd.DataFrame({"id": IDS, "value": FLIPS, "control": CONTROL})
    per_sample = per_sample.assign(arm="matched", measure="flip", **PLACE)
    answers = pd.DataFrame({"id": IDS, "question": IDS, "label": [0, 1] * 4, "dropped": None})
    return of_experiment(per_sample, answers, truth, pairs, draws=200).squeeze()


def test_means_and_auc_are_over_samples_of_scored_kinds_whose_truth_is_known() -> None:
    row = held(pd.DataFrame({"id": IDS[::-1], "truth": TRUTH[::-1], "kind": KIND_OF[::-1]}))
    assert (row["n_q"], row["n_a"], row["n"]) == (4, 2, 7)
    assert (row["value_q"], row["value_a"]) == (0.75, 0.0)
    assert (row["value"], row["control"]) == pytest.approx((3 / 7, 2 / 7))
    assert row["contrast"] == pytest.approx(1 / 7)
    assert (row["auc"], row["control_auc"], row["auc_gain"]) == pytest.approx((0.875, 0.625, 0.25))
    for name in ("auc", "auc_gain", "contrast"):
        assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
    assert (row["surprise"], row["tempting"], row["truism"]) == (1.0, 0.5, 0.0)
    assert np.isnan(row["myth"])
    row = held(pd.DataFrame({"id": IDS, "truth": TRUTH, "kind": ["redundant", *KIND_OF[1:]]}))
    assert (row["n_q"], row["n_a"], row["n"]) == (3, 2, 7)


def test_a_cell_without_truth_has_the_contrast_alone() -> None:
    row = held(None)
    assert row[["n_q", "value_q", "auc", "control_auc"]].isna().all()
    assert row["contrast_low"] <= row["contrast"] <= row["contrast_high"]


def test_an_experiment_that_measured_nothing_has_no_rows() -> None:
    answers = pd.DataFrame({"id": IDS, "question": IDS, "label": [0, 1] * 4, "dropped": None})
    per_sample = pd.DataFrame(columns=["id", "site", "position", "layer", "arm", "measure"])
    assert of_experiment(per_sample, answers, None).empty


def pairs_of(term: list[float]) -> pd.DataFrame:
    """Samples 0 and 1 are a pair, 2 and 3 the next, ...; a pair term for each sample."""
    pair = [n // 2 for n in range(len(term))]
    return pd.DataFrame({"id": IDS[: len(term)], "pair": pair, "term": term}).assign(**PLACE)


def test_the_rank_correlation_is_spearmans_over_samples_that_have_both() -> None:
    term = [2.0, 2.5, 0.1, -0.3, 0.4, -1.0]
    row = held(None, pairs_of(term))
    assert row["n_pair"] == 6
    assert row["rank"] == pytest.approx(spearmanr(FLIPS[:6], term).statistic)
    assert -1 <= row["rank_low"] <= row["rank"] <= row["rank_high"] <= 1


def test_without_pairs_at_the_layer_or_a_measure_that_varies_there_is_no_rank_correlation() -> None:
    elsewhere, constant = pairs_of([2.0, 2.5, 0.1]).assign(layer=2), pairs_of([2.0, 2.5])
    for pairs, n in ((elsewhere, 0), (constant, 2)):
        row = held(None, pairs)
        assert row["n_pair"] == n and np.isnan(row["rank"])


def width(n: int, linked: int) -> float:
    """Return the width of the rank correlation's interval if every `linked` samples are equal."""
    generator = np.random.default_rng(0)
    ids, groups = [f"s{i}" for i in range(n)], np.arange(n) // linked
    term = generator.normal(size=n)[groups]
    value = term + 2 * generator.normal(size=n)[groups]
    rows = pd.DataFrame({"id": ids, "value": value, "control": 0.0}).assign(**PLACE)
    answers = pd.DataFrame({"id": ids, "question": ids, "label": 0, "dropped": None})
    pairs = pd.DataFrame({"id": ids, "pair": groups, "term": term}).assign(**PLACE)
    rows = rows.assign(arm="a", measure="flow")
    row = of_experiment(rows, answers, None, pairs, draws=400).squeeze()
    return row["rank_high"] - row["rank_low"]


def test_samples_of_one_pair_are_drawn_together() -> None:
    # 300 samples that tell as much as 50: wider by about the root of six
    assert 1.7 < width(300, 6) / width(300, 1) < 3.5
    assert 0.12 < width(300, 1) < 0.3  # about 4 / sqrt(300)

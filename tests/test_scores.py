"""Choice of the penalty, calibration, and out-of-fold scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from anchorscope import scores
from anchorscope.errors import AnchorscopeError
from anchorscope.scores import Settings

N, WIDTH = 200, 6


def cell(
    n: int = N, share: float = 0.5, strength: float = 0.8
) -> tuple[pd.DataFrame, torch.Tensor]:
    """Answers and clean activations [2, n, WIDTH]; layer 0 knows nothing, layer 1 something."""
    random, n = np.random.default_rng(0), N
    z = (random.random(n) < share).astype(int)
    x = random.normal(size=(2, n, WIDTH))
    x[1, :, :3] += strength * z[:, None]
    answers = pd.DataFrame(
        {
            "id": [f"i{i}" for i in range(n)],
            "question": [f"q{i}" for i in range(n)],
            "subject": [f"s{i // 2}" for i in range(n)],
            "label": z,
            "dropped": None,
        }
    )
    return answers, torch.as_tensor(x, dtype=torch.float32)


def source(answers: pd.DataFrame, x: torch.Tensor) -> scores.Activations:
    """Clean activations; `knockout` takes the signal away; `noop` measures five samples."""

    def read(condition: str, draw: int) -> tuple[Sequence[str], torch.Tensor]:
        ids = answers["id"].tolist()
        if condition == "noop":
            return ids[4::-1], x[:, [4, 3, 2, 1, 0]]
        return ids, x - 2.0 * (condition == "knockout")

    return read


def scored(settings: Settings, conditions: Sequence[tuple[str, int]] = ()) -> pd.DataFrame:
    answers, x = cell()
    return scores.score(source(answers, x), answers, "mlp/final", conditions, settings)


def test_the_smallest_penalty_within_one_standard_error_of_the_best_is_chosen() -> None:
    # Two folds of one sample each, z = 1: the loss of a logit l is log(1 + exp(-l)).
    def logit(loss: float) -> float:
        return float(-np.log(np.expm1(loss)))

    # means .50, .34, .30, .32; the best has SD .1 over its folds: one standard error is .0707
    losses = [(0.5, 0.5), (0.34, 0.34), (0.3 - 0.05 * 2**0.5, 0.3 + 0.05 * 2**0.5), (0.32, 0.32)]
    held = np.array([[[logit(loss) for loss in pair] for pair in losses]])
    assert scores.choose(held, np.array([1, 1]), np.array([0, 1])).tolist() == [1]
    strict = held.copy()
    strict[0, 2] = logit(0.3)
    assert scores.choose(strict, np.array([1, 1]), np.array([0, 1])).tolist() == [2]


def test_calibration_recovers_a_known_slope_and_offset() -> None:
    random = np.random.default_rng(1)
    logits = random.normal(size=(1, 40_000)) * 3
    z = (random.random(40_000) < 1 / (1 + np.exp(-(0.5 * logits[0] - 1.0)))).astype(int)
    slope, offset = scores.calibrate(logits, z)
    assert slope[0] == pytest.approx(0.5, abs=0.02)
    assert offset[0] == pytest.approx(-1.0, abs=0.05)


def test_calibration_is_a_logistic_regression_on_platts_targets() -> None:
    random = np.random.default_rng(2)
    logits = random.normal(size=(1, 60)) * 1e-3
    z = (logits[0] + random.normal(size=60) * 1e-3 > 0).astype(int)
    slope, offset = scores.calibrate(logits, z)
    wrong = z.sum()
    share = np.where(z == 1, (wrong + 1) / (wrong + 2), 1 / (60 - wrong + 2))
    twice = np.r_[logits[0], logits[0]][:, None] * 1e3
    model = LogisticRegression(C=1e9, tol=1e-12, max_iter=10_000)
    model.fit(twice, np.repeat([1, 0], 60), sample_weight=np.r_[share, 1 - share])
    assert slope[0] == pytest.approx(model.coef_[0, 0] * 1e3, rel=1e-4)
    assert offset[0] == pytest.approx(model.intercept_[0], abs=1e-4)


def test_separable_and_reversed_and_constant_logits_stay_bounded() -> None:
    z = np.arange(40) % 2
    logits = np.stack([np.where(z, 5.0, -5.0), np.where(z, -1.0, 1.0), np.zeros(40)])
    slope, offset = scores.calibrate(logits, z)
    p = 1 / (1 + np.exp(-(slope[:, None] * logits + offset[:, None])))
    assert p[0, 1] == pytest.approx(21 / 22, abs=1e-6)
    assert slope[1] == scores.LEAST_SLOPE
    assert np.allclose(p[1:], 0.5, atol=1e-3)


def test_published_scores_are_scikit_learns_out_of_fold() -> None:
    settings = Settings(scoring="published")
    answers, x = cell()
    table = scored(settings, [("knockout", 0)])
    fold = scores.design(answers, settings).fold
    exact, z = x.double().numpy()[1], answers["label"].to_numpy()
    expected = {name: np.empty(N) for name in ("clean", "knockout")}
    for k in range(5):
        scaler = StandardScaler().fit(exact[fold != k])
        model = LogisticRegression(tol=1e-10, max_iter=10_000)
        model.fit(scaler.transform(exact[fold != k]), z[fold != k])
        for name, moved in (("clean", exact), ("knockout", exact - 2)):
            rows = scaler.transform(moved[fold == k])
            expected[name][fold == k] = model.predict_proba(rows)[:, 1]
    for name, p in expected.items():
        part = table[(table["layer"] == 1) & (table["condition"] == name)]
        assert part["id"].tolist() == answers["id"].tolist()
        assert np.abs(part["p"].to_numpy() - p).max() < 1e-3
        assert (part["c"] == 1).all()
        assert (part["t"] == 1).all()


def test_calibrated_scores_are_a_slow_loops() -> None:
    settings = Settings(grid=[0.01, 1.0], folds=3, inner_folds=3)
    answers, x = cell()
    table = scored(settings).set_index(["layer", "id"]).loc[1]
    plan = scores.design(answers, settings)
    exact, z = x.double().numpy()[1], plan.z
    for k in range(3):
        train = plan.fold != k
        held = np.empty((2, N))
        for j, c in enumerate(settings.grid):
            for i in range(3):
                rows = train & (plan.inner[k] != i)
                scaler = StandardScaler().fit(exact[rows])
                model = LogisticRegression(C=c, tol=1e-10).fit(
                    scaler.transform(exact[rows]), z[rows]
                )
                here = train & (plan.inner[k] == i)
                held[j, here] = model.decision_function(scaler.transform(exact[here]))
        j = scores.choose(held[None][..., train], z[train], plan.inner[k][train])[0]
        slope, offset = scores.calibrate(held[j : j + 1, train], z[train])
        scaler = StandardScaler().fit(exact[train])
        model = LogisticRegression(C=settings.grid[j], tol=1e-10)
        model.fit(scaler.transform(exact[train]), z[train])
        share = z[train].mean()
        logit = model.decision_function(scaler.transform(exact[~train]))
        expected = slope * logit + offset - np.log(share / (1 - share))
        found = table.loc[answers["id"][~train]]
        assert (found["c"] == settings.grid[j]).all()
        assert np.abs(found["s"].to_numpy() - expected).max() < 5e-3
        assert np.allclose(found["p"], 1 / (1 + np.exp(-found["s"])), atol=1e-6)


def test_the_natural_prior_differs_by_the_training_folds_share_alone() -> None:
    answers, x = cell(share=0.8)
    tables = [
        scores.score(source(answers, x), answers, "mlp/final", [], Settings(prior=prior))
        for prior in ("natural", "balanced")
    ]
    fold = scores.design(answers, Settings()).fold
    share = np.array([answers["label"][fold != k].mean() for k in range(5)])[fold]
    difference = (tables[0]["s"] - tables[1]["s"]).to_numpy().reshape(2, -1)
    assert np.allclose(difference, np.log(share / (1 - share)), atol=1e-5)


def test_a_sample_is_scored_by_a_probe_that_never_saw_it_nor_its_twin() -> None:
    answers, x = cell()
    before = scored(Settings())
    changed = answers.copy()
    twins = changed["subject"] == "s3"
    changed.loc[twins, "label"] = 1 - changed.loc[twins, "label"]
    plan = scores.design(answers, Settings())
    assert len(set(plan.fold[twins])) == 1
    relabelled = scores.Design(changed["label"].to_numpy(copy=True), plan.fold, plan.inner)
    fitted = scores.fit(x, relabelled, Settings())
    k = plan.fold[twins][0]
    rows = before[before["id"] == "i6"].set_index("layer")
    assert np.allclose(fitted.t[:, k], rows["t"], rtol=1e-4)
    assert np.array_equal(fitted.c[:, k], rows["c"])


def test_a_condition_may_cover_some_samples_in_any_order() -> None:
    table = scored(Settings(), [("noop", 0), ("clean", 0)])
    assert table["condition"].value_counts().to_dict() == {"clean": 2 * N, "noop": 10}
    both = table.pivot(index=["layer", "id"], columns="condition", values="s").dropna()
    assert len(both) == 10
    assert np.allclose(both["clean"], both["noop"], atol=1e-5)


def test_a_probe_without_signal_decides_nothing() -> None:
    table = scored(Settings())
    quiet = table[table["layer"] == 0]
    assert (quiet["p"] - 0.5).abs().max() < 0.2
    assert list(table.columns) == list(scores.COLUMNS)
    assert table[["s", "p"]].dtypes.eq("float32").all()


def test_clean_auc_is_scikit_learns_by_layer() -> None:
    answers, _ = cell()
    table = scored(Settings(), [("knockout", 0)])
    found = scores.clean_auc(table, answers.set_index("id")["label"])
    for layer in (0, 1):
        s = table[(table["layer"] == layer) & (table["condition"] == "clean")]["s"]
        assert found["auc"][layer] == pytest.approx(roc_auc_score(answers["label"], s))


def test_auc_counts_ties_half_and_knows_when_it_does_not_exist() -> None:
    assert scores.auc(np.array([1.0, 1.0, 2.0]), np.array([0, 1, 1])) == 0.75
    assert np.isnan(scores.auc(np.zeros(3), np.ones(3, dtype=int)))


def test_dropped_answers_are_left_out() -> None:
    answers, x = cell()
    answers.loc[0, "dropped"] = "no answer anchor"
    rest = answers.drop(index=0)
    table = scores.score(source(rest, x[:, 1:]), answers, "mlp/final", [], Settings())
    assert "i0" not in set(table["id"])
    assert len(table) == 2 * (N - 1)


def test_activations_of_other_samples_are_refused() -> None:
    answers, x = cell()
    with pytest.raises(AnchorscopeError, match="have no clean activations"):
        scores.score(source(answers[1:], x[:, 1:]), answers, "mlp/final", [], Settings())
    with pytest.raises(AnchorscopeError, match="id i0 has no answer"):
        scores.score(source(answers, x), answers[1:], "mlp/final", [], Settings())


def test_nothing_to_score_and_repeated_ids_are_refused() -> None:
    answers, _ = cell()
    with pytest.raises(AnchorscopeError, match="no answer is left"):
        scores.kept(answers.assign(dropped="no gold answer"))
    with pytest.raises(AnchorscopeError, match="an id comes twice"):
        scores.kept(answers.assign(id="same"))


def test_all_answers_right_is_refused_by_name() -> None:
    answers, x = cell()
    with pytest.raises(AnchorscopeError, match="all 200 answers are right"):
        scores.score(source(answers, x), answers.assign(label=0), "mlp/final", [], Settings())

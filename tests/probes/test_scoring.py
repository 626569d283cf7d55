"""Choice of the penalty, calibration, and out-of-fold scores, in which noise is no signal."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import torch
from handmade import score, table
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from anchorscope.probes import fitting, platt, scoring
from anchorscope.probes.fitting import ProbeSettings
from anchorscope.statistics import samples, strength
from anchorscope.statistics.scores import Scores
from anchorscope.storage.errors import AnchorscopeError

N, WIDTH = 200, 6
NAMES = {"i": range(N), "s": [i // 2 for i in range(N)]}


def cell(share: float = 0.5, strength: float = 0.8) -> tuple[pd.DataFrame, torch.Tensor]:
    """Answers and clean activations [2, N, WIDTH]; layer 0 knows nothing, layer 1 something."""
    random = np.random.default_rng(0)
    z = (random.random(N) < share).astype(int)
    x = random.normal(size=(2, N, WIDTH))
    x[1, :, :3] += strength * z[:, None]
    ids, subjects = ([f"{kind}{i:03}" for i in numbers] for kind, numbers in NAMES.items())
    answers = pd.DataFrame({"id": ids, "question": ids, "subject": subjects, "label": z})
    return answers.assign(dropped=None), torch.as_tensor(x, dtype=torch.float32)


def source(answers: pd.DataFrame, x: torch.Tensor) -> Callable[[str, int], Any]:
    """Clean activations; `knockout` takes the signal away; `noop` measures five samples."""

    def read(condition: str, draw: int) -> tuple[np.ndarray, torch.Tensor]:
        rows = np.arange(5 if condition == "noop" else len(answers))
        return rows, x[:, rows] - 2.0 * (condition == "knockout")

    return read


def scored(
    settings: ProbeSettings,
    conditions: Sequence[tuple[str, int]] = (),
    read: Any = None,
    **more: Any,
) -> pd.DataFrame:
    answers, x = cell()
    given = read or source(answers, x), answers, "mlp/final", conditions, settings
    return table(score(*given, **more))


def part(table: pd.DataFrame, condition: str, probe: str = "clean") -> pd.DataFrame:
    """The rows of one condition and probe."""
    return table.query("condition == @condition and probe == @probe").reset_index(drop=True)


def logits(
    x: np.ndarray, z: np.ndarray, train: np.ndarray, at: np.ndarray, c: float = 1.0
) -> np.ndarray:
    """scikit-learn's logits of the rows `at`, by a probe of the rows `train`."""
    scaler = StandardScaler().fit(x[train])
    model = LogisticRegression(C=c, tol=1e-10, max_iter=10_000)
    model.fit(scaler.transform(x[train]), z[train])
    return model.decision_function(scaler.transform(x[at]))


def log_odds(z: np.ndarray) -> float:
    return float(np.log(z.mean() / (1 - z.mean())))


def log_odds_of_targets(z: np.ndarray) -> float:
    """The log-odds of Platt's targets, to which a score that tells nothing is calibrated."""
    target = np.where(z == 1, (z.sum() + 1) / (z.sum() + 2), 1 / ((1 - z).sum() + 2))
    return float(np.log(target.mean() / (1 - target.mean())))


def test_the_smallest_penalty_within_one_standard_error_of_the_best_is_chosen() -> None:
    # Two folds of one sample each, z = 1: the loss of a logit l is log(1 + exp(-l)).
    def logit(loss: float) -> float:
        return float(-np.log(np.expm1(loss)))

    # means .50, .34, .30, .32; the best has SD .1 over its folds: one standard error is .0707
    losses = [(0.5, 0.5), (0.34, 0.34), (0.3 - 0.05 * 2**0.5, 0.3 + 0.05 * 2**0.5), (0.32, 0.32)]
    held = np.array([[[logit(loss) for loss in pair] for pair in losses]])
    assert platt.choose(held, np.array([1, 1]), np.array([0, 1])).tolist() == [1]
    strict = held.copy()
    strict[0, 2] = logit(0.3)
    assert platt.choose(strict, np.array([1, 1]), np.array([0, 1])).tolist() == [2]


def test_after_a_tenth_of_the_work_the_time_left_is_right_within_a_factor_of_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Processor time is measured, so a busy machine does not matter.
    monkeypatch.setattr("tqdm.std.time", time.process_time)
    seen: list[tuple[float, float]] = []  # the share of the work that is done, and its seconds
    update = scoring.Progress.update

    def watched(self: scoring.Progress, n: float | None = 1) -> bool | None:
        done = update(self, n)
        seen.append((self.n / self.total, self.seconds))
        return done

    monkeypatch.setattr(scoring.Progress, "update", watched)
    answers, _ = cell()
    x = torch.randn((6, N, 96), generator=torch.Generator().manual_seed(0))
    design = fitting.design(answers, ProbeSettings(seed=1))
    conditions = [("knockout", 0), *(("random", draw) for draw in range(8))]
    read: Any = lambda *_: (np.arange(N), x)  # noqa: E731
    readouts = ["mlp/final", "resid/final"]
    weights = scoring.refit_weights(answers, design)
    assert scoring.Scoring(read, design, weights, readouts, conditions).run().readouts == readouts
    assert seen[-1][0] == 1
    assert all(0.5 < seconds / done / seen[-1][1] < 2 for done, seconds in seen if done >= 0.1)


def test_calibration_is_a_logistic_regression_on_platts_targets() -> None:
    random = np.random.default_rng(2)
    logits = random.normal(size=(1, 60)) * 1e-3
    z = (logits[0] + random.normal(size=60) * 1e-3 > 0).astype(int)
    slope, offset = platt.calibrate(logits, z)
    wrong = z.sum()
    share = np.where(z == 1, (wrong + 1) / (wrong + 2), 1 / (60 - wrong + 2))
    twice = np.r_[logits[0], logits[0]][:, None] * 1e3
    model = LogisticRegression(C=1e9, tol=1e-12, max_iter=10_000)
    model.fit(twice, np.repeat([1, 0], 60), sample_weight=np.r_[share, 1 - share])
    assert slope[0] == pytest.approx(model.coef_[0, 0] * 1e3, rel=1e-4)
    assert offset[0] == pytest.approx(model.intercept_[0], abs=1e-4)


@pytest.mark.parametrize("kind", ["calibrated", "published"])
def test_probes_of_a_draw_are_fitted_to_its_rows_and_calibrated_on_the_other_folds(
    kind: Literal["calibrated", "published"],
) -> None:
    answers, x = cell(strength=1.5)
    settings = ProbeSettings(grid=[0.1], folds=3, inner_folds=3, refits=2, scoring=kind)
    weights = scoring.refit_weights(answers, fitting.design(answers, settings))
    given = source(answers, x), answers, "mlp/final", [("knockout", 0), ("noop", 0)], settings
    made = score(*given, weights=weights)
    plan = fitting.design(answers, settings)
    fitted = fitting.fit(x, plan)
    for number, drawn in enumerate(weights, start=1):
        rows = np.repeat(np.arange(N), drawn)
        alone = np.full((3, len(rows)), -1)
        repeated = replace(plan, z=plan.z[rows], fold=plan.fold[rows], inner=alone)
        raw = fitting.fit(x[:, rows], repeated, fitted.c)
        logits = fitting.out_of_fold(raw, x, plan.fold) + raw.shift[:, plan.fold]
        moved = fitting.out_of_fold(raw, x - 2, plan.fold) + raw.shift[:, plan.fold]
        for k in range(3):
            here, others = plan.fold == k, plan.fold[rows] != k
            slope, offset = np.ones(2), np.zeros(2)
            if kind == "calibrated":
                slope, offset = platt.calibrate(logits[:, rows[others]], plan.z[rows[others]])
            for name, told in (("clean", logits), ("knockout", moved)):
                expected = slope[:, None] * told[:, here] + offset[:, None] - raw.shift[:, k, None]
                found = made.probes[f"mlp/final/{name}/0"][number][:, here]
                assert np.allclose(found, expected, atol=0.02), (name, k)
    pd.testing.assert_frame_equal(table(made), table(score(*given)))
    unmeasured = np.isnan(made.probes["mlp/final/noop/0"])
    assert unmeasured[..., 5:].all() and not unmeasured[..., :5].any()


def test_draws_are_of_clusters(caplog: pytest.LogCaptureFixture) -> None:
    answers, _ = cell()
    settings = ProbeSettings(folds=3, inner_folds=3)
    design = fitting.design(answers, settings)
    found = scoring.refit_weights(answers, design)
    assert found.shape == (20, N) and (found.sum(1) == N).all()
    assert (found[:, ::2] == found[:, 1::2]).all(), "two samples a subject"
    # Six subjects are wrong, two in each fold: some draws leave a fold without any.
    rare = answers["subject"].isin([f"s{i:03}" for i in range(0, 60, 10)]).astype(int)
    more = settings.model_copy(update={"refits": 40})
    few = scoring.refit_weights(answers, fitting.design(answers.assign(label=rare), more))
    assert 0 < len(few) < 40
    assert f"{40 - len(few)} of 40 resamples dropped: a fold has one class" in caplog.text


def test_scores_come_back_from_their_file(tmp_path: Path) -> None:
    answers, x = cell()
    settings = ProbeSettings(grid=[0.1], folds=3, inner_folds=3, refits=2)
    weights = scoring.refit_weights(answers, fitting.design(answers, settings))
    readout = "resid/prompt_end"
    made = score(source(answers, x), answers, readout, [("noop", 0)], settings, weights=weights)
    made.floors.update(text=np.zeros((3, N)), answer=np.ones((3, N)))
    made.write(tmp_path / "scores")
    back = Scores.read(tmp_path / "scores")
    for name, value in vars(made).items():
        other = getattr(back, name)
        for key in value if isinstance(value, dict) else [None]:
            one, same = (value, other) if key is None else (value[key], other[key])
            assert np.array_equal(one, same, equal_nan=one.dtype.kind == "f"), name


def test_separable_and_reversed_and_constant_logits_stay_bounded() -> None:
    z = np.arange(40) % 2
    logits = np.stack([np.where(z, 5.0, -5.0), np.where(z, -1.0, 1.0), np.zeros(40)])
    slope, offset = platt.calibrate(logits, z)
    p = 1 / (1 + np.exp(-(slope[:, None] * logits + offset[:, None])))
    assert p[0, 1] == pytest.approx(21 / 22, abs=1e-6)
    assert slope[1] == platt.LEAST_SLOPE
    assert np.allclose(p[1:], 0.5, atol=1e-3)


@pytest.mark.parametrize("scoring", ["calibrated", "published"])
def test_scores_are_a_slow_loops(scoring: Literal["calibrated", "published"]) -> None:
    settings = ProbeSettings(grid=[0.01, 1.0], folds=3, inner_folds=3, scoring=scoring)
    answers, x = cell()
    found_by_id = part(scored(settings), "clean").set_index(["layer", "id"]).loc[1]
    plan = fitting.design(answers, settings)
    exact, z = x.double().numpy()[1], plan.z
    for k in range(3):
        train, c, slope, offset = plan.fold != k, 1.0, [1.0], 0.0
        if scoring == "calibrated":
            held = np.empty((2, N))
            for j, c in enumerate(settings.grid):
                for i in range(3):
                    here = train & (plan.inner[k] == i)
                    held[j, here] = logits(exact, z, train & (plan.inner[k] != i), here, c)
            j = platt.choose(held[None][..., train], z[train], plan.inner[k][train])[0]
            c = settings.grid[j]
            slope, offset = platt.calibrate(held[j : j + 1, train], z[train])
            offset = offset - log_odds_of_targets(z[train])
        expected = slope[0] * logits(exact, z, train, ~train, c) + offset
        found = found_by_id.loc[answers["id"][~train]]
        assert np.abs(found["s"].to_numpy() - expected).max() < 5e-3
        assert np.allclose(found["p"], 1 / (1 + np.exp(-found["s"])), atol=1e-6)


def test_the_natural_prior_differs_by_the_training_folds_share_alone() -> None:
    answers, x = cell(share=0.8)
    given = source(answers, x), answers, "mlp/final", []
    tables = (table(score(*given, ProbeSettings(prior=p))) for p in ("natural", "balanced"))
    natural, balanced = (part(one, "clean")["s"].to_numpy().reshape(2, -1) for one in tables)
    plan = fitting.design(answers, ProbeSettings())
    expected = np.array([log_odds_of_targets(plan.z[rows]) for rows in plan.outer])[plan.fold]
    assert np.allclose(natural - balanced, expected, atol=1e-5)


def test_a_probe_that_learned_nothing_ranks_no_fold_above_another() -> None:
    answers, x = cell(share=0.8)
    given = source(answers, torch.ones_like(x)), answers, "mlp/final", [], ProbeSettings()
    found = score(*given)
    for s in (found.probes["mlp/final/clean/0"], found.shuffled["mlp/final"]):
        assert np.abs(s).max() < 1e-4


def test_every_condition_has_the_clean_probe() -> None:
    conditions = [("knockout", 0), ("random", 0), ("random", 1), ("question", 0), ("noop", 0)]
    found = scored(ProbeSettings(), conditions)
    rows = found.groupby(["condition", "draw", "probe"]).size().to_dict()
    expected = {("clean", 0, "clean"), ("clean", 0, "shuffled")}
    expected |= {(*condition, "clean") for condition in conditions}
    assert rows == {key: 10 if key[0] == "noop" else 2 * N for key in expected}
    both = part(found, "clean").merge(part(found, "noop"), on=["layer", "id"])
    assert np.allclose(both["s_x"], both["s_y"], atol=1e-5)
    published = scored(ProbeSettings(scoring="published"), conditions)
    assert set(published["probe"]) == {"clean"}


def test_shuffled_labels_are_scored_by_a_probe_that_learned_them() -> None:
    answers, x = cell(strength=2.0)
    every = table(score(source(answers, x), answers, "mlp/final", [], ProbeSettings()))
    z = answers["label"].to_numpy()
    found = part(every, "clean", "shuffled")[lambda rows: rows["layer"] == 1]
    other = found["label"].to_numpy()
    assert sorted(other) == sorted(z) and (other != z).any()
    assert (part(every, "clean")["label"].to_numpy().reshape(2, -1) == z).all()
    exact, fold = x.double().numpy()[1], found["fold"].to_numpy()
    c = fitting.fit(x, fitting.design(answers, ProbeSettings())).c[1]
    for k in range(5):
        train = fold != k
        logit = logits(exact, other, train, ~train, c[k])
        assert np.allclose(found["s"][~train], logit - log_odds(other[train]), atol=5e-3)
    assert found["p"].isna().all()


def test_answers_of_one_label_are_refused() -> None:
    answers, x = cell()
    given = source(answers, x), answers.assign(label=0), "mlp/final", [], ProbeSettings()
    with pytest.raises(AnchorscopeError, match="all 200 answers are right"):
        score(*given)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_score_that_is_not_finite_is_named_by_layer_and_sample(value: float) -> None:
    answers, x = cell()
    made = score(source(answers, x), answers, "mlp/final", [], ProbeSettings())
    s = np.zeros((1, 2, 3))
    s[0, 1, 2] = value
    with pytest.raises(AnchorscopeError, match="not finite") as caught:
        made.add("mlp/final", ("knockout", 0), np.array([0, 1, 7]), s)
    assert "layer 1, id i007" in str(caught.value.where)


def signals_of_noise(seed: int, tries: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether noise predicts at any of three layers, and has a signal; bool [tries] each.

    Probes of different layers are fitted independently, so one call fits those of all tries.
    """
    n, layers = 60, 3
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) < 0.15 * n).astype(np.int64)
    ids = [f"{number:03d}" for number in range(n)]
    answers = pd.DataFrame({"id": ids, "question": ids, "subject": ids, "label": labels})
    noise = torch.as_tensor(rng.normal(size=(tries * layers, n, 16)), dtype=torch.float32)
    given = answers, "mlp/final", [], ProbeSettings(inner_folds=3, grid=[0.01, 1.0])
    found = score(lambda condition, draw: (np.arange(n), noise), *given)
    aucs = found.inner_auc["mlp/final"].reshape(tries, layers, -1)
    every = found.readout("mlp/final")
    beside = {}, labels, samples.bootstrap(answers, 200, seed=0)
    by_layer = strength.by_layer(strength.Predictions(every.clean[None], *beside), 0.95)["predicts"]
    of_cell = []
    for clean, own in zip(every.clean.reshape(tries, layers, n), aucs, strict=True):
        one = replace(every, clean=clean, layer_of_fold=samples.layer_of_fold(own))
        of = strength.Predictions(one.own[None, None], *beside)
        of_cell.append(strength.over_text(of, 0.95).estimate.p < 0.05)
    return by_layer.reshape(tries, layers).any(1), np.array(of_cell)


def test_noise_gives_a_false_signal_in_at_most_one_of_twenty_tries() -> None:
    """Without floors, which could only take signals away; 15 % of the labels are wrong."""
    every = [signals_of_noise(seed, tries=200) for seed in range(4)]  # each with labels of its own
    by_layer, of_cell = (np.concatenate(found) for found in zip(*every, strict=True))
    assert by_layer.mean() <= 0.05
    assert of_cell.mean() <= 0.05


def test_the_natural_prior_is_that_of_all_answers_and_scores_record_what_samples_stand_for() -> (
    None
):
    answers, x = cell(share=0.5)
    chosen = answers.assign(stands_for=np.where(answers["label"] == 1, 9.0, 1.0))

    def clean(of: pd.DataFrame, prior: str) -> pd.DataFrame:
        given = source(of, x), of, "mlp/final", [], ProbeSettings(prior=prior)
        return part(table(score(*given)), "clean")

    plain, of_pool = (clean(of, "natural")["s"].to_numpy() for of in (answers, chosen))
    assert np.allclose(of_pool - plain, np.log(9), atol=0.1), "nine times as many wrong ones"
    balanced = [clean(of, "balanced") for of in (answers, chosen)]
    assert balanced[0]["s"].equals(balanced[1]["s"])
    stands_for = balanced[1].drop_duplicates("id").set_index("id")["stands_for"]
    assert stands_for.to_dict() == dict(zip(chosen["id"], chosen["stands_for"], strict=True))

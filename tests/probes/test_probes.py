"""Batched probes against scikit-learn, one problem at a time."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from anchorscope.passes.features import Selection
from anchorscope.probes import probes
from anchorscope.storage.errors import AnchorscopeError

GRID = np.array([1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0])


def features(kind: str, n: int, width: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two layers of features, float32 [2, n, width], and labels."""
    random = np.random.default_rng(seed)
    z = (random.random(n) < 0.6).astype(int)
    x = random.normal(size=(2, n, width))
    if kind == "correlated":  # condition number of the correlation matrix: 1e5 and more
        mixing = random.normal(size=(2, width, width))
        x = x @ (mixing * np.logspace(0, -3, width)[:, None])
    x[..., : width // 2] += (4.0 if kind == "separable" else 0.4) * z[:, None]
    if kind == "offset":  # means far off, spreads from 0.001 to 1000, and a constant feature
        x = x * np.logspace(-3, 3, width) + np.linspace(-50, 50, width)
        x[..., -1] = 7.0
    return x.astype(np.float32), z


def problems(n: int, folds: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Training masks [problems, n] and penalties [problems]."""
    fold = np.arange(n) % folds
    masks = np.stack([fold != k for k in range(folds)])
    return np.repeat(masks, len(GRID), axis=0), np.tile(GRID, folds)


def fitted(x: np.ndarray, z: np.ndarray, masks: np.ndarray, c: np.ndarray) -> probes.Probes:
    return probes.fit(torch.as_tensor(x), z, masks, c)


def reference(x: np.ndarray, z: np.ndarray, weights: np.ndarray, c: float) -> np.ndarray:
    """P(z = 1) of every row of x [n, width], by scikit-learn in float64, rows repeated."""
    exact, rows = x.astype(np.float64), np.repeat(np.arange(len(x)), weights.astype(int))
    scaler = StandardScaler().fit(exact[rows])
    model = LogisticRegression(C=c, tol=1e-10, max_iter=100_000, solver="lbfgs")
    model.fit(scaler.transform(exact[rows]), z[rows])
    return model.predict_proba(scaler.transform(exact))[:, 1]


def check(
    solved: probes.Probes, x: np.ndarray, z: np.ndarray, weights: np.ndarray, c: np.ndarray
) -> None:
    """Every probe gives scikit-learn's probabilities, of all rows."""
    p = torch.sigmoid(solved.logits(torch.as_tensor(x))).numpy()
    assert solved.unconverged == 0
    for layer in range(len(x)):
        for problem, (drawn, penalty) in enumerate(zip(weights, c, strict=True)):
            expected = reference(x[layer], z, drawn, penalty)
            assert np.abs(p[layer, problem] - expected).max() < 1e-3, (layer, problem, penalty)


@pytest.mark.parametrize(
    ("kind", "n", "width"),
    [
        *(("correlated", 150, 40), ("separable", 120, 20), ("offset", 150, 20)),
        *(("plain", 60, 150), ("correlated", 60, 150)),
    ],
)
def test_probabilities_in_and_out_of_fold_are_scikit_learns(kind: str, n: int, width: int) -> None:
    x, z = features(kind, n, width)
    masks, c = problems(n)
    solved = fitted(x, z, masks, c)
    assert kind != "offset" or not solved.weights[..., -1].any(), "of a constant feature"
    check(solved, x, z, masks, c)


def test_a_row_of_weight_two_is_the_row_twice() -> None:
    x, z = features("offset", 120, 16)
    weights = np.random.default_rng(4).poisson(1.0, size=(3, 120))
    c = np.array([1e-3, 0.1, 10.0])
    check(fitted(x, z, weights, c), x, z, weights, c)


class Stored:
    """Features that are read as they are needed; notes which layers are."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x, self.shape, self.read = x, x.shape, list[int]()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, layers: slice) -> torch.Tensor:
        some = range(len(self.x))[layers]
        assert len(some) <= 2
        self.read += some
        return self.x[layers]


def test_only_the_layers_being_solved_or_scored_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "CPU_BYTES", 1)
    x, z = features("plain", 90, 10)
    whole = torch.as_tensor(np.concatenate([x, x]))
    stored = Stored(whole)
    solved = probes.fit(stored, z, *problems(90))
    assert torch.equal(solved.weights, probes.fit(whole, z, *problems(90)).weights)
    assert torch.equal(solved.logits(stored), solved.logits(whole))
    assert stored.read == [*range(4)] * 2


def test_what_cannot_be_fitted_is_refused_and_a_solve_cut_short_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, z = features("plain", 30, 4)
    with pytest.raises(AnchorscopeError, match="all right or all wrong"):
        fitted(x, z, np.stack([np.ones(30, dtype=bool), z == 1]), np.ones(2))
    hard, labels = features("correlated", 150, 40)
    monkeypatch.setattr(probes, "MAX_ITERATIONS", 1)
    assert fitted(hard, labels, *problems(150)).unconverged > 0
    x[1, 3, 2] = np.nan
    with pytest.raises(AnchorscopeError, match="layer 1"):
        fitted(x, z, *problems(30))


def test_layers_that_do_not_fit_are_halved_then_their_problems(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    x, z = features("plain", 90, 10)
    x, (masks, c) = np.concatenate([x, x, x]), problems(90)
    expected, every = fitted(x, z, masks, c).logits(torch.as_tensor(x)), len(c)
    solve, most = probes._solve, every // 2

    def limited(x: Selection, *given: Any) -> probes.Probes:
        if len(x) * min(given[-2], every) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return solve(x, *given)

    monkeypatch.setattr(probes, "_solve", limited)
    monkeypatch.setattr(probes, "_at_once", lambda *_: (4, 100))
    found = fitted(x, z, masks, c).logits(torch.as_tensor(x))
    assert torch.allclose(found, expected, atol=2e-3)
    assert f"{every} probes × 4 layers do not fit in memory" in caplog.text
    most = 0
    with pytest.raises(AnchorscopeError, match="a single probe of one layer does not fit"):
        fitted(x, z, masks, c)


@pytest.mark.parametrize(("far", "n"), [(1e4, 50), (1.1e6, 150), (5e6, 50)])
def test_a_row_far_off_does_not_hold_up_the_others(
    far: float, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "MAX_ITERATIONS", 60)
    x, z = features("plain", n, 12)
    masks, c = problems(n)
    x[0, 4, 3] = far
    solved = fitted(x, z, masks, c)
    assert solved.unconverged == 0
    p = torch.sigmoid(solved.logits(torch.as_tensor(x))).numpy()
    for problem in (5, 11, 17):
        expected = reference(x[0], z, masks[problem], c[problem])
        assert np.abs(p[0, problem] - expected)[~masks[problem]].max() < 1e-3

"""Logistic regressions by Newton steps are those of scikit-learn, penalty and weights included."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from anchorscope.probes.newton import logistic_regressions


def test_they_equal_scikit_learn_s_at_every_penalty() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 6))
    x[:, 5] = 0.0  # a feature that tells nothing
    z = (x[:, 0] + random.normal(size=200) > 0.3).astype(int)
    weights = random.integers(1, 4, size=200).astype(float)
    with_constant = np.column_stack([x, np.ones(200)])
    strengths = np.array([0.01, 1.0, 100.0])  # C
    penalty = np.concatenate([1 / strengths[:, None].repeat(6, 1), np.zeros((3, 1))], axis=1)
    rows = np.broadcast_to(with_constant.T, (3, 7, 200))
    solved = logistic_regressions(rows, z, weights, penalty=penalty)
    for w, c in zip(solved, strengths, strict=True):
        peer = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(x, z, weights)
        np.testing.assert_allclose(w[:-1], peer.coef_[0], atol=1e-5)
        np.testing.assert_allclose(w[-1], peer.intercept_[0], atol=1e-5)


def test_a_penalty_keeps_them_finite_where_the_classes_are_separable() -> None:
    x = np.linspace(-1, 1, 20)
    rows = np.stack([x, np.ones(20)])[None]
    w = logistic_regressions(rows, x > 0, np.ones(20), penalty=np.array([[0.1, 0.0]]))[0]
    gradient = x @ (1 / (1 + np.exp(-(w[0] * x + w[1]))) - (x > 0)) + 0.1 * w[0]
    assert abs(gradient) < 1e-8

"""Logistic regressions by Newton steps are those of scikit-learn, weights included."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from anchorscope.probes.newton import logistic_regressions


def test_they_equal_scikit_learn_s_without_a_penalty() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(3, 200, 6))
    x[..., 5] = 0.0  # a feature that tells nothing
    z = (x[0, :, 0] + random.normal(size=200) > 0.3).astype(int)
    weights = random.integers(1, 4, size=200).astype(float)
    rows = np.concatenate([x, np.ones((3, 200, 1))], axis=2).swapaxes(1, 2)
    solved = logistic_regressions(rows, z, weights)
    for w, layer in zip(solved, x, strict=True):
        peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(layer, z, weights)
        np.testing.assert_allclose(w[:-1], peer.coef_[0], atol=1e-5)
        np.testing.assert_allclose(w[-1], peer.intercept_[0], atol=1e-5)

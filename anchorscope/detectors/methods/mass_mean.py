"""Mass-mean probes: the whitened difference of the class means (Marks & Tegmark, 2024).

Whitening by the covariance within classes gives a linear discriminant analysis. This covariance is
shrunk towards a multiple of the identity (Ledoit & Wolf, 2004).
"""

from __future__ import annotations

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from anchorscope.detectors.method import LinearScorer, Training
from anchorscope.detectors.methods.probe import by_inner_folds, calibration, headline_layer


def fit(train: Training) -> LinearScorer:
    """Fit the mass-mean probe at the usual probe's headline layer. Calibrate on the inner folds."""
    readout, z = train.samples.readout, train.label
    layer = headline_layer(train, readout)
    x = train.samples.states[readout][layer : layer + 1][0].double().cpu().numpy()

    def held_out(here: np.ndarray) -> np.ndarray:
        return _discriminant(x[~here], z[~here]).decision_function(x[here])

    slope, offset = calibration(train, by_inner_folds(train, held_out))
    whole = _discriminant(x, z)
    bias = slope * float(whole.intercept_[0]) + offset
    return LinearScorer(readout, (layer,), slope * whole.coef_, bias)


def _discriminant(x: np.ndarray, z: np.ndarray) -> LinearDiscriminantAnalysis:
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x, z)

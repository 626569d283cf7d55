"""Density of values by a Gaussian kernel of Silverman's width (1986, eq. 3.31)."""

import numpy as np


def density(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Estimate the density of values [n] at evenly spaced points x, per unit of x."""
    width = _kernel_width(values, x)
    kernels = np.exp(-(((x[:, None] - values) / width) ** 2) / 2)
    return np.asarray(kernels.mean(1) / (width * np.sqrt(2 * np.pi)))


def _kernel_width(values: np.ndarray, x: np.ndarray) -> float:
    """Return Silverman's width, or the step of x if that is wider, to avoid spikes."""
    quartiles = np.quantile(values, [0.25, 0.75])
    spread = min(values.std(), np.ptp(quartiles) / 1.34) or values.std()
    return float(max(0.9 * spread * len(values) ** -0.2, x[1] - x[0]))

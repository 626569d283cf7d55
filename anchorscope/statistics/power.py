"""Power: how many samples a cell needs for its probe to be called a signal.

The power of the rule for a signal (`strength`) depends on n, on the balance of the classes, on the
correlation between the scores of the probe and of the text model (floor), and on the variance that
their training adds. `validation/simulations/power.py` measures it with trained probes and floors.
"""

from math import ceil

from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, owens_t

FLOOR, ALIKE = 0.7, 0.5
"""Assumed AUC of the hardest floor, and correlation between its AUC and the AUC of the probe."""
WIDENED, VARIES = 1.6, 1.2
"""Refits make intervals of the gain `WIDENED` times as wide. The gain's true spread is `VARIES`
times its standard error with fixed models. With `ALIKE`, both are fitted to how often a signal was
called in ten worlds of `validation/simulations/power.py` and `chosen.py`, and of 24 runs."""
POWER, LEVEL = 0.8, 0.95  # power at which samples are planned, and level of the interval
MOST_GAIN = 0.1  # a cell is too small if it needs a higher gain in AUC to be called a signal
USUAL_GAIN = 0.05  # gain in AUC that a plan should be able to detect


def auc_error(auc: float, right: float, wrong: float) -> float:
    """Return the standard error of an AUC over `right` and `wrong` answers with normal scores.

    Hanley & McNeil, Radiology 143 (1982), eq. 1. Here, their Q₁ and Q₂ are equal: the probability
    that a score is correctly ordered against both of two scores of the other class.
    """
    z = ndtri(auc)
    both = auc - 2 * owens_t(z, 3**-0.5)  # P(two normal variables of correlation .5 are below z)
    variance = auc * (1 - auc) + (right + wrong - 2) * (both - auc**2)
    return float((variance / (right * wrong)) ** 0.5)


def gain_error(gain: float, n: float, wrong: float = 0.5) -> float:
    """Return the standard error of a gain in AUC. Neither probe nor floor is refitted."""
    counts = n * (1 - wrong), n * wrong
    errors = [auc_error(auc, *counts) for auc in (FLOOR + gain, FLOOR)]
    return float((errors[0] ** 2 + errors[1] ** 2 - 2 * ALIKE * errors[0] * errors[1]) ** 0.5)


def chance(gain: float, n: float, wrong: float = 0.5) -> float:
    """Return the power: the probability that n samples show this gain in AUC as a signal."""
    z = gain / gain_error(gain, n, wrong)
    return float(ndtr((z - WIDENED * ndtri((1 + LEVEL) / 2)) / VARIES))


def least_n(gain: float, wrong: float = 0.5) -> int:
    """Return the number of samples that show this gain as a signal with power `POWER`."""
    few = 2 / min(wrong, 1 - wrong)  # so that each class has two
    if chance(gain, few, wrong) >= POWER:
        return ceil(few)
    return ceil(brentq(lambda n: chance(gain, n, wrong) - POWER, few, 1e9))


def least_gain(n: int, wrong: float = 0.5) -> float | None:
    """Return the least gain that n samples show as a signal with power `POWER`; None if none."""
    most = 0.999 - FLOOR
    if n * min(wrong, 1 - wrong) < 2 or chance(most, n, wrong) < POWER:
        return None
    return float(brentq(lambda gain: chance(gain, n, wrong) - POWER, 1e-6, most))


def shortage(n: int, wrong: float = 0.5) -> tuple[float | None, int] | None:
    """Return what `n` samples lack, or None if they can show a gain of `MOST_GAIN`.

    The result is (gain, needed): the smallest gain that they can show (None if none), and how
    many samples can show `USUAL_GAIN`. `wrong` is the share of wrong answers.
    """
    gain = least_gain(n, wrong)
    if gain is not None and gain <= MOST_GAIN:
        return None
    return gain, least_n(USUAL_GAIN, wrong)

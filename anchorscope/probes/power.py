"""Power: how many samples a cell needs for its probe to be called a signal.

The rule of `strength` asks that the AUC of the probe be surely above that of the text floors, on
the same samples. How surely that can be told depends on n, on the balance of the classes, on how
alike probe and floor score a sample, and on what their training adds.
`validation/simulations/power.py` tries the rule itself on probes and floors that it trains.
"""

from collections.abc import Collection
from math import ceil

from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, owens_t

FLOOR, ALIKE = 0.7, 0.3
"""AUC of the hardest floor, and correlation of its AUC with the probe's, that a plan assumes."""
WIDENED, VARIES = 1.7, 1.2
"""By what factor refits widen the interval of the gain, and how much more than with a fixed probe
and floor it varies indeed: the middle of `validation/simulations/power.py`."""
POWER, LEVEL = 0.8, 0.95
"""How often a signal that is there is to be called one, and the level of the interval."""
MOST_GAIN = 0.1
"""A cell that needs a higher gain in AUC to be called a signal is too small."""
USUAL_GAIN = 0.05
"""A gain that a plan should allow for."""


def auc_error(auc: float, right: float, wrong: float) -> float:
    """Standard error of an AUC, of so many right and wrong answers with normal scores.

    Hanley & McNeil, Radiology 143 (1982), eq. 1; both of their Q are the chance that of two scores
    of one class both lie on the right side of one of the other.
    """
    z = ndtri(auc)
    both = auc - 2 * owens_t(z, 3**-0.5)  # two normal variables of correlation .5 are both below z
    variance = auc * (1 - auc) + (right + wrong - 2) * (both - auc**2)
    return float((variance / (right * wrong)) ** 0.5)


def gain_error(gain: float, n: float, wrong: float = 0.5) -> float:
    """Standard error of the gain in AUC of a fixed probe over a fixed floor.

    Of n samples, of which a share is wrong.
    """
    counts = n * (1 - wrong), n * wrong
    errors = [auc_error(auc, *counts) for auc in (FLOOR + gain, FLOOR)]
    return float((errors[0] ** 2 + errors[1] ** 2 - 2 * ALIKE * errors[0] * errors[1]) ** 0.5)


def chance(gain: float, n: float, wrong: float = 0.5) -> float:
    """How often a probe with this gain over its hardest floor is called a signal."""
    z = gain / gain_error(gain, n, wrong)
    return float(ndtr((z - WIDENED * ndtri((1 + LEVEL) / 2)) / VARIES))


def least_n(gain: float, wrong: float = 0.5) -> int:
    """The samples with which such a gain is called a signal in 8 of 10 cells.

    `gain` lies above 0, and below what the floor leaves; `wrong` is the share of wrong answers.
    """
    few = 2 / min(wrong, 1 - wrong)  # so that each class has two
    if chance(gain, few, wrong) >= POWER:
        return ceil(few)
    return ceil(brentq(lambda n: chance(gain, n, wrong) - POWER, few, 1e9))


def least_gain(n: int, wrong: float = 0.5) -> float | None:
    """The gain with which so many samples are called a signal in 8 of 10 cells; None: none is."""
    most = 0.999 - FLOOR
    if n * min(wrong, 1 - wrong) < 2 or chance(most, n, wrong) < POWER:
        return None
    return float(brentq(lambda gain: chance(gain, n, wrong) - POWER, 1e-6, most))


def too_small(n: int, wrong: float = 0.5) -> str | None:
    """A sentence, where a cell is too small to be called a signal; else None.

    Too small is one that needs a gain over its hardest floor above `MOST_GAIN`, to be called a
    signal in 8 of 10 cases. `wrong` is its share of wrong answers, between 0 and 1; one half where
    that is not known yet.
    """
    gain = least_gain(n, wrong)
    if gain is not None and gain <= MOST_GAIN:
        return None
    usual = f"a gain of {_short(USUAL_GAIN)} takes about {_round(least_n(USUAL_GAIN, wrong)):,}"
    if gain is None:
        return f"With {n:,} samples no probe is called a signal in 8 of 10 cells; {usual}."
    above = f"its AUC is {_short(gain)} above the hardest text floor"
    return (
        f"With {n:,} samples a probe is called a signal in 8 of 10 cells only if {above}; {usual}."
    )


def hopeless(labels: Collection[int]) -> str | None:
    """The same of answers that are there, once their labels are known; 1 is wrong."""
    n, wrong = len(labels), sum(labels)
    if not 0 < wrong < n:
        return None  # no folds can be cut, which says why the run ends
    sentence = too_small(n, wrong / n)
    return sentence and f"{n - wrong:,} of {n:,} answers are right. {sentence} The run goes on."


def _short(share: float) -> str:
    """0.05 → `.05`."""
    return f"{share:.2f}".removeprefix("0")


def _round(n: int) -> int:
    """To two digits that count."""
    return round(n, 2 - len(str(n)))

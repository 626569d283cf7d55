"""Define claims, the evidence that judges them, and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from anchorscope.claims.estimates import Answers
from anchorscope.passes.partners import LEAST_PAIRS
from anchorscope.statistics.intervals import Estimate
from anchorscope.statistics.strength import Gain

YES, NO, TOO_FEW, NOT_MEASURED, BY_DESIGN = "yes", "no", "too few", "not measured", "by design"
"""Verdicts. `by design`: a claim that could not fail, or that could not hold."""
LEVEL = 0.95
LEAST_CLUSTERS = 10
"""Minimum number of independent clusters of samples or pairs."""
OWN, GOLD = "clean", "gold"
"""Arms in which nothing is blocked: `OWN` with the model's answers, `GOLD` with gold answers."""
Groups = Mapping[str, Mapping[str, Answers]]
"""Side (`right` or `wrong` answers) → arm → the scored answers of the pairs on this side."""


@dataclass(frozen=True)
class Evidence:
    """The evidence at one read-out. Each sample is scored at the layer that its fold chose."""

    level: float = LEVEL
    precedes: bool = False  # whether the read-out precedes the answer
    over_text: Gain | None = None  # over .6 and the text models
    over_prompt: Gain | None = None  # over the probe at the prompt's end
    answers: Groups = field(default_factory=dict)  # empty if no answers were swapped


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim at one read-out."""

    verdict: str
    reason: str = ""  # why the claim fails or cannot be judged, or a remark to report with it
    p: float = np.nan  # largest p of the claim's tests; NaN if the claim cannot be judged
    # the quantity that is reported for the claim, with its interval
    estimate: Estimate = field(default_factory=Estimate)
    n: int = 0  # samples or pairs
    clusters: float = 0.0  # effective number of independent samples or pairs


BEFORE = Verdict(BY_DESIGN, "the read-out precedes the answer")


@dataclass(frozen=True)
class Claim:
    """A claim: its words and its rule."""

    name: str  # as in the column `claim`
    order: int  # place among the claims
    called: str  # short name, in captions and headings
    says: str  # completes "The test showed that ..."
    leaves_open: str  # the caveat that goes with it, or ""
    not_said: str  # what the claim does not allow to write
    conditions: str  # what must hold, for the docs
    number: str  # what its estimate is; `{}` stands for the number with its interval
    judge: Callable[[Evidence], Verdict]
    answers: str = ""  # `right` or `wrong`, if only these answers are judged
    percent: bool = False  # whether the number is printed in percent
    unit: str = "pairs"  # what `Verdict.n` counts
    # remark on a `yes` (see `Verdict.reason`) → its word in captions
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Its name and its answers, such as `comparison_right`."""
        return f"{self.name}_{self.answers}" if self.answers else self.name

    @property
    def sentence(self) -> str:
        """The sentence that may be written if the claim holds."""
        words = f"{self.says}; {self.leaves_open}" if self.leaves_open else self.says
        return words[0].upper() + words[1:]


def judged(
    steps: Mapping[str, Estimate],
    about: Estimate,
    n: int,
    clusters: float,
    level: float,
    times: int = 1,
) -> Verdict:
    """Judge a claim that holds if all estimates are above 0.

    `steps` maps the reason for a `no` to an estimate; the first that fails gives the reason.
    `times` is the number of tries, of which one must succeed (Bonferroni). The caller checks that
    there are enough pairs.
    """
    p = {reason: min(1.0, times * float(step.p)) for reason, step in steps.items()}
    largest = max(p.values())
    failing = [reason for reason, one in p.items() if not one < 1 - level]
    verdict = NO if failing else YES
    return Verdict(verdict, "".join(failing[:1]), largest, about, n, clusters)


def of_gain(gain: Gain, level: float) -> Verdict:
    """Judge whether a gain in AUC is above 0."""
    if few := too_few(gain.n, gain.clusters, LEAST_CLUSTERS, "samples"):
        return few
    if not np.isfinite(gain.estimate.p):
        return Verdict(TOO_FEW, "the AUC has no interval", n=gain.n, clusters=gain.clusters)
    reason = f"the AUC is not significantly above {gain.over}"
    return judged({reason: gain.estimate}, gain.estimate, gain.n, gain.clusters, level)


def cannot_be_judged(evidence: Evidence) -> Verdict | None:
    """Return the verdict on claims about swapped answers, if there are none to judge."""
    if evidence.precedes:
        return BEFORE
    return None if evidence.answers else Verdict(NOT_MEASURED, "no answers were swapped")


def too_few(
    n: int, clusters: float, least: int = LEAST_PAIRS, unit: str = "pairs"
) -> Verdict | None:
    """Return a verdict that says what is missing; None if nothing is missing."""
    counted = f"{n} {unit if n != 1 else unit.removesuffix('s')}"
    if n >= least:
        counted, least = f"{clusters:.3g} clusters", LEAST_CLUSTERS
    reason = f"{counted}, and at least {least} are needed"
    missing = n < least or clusters < LEAST_CLUSTERS
    return Verdict(TOO_FEW, reason, n=n, clusters=clusters) if missing else None

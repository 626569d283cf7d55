"""Simulated samples whose probe knows what a text model knows, or more, at 28 layers.

Samples and models are those of `power`: texts hold features, and the states of each layer are a
noisy linear image of them. Two samples of a subject share a part of the noise.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from anchorscope.probes import strength
from validation.simulations import power

LAYERS, DRAWS = 28, 200
ALIKE = 0.7
"""Share of the variance of further noise that is the same at all layers."""
TOWARDS = {57: 0.92, 400: 1.68}
"""As in `power`: how states lean to what tells, so that the mean gain is 0."""
BEYOND = {0.0: 0.0, 0.05: 0.8, 0.09: 1.2}
"""By the mean gain that they make with 400 right answers."""


@dataclass(frozen=True)
class Signal:
    """Samples whose probe has a mean gain in AUC over the text model."""

    right: int  # number of right answers
    gain: float = 0.0

    def p(self, seed: int) -> float:
        """Return p of the claim on one data set."""
        n = power.SIZES[self.right]
        world = power.World.of(TOWARDS[self.right], BEYOND[self.gain])
        random = np.random.default_rng(seed)
        texts, states, z = world.draw(random, self.right, n)
        ids = [f"{i:05}" for i in range(n)]
        subjects = [f"{i // 2:05}" for i in range(n)]
        answers = pd.DataFrame({"id": ids, "question": ids, "subject": subjects, "label": z})
        given = power.evidence(of_layers(random, states), texts, answers, seed, DRAWS)
        return float(strength.of_scores(*given)["margin_p"][0])


def of_layers(random: np.random.Generator, states: np.ndarray) -> np.ndarray:
    """Return states [layers, n, width] with further noise, a part of which subjects share."""
    n, width = states.shape
    own = random.normal(size=(LAYERS, n, width))
    of_subject = np.repeat(random.normal(size=(-(-n // 2), width)), 2, axis=0)[:n]
    noise = np.sqrt(ALIKE) * of_subject + np.sqrt(1 - ALIKE) * own
    return states + power.NOISE * noise


SAME: dict[str, Signal] = {
    f"text model knows as much, {right} right": Signal(right) for right in TOWARDS
}
"""Worlds in which the probe knows nothing but the text."""
MORE: dict[str, Signal] = {
    f"probe knows {gain} more, 400 right": Signal(400, gain) for gain in (0.05, 0.09)
}
"""Worlds in which it knows more. The numbers are gains in AUC."""

"""Text models as detectors: what must be beaten. They are the floors of the probes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from anchorscope.detectors.method import Samples, Training
from anchorscope.detectors.methods.probe import design
from anchorscope.probes import floors


@dataclass(frozen=True)
class TextScorer:
    """A model of the text."""

    model: floors.TextModel

    def score(self, samples: Samples) -> np.ndarray:
        """Logits of *wrong*, float64 [n]."""
        return self.model.logits(samples.answers)


def _fit(floor: str, train: Training) -> TextScorer:
    """One of `floors.FLOORS`, its penalty and calibration by the inner folds."""
    penalties = design(train).settings.penalties
    return TextScorer(floors.fit(floor, train.samples.answers, train.label, train.inner, penalties))


fit_text = partial(_fit, "text")
fit_question = partial(_fit, "question")
fit_answer = partial(_fit, "answer")
fit_response = partial(_fit, "response")

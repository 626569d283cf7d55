"""Text models as detectors. They are the `floors`, which a probe must beat to have a signal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from anchorscope.detectors.method import Samples, Training
from anchorscope.probes import floors


@dataclass(frozen=True)
class TextScorer:
    """A text model as a scorer."""

    model: floors.TextModel

    def score(self, samples: Samples) -> np.ndarray:
        """Return the logits of *wrong*, float64 [n]."""
        return self.model.logits(samples.answers)


def fit(floor: str, train: Training) -> TextScorer:
    """Fit one of `floors.FLOORS`, with penalty and calibration from the inner folds."""
    answers, penalties = train.samples.answers, train.settings.penalties
    return TextScorer(floors.fit(floor, answers, train.label, train.inner, penalties))


fit_text, fit_question = partial(fit, "text"), partial(fit, "question")
fit_answer, fit_response = partial(fit, "answer"), partial(fit, "response")

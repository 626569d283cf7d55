"""Text models as detectors. They are the probes' text baselines (`floors`), to be beaten."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anchorscope.detectors.method import Samples, Training
from anchorscope.detectors.methods.probe import design
from anchorscope.probes import floors


@dataclass(frozen=True)
class TextScorer:
    """A text model as a scorer."""

    model: floors.TextModel

    def score(self, samples: Samples) -> np.ndarray:
        """Return the logits of *wrong*, float64 [n]."""
        return self.model.logits(samples.answers)


def fit_text(train: Training) -> TextScorer:
    """Fit a model of question and response, added up."""
    return _fit("text", train)


def fit_question(train: Training) -> TextScorer:
    """Fit a model of the question alone."""
    return _fit("question", train)


def fit_answer(train: Training) -> TextScorer:
    """Fit a model of the exact answer, and the relation where known."""
    return _fit("answer", train)


def fit_response(train: Training) -> TextScorer:
    """Fit a model of all that was fed after the prompt."""
    return _fit("response", train)


def _fit(floor: str, train: Training) -> TextScorer:
    """Fit one of `floors.FLOORS`, with penalty and calibration from the inner folds."""
    penalties = design(train).settings.penalties
    answers = train.samples.answers
    return TextScorer(floors.fit(floor, answers, train.label, train.inner, penalties))

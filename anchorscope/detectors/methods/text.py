"""Text models as detectors: what must be beaten. They are the floors of the probes."""

from __future__ import annotations

from dataclasses import dataclass

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


def fit_text(train: Training) -> TextScorer:
    """Question and response side by side, additively."""
    return _fit("text", train)


def fit_question(train: Training) -> TextScorer:
    """The question alone."""
    return _fit("question", train)


def fit_answer(train: Training) -> TextScorer:
    """The exact answer, and the relation where known."""
    return _fit("answer", train)


def fit_response(train: Training) -> TextScorer:
    """All that was fed after the prompt."""
    return _fit("response", train)


def _fit(floor: str, train: Training) -> TextScorer:
    """One of `floors.FLOORS`, its penalty and calibration by the inner folds."""
    penalties = design(train).settings.penalties
    answers = train.samples.answers
    return TextScorer(floors.fit(floor, answers, train.label, train.inner, penalties))

"""Text models as detectors: what must be beaten. Logistic regressions on words and letters.

The features are those of `probes.floors`; vocabulary, penalty and calibration are learned from the
training samples alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from anchorscope.detectors.method import Samples, Training
from anchorscope.detectors.methods.probe import design
from anchorscope.probes import platt
from anchorscope.probes.floors import MOST_FEATURES, NGRAMS, order_of_words

ANALYSERS: Mapping[str, Callable[[str], Iterable[str]]] = {
    "letters": NGRAMS,
    "order": order_of_words,
    "whole": lambda text: [text] if text else [],
}
"""Kind → the features that a text holds: groups of letters, the order of words, itself."""
READS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "answer": (("ea_text", "letters"), ("relation", "whole")),
    "question": (("question", "letters"), ("question", "order")),
    "response": (("response", "letters"), ("response", "order")),
}
"""Model → columns of the answers and kinds of features; lengths go with `letters`."""
LEAST_SPREAD = 1e-9


@dataclass(frozen=True)
class TextPart:
    """The weights of one kind of features of one column."""

    column: str
    kind: str  # of `ANALYSERS`
    vocabulary: tuple[str, ...]
    weights: np.ndarray  # of the words of the vocabulary, float64 [words]
    centre: np.ndarray  # of the log lengths in characters and words, [2]; empty without lengths
    spread: np.ndarray  # likewise
    length_weights: np.ndarray  # of the lengths and their squares, [4]; empty without lengths

    @property
    def coefficients(self) -> np.ndarray:
        """The weights of its features in the order of `features`."""
        return np.concatenate([self.weights, self.length_weights])

    def features(self, answers: pd.DataFrame) -> sparse.csr_matrix:
        """What the texts hold, float64 [n, words + lengths]."""
        texts = texts_of(answers, self.column)
        held = _vectorizer(self.kind, self.vocabulary).transform(texts)
        if not len(self.centre):
            return held
        scaled = (_lengths(texts) - self.centre) / self.spread
        return sparse.hstack([held, scaled, scaled**2], format="csr")


@dataclass(frozen=True)
class TextScorer:
    """A logit that adds up the weights of what a text holds."""

    parts: tuple[TextPart, ...]
    bias: float

    def score(self, samples: Samples) -> np.ndarray:
        """Logits of *wrong*, float64 [n]."""
        terms = [part.features(samples.answers) @ part.coefficients for part in self.parts]
        return np.sum(terms, axis=0) + self.bias


def fit_text(train: Training) -> TextScorer:
    """Question and response side by side, additively."""
    return _fit(train, READS["question"] + READS["response"])


def fit_question(train: Training) -> TextScorer:
    """The question alone."""
    return _fit(train, READS["question"])


def fit_answer(train: Training) -> TextScorer:
    """The exact answer, and the relation where known."""
    return _fit(train, READS["answer"])


def fit_response(train: Training) -> TextScorer:
    """All that was fed after the prompt."""
    return _fit(train, READS["response"])


def texts_of(answers: pd.DataFrame, column: str) -> list[str]:
    """A column's texts, empty where there is none."""
    return [text if isinstance(text, str) else "" for text in answers[column]]


def _fit(train: Training, reads: tuple[tuple[str, str], ...]) -> TextScorer:
    """Penalty and calibration by the inner folds, as a probe's are."""
    answers, plan = train.samples.answers, design(train)
    parts = [_part(texts_of(answers, column), column, kind) for column, kind in reads]
    x = sparse.hstack([part.features(answers) for part in parts], format="csr")
    weights, bias = _regression(x, train.label, train.inner, plan.settings.penalties)
    ends = np.cumsum([len(part.coefficients) for part in parts])[:-1]
    pieces = np.split(weights, ends)
    return TextScorer(
        tuple(_weighted(part, piece) for part, piece in zip(parts, pieces, strict=True)), bias
    )


def _part(texts: list[str], column: str, kind: str) -> TextPart:
    """A vocabulary of what at least two texts hold, the most frequent; weights are 0 as yet."""
    counted = CountVectorizer(
        analyzer=ANALYSERS[kind], binary=True, max_features=MOST_FEATURES, min_df=2
    )
    try:
        vocabulary = tuple(counted.fit(texts).get_feature_names_out())
    except ValueError:  # no two texts share anything
        vocabulary = ()
    centre = spread = np.zeros(0)
    if kind == "letters":
        lengths = _lengths(texts)
        centre, spread = lengths.mean(0), lengths.std(0)
        spread = np.where(spread > LEAST_SPREAD, spread, 1.0)
    none = np.zeros(2 * len(centre))
    return TextPart(column, kind, vocabulary, np.zeros(len(vocabulary)), centre, spread, none)


def _weighted(part: TextPart, weights: np.ndarray) -> TextPart:
    """The part with the weights of its features."""
    words = len(part.vocabulary)
    return TextPart(
        part.column,
        part.kind,
        part.vocabulary,
        weights[:words],
        part.centre,
        part.spread,
        weights[words:],
    )


def _vectorizer(kind: str, vocabulary: tuple[str, ...]) -> CountVectorizer:
    """Finds which words of a vocabulary a text holds."""
    # An empty vocabulary is refused; no text holds a blank followed by nothing else.
    known = vocabulary or ("\0",)
    return CountVectorizer(
        analyzer=ANALYSERS[kind], binary=True, vocabulary=known, dtype=np.float64
    )


def _lengths(texts: list[str]) -> np.ndarray:
    """The log lengths of texts in characters and words, float64 [n, 2]."""
    return np.log1p([[len(text), len(text.split())] for text in texts])


def _regression(
    x: sparse.csr_matrix, z: np.ndarray, inner: np.ndarray, penalties: np.ndarray
) -> tuple[np.ndarray, float]:
    """Calibrated weights [features] and bias, of features [n, features].

    A penalised regression does not change under rotation: it is fitted in the at most n dimensions
    that the training samples span, which takes a tenth of the time.
    """
    values, vectors = np.linalg.eigh((x @ x.T).toarray())
    used = values > values[-1] * 1e-10
    values, vectors = values[used], vectors[:, used]
    rotated = vectors * np.sqrt(values)

    def fitted(rows: np.ndarray, c: float) -> LogisticRegression:
        return LogisticRegression(C=c, max_iter=1000).fit(rotated[rows], z[rows])

    logits = np.empty((1, len(penalties), len(z)))
    for fold in range(int(inner.max()) + 1):
        here = inner == fold
        for number, c in enumerate(penalties):
            logits[0, number, here] = fitted(~here, c).decision_function(rotated[here])
    chosen = int(platt.choose(logits, z, inner)[0])
    slope, offset = (float(one[0]) for one in platt.calibrate(logits[:, chosen], z))
    model = fitted(np.ones(len(z), dtype=bool), penalties[chosen])
    weights = x.T @ (vectors @ (model.coef_[0] / np.sqrt(values)))
    return slope * weights, slope * float(model.intercept_[0]) + offset

"""Floors: what models of the text tell of the label, which a probe must beat to mean anything.

A state at the end of an answer holds the words that were read and their order, so a probe of an
untrained network predicts whatever these predict. Each floor reads some of the text that the state
has seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from anchorscope.probes import fitting, platt
from anchorscope.probes.intervals import aucs
from anchorscope.probes.samples import kept

COLUMNS = ("id", "fold", "floor", "c", "s")
REACH = 30
"""Words from one word to another that makes a pair with it; a page would have too many pairs."""
MOST_FEATURES = 20_000
"""Of each kind: n-grams of characters, and pairs and places of words."""
LEAST_SPREAD = 1e-9
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+|[^\w\s]")
"""A word, a mark, or a character of a script without spaces (Chinese, Japanese)."""
NGRAMS: Callable[[str], Iterable[str]] = CountVectorizer(
    analyzer="char", ngram_range=(1, 4), lowercase=False
).build_analyzer()
"""The character 1- to 4-grams of a text."""


def order_of_words(text: str) -> list[str]:
    """What tells the order of a text's words, lower case; marks are words, too.

    Pairs of words, the second up to `REACH` words behind the first, and each word with its place
    from the start and from the end.
    """
    words = WORD.findall(text.lower())
    pairs = [
        f"{first} {second}"
        for i, first in enumerate(words)
        for second in words[i + 1 : i + 1 + REACH]
    ]
    places = [f"{place} {word}" for i, word in enumerate(words) for place in (i, i - len(words))]
    return pairs + places


ANALYSERS: Mapping[str, Callable[[str], Iterable[str]]] = {
    "letters": NGRAMS,
    "order": order_of_words,
    "whole": lambda text: [text] if text else [],
}
"""Kind → the features that a text holds: groups of letters, the order of words, itself."""
QUESTION = (("question", "letters"), ("question", "order"))
RESPONSE = (("response", "letters"), ("response", "order"))
FLOORS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "answer": (("ea_text", "letters"), ("relation", "whole")),
    "question": QUESTION,
    "response": RESPONSE,
    "text": (*QUESTION, *RESPONSE),
}
"""Floor → columns of the answers and kinds of features; lengths go with `letters`. `response` is
all that was fed after the prompt; `text` adds up question and response."""


@dataclass(frozen=True)
class Part:
    """One kind of features of one column."""

    column: str
    kind: str  # of `ANALYSERS`
    vocabulary: tuple[str, ...]
    centre: np.ndarray  # of the log lengths in characters and words, [2]; empty without lengths
    spread: np.ndarray  # likewise

    @classmethod
    def of(cls, answers: pd.DataFrame, column: str, kind: str) -> Part:
        """What at least two texts hold, the most frequent first, up to `MOST_FEATURES`."""
        texts = _texts(answers, column)
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
        return cls(column, kind, vocabulary, centre, spread)

    def features(self, answers: pd.DataFrame) -> sparse.csr_matrix:
        """What the texts hold, 0 or 1, and lengths and their squares; float64 [n, features]."""
        texts = _texts(answers, self.column)
        # An empty vocabulary is refused; no text holds a blank followed by nothing else.
        known = self.vocabulary or ("\0",)
        held = CountVectorizer(
            analyzer=ANALYSERS[self.kind], binary=True, vocabulary=known, dtype=np.float64
        ).transform(texts)
        if not len(self.centre):
            return held
        scaled = (_lengths(texts) - self.centre) / self.spread
        return sparse.hstack([held, scaled, scaled**2], format="csr")


@dataclass(frozen=True)
class TextModel:
    """A logit that adds up the weights of what a text holds."""

    parts: tuple[Part, ...]
    weights: np.ndarray  # of the features of all parts, float64 [features]
    bias: float
    c: float  # inverse penalty

    def logits(self, answers: pd.DataFrame) -> np.ndarray:
        """Logits of *wrong* at the training samples' share of wrong answers, float64 [n]."""
        return _features(self.parts, answers) @ self.weights + self.bias


def fit(
    floor: str,
    answers: pd.DataFrame,
    z: np.ndarray,
    inner: np.ndarray,
    penalties: np.ndarray,
    weights: np.ndarray | None = None,
) -> TextModel:
    """Fit one of `FLOORS` to answers: as strong as it can be, since it is what must be beaten.

    C is that of the highest AUC over inner folds, not the smallest that does nearly as well, as a
    probe's is: that rule leaves a text model below chance where the text tells little. Calibrated
    as a probe is.

    Args:
        answers: `question`, `ea_text`, `response` and, where known, `relation`.
        z: 1 for a wrong answer, [n].
        inner: inner folds, int64 [n]; -1 for none, then the first penalty serves, uncalibrated.
        penalties: the values of C that are tried, ascending.
        weights: how often each answer counts, [n]; None for once.
    """
    weights = np.ones(len(z)) if weights is None else weights
    some = np.flatnonzero(weights > 0)
    answers, z, weights = answers.iloc[some], z[some], weights[some]
    parts = tuple(Part.of(answers, column, kind) for column, kind in FLOORS[floor])
    x = _features(parts, answers)
    return TextModel(parts, *_regression(x, z, inner[some], penalties, weights))


def floors(answers: pd.DataFrame, settings: fitting.Settings) -> pd.DataFrame:
    """Predict the label from the text, out of fold, in each of the ways of `FLOORS`.

    The folds are the probes' own, inner ones included: what is read, penalty and calibration are
    learned from the training fold alone.

    The answers have id, question, subject, label, `ea_text`, `response` and, where known,
    `relation`; rows with a `dropped` reason are left. Gives a row for each floor and sample with
    the columns `COLUMNS`, s a logit at balanced classes. Raises AnchorscopeError: folds cannot be
    cut.
    """
    answers = kept(answers)
    plan = fitting.design(answers, settings, "floors")
    fixed = pd.DataFrame({"id": answers["id"].astype(str), "fold": plan.fold})
    frames = []
    for name in FLOORS:
        c, s = np.empty(len(answers)), np.empty(len(answers))
        for train, inner in zip(plan.outer, plan.inner, strict=True):
            z = plan.z[train]
            model = fit(name, answers[train], z, inner[train], settings.penalties)
            balanced = np.log(z.mean() / (1 - z.mean()))
            c[~train], s[~train] = model.c, model.logits(answers[~train]) - balanced
        frames.append(fixed.assign(floor=name, c=c, s=s))
    return pd.concat(frames, ignore_index=True)


def _texts(answers: pd.DataFrame, column: str) -> list[str]:
    """A column's texts, empty where there is none."""
    values = answers[column] if column in answers else [None] * len(answers)
    return [text if isinstance(text, str) else "" for text in values]


def _lengths(texts: Sequence[str]) -> np.ndarray:
    """The log lengths of texts in characters and words, float64 [n, 2]."""
    return np.log1p([[len(text), len(text.split())] for text in texts])


def _features(parts: Sequence[Part], answers: pd.DataFrame) -> sparse.csr_matrix:
    return sparse.hstack([part.features(answers) for part in parts], format="csr")


def _strongest(logits: np.ndarray, z: np.ndarray, inner: np.ndarray, drawn: np.ndarray) -> int:
    """Which penalty's inner out-of-fold logits [penalties, n] rank best within the inner folds."""
    auc = np.zeros(len(logits))
    for fold in np.unique(inner):
        here = inner == fold
        for number, s in enumerate(logits[:, here]):
            auc[number] += here.sum() * np.nan_to_num(
                aucs(s, z[here], drawn[None, here])[0], nan=0.5
            )
    return int(auc.argmax())


def _regression(
    x: sparse.csr_matrix, z: np.ndarray, inner: np.ndarray, penalties: np.ndarray, drawn: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """Calibrated weights [features], bias and C, of features [n, features] drawn so often [n].

    A penalised regression does not change under rotation: it is fitted in the at most n dimensions
    that the training samples span, which takes a tenth of the time.
    """
    values, vectors = np.linalg.eigh((x @ x.T).toarray())
    used = values > values[-1] * 1e-10
    values, vectors = values[used], vectors[:, used]
    rotated = vectors * np.sqrt(values)

    def fitted(rows: np.ndarray, c: float) -> LogisticRegression:
        return LogisticRegression(C=c, max_iter=1000).fit(rotated[rows], z[rows], drawn[rows])

    chosen, slope, offset = 0, 1.0, 0.0
    if inner.max() >= 0:
        logits = np.empty((1, len(penalties), len(z)))
        for fold in np.unique(inner):
            here = inner == fold
            for number, c in enumerate(penalties):
                logits[0, number, here] = fitted(~here, c).decision_function(rotated[here])
        chosen = _strongest(logits[0], z, inner, drawn)
        slope, offset = (float(one[0]) for one in platt.calibrate(logits[:, chosen], z, drawn))
    model = fitted(np.ones(len(z), dtype=bool), penalties[chosen])
    weights = x.T @ (vectors @ (model.coef_[0] / np.sqrt(values)))
    bias = slope * float(model.intercept_[0]) + offset
    return slope * weights, bias, float(penalties[chosen])

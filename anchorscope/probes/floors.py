"""Floors: text models that predict the label, as baselines that a probe must beat.

A hidden state at the end of an answer encodes the words before it and their order. So even a probe
of an untrained network can predict what the text predicts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from anchorscope.probes import fitting
from anchorscope.probes.fitting import Design, out_of_fold
from anchorscope.statistics.strength import FLOORS

REACH = 30  # largest distance of two words that form a pair, in words
MOST_FEATURES = 20_000  # maximum for one kind and column
LEAST_VARIANCE = 1e-8  # directions with a smaller share of the largest variance are left out
SPACES = re.compile(r"\s\s+")
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+|[^\w\s]")
"""A word, a punctuation mark, or a character of a script without spaces (Chinese, Japanese)."""


def letters_of(text: str) -> set[str]:
    """Return the character 1- to 4-grams of a text. Several spaces count as one."""
    text = SPACES.sub(" ", text)
    return {text[i : i + n] for n in range(1, 5) for i in range(len(text) - n + 1)}


def order_of_words(text: str) -> set[str]:
    """Return two kinds of features: pairs of words up to `REACH` apart, and words with their index.

    Indices are from both ends: `0 who`, `-1 ?`. Words are in lower case. Punctuation is kept.
    """
    words = WORD.findall(text.lower())
    pairs = {
        f"{first} {second}"
        for i, first in enumerate(words)
        for second in words[i + 1 : i + 1 + REACH]
    }
    return pairs | {f"{at} {word}" for i, word in enumerate(words) for at in (i, i - len(words))}


ANALYSERS: Mapping[str, Callable[[str], set[str]]] = {
    "letters": letters_of,
    "order": order_of_words,
    "whole": lambda text: {text} - {""},
}
"""Kind → function that returns the features of a text: n-grams, word order, or the text itself."""


@dataclass(frozen=True)
class TextFeatures:
    """Features of one kind, from one column of texts."""

    column: str
    counter: CountVectorizer | None  # of the features of its kind; None if no two texts share one
    centre: np.ndarray  # mean log lengths in characters and words, [2]; empty if not used
    spread: np.ndarray  # standard deviations of the log lengths, [2]; empty if not used

    @classmethod
    def learn(cls, answers: pd.DataFrame, column: str, kind: str) -> TextFeatures:
        """Learn the most frequent features of a kind (key of `ANALYSERS`) in two or more texts."""
        texts = _texts(answers, column)
        counter = CountVectorizer(
            analyzer=ANALYSERS[kind],
            binary=True,
            min_df=2,
            max_features=MOST_FEATURES,
            dtype=np.float64,
        )
        try:
            counter.fit(texts)
        except ValueError:  # no two texts share a feature
            counter = None
        centre = spread = np.zeros(0)
        if kind == "letters":
            lengths = _lengths(texts)
            centre, spread = lengths.mean(0), lengths.std(0)
            spread = np.where(spread > 1e-9, spread, 1.0)
        return cls(column, counter, centre, spread)

    def features(self, answers: pd.DataFrame) -> sparse.csr_matrix:
        """Return a row per text: 1 or 0 for each feature, then scaled lengths and their squares."""
        texts = _texts(answers, self.column)
        counted = (
            self.counter.transform(texts) if self.counter else sparse.csr_matrix((len(texts), 0))
        )
        if not len(self.centre):
            return counted
        scaled = (_lengths(texts) - self.centre) / self.spread
        return sparse.hstack([counted, scaled, scaled**2], format="csr")


@dataclass(frozen=True)
class TextModel:
    """A fitted logistic regression on the features of texts."""

    parts: tuple[TextFeatures, ...]
    weights: np.ndarray  # of the features of all parts, float64 [features]
    bias: float
    c: float  # inverse penalty

    def logits(self, answers: pd.DataFrame) -> np.ndarray:
        """Return float64 [n]: log-odds of *wrong*, assuming the training share of wrong answers."""
        features = sparse.hstack([part.features(answers) for part in self.parts], format="csr")
        return features @ self.weights + self.bias


def fit(
    floor: str, answers: pd.DataFrame, z: np.ndarray, inner: np.ndarray, penalties: np.ndarray
) -> TextModel:
    """Fit one of `FLOORS` to answers, as a strong baseline.

    C is the value with the highest AUC over inner folds. Probes of hidden states use another rule,
    the smallest C that does nearly as well (`platt.choose`). With that rule, a text model's AUC
    would fall below chance if the text told little about the label.

    `z` is [n], 1 for a wrong answer. `penalties` are values of C, ascending. `inner`, int64 [n], is
    each sample's inner fold. If all are -1, the first C is used, and nothing is calibrated.
    """
    learned = [TextFeatures.learn(answers, column, kind) for column, kind in FLOORS[floor]]
    features = sparse.hstack([part.features(answers) for part in learned], format="csr")
    x, turn = _rotated((features @ features.T).toarray())
    settings = fitting.ProbeSettings(grid=list(penalties), prior="natural")
    ids, none_held_out = np.arange(len(z)).astype(str), np.full(len(z), -1)
    each = np.ones(len(z))
    design = Design(f"floor {floor}", ids, z, none_held_out, inner[None], each, settings)
    fitted = fitting.fit(x, design, of_text=True)
    slope, offset = float(fitted.t[0, 0]), float(fitted.offset[0, 0])
    of_texts = turn @ fitted.probes.weights[0, 0].double().numpy()
    weights = slope * (features.T @ (of_texts - of_texts.mean()))
    centre = np.asarray(features.mean(0)).ravel()
    bias = slope * float(fitted.probes.bias[0, 0]) + offset - centre @ weights
    return TextModel(tuple(learned), weights, bias, float(fitted.c[0, 0]))


def floors(answers: pd.DataFrame, design: Design, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Predict labels out of fold with each text model in `FLOORS`.

    Weights, penalty and calibration are learned in the probes' folds. The vocabulary is read from
    all texts, without their labels.

    Args:
        answers: The samples of the design, with `question`, `ea_text`, `response` and, where known,
            `relation`.
        design: The folds of the probes.
        weights: Draws of samples to which models are refitted, with C unchanged, int64
            [refits, n].

    Returns:
        Floor → scores at balanced classes, float64 [1 + refits, n].
    """
    grams = {}
    for part in {part for floor in FLOORS.values() for part in floor}:
        x = TextFeatures.learn(answers, *part).features(answers)
        grams[part] = (x @ x.T).toarray()
    return {
        name: learn(np.sum([grams[part] for part in parts], axis=0), design, weights)
        for name, parts in FLOORS.items()
    }


def learn(gram: np.ndarray, design: Design, weights: np.ndarray) -> np.ndarray:
    """Fit text models in the folds of `design`, given `gram` [n, n], the features' Gram matrix.

    Return scores at balanced classes, float64 [1 + refits, n]: by the models as fitted, then by
    those refitted to each resample in `weights`, int64 [refits, n].
    """
    # Scoring and prior are fixed, whatever the settings of the probes.
    grid = design.settings.penalties.tolist()
    chosen = {"scoring": "calibrated", "prior": "balanced", "penalty": 1.0, "grid": grid}
    design = replace(design, settings=design.settings.model_copy(update=chosen))
    x, _ = _rotated(gram)
    fitted = fitting.fit(x, design, of_text=True)
    s = out_of_fold(fitted, x, design.fold)
    if not len(weights):
        return s
    learned_anew = fitting.refit(x, design, fitted.c, weights, of_text=True)
    return np.concatenate([s, out_of_fold(learned_anew, x, design.of_refits(len(weights)))[0]])


def _rotated(gram: np.ndarray) -> tuple[torch.Tensor, np.ndarray]:
    """Rotate features so that they are uncorrelated and have mean 0, given their Gram matrix.

    A penalised regression gives the same logits after a rotation. Return (x, turn): `x`, float32
    [1, n, width], is one layer of rotated features; `turn` is [n, width]. If w are weights of `x`,
    `turn @ w` is one factor per text. The weights of the original features are then the sum over
    texts of factor · centred features.
    """
    mean = gram.mean(0)
    values, vectors = np.linalg.eigh(gram - mean - mean[:, None] + mean.mean())
    used = values > max(values[-1] * LEAST_VARIANCE, 1e-30)
    values, vectors = values[used], vectors[:, used]
    x = vectors * np.sqrt(values)
    return torch.as_tensor(x, dtype=torch.float32)[None], vectors / np.sqrt(values)


def _texts(answers: pd.DataFrame, column: str) -> list[str]:
    values = answers[column] if column in answers else [None] * len(answers)
    return [text if isinstance(text, str) else "" for text in values]


def _lengths(texts: Sequence[str]) -> np.ndarray:
    return np.log1p([[len(text), len(text.split())] for text in texts])

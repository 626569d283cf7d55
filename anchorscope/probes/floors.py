"""Floors: text models that predict the label, as baselines that a probe must beat.

A state at the end of an answer holds the words that were read and their order. So a probe of an
untrained network predicts whatever the text predicts. Each floor reads some of the text that the
state has seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from anchorscope.probes import fitting
from anchorscope.probes.bands import Draws
from anchorscope.probes.fitting import Design, out_of_fold
from anchorscope.probes.samples import kept
from anchorscope.probes.strength import FLOORS

COLUMNS = {
    "id": "the sample's id",
    "fold": "the sample's outer fold",
    "floor": "the text read: `question`; `answer`, the exact answer and the relation; `response`, "
    "all that was fed after the prompt; `text`, question and response",
    "c": "inverse penalty that the training fold chose",
    "s": "score, a logit at balanced classes",
}
"""Column of the table → description."""
REACH = 30
"""Largest distance, in words, of two words that form a pair. It limits the pairs of a long text."""
MOST_FEATURES = 20_000
"""Largest number of features per kind: character n-grams, and word pairs and places."""
LEAST_SPREAD = 1e-9
LEAST_VARIANCE = 1e-8
"""Directions of the features are left out if their variance is below this share of the first's."""
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+|[^\w\s]")
"""A word, a punctuation mark, or a character of a script without spaces (Chinese, Japanese)."""
NGRAMS: Callable[[str], Iterable[str]] = CountVectorizer(
    analyzer="char", ngram_range=(1, 4), lowercase=False
).build_analyzer()
"""Function that returns the character 1- to 4-grams of a text."""


def order_of_words(text: str) -> list[str]:
    """Return features of the order of a text's words, in lower case.

    They are pairs of words, the second up to `REACH` words behind the first, and each word with its
    place from the start and from the end. Punctuation marks count as words.
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
"""Kind → function that returns the features of a text: n-grams, word order, or the text itself."""


@dataclass(frozen=True)
class TextFeatures:
    """One kind of features of one column."""

    column: str
    kind: str  # of `ANALYSERS`
    vocabulary: tuple[str, ...]
    centre: np.ndarray  # of the log lengths in characters and words, [2]; empty without lengths
    spread: np.ndarray  # likewise

    @classmethod
    def of(cls, answers: pd.DataFrame, column: str, kind: str) -> TextFeatures:
        """Learn the `MOST_FEATURES` most frequent features that at least two texts share."""
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
        """Return the features of the texts, 0 or 1, and the lengths and their squares.

        The matrix is float64 [n, features].
        """
        texts = _texts(answers, self.column)
        # scikit-learn refuses an empty vocabulary, and no text holds a NUL character.
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
    """A logit that adds up the weights of a text's features."""

    parts: tuple[TextFeatures, ...]
    weights: np.ndarray  # of the features of all parts, float64 [features]
    bias: float
    c: float  # inverse penalty

    def logits(self, answers: pd.DataFrame) -> np.ndarray:
        """Return logits of *wrong* at the training samples' share of wrong answers, float64 [n]."""
        return _features(self.parts, answers) @ self.weights + self.bias


@dataclass(frozen=True)
class Rotated:
    """Features of some texts, rotated so that they are uncorrelated and have mean 0.

    A penalised regression does not change under rotation, and n texts span at most n dimensions. So
    text models are fitted as probes are, with the rotated features as a layer of their own.
    """

    x: torch.Tensor  # float32 [1, n, width]
    turn: np.ndarray  # [n, width]: turns weights on x into factors of the texts' centred features

    @classmethod
    def of(cls, features: Sequence[sparse.csr_matrix]) -> Rotated:
        """Rotate features that stand side by side, each [n, features]."""
        gram = np.sum([(x @ x.T).toarray() for x in features], axis=0)
        mean = gram.mean(0)
        values, vectors = np.linalg.eigh(gram - mean - mean[:, None] + mean.mean())
        used = values > max(values[-1] * LEAST_VARIANCE, 1e-30)
        values, vectors = values[used], vectors[:, used]
        x = vectors * np.sqrt(values)
        return cls(torch.as_tensor(x, dtype=torch.float32)[None], vectors / np.sqrt(values))


def fit(
    floor: str, answers: pd.DataFrame, z: np.ndarray, inner: np.ndarray, penalties: np.ndarray
) -> TextModel:
    """Fit one of `FLOORS` to answers, as a strong baseline.

    C is the one with the highest AUC over inner folds. A probe takes the smallest C that does
    nearly as well. For a text model, that rule gives an AUC below chance if the text tells little.
    Calibration works as for a probe.

    Args:
        floor: Name of the floor.
        answers: `question`, `ea_text`, `response` and, where known, `relation`.
        z: 1 for a wrong answer, [n].
        inner: Inner folds, int64 [n]. With -1 (none) the first penalty is used, uncalibrated.
        penalties: The values of C to try, ascending.
    """
    parts = tuple(TextFeatures.of(answers, column, kind) for column, kind in FLOORS[floor])
    features = _features(parts, answers)
    rotated = Rotated.of([features])
    settings = fitting.ProbeSettings(grid=list(penalties), prior="natural")
    ids, none_held_out = np.arange(len(z)).astype(str), np.full(len(z), -1)
    design = Design(f"floor {floor}", ids, z, none_held_out, inner[None], settings)
    fitted = fitting.fit(rotated.x, design, of_text=True)
    slope, offset = float(fitted.t[0, 0]), float(fitted.offset[0, 0])
    of_texts = rotated.turn @ fitted.probes.weights[0, 0].double().numpy()
    weights = slope * (features.T @ (of_texts - of_texts.mean()))
    centre = np.asarray(features.mean(0)).ravel()
    bias = slope * float(fitted.probes.bias[0, 0]) + offset - centre @ weights
    return TextModel(parts, weights, bias, float(fitted.c[0, 0]))


def floors(answers: pd.DataFrame, design: Design, draws: Draws | None = None) -> pd.DataFrame:
    """Predict the label from the text, out of fold, with each of `FLOORS`.

    The folds are the probes' own, inner ones included. Weights, penalty and calibration are learned
    from the training fold alone. The vocabulary is read from all texts, without their labels.

    Args:
        answers: `id`, `label`, `question`, `ea_text`, `response` and, where known, `relation`. Rows
            with a `dropped` reason are ignored.
        design: The probes' folds.
        draws: Bootstrap draws. Their `floors` receive the scores of models refitted in each draw,
            with C unchanged.

    Returns:
        One row per floor and sample with the columns `COLUMNS`. s is a logit at balanced classes.

    Raises:
        AnchorscopeError: Answers, folds and draws have different samples.
    """
    answers = design.in_order(kept(answers))
    known: dict[tuple[str, str], sparse.csr_matrix] = {}
    for column, kind in {part for floor in FLOORS.values() for part in floor}:
        known[column, kind] = TextFeatures.of(answers, column, kind).features(answers)
    fixed = pd.DataFrame({"id": design.ids, "fold": design.fold})
    frames = []
    for name, parts in FLOORS.items():
        learned = learn([known[part] for part in parts], design, draws)
        frames.append(fixed.assign(floor=name, c=learned.c, s=learned.s))
        if draws:
            draws.floors[name] = learned.again
    return pd.concat(frames, ignore_index=True)


@dataclass(frozen=True)
class FloorScores:
    """Out-of-fold scores of text models, at balanced classes."""

    c: np.ndarray  # inverse penalty of the model that scored a sample, [n]
    s: np.ndarray  # float64 [n]
    again: np.ndarray  # scores of models refitted in each draw, float32 [draws, n]


def learn(
    features: Sequence[sparse.csr_matrix], design: Design, draws: Draws | None = None
) -> FloorScores:
    """Fit models to features side by side, each [n, features], in the folds of a design."""
    # Scoring and prior are fixed, whatever the settings of the probes.
    grid = design.settings.penalties.tolist()
    chosen = {"scoring": "calibrated", "prior": "balanced", "penalty": 1.0, "grid": grid}
    design = replace(design, settings=design.settings.model_copy(update=chosen))
    x = Rotated.of(features).x
    fitted = fitting.fit(x, design, of_text=True)
    s, again = out_of_fold(fitted, x, design.fold)[0], np.empty((0, len(design.z)))
    if draws:
        learned_anew = fitting.fit(x, design, fitted.c, draws.weights, of_text=True)
        again = out_of_fold(learned_anew, x, design.of_draws(len(draws)))[0]
    return FloorScores(fitted.c[0, design.fold], s, again.astype(np.float32))


def _texts(answers: pd.DataFrame, column: str) -> list[str]:
    """Return a column's texts, with empty strings for missing ones."""
    values = answers[column] if column in answers else [None] * len(answers)
    return [text if isinstance(text, str) else "" for text in values]


def _lengths(texts: Sequence[str]) -> np.ndarray:
    """Return the log lengths of texts in characters and words, float64 [n, 2]."""
    return np.log1p([[len(text), len(text.split())] for text in texts])


def _features(parts: Sequence[TextFeatures], answers: pd.DataFrame) -> sparse.csr_matrix:
    return sparse.hstack([part.features(answers) for part in parts], format="csr")

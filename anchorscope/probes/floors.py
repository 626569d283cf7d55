"""Floors: what models of the text tell of the label, which a probe must beat to mean anything.

A state at the end of an answer holds the words that were read and their order, so a probe of an
untrained network predicts whatever these predict. Each floor reads some of the text that the state
has seen.
"""

import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from anchorscope.probes import fitting
from anchorscope.probes.intervals import auc
from anchorscope.probes.samples import kept

COLUMNS = ("id", "fold", "floor", "c", "s")
REACH = 30
"""Words from one word to another that makes a pair with it; a page would have too many pairs."""
MOST_FEATURES = 20_000
"""Of each kind: n-grams of characters, and pairs and places of words."""
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+|[^\w\s]")
"""A word, a mark, or a character of a script without spaces (Chinese, Japanese)."""
NGRAMS: Callable[[str], Iterable[str]] = CountVectorizer(
    analyzer="char", ngram_range=(1, 4), lowercase=False
).build_analyzer()
"""The character 1- to 4-grams of a text."""


def floors(answers: pd.DataFrame, settings: fitting.Settings) -> pd.DataFrame:
    """Predict the label from the text, out of fold, in each of the ways of `FLOORS`.

    `answer` reads E_A and the relation, `question` the question, `response` all that was fed
    after the prompt, `text` question and response side by side, additively. Features: which
    character 1- to 4-grams a text holds, and the log of its length in characters and words; of all
    but E_A also the order of its words, by which word comes anywhere before which other, and which
    stands how many words from the start and from the end. The folds are the probes' own. One C
    serves all folds, that of the highest out-of-fold AUC: a floor is to be as strong as it can be,
    and what the choice gains by chance makes it stronger still.

    The answers have id, question, subject, label, `ea_text`, `response` and, where known,
    `relation`; rows with a `dropped` reason are left. Gives a row for each floor and sample with
    the columns `COLUMNS`, s a logit at balanced classes. Raises AnchorscopeError: folds cannot be
    cut.
    """
    answers = kept(answers)
    # Inner folds are of no use here, and may not exist where the outer ones do.
    outer = settings.model_copy(update={"scoring": "published"})
    plan = fitting.design(answers, outer, "floors")
    fixed = pd.DataFrame({"id": answers["id"].astype(str), "fold": plan.fold})
    frames = []
    for name, features in FLOORS.items():
        c, s = _strongest(features(answers), plan, settings.penalties)
        frames.append(fixed.assign(floor=name, c=c, s=s))
    return pd.concat(frames, ignore_index=True)


def _answer(answers: pd.DataFrame) -> sparse.csr_matrix:
    relations = answers.get("relation", [None] * len(answers))
    known = pd.get_dummies(pd.Series(relations, dtype=object)).to_numpy(dtype=np.float64)
    return sparse.hstack([_features(answers["ea_text"]), known], format="csr")


FLOORS: Mapping[str, Callable[[pd.DataFrame], sparse.csr_matrix]] = {
    "answer": _answer,
    "question": lambda answers: _ordered(answers["question"]),
    "response": lambda answers: _ordered(answers["response"]),
    "text": lambda answers: sparse.hstack(
        [_ordered(answers["question"]), _ordered(answers["response"])], format="csr"
    ),
}


def _ordered(texts: pd.Series) -> sparse.csr_matrix:
    """The `_features` of texts, and those of the order of their words; float64 [n, features]."""
    return sparse.hstack([_features(texts), _held(texts, order_of_words)], format="csr")


def _features(texts: pd.Series) -> sparse.csr_matrix:
    """The n-grams of characters that each text holds, and lengths; float64 [n, features]."""
    lengths = np.log1p([[len(text), len(text.split())] for text in texts])
    centred = lengths - lengths.mean(0)
    spread = centred.std(0)
    scaled = centred / np.where(spread > 0, spread, 1.0)
    return sparse.hstack([_held(texts, NGRAMS), scaled, scaled**2], format="csr")


def _held(texts: pd.Series, features_of: Callable[[str], Iterable[str]]) -> sparse.csr_matrix:
    """Which features each text holds, of those that at least two do, the most frequent first.

    At most `MOST_FEATURES`; 0 or 1, float64 [n, features].
    """
    vectorizer = CountVectorizer(
        analyzer=features_of, binary=True, max_features=MOST_FEATURES, dtype=np.float64
    )
    held = vectorizer.fit_transform(texts)
    return held[:, np.asarray(held.sum(0)).ravel() >= 2]


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


def _strongest(
    x: sparse.csr_matrix, plan: fitting.Design, grid: np.ndarray
) -> tuple[float, np.ndarray]:
    """The C of highest out-of-fold AUC, and the scores [n] that it gives."""
    scored = {float(c): _out_of_fold(x, plan, float(c)) for c in grid}
    best = max(scored, key=lambda c: auc(scored[c], plan.z))
    return best, scored[best]


def _out_of_fold(x: sparse.csr_matrix, plan: fitting.Design, c: float) -> np.ndarray:
    s = np.empty(len(plan.z))
    for train in plan.outer:
        probe = LogisticRegression(C=c, max_iter=1000).fit(x[train], plan.z[train])
        share = plan.z[train].mean()
        s[~train] = probe.decision_function(x[~train]) - np.log(share / (1 - share))
    return s

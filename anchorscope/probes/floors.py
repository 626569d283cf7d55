"""Floors: what text alone tells of the label, which a probe must beat before it means anything.

A state at the end of an answer holds the words that were read, so a probe of an untrained network
predicts whatever the words predict. Each floor reads some of the text that the state has seen.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from anchorscope.probes import fitting
from anchorscope.probes.intervals import auc
from anchorscope.probes.samples import kept

COLUMNS = ("id", "fold", "floor", "c", "s")
LONGEST = 4
MOST_NGRAMS = 20_000


def floors(answers: pd.DataFrame, settings: fitting.Settings) -> pd.DataFrame:
    """Predict the label from text alone, out of fold, in each of the ways of `FLOORS`.

    `answer` reads E_A and the relation, `question` the question, `response` all that was fed
    after the prompt, `text` question and response side by side, additively. Features: which
    character 1- to 4-grams a text holds, and the log of its length in characters and words. The
    folds are the probes' own. One C serves all folds, that of the highest out-of-fold AUC: a floor
    is to be as strong as it can be, and what the choice gains by chance makes it stronger still.

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
    "question": lambda answers: _features(answers["question"]),
    "response": lambda answers: _features(answers["response"]),
    "text": lambda answers: sparse.hstack(
        [_features(answers["question"]), _features(answers["response"])], format="csr"
    ),
}


def _features(texts: pd.Series) -> sparse.csr_matrix:
    """n-grams that at least two texts hold, the most frequent first, and lengths; float64."""
    grams = CountVectorizer(
        analyzer="char",
        ngram_range=(1, LONGEST),
        lowercase=False,
        binary=True,
        max_features=MOST_NGRAMS,
        dtype=np.float64,
    ).fit_transform(texts)
    shared = np.asarray(grams.sum(0)).ravel() >= 2
    lengths = np.log1p([[len(text), len(text.split())] for text in texts])
    centred = lengths - lengths.mean(0)
    spread = centred.std(0)
    scaled = centred / np.where(spread > 0, spread, 1.0)
    return sparse.hstack([grams[:, shared], scaled, scaled**2], format="csr")


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

"""Folds, cut between connected components of questions and subjects, never between rows."""

import unicodedata
from collections.abc import Sequence

import numpy as np
import pandas as pd

from anchorscope.storage.errors import AnchorscopeError


def key(text: object) -> str | None:
    """What two texts must share to count as equal: letters and digits, folded; None if empty."""
    if text is None or text is pd.NA or text != text:  # NaN is what differs from itself
        return None
    folded = unicodedata.normalize("NFKC", str(text)).casefold()
    words = "".join(c if c.isalnum() else " " for c in folded).split()
    return " ".join(words) or folded.strip() or None


def components(*columns: Sequence[object]) -> np.ndarray:
    """Connected components of rows, int64 [n], linked where they are equal in a column (`key`)."""
    from scipy.sparse import coo_array  # here: many jobs that cut no folds import this module
    from scipy.sparse.csgraph import connected_components

    n = len(columns[0])
    first: dict[tuple[int, str], int] = {}
    links = [
        (row, first.setdefault((column, text), row))
        for column, texts in enumerate(columns)
        for row, text in enumerate(map(key, texts))
        if text is not None
    ]
    rows, others = np.array(links, dtype=np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(len(links)), (rows, others)), shape=(n, n))
    return pd.factorize(connected_components(graph, directed=False)[1])[0].astype(np.int64)


def clusters(questions: Sequence[object], subjects: Sequence[object]) -> np.ndarray:
    """Clusters of the bootstrap, int64 [n]: the subject where known, else the question."""
    subject, question = (
        pd.Series([key(text) for text in texts], dtype="str") for texts in (subjects, questions)
    )
    row = pd.Series(map(str, range(len(question))))
    return pd.factorize(("s " + subject).fillna("q " + question).fillna(row))[0]


def assign(
    groups: np.ndarray, z: np.ndarray, n_folds: int, seed: int, where: str = "all samples"
) -> np.ndarray:
    """Spread components over folds so that each gets its share of either class.

    Takes the component and the label z (0 or 1) of each sample, [n]; gives its fold, int64 [n].
    Largest first, to the fold where its classes are rarest so far. The seed orders components of
    one size, which are numbered by their first row: another order of rows gives other folds.

    Raises AnchorscopeError, which names `where`: one class only, too few samples or components, or
    a fold that would leave only one class to learn from.
    """
    _check(groups, z, n_folds, where)
    z = np.asarray(z)
    _, groups = np.unique(groups, return_inverse=True)
    counts = np.stack([np.bincount(groups, weights=z == label) for label in (0, 1)], axis=1)
    total = counts.sum(0)
    shuffled = np.random.default_rng(seed).permutation(len(counts))
    order = shuffled[np.argsort(-counts[shuffled].sum(1), kind="stable")]
    filled, fold_of = np.zeros((n_folds, 2)), np.empty(len(counts), dtype=np.int64)
    for group in order:
        crowding = filled @ (counts[group] / total**2)
        fold = min(range(n_folds), key=lambda f: (crowding[f], filled[f].sum(), f))
        fold_of[group] = fold
        filled[fold] += counts[group]
    for fold, label in np.argwhere(filled.sum(0) == filled):  # nothing is left outside
        what = f"without fold {fold} no {('right', 'wrong')[label]} answer is left to learn from"
        do = "sample more questions: linked ones share a fold, so both classes need several groups"
        raise AnchorscopeError(what, where, do, see="too-few-samples")
    return fold_of[groups]


def check_count(n: int, n_folds: int, where: str) -> None:
    """Refuse fewer samples than folds."""
    if n < n_folds:
        what = f"{n} samples are fewer than {n_folds} folds"
        do = "sample more questions (`sample_size`, `limit`), or lower the number of folds"
        raise AnchorscopeError(what, where, do, see="too-few-samples")


def _check(groups: np.ndarray, z: np.ndarray, n_folds: int, where: str) -> None:
    check_count(len(z), n_folds, where)
    if len(np.unique(z)) < 2:
        what = f"all {len(z)} answers are {'wrong' if z[0] else 'right'}: a probe cannot be fitted"
        do = "sample more questions, or ask a model that gets some right and some wrong"
        raise AnchorscopeError(what, where, do, see="one-class")
    if (n_groups := len(np.unique(groups))) < n_folds:
        what = f"only {n_groups} groups of linked samples for {n_folds} folds"
        do = "sample more questions, check the `subject` field, or lower the number of folds"
        raise AnchorscopeError(what, where, do, see="too-few-samples")

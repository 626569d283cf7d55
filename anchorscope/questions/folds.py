"""Assign samples to folds. Samples linked by equal questions or subjects share a fold."""

import hashlib
import unicodedata
from collections.abc import Sequence

import numpy as np
import pandas as pd

from anchorscope.storage.errors import AnchorscopeError

MOST_SALTS = 1000  # most salts that `assign` tries


def key(text: object) -> str | None:
    """Return the key for comparing texts: letters and digits, case-folded; None if empty."""
    if text is None or text is pd.NA or text != text:  # NaN differs from itself
        return None
    folded = unicodedata.normalize("NFKC", str(text)).casefold()
    words = "".join(c if c.isalnum() else " " for c in folded).split()
    return " ".join(words) or folded.strip() or None


def components(*columns: Sequence[object]) -> np.ndarray:
    """Return the connected component of each row, int64 [n].

    Two rows are linked if they have the same `key` in a column.
    """
    from scipy.sparse import coo_array  # imported here: many jobs need no folds
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
    """Return int64 [n], the bootstrap cluster of each row: its subject, else its question."""
    subject, question = (
        pd.Series([key(text) for text in texts], dtype="str") for texts in (subjects, questions)
    )
    row = pd.Series(map(str, range(len(question))))
    return pd.factorize(("s " + subject).fillna("q " + question).fillna(row))[0]


def named(texts: Sequence[object], *columns: Sequence[object]) -> np.ndarray:
    """Return the name of each row's component, object [n]: the smallest `key` of its rows' `texts`.

    `components(texts, *columns)` links the rows. Rows of equal `texts` are in one component, so no
    two components share a name.
    """
    keys = pd.Series([key(text) or "" for text in texts], dtype=object)
    return keys.groupby(components(texts, *columns)).transform("min").to_numpy(object)


def assign(
    component: np.ndarray, z: np.ndarray, n_folds: int, seed: int | str, where: str = "all samples"
) -> tuple[np.ndarray, int]:
    """Assign a fold to each sample.

    A fold is a hash of seed, salt and component name. Other samples affect it only through the
    salt. The salt is the first of 0, 1, 2, … with which there are right and wrong answers in each
    fold and, for training, outside it. With too few components, a fold may have answers of one
    class only, but it is never empty, and both classes remain outside it for training.

    Args:
        component: Name of each sample's component, [n].
        z: Label of each sample, 0 or 1, [n].
        n_folds: Number of folds.
        seed: Seed of the hash.
        where: Name of the samples in errors.

    Returns:
        The fold of each sample, int64 [n], and the salt.

    Raises:
        AnchorscopeError: There are too few samples, components or answers of a class.
    """
    groups, names = pd.factorize(np.asarray(component))
    _check(groups, z, n_folds, where)
    counts = np.stack([np.bincount(groups, weights=z == label) for label in (0, 1)], axis=1)
    holders = (counts > 0).sum(0)  # number of components with an answer of each class
    second: tuple[np.ndarray, int] | None = None
    for salt in range(MOST_SALTS if holders.min() > 1 else 0):
        fold_of = _hashed(names, n_folds, f"{seed}/{salt}")
        held = np.stack([np.bincount(fold_of, of, n_folds) for of in counts.T], axis=1)
        if (held == held.sum(0)).any() or not held.any(1).all():
            continue
        if held.all():
            return fold_of[groups], salt
        second = second or (fold_of[groups], salt)
        if holders.min() < n_folds:
            break
    if second is None:
        rare = holders.argmin()
        fold = _hashed(names, n_folds, f"{seed}/0")[counts[:, rare].argmax()]
        what = f"outside fold {fold}, no {('right', 'wrong')[rare]} answer is left to learn from"
        do = "sample more questions; linked ones share a fold, so each class needs several groups"
        raise AnchorscopeError(what, where, do, see="too-few-samples")
    return second


def _hashed(names: np.ndarray, n_folds: int, seed: str) -> np.ndarray:
    """Return the fold of each component, int64 [components]."""
    digests = (hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest() for name in names)
    return np.array([int.from_bytes(digest, "big") % n_folds for digest in digests])


def _check(groups: np.ndarray, z: np.ndarray, n_folds: int, where: str) -> None:
    if len(z) < n_folds:
        what = f"{len(z)} samples are fewer than {n_folds} folds"
        do = "measure more questions (in a run: `sample_size`, `limit`), or use fewer folds"
        raise AnchorscopeError(what, where, do, see="too-few-samples")
    if len(np.unique(z)) < 2:
        what = f"all {len(z)} answers are {'wrong' if z[0] else 'right'}: nothing to predict"
        do = "compare some answers with their gold answers, or measure another model or dataset"
        raise AnchorscopeError(what, where, do, see="one-class")
    if (n_groups := len(np.unique(groups))) < n_folds:
        what = f"only {n_groups} groups of linked samples for {n_folds} folds"
        do = "sample more questions, check the `subject` field, or lower the number of folds"
        raise AnchorscopeError(what, where, do, see="too-few-samples")

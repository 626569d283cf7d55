"""Folds keep linked samples together and classes apart evenly."""

from typing import Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from anchorscope.probes import fitting
from anchorscope.questions import folds
from anchorscope.storage.errors import AnchorscopeError


def slow_components(questions: list[str], subjects: list[str | None]) -> set[frozenset[int]]:
    """Take the smallest number among those linked, as often as there are rows."""
    group = list(range(len(questions)))
    columns = [list(map(folds.key, column)) for column in (questions, subjects)]
    pairs = [(a, b) for a in group for b in group if any(c[a] == c[b] is not None for c in columns)]
    for _ in questions:
        for a, b in pairs:
            group[a] = group[b] = min(group[a], group[b])
    return {frozenset(np.flatnonzero(np.array(group) == number)) for number in group}


texts = st.sampled_from(["Who?", "who", "Where?", "a b", "A  b!", "c", "d", "e"])
names = st.one_of(st.none(), st.sampled_from(["Ann", "ANN", "Bo", "", "Cy", "Di"]))


@given(st.lists(st.tuples(texts, names), min_size=1, max_size=14))
@settings(max_examples=80, deadline=None)
def test_components_are_what_merging_one_by_one_gives(rows: list[tuple[str, str | None]]) -> None:
    questions, subjects = [q for q, _ in rows], [s for _, s in rows]
    found = folds.components(questions, subjects)
    sets = {frozenset(np.flatnonzero(found == group)) for group in np.unique(found)}
    assert sets == slow_components(questions, subjects)


@given(st.integers(0, 10_000), st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_a_fold_never_splits_linked_samples(seed: int, n_folds: int) -> None:
    random = np.random.default_rng(seed)
    n = 80
    # Few enough links that no component swallows the others.
    questions = [f"question {i}" for i in random.integers(0, 200, n)]
    subjects = [None if i < 20 else f"subject {i}" for i in random.integers(0, 160, n)]
    z = random.integers(0, 2, n)
    linked = folds.components(questions, subjects)
    assert np.bincount(linked).max() > 1
    fold = folds.assign(linked, z, n_folds, seed)
    assert set(fold) == set(range(n_folds))
    for group in np.unique(linked):
        assert len(set(fold[linked == group])) == 1


def test_folds_get_their_share_of_either_class() -> None:
    random = np.random.default_rng(0)
    z = (random.random(500) < 0.15).astype(int)
    fold = folds.assign(random.integers(0, 200, 500), z, 5, 0)
    sizes, wrong = np.bincount(fold), np.bincount(fold, weights=z)
    assert np.ptp(sizes) <= 8 and np.ptp(wrong) <= 3


def test_the_same_seed_gives_the_same_folds_and_another_seed_others() -> None:
    z = np.arange(60) % 2
    first, again, other = (folds.assign(np.arange(60), z, 5, seed) for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).any()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([["Who wrote  It?", "who wrote it", "Who wrote them?", "???"], [None] * 4], [0, 0, 1, 2]),
        ([[*"abcd"], [None, "c", None, "x"], ["w", "W.", "x", None]], [0, 0, 1, 2]),
        ([[*"abcd"], [None, float("nan"), "", " "]], [0, 1, 2, 3]),
    ],
)
def test_rows_equal_in_a_column_are_linked_whatever_their_spelling_but_nothing_links_nothing(
    columns: list[list], expected: list[int]
) -> None:
    assert folds.components(*columns).tolist() == expected


def test_bootstrap_clusters_are_subjects_where_known_else_questions() -> None:
    found = folds.clusters(["a", "b", "Ann", "c", "C?"], ["Ann", "ann", None, None, None])
    assert found.tolist() == [0, 0, 1, 2, 2]


TWENTY = np.arange(20)


@pytest.mark.parametrize(
    ("groups", "z", "said"),
    [
        (TWENTY, np.zeros(20), "are right"),
        (TWENTY, np.ones(20), "are wrong"),
        (TWENTY[:3], np.array([0, 1, 0]), "3 samples are fewer than 5 folds"),
        (TWENTY % 4, TWENTY // 4 % 2, "only 4 groups"),
        (
            np.r_[[20] * 4, TWENTY],
            np.r_[[1] * 4, [0] * 20],
            "no wrong answer is left to learn from",
        ),
    ],
)
def test_what_cannot_be_cut_into_folds_is_refused(
    groups: np.ndarray, z: np.ndarray, said: str
) -> None:
    with pytest.raises(AnchorscopeError, match=said):
        folds.assign(groups, z, 5, 0)


def worded(n_words: int) -> pd.DataFrame:
    """Samples of 100 subjects, two questions each, whose answers are of a few words."""
    random, rows = np.random.default_rng(0), range(200)
    word = random.integers(0, n_words, 100).repeat(2)
    said = [("The Word {}", "word {}!")[i % 2].format(word[i]) for i in rows]
    asked = [(i, f"question {i}", f"subject {i // 2}") for i in rows]
    table = pd.DataFrame(asked, columns=["id", "question", "subject"])
    return table.assign(ea_text=said, label=random.integers(0, 2, 200))


def test_no_probe_has_learned_from_an_answer_that_it_scores_if_folds_are_to_be_so() -> None:
    answers = worded(40)
    words = answers["ea_text"].str.extract(r"(\d+)")[0].to_numpy()

    def learned(disjoint: Literal["subject", "subject+answer"]) -> int:
        """Samples scored by a probe, outer or inner, that has learned from their word."""
        plan = fitting.design(answers, fitting.Settings(disjoint=disjoint))
        splits = [(plan.fold, k) for k in range(5)]
        splits += [(inner, i) for inner in plan.inner for i in range(5)]
        return sum(
            np.isin(words[fold == k], words[(fold != k) & (fold >= 0)]).sum() for fold, k in splits
        )

    assert learned("subject") > 500
    assert learned("subject+answer") == 0


def test_what_stands_against_folds_is_said_in_words() -> None:
    apart = fitting.Settings(disjoint="subject+answer")
    assert fitting.obstacle(worded(40), apart) is None
    assert fitting.obstacle(worded(3), apart) == "only 3 groups of linked samples for 5 folds"
    assert fitting.obstacle(worded(3), fitting.Settings()) is None

"""Folds keep linked samples together, and depend on nobody else."""

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


def test_whoever_leaves_moves_no_other_sample_nor_does_the_order_of_rows() -> None:
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"question": [f"q{i}" for i in range(400)]})
    rows["subject"] = [f"s{i}" for i in random.integers(0, 300, 400)]
    rows["component"] = folds.named(rows["question"], rows["subject"])
    rows["id"], rows["label"] = rows["question"], random.random(400) < 0.9

    def cut(some: pd.DataFrame) -> tuple[dict[str, int], list[dict[str, int]], int | None]:
        found = fitting.design(some.sample(frac=1, random_state=len(some)), fitting.ProbeSettings())
        of_id = [dict(zip(found.ids, fold, strict=True)) for fold in (found.fold, *found.inner)]
        return of_id[0], of_id[1:], found.salt

    outer, inner, salt = cut(rows)
    for gone in range(1, 150, 30):
        left = rows.drop(random.choice(400, gone, replace=False))
        outer_left, inner_left, salt_left = cut(left)
        assert outer_left.items() <= outer.items() and salt_left == salt
        for some, every in zip(inner_left, inner, strict=True):
            assert some.items() <= every.items()


def test_another_salt_is_taken_until_every_fold_holds_both_classes() -> None:
    z = (np.arange(40) >= 6).astype(int)
    salts = set()
    for seed in range(20):
        fold, salt = folds.assign(np.arange(40), z, 5, seed)
        assert (np.bincount(fold, z == 0, 5) > 0).all() and (np.bincount(fold, z, 5) > 0).all()
        salts.add(salt)
    assert len(salts) > 5
    # Three right answers cannot be in five folds: enough that two folds hold some.
    fold, _ = folds.assign(np.arange(40), (np.arange(40) >= 3).astype(int), 5, 0)
    assert len(set(fold[:3])) > 1 and set(fold) == set(range(5))


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
    names = folds.named(["Who?", "Where?", "When?"], ["b", "B", None])
    assert names.tolist() == ["where", "where", "when"], "a component has its smallest text"


TWENTY = np.arange(20)


@pytest.mark.parametrize(
    ("groups", "z", "said"),
    [
        (TWENTY, np.zeros(20), "are right"),
        (TWENTY, np.ones(20), "are wrong"),
        (TWENTY[:3], np.array([0, 1, 0]), "3 samples are fewer than 5 folds"),
        (TWENTY % 4, TWENTY // 4 % 2, "only 4 groups"),
        (np.r_[[20] * 4, TWENTY], np.r_[[1] * 4, [0] * 20], "no wrong answer is left"),
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
    answers["word"] = answers["ea_text"].str.extract(r"(\d+)")[0]

    def learned(disjoint: Literal["subject", "subject+answer"], column: str) -> int:
        """Samples that a probe, outer or inner, has learned the word or subject of, and scores."""
        words = answers[column].to_numpy()
        plan = fitting.design(answers, fitting.ProbeSettings(disjoint=disjoint))
        splits = [(plan.fold, k) for k in range(5)]
        splits += [(inner, i) for inner in plan.inner for i in range(5)]
        return sum(
            np.isin(words[fold == k], words[(fold != k) & (fold >= 0)]).sum() for fold, k in splits
        )

    assert learned("subject", "word") > 500
    assert learned("subject", "subject") == learned("subject+answer", "subject") == 0
    assert learned("subject+answer", "word") == 0

"""The part of the pair term that blocking takes beyond general damage."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from anchorscope.claims.damage import LEAST_PART, Damaged
from anchorscope.claims.estimates import ANSWER, MEAN, PAIR, QUESTION, Answers, term
from anchorscope.statistics.intervals import Estimate

SHARES = np.linspace(-3, 3, 121)
SEEDS = st.integers(0, 10**6)
SIGNS = {"mean": 4 * MEAN, "question": 4 * QUESTION, "answer": 4 * ANSWER, "pair": 4 * PAIR}
"""The terms' parts in the four scores, [4]."""


def four(**terms: np.ndarray) -> np.ndarray:
    """Scores [4, ..., n] that have these terms, and no others."""
    return sum(np.multiply.outer(SIGNS[name], values) for name, values in terms.items())


def world(
    n: int = 150, seed: int = 0, *, kept: object = 0.7, passes: float = 0.0, noise: float = 0.1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, clean and blocked, [4, n], and folds.

    `kept` of all is left, in each of five folds or in all, and of the pair term the share that does
    not pass.
    """
    random = np.random.default_rng(seed)
    fold = np.arange(n) % 5
    answer, pair = random.normal(size=n), random.normal(1, 0.5, size=n)
    left = np.broadcast_to(kept, 5)[fold]
    clean = four(mean=random.normal(size=n), question=random.normal(size=n))
    clean = clean + four(answer=answer, pair=pair) + noise * random.normal(size=(4, n))
    blocked = four(question=random.normal(size=n), answer=left * answer)
    blocked = blocked + four(pair=left * (1 - passes) * pair) + noise * random.normal(size=(4, n))
    return clean, blocked, fold


def answers(scores: np.ndarray, fold: np.ndarray, bound: object = False) -> Answers:
    """Answers of pairs that share nothing, from scores [4, (1 + refits, ...), n]."""
    n = len(fold)
    scores = scores[:, None] if scores.ndim == 2 else scores
    both = np.arange(2 * n).reshape(2, n)
    return Answers(scores, both, both, fold, np.zeros(n), np.broadcast_to(bound, n))


def damaged(clean: np.ndarray, blocked: np.ndarray, fold: np.ndarray) -> Damaged:
    own = answers(clean, fold)
    return Damaged.of(own, answers(blocked, fold), own.pairs(0.95))


def test_what_is_left_is_the_slope_through_the_origin_of_each_fold_and_at_most_1() -> None:
    clean, blocked, fold = world(kept=[0.7, 0.2, -0.3, 1.6, 0.95])
    found = damaged(clean, blocked, fold)
    for k in range(5):
        x, y = (
            [sum(a * s for a, s in zip(ANSWER, row, strict=True)) for row in scores[:, fold == k].T]
            for scores in (clean, blocked)
        )
        slope = sum(a * b for a, b in zip(x, y, strict=True)) / sum(a * a for a in x)
        assert found.left[0, fold == k] == pytest.approx(min(slope, 1.0))
    of_fold = found.left[0, :5]
    assert of_fold[3] == 1 and of_fold[2] < 0 and (of_fold[[0, 1, 4]] < 1).all()


def test_a_fold_without_pairs_or_without_answer_terms_is_no_trouble() -> None:
    clean, blocked, fold = world(n=60)
    still = np.where(fold == 2, term(ANSWER, clean), 0)
    gap = damaged(clean, blocked, np.where(fold == 2, 4, fold))
    for found in (gap, damaged(clean - four(answer=still), blocked, fold)):
        assert (np.isfinite(found.left) & np.isfinite(found.moves)).all()
    none = damaged(np.zeros((4, 60)), blocked, fold)
    assert (none.left == 0).all() and not none.readable


@settings(max_examples=12, deadline=None)
@given(SEEDS, st.lists(st.booleans(), min_size=60, max_size=60))
def test_which_answer_of_a_pair_comes_first_changes_nothing(seed: int, turned: list[bool]) -> None:
    clean, blocked, fold = world(60, seed, kept=[0.7, 0.9, 0.4, 1.2, 0.6], passes=0.5)
    again = [np.where(turned, scores[::-1], scores) for scores in (clean, blocked)]
    one, other = damaged(clean, blocked, fold), damaged(*again, fold)
    for name in ("corrected", "mean_left", "taken"):
        same(getattr(one, name)(), getattr(other, name)())


def same(one: Estimate, other: Estimate) -> None:
    for name in ("value", "error", "low", "high", "p"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), nan_ok=True)


def test_errors_are_those_of_a_bootstrap_over_pairs() -> None:
    n = 200
    clean, blocked, fold = world(n, kept=[0.7, 0.9, 0.4, 1.5, 0.6], passes=0.4, noise=0.5)
    random = np.random.default_rng(1)

    def statistics(rows: np.ndarray) -> list[float]:
        some = damaged(clean[:, rows], blocked[:, rows], fold[rows])
        left, pair, cut = some.left[0], term(PAIR, clean[:, rows]), term(PAIR, blocked[:, rows])
        return [left.mean(), cut.mean() / left.mean(), (0.8 * left * pair - cut).mean()]

    spread = np.std([statistics(random.integers(0, n, n)) for _ in range(800)], axis=0)
    found = damaged(clean, blocked, fold)
    every = [found.mean_left(), found.corrected(), found.beyond(0.2)]
    assert [float(one.value) for one in every] == pytest.approx(statistics(np.arange(n)))
    assert [float(one.error) for one in every] == pytest.approx(spread, rel=0.12)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.floats(0, 1), st.floats(0.1, 1.0), st.floats(0.2, 2.0))
def test_the_interval_of_the_share_taken_holds_the_shares_that_are_not_rejected(
    seed: int, passes: float, kept: float, noise: float
) -> None:
    found = damaged(*world(40, seed, kept=kept, passes=passes, noise=noise))
    taken = found.taken()
    if np.isnan(taken.value):
        return
    tested = [found.beyond(share) for share in SHARES]
    held = [bool(one.low <= 0 <= one.high) for one in tested]
    inside = (taken.low <= SHARES) & (taken.high >= SHARES)
    assert np.array_equal(held, inside)
    step = found.beyond(LEAST_PART)
    assert (taken.low > LEAST_PART + 1e-9) == (step.p < 0.05)


def test_where_the_score_hardly_reads_the_answer_nothing_is_drawn() -> None:
    gone, there = (damaged(*world(kept=kept)) for kept in (0.05, 0.7))
    assert 0 < gone.mean_left().value < 0.1 and not gone.readable
    for name in ("value", "low", "high"):
        assert np.isnan(getattr(gone.corrected(), name))
        assert np.isfinite(getattr(there.corrected(), name))

"""Test which features the text imitator reads, and that it learns from other folds."""

import numpy as np
import pytest
from handmade import HOME

from anchorscope.claims.estimates import PAIR, term
from anchorscope.pairs import imitator


def read(n: int, home: float, overlap: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores [4, layers, n] and features: a probe that reads overlap, which own answers have."""
    random = np.random.default_rng(0)
    features = random.normal(size=(4, n, 6)) + HOME[:, :, None]
    noise = 0.2 * random.normal(size=(4, 2, n))
    return overlap * features[..., 0][:, None] + home * HOME[:, None] + noise, features


@pytest.mark.parametrize(
    ("kinds", "home", "overlap", "left"), [(1, 0, 1, 0), (1, 1, 0, 0.5), (2, 0, 0, 0.25)]
)
def test_overlap_is_imitated_where_it_is_read_and_nothing_else_is(
    kinds: int, home: float, overlap: float, left: float
) -> None:
    scores, features = read(400, home, overlap)
    kind = np.arange(400) * kinds // 400  # kinds of answers that differ in both
    scores += HOME[:, None] * kind
    features += 2 * HOME[:, :, None] * kind[None, :, None]
    found = imitator.pair_terms(scores, features, kind, np.arange(400) % 5)
    assert (term(PAIR, scores) - found).mean(-1) == pytest.approx([left, left], abs=0.05)


def test_a_pair_is_imitated_by_what_other_folds_tell() -> None:
    scores, features = read(100, home=0.0, overlap=1.0)
    fold = np.arange(100) % 2
    found = imitator.pair_terms(scores, features, np.zeros(100), fold)
    scores[..., fold == 0] += 100 * np.random.default_rng(1).normal(size=(4, 2, 50))
    again = imitator.pair_terms(scores, features, np.zeros(100), fold)
    assert again[:, fold == 1] != pytest.approx(found[:, fold == 1])
    assert again[:, fold == 0] == pytest.approx(found[:, fold == 0])
    assert not imitator.pair_terms(scores, features, np.zeros(100), np.zeros(100)).any()

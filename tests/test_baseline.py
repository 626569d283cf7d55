"""The text baseline: character n-grams and the relation, on the probes' own folds."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from anchorscope import baseline, fitting, platt
from anchorscope.errors import AnchorscopeError
from anchorscope.fitting import Settings
from anchorscope.intervals import auc

WORDS = ["Paris", "Rome", "Lund", "Oslo", "Kyoto", "Bern"]


def cell(n: int = 160, told: float = 0.8) -> pd.DataFrame:
    """Answers; the first three words are wrong with probability `told`, the others right."""
    random = np.random.default_rng(0)
    word = random.integers(0, len(WORDS), n)
    wrong = np.where(word < 3, told, 1 - told)
    return pd.DataFrame(
        {
            "id": [f"i{i}" for i in range(n)],
            "question": [f"q{i}" for i in range(n)],
            "subject": [f"s{i // 2}" for i in range(n)],
            "relation": [None if i % 7 == 0 else f"r{i % 2}" for i in range(n)],
            "ea_text": [WORDS[w] for w in word],
            "label": (random.random(n) < wrong).astype(int),
            "dropped": None,
        }
    )


def test_ngrams_are_scikit_learns_and_come_twice_at_least() -> None:
    texts = ["abab c", "babd", "", "東京 ab", "d"]
    vectorizer = CountVectorizer(
        analyzer="char", ngram_range=(1, 4), binary=True, lowercase=False, min_df=2
    )
    expected = vectorizer.fit_transform(texts).toarray()
    found = baseline.features(texts, [None] * 5)
    assert found.dtype == np.float32
    assert sorted(map(tuple, found.T)) == sorted(map(tuple, expected.T))


def test_a_relation_has_a_column_and_a_missing_one_has_none() -> None:
    found = baseline.features(["x", "y", "z"], ["born", float("nan"), "born"])
    assert found.tolist() == [[1.0], [0.0], [1.0]]


def test_without_anything_shared_one_empty_column_is_left() -> None:
    assert baseline.features(["x", "y"], [None, None]).tolist() == [[0.0], [0.0]]


def test_the_most_frequent_ngrams_stay_and_the_others_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(baseline, "MOST_NGRAMS", 2)
    with caplog.at_level(logging.INFO):
        found = baseline.features(["a b", "a b", "a", "q"], [None] * 4)
    # "a" stands in three texts; of those in two, " " comes first by spelling.
    assert found.tolist() == [[1, 1], [1, 1], [1, 0], [0, 0]]
    assert "2 n-grams; left out: 1 in one sample only, 4 as less frequent" in caplog.text


def test_scores_are_scikit_learns_out_of_fold_on_the_folds_of_the_probes() -> None:
    answers, settings = cell(), Settings(grid=[0.01])
    found = baseline.text_baseline(answers, settings)
    plan = fitting.design(answers, settings)
    assert list(found.columns) == ["id", "fold", "c", "t", "s", "p"]
    assert found["id"].tolist() == answers["id"].tolist()
    assert np.array_equal(found["fold"], plan.fold)
    x = baseline.features(list(answers["ea_text"]), list(answers["relation"])).astype(float)

    def logits(train: np.ndarray, rows: np.ndarray) -> np.ndarray:
        scaler = StandardScaler().fit(x[train])
        model = LogisticRegression(C=0.01, tol=1e-10, max_iter=10_000)
        model.fit(scaler.transform(x[train]), plan.z[train])
        return model.decision_function(scaler.transform(x[rows]))

    for k in range(5):
        train, held = plan.fold != k, np.empty(len(x))
        for i in range(5):
            here = plan.inner[k] == i
            held[here] = logits(train & ~here, here)
        slope, offset = platt.calibrate(held[None, train], plan.z[train])
        share = plan.z[train].mean()
        expected = slope * logits(train, ~train) + offset - np.log(share / (1 - share))
        assert np.allclose(found["s"][~train], expected, atol=5e-3)


@pytest.mark.parametrize(("told", "low", "high"), [(0.9, 0.8, 1.0), (0.5, 0.35, 0.65)])
def test_words_that_tell_are_heard_and_others_are_not(told: float, low: float, high: float) -> None:
    answers = cell(300, told)
    found = baseline.text_baseline(answers, Settings())
    assert low < auc(found["s"].to_numpy(), answers["label"].to_numpy()) < high


def test_the_same_answers_give_the_same_scores() -> None:
    first, again = (baseline.text_baseline(cell(), {"seed": 3}) for _ in range(2))
    pd.testing.assert_frame_equal(first, again)


def test_columns_have_an_order_of_their_own_not_that_of_a_set_of_strings() -> None:
    # a and b stand in four texts; then ab, ba and c, in two each, by spelling.
    found = baseline.features(["ab", "ba", "ab", "ba", "c", "c"], [None] * 6)
    assert found[:, 2:].tolist() == [
        [1, 0, 0],
        [0, 1, 0],
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
        [0, 0, 1],
    ]


def test_one_answer_for_all_tells_nothing() -> None:
    answers = cell().assign(ea_text="Paris", relation="r")
    found = baseline.text_baseline(answers, Settings())
    assert np.abs(found["p"] - 0.5).max() < 0.05


def test_penalties_too_weak_for_so_many_ngrams_are_not_tried() -> None:
    tried = baseline.text_baseline(cell(told=1.0), Settings(grid=[0.05, 10.0]))["c"]
    assert set(tried) == {0.05}
    assert set(baseline.text_baseline(cell(), Settings(grid=[5.0, 10.0]))["c"]) == {5.0}


def test_dropped_answers_are_left_out() -> None:
    answers = cell()
    answers.loc[0, "dropped"] = "no answer anchor"
    answers.loc[0, "ea_text"] = None
    assert "i0" not in set(baseline.text_baseline(answers, Settings())["id"])


def test_an_answer_without_text_is_refused_by_id() -> None:
    answers = cell()
    answers.loc[[4, 9], "ea_text"] = None
    with pytest.raises(AnchorscopeError, match="2 samples have no exact answer") as caught:
        baseline.text_baseline(answers, Settings())
    assert "i4" in str(caught.value)


@pytest.mark.parametrize("label", [0, 1])
def test_answers_of_one_class_are_refused(label: int) -> None:
    with pytest.raises(AnchorscopeError, match="a probe cannot be fitted"):
        baseline.text_baseline(cell().assign(label=label), Settings())

"""Floors: what text alone tells, on the probes' own folds."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from anchorscope.probes import fitting, floors, scoring
from anchorscope.probes.fitting import ProbeSettings

N = 240
SURNAMES = ["Lund", "Berg", "Holm", "Dahl", "Falk", "Moen"]
WORDS = ["actor", "baker", "clerk", "diver"]
LEADS = ["The answer is", "It is", "I think it was"]
NOISE = 0.1
NO_DRAWS = np.zeros((0, N), dtype=np.int64)


def cell(follows: str) -> pd.DataFrame:
    """Answers whose label follows one part of the text, but for a tenth of them."""
    random = np.random.default_rng(0)
    parts = {name: random.integers(0, 2, N) for name in ("surname", "word", "lead")}
    surname = [SURNAMES[2 * random.integers(0, 3) + bit] for bit in parts["surname"]]
    word = [WORDS[2 * random.integers(0, 2) + bit] for bit in parts["word"]]
    lead = [LEADS[bit] for bit in parts["lead"]]
    first = random.permutation([f"{a}{b}{c}" for a in "BDFGK" for b in "aeiou" for c in "lmnrst"])
    label = parts[follows] ^ (random.random(N) < NOISE)
    names = [f"{first[i % len(first)]} {surname[i]}" for i in range(N)]
    return pd.DataFrame(
        {
            "id": [f"i{i}" for i in range(N)],
            "question": [f"What is {i} {names[i]}'s trade?" for i in range(N)],
            "subject": [f"{i} {names[i]}" for i in range(N)],
            "relation": "trade",
            "ea_text": word,
            "response": [f" {lead[i]} {word[i]} ." for i in range(N)],
            "label": label.astype(int),
            "dropped": None,
        }
    )


def aucs(answers: pd.DataFrame) -> dict[str, float]:
    settings = ProbeSettings(inner_folds=3, grid=[1e-3, 0.1, 10.0])
    found = floors.floors(answers, fitting.design(answers, settings), NO_DRAWS)
    return {name: roc_auc_score(answers["label"], s[0]) for name, s in found.items()}


def words_in_order() -> pd.DataFrame:
    """Answers whose label follows the order of two words of the question, but for a tenth."""
    random = np.random.default_rng(1)
    answers, against = cell("surname"), random.integers(0, 2, N)
    label = (against ^ (random.random(N) < NOISE)).astype(int)
    pairs = [("mill", "pond")[:: 1 - 2 * bit] for bit in against]
    tail = [f"trade by the {a} and by the {b} and by the lake now?" for a, b in pairs]
    question = [f"What is {n}'s {t}" for n, t in zip(answers["subject"], tail, strict=True)]
    return answers.assign(question=question, label=label)


@pytest.mark.parametrize(
    ("answers", "telling"),
    [
        (cell("surname"), {"question", "text"}),
        (cell("lead"), {"response", "text"}),
        (cell("word"), {"answer", "response", "text"}),
        (words_in_order(), {"question", "text"}),
    ],
)
def test_each_floor_reads_words_and_their_order_in_its_own_text_and_no_other(
    answers: pd.DataFrame, telling: set[str]
) -> None:
    found = aucs(answers)
    assert {name for name, value in found.items() if value > 0.8} == telling
    assert all(value < 0.65 for name, value in found.items() if name not in telling)


def exact(c: float) -> LogisticRegression:
    return LogisticRegression(C=c, tol=1e-10, max_iter=10_000)


def features(texts: pd.Series) -> np.ndarray:
    """What a model of texts knows of them, written out."""
    known = {"binary": True, "min_df": 2}
    grams = CountVectorizer(analyzer="char", ngram_range=(1, 4), lowercase=False, **known)
    order = CountVectorizer(analyzer=floors.order_of_words, **known)
    lengths = np.log1p([[len(text), len(text.split())] for text in texts])
    scaled = (lengths - lengths.mean(0)) / lengths.std(0)
    held = [one.fit_transform(texts).toarray() for one in (grams, order)]
    return np.hstack([*held, scaled, scaled**2])


def test_models_of_all_samples_and_of_draws_are_scikit_learns_at_balanced_classes() -> None:
    """Published scoring has one penalty and no calibration."""
    answers = cell("surname")
    plan = fitting.design(answers, ProbeSettings(scoring="published", refits=2))
    drawn = scoring.refit_weights(answers, plan)
    found = floors.floors(answers, plan, drawn)
    assert list(found) == list(floors.FLOORS)
    x = features(answers["question"])
    learned_from = [np.ones(N, dtype=int), *drawn]
    for weights, s in zip(learned_from, found["question"], strict=True):
        for k in range(5):
            rows = np.flatnonzero(plan.fold != k)
            z, drawn = plan.z[rows], weights[rows]
            share = np.average(z, weights=drawn)
            model = exact(1.0).fit(x[rows], z, drawn)
            expected = model.decision_function(x) - np.log(share / (1 - share))
            assert s[plan.fold == k] == pytest.approx(expected[plan.fold == k], abs=1e-3)


def test_a_model_of_texts_is_scikit_learns_whatever_text_it_scores() -> None:
    answers, others = cell("surname"), cell("word").iloc[:40]
    z, none = answers["label"].to_numpy(copy=True), np.full(N, -1)
    model = floors.fit("text", answers, z, none, np.array([0.1]))
    learned, seen = (
        np.hstack([part.features(rows).toarray() for part in model.parts])
        for rows in (answers, others)
    )
    expected = exact(0.1).fit(learned, z)
    assert model.logits(others) == pytest.approx(expected.decision_function(seen), abs=1e-3)


def test_the_penalty_is_that_of_the_highest_auc_inside_the_training_fold() -> None:
    answers, grid = cell("surname"), [1e-4, 0.1, 10.0]
    plan = fitting.design(answers, ProbeSettings(inner_folds=3, grid=grid))
    (found,) = floors.floors(answers, plan, NO_DRAWS)["question"]
    x, z = features(answers["question"]), plan.z
    for k in range(5):
        mean_auc, alike = [], []  # of each penalty
        held, learned = plan.fold == k, plan.fold != k
        for penalty in grid:
            aucs = []
            for i in range(3):
                here, there = plan.inner[k] == i, (plan.inner[k] != i) & (plan.inner[k] >= 0)
                s = exact(penalty).fit(x[there], z[there]).decision_function(x[here])
                aucs.append(here.sum() * roc_auc_score(z[here], s))
            mean_auc.append(sum(aucs))
            s = exact(penalty).fit(x[learned], z[learned]).decision_function(x[held])
            alike.append(np.corrcoef(s, found[held])[0, 1])
        assert max(alike) == pytest.approx(1, abs=1e-5), "but for the calibration"
        assert np.argmax(alike) == np.argmax(mean_auc)

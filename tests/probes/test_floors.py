"""Floors: what text alone tells, on the probes' own folds."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from anchorscope.probes import fitting, floors
from anchorscope.probes.fitting import Settings

N = 240
SURNAMES = ["Lund", "Berg", "Holm", "Dahl", "Falk", "Moen"]
WORDS = ["actor", "baker", "clerk", "diver"]
LEADS = ["The answer is", "It is", "I think it was"]
NOISE = 0.1


def cell(follows: str) -> pd.DataFrame:
    """Answers whose label follows one part of the text, but for a tenth of them."""
    random = np.random.default_rng(0)
    parts = {name: random.integers(0, 2, N) for name in ("surname", "word", "lead", "length")}
    surname = [SURNAMES[2 * random.integers(0, 3) + bit] for bit in parts["surname"]]
    word = [WORDS[2 * random.integers(0, 2) + bit] for bit in parts["word"]]
    lead = [LEADS[bit] for bit in parts["lead"]]
    first = random.permutation([f"{a}{b}{c}" for a in "BDFGK" for b in "aeiou" for c in "lmnrst"])
    filler = [" in the records that we have of those years" * bit for bit in parts["length"]]
    label = parts[follows] ^ (random.random(N) < NOISE)
    names = [f"{first[i % len(first)]} {surname[i]}" for i in range(N)]
    return pd.DataFrame(
        {
            "id": [f"i{i}" for i in range(N)],
            "question": [f"What is {i} {names[i]}'s trade{filler[i]}?" for i in range(N)],
            "subject": [f"{i} {names[i]}" for i in range(N)],
            "relation": "trade",
            "ea_text": word,
            "response": [f" {lead[i]} {word[i]} ." for i in range(N)],
            "label": label.astype(int),
            "dropped": None,
        }
    )


def aucs(answers: pd.DataFrame, **settings: Any) -> dict[str, float]:
    found = floors.floors(answers, Settings(**settings))
    z = answers.set_index("id")["label"]
    return {name: roc_auc_score(z[part["id"]], part["s"]) for name, part in found.groupby("floor")}


@pytest.mark.parametrize(
    ("follows", "telling"),
    [
        ("surname", {"question", "text"}),
        ("length", {"question", "text"}),
        ("lead", {"response", "text"}),
        ("word", {"answer", "response", "text"}),
    ],
)
def test_each_floor_reads_its_own_text_and_no_other(follows: str, telling: set[str]) -> None:
    found = aucs(cell(follows))
    assert {name for name, value in found.items() if value > 0.8} == telling
    assert all(value < 0.65 for name, value in found.items() if name not in telling)


def test_scores_are_scikit_learns_out_of_fold_at_balanced_classes() -> None:
    answers = cell("surname")
    found = floors.floors(answers, Settings(grid=[0.1]))
    own = found[found["floor"] == "question"]
    plan = fitting.design(answers, Settings(grid=[0.1]))
    assert list(found.columns) == list(floors.COLUMNS)
    assert own["id"].tolist() == answers["id"].tolist()
    assert np.array_equal(own["fold"], plan.fold)
    grams = CountVectorizer(
        analyzer="char", ngram_range=(1, 4), lowercase=False, binary=True, min_df=2
    )
    text = answers["question"]
    lengths = np.log1p(np.array([[len(t), len(t.split())] for t in text]))
    lengths = (lengths - lengths.mean(0)) / lengths.std(0)
    x = np.hstack([grams.fit_transform(text).toarray(), lengths, lengths**2])
    for k in range(5):
        train, z = plan.fold != k, plan.z
        probe = LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000).fit(x[train], z[train])
        share = z[train].mean()
        expected = probe.decision_function(x[~train]) - np.log(share / (1 - share))
        assert own["s"].to_numpy()[~train] == pytest.approx(expected, abs=0.05)


def test_a_floor_is_the_strongest_of_the_grid() -> None:
    found = [aucs(cell("word"), grid=[c]) for c in (1e-4, 0.1, 10.0)]
    best = aucs(cell("word"), grid=[1e-4, 0.1, 10.0])
    assert best == {name: max(one[name] for one in found) for name in floors.FLOORS}

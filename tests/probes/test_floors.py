"""Floors: what text alone tells, on the probes' own folds."""

from dataclasses import replace

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


def aucs(answers: pd.DataFrame) -> dict[str, float]:
    found = floors.floors(answers, Settings(inner_folds=3, grid=[1e-3, 0.1, 10.0]))
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


def words_in_order(kind: str) -> pd.DataFrame:
    """Answers whose label follows the order of words of question or response, but for a tenth."""
    random = np.random.default_rng(1)
    answers, against = cell("surname"), random.integers(0, 2, N)
    fillers = [random.permutation(["now", "then", "still", "here", "again"]) for _ in range(N)]
    if kind == "far":
        pairs = [("mill", "pond")[:: 1 - 2 * bit] for bit in against]
        tail = [f" by the {a} and by the {b} and by the lake" for a, b in pairs]
    elif kind == "class":  # one of two words before one of two others, among many
        ups = [[random.choice(["up", "off"]), random.choice(["left", "right"])] for _ in range(N)]
        tail = [
            f" {words[0]} we {ways[bit]} {words[1]} we {ways[1 - bit]} {words[2]} we"
            for ways, words, bit in zip(ups, fillers, against, strict=True)
        ]
    elif kind == "place":
        tail = [
            " " + " ".join([*words[:1], *["so"] * (1 - bit), *words[1:], *["so"] * bit])
            for words, bit in zip(fillers, against, strict=True)
        ]
    label = (against ^ (random.random(N) < NOISE)).astype(int)
    if kind == "response":
        pairs = [("so", "it")[:: 1 - 2 * bit] for bit in against]
        lead = [f" now and now {a} now and now {b} now and now" for a, b in pairs]
        response = [f"{a} {b} ." for a, b in zip(lead, answers["ea_text"], strict=True)]
        return answers.assign(response=response, label=label)
    names = answers["subject"]
    question = [f"What is {n}'s trade{t} now?" for n, t in zip(names, tail, strict=True)]
    return answers.assign(question=question, label=label)


@pytest.mark.parametrize(
    ("kind", "telling"),
    [
        ("far", {"question", "text"}),
        ("class", {"question", "text"}),
        ("place", {"question", "text"}),
        ("response", {"response", "text"}),
    ],
)
def test_floors_read_the_order_of_words(
    kind: str, telling: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = words_in_order(kind)
    found = aucs(answers)
    assert {name for name, value in found.items() if value > 0.8} == telling
    assert all(value < 0.65 for name, value in found.items() if name not in telling)
    # Without it the n-grams of characters see less.
    letters = {name: [p for p in parts if p[1] != "order"] for name, parts in floors.FLOORS.items()}
    monkeypatch.setattr(floors, "FLOORS", letters)
    without = aucs(answers)
    assert all(without[name] < found[name] - 0.02 for name in telling)


def test_the_order_of_words_is_pairs_within_reach_and_places_from_both_ends() -> None:
    found = floors.order_of_words("Who is Who?")
    pairs = ["who is", "who who", "who ?", "is who", "is ?", "who ?"]
    assert found == [*pairs, *"0 who|-4 who|1 is|-3 is|2 who|-2 who|3 ?|-1 ?".split("|")]
    assert floors.order_of_words("東京 は")[:3] == ["東 京", "東 は", "京 は"]
    words = [f"w{i}" for i in range(40)]
    pairs = [one for one in floors.order_of_words(" ".join(words)) if one.startswith("w0 ")]
    assert pairs == [f"w0 w{i}" for i in range(1, floors.REACH + 1)]


def test_scores_are_scikit_learns_out_of_fold_at_balanced_classes() -> None:
    """What `published` scoring leaves: one penalty, and no calibration."""
    answers = cell("surname")
    settings = Settings(scoring="published")
    found = floors.floors(answers, settings)
    own = found[found["floor"] == "question"]
    plan = fitting.design(answers, settings)
    assert list(found.columns) == list(floors.COLUMNS)
    assert own["id"].tolist() == answers["id"].tolist()
    assert np.array_equal(own["fold"], plan.fold)
    for k in range(5):
        train, z = plan.fold != k, plan.z
        learned, tested = features(answers["question"][train], answers["question"][~train])
        model = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(learned, z[train])
        share = z[train].mean()
        expected = model.decision_function(tested) - np.log(share / (1 - share))
        assert own["s"].to_numpy()[~train] == pytest.approx(expected, abs=0.05)


def features(learned: pd.Series, tested: pd.Series) -> list[np.ndarray]:
    """What a model of some texts knows of them and of others, written out."""
    known = {"binary": True, "min_df": 2}
    grams = CountVectorizer(analyzer="char", ngram_range=(1, 4), lowercase=False, **known)
    order = CountVectorizer(analyzer=floors.order_of_words, **known)
    for one in (grams, order):
        one.fit(learned)
    lengths = [np.log1p([[len(t), len(t.split())] for t in texts]) for texts in (learned, tested)]
    scaled = [(one - lengths[0].mean(0)) / lengths[0].std(0) for one in lengths]
    return [
        np.hstack([grams.transform(texts).toarray(), order.transform(texts).toarray(), one, one**2])
        for texts, one in zip((learned, tested), scaled, strict=True)
    ]


def test_labels_of_a_fold_have_no_say_in_its_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor in the penalty: all is chosen inside the training fold."""
    answers, settings = cell("word"), Settings(inner_folds=3, grid=[1e-3, 0.1, 10.0])
    plan = fitting.design(answers, settings)
    before = floors.floors(answers, settings)
    turned = replace(plan, z=np.where(plan.fold == 2, 1 - plan.z, plan.z))
    monkeypatch.setattr(fitting, "design", lambda *_: turned)  # labels have a say in the folds
    after = floors.floors(answers, settings)
    mine = before["fold"] == 2
    pd.testing.assert_frame_equal(before[mine], after[mine])
    assert (before["s"][~mine] != after["s"][~mine]).any()


def test_an_answer_of_weight_two_counts_as_two() -> None:
    answers = cell("word").iloc[:120]
    inner, z = np.arange(120) % 3, answers["label"].to_numpy()
    weights = np.random.default_rng(4).integers(0, 3, 120)
    grid = np.array([0.01, 1.0])
    weighted = floors.fit("response", answers, z, inner, grid, weights)
    rows = np.repeat(np.arange(120), weights)
    # Weights decide no vocabulary, so that of the rows drawn is given to both.
    parts = weighted.parts
    x = floors._features(parts, answers.iloc[rows])
    repeated = floors._regression(x, z[rows], inner[rows], grid, np.ones(len(rows)))
    assert weighted.c == repeated[2]
    again = floors.TextModel(parts, *repeated)
    assert np.allclose(weighted.logits(answers), again.logits(answers), atol=1e-2)

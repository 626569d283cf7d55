"""Contrasts: the knockout behind the own question beside the same behind the partner's."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import scores_of

from anchorscope.experiments import analysis
from anchorscope.experiments.knockout import contrasts
from anchorscope.experiments.knockout.contrasts import (
    NO,
    NOT_INTERPRETABLE,
    OWN,
    PUBLISHED,
    RANDOM,
    REPORTED,
    UNCLEAR,
    YES,
)

CUTS = ("knockout", "crossed-knockout", "random", "crossed-random", "question")


def cell(n: int = 120, seed: int = 0, **moved: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores at one layer, and answers in pairs of one label, two of each subject.

    Of each third sample, conditions take so much of the logit, and of the others nothing.
    """
    random = np.random.default_rng(seed)
    z, third = np.arange(n) // 2 % 2, np.arange(n) % 3 == 0
    ids = np.array([f"i{i:03}" for i in range(n)])
    s = {name: (2 * z - 1) * 2 + random.normal(size=n) * 0.3 for name in ("clean", "crossed")}
    for name in CUTS:
        uncut = s["crossed" if name.startswith("crossed") else "clean"]
        s[name] = uncut - np.where(third, moved.get(name, 0.0), 0.0) * np.sign(uncut)
    partner = np.arange(n).reshape(-1, 2)[:, ::-1].ravel()
    texts = {"id": ids, "question": ids, "subject": [f"s{i // 4 * 2 + i % 2}" for i in range(n)]}
    known = {"label": z, "random_complete": True, "crossed-random_complete": True}
    answers = pd.DataFrame(texts | known | {"crossed_partner": ids[partner]})
    return scores_of(s, ids), answers


def made(scores: pd.DataFrame, answers: pd.DataFrame, **settings: Any) -> pd.DataFrame:
    table = analysis.table(contrasts.contrasts, scores, answers, **{"draws": 100} | settings)
    assert table.empty or list(table.columns) == list(contrasts.CONTRASTS)
    return table.set_index(["contrast", "quantity"])


def test_the_own_question_is_set_against_the_partners_sample_by_sample() -> None:
    scores, answers = cell(knockout=4.0, question=4.0)
    scores.loc[(scores["condition"] == "crossed-knockout") & (scores["id"] == "i003"), "s"] *= -1
    found = made(scores, answers)
    wide = scores.pivot(index="id", columns="condition", values="s")
    sign = {name: np.where(wide[name] > 0, 1, -1) for name in ("clean", "crossed")}

    def points(name: str, uncut: str) -> np.ndarray:
        p, q = (1 / (1 + np.exp(-wide[one])) for one in (name, uncut))
        return (100 * sign[uncut] * (p - q)).to_numpy()

    own, crossed = points("knockout", "clean"), points("crossed-knockout", "crossed")
    row = found.loc[OWN, "delta_p"]
    assert row[["estimate", "under", "beside", "ceiling"]].tolist() == pytest.approx(
        [np.mean(own - crossed), own.mean(), crossed.mean(), points("question", "clean").mean()]
    )
    for quantity, label in (("logit_right", 0), ("logit_wrong", 1)):
        row, some = found.loc[OWN, quantity], (answers["label"] == label).to_numpy()
        under, beside = wide["clean"] - wide["knockout"], wide["crossed"] - wide["crossed-knockout"]
        expected = [some.sum(), under[some].mean(), beside[some].mean()]
        assert row[["n", "under", "beside"]].tolist() == pytest.approx(expected)
        assert row["estimate"] == pytest.approx((under - beside)[some].mean())
    row = found.loc[OWN, "share"]
    assert row[["under", "beside"]].tolist() == pytest.approx([100 / 3, 100 / 120])
    assert row["estimate"] == pytest.approx(100 / 3 - 100 / 120) and row["effect"] == YES
    assert set(found.index.get_level_values("contrast")) == {OWN, RANDOM, PUBLISHED}


def test_only_samples_under_both_conditions_with_complete_controls_count() -> None:
    scores, answers = cell(knockout=4.0)
    behind = scores["condition"].str.startswith("crossed")
    unswapped = answers["id"] < "i020"
    scores = scores[~behind | ~scores["id"].isin(answers["id"][unswapped])]
    answers = answers.assign(
        crossed_partner=answers["crossed_partner"].mask(unswapped),
        random_complete=np.arange(120) >= 30,
    )
    n = made(scores, answers)["n"].xs("share", level="quantity")
    assert n[[OWN, RANDOM, PUBLISHED]].tolist() == [100, 90, 90]


def test_draws_of_a_control_are_averaged_within_a_sample() -> None:
    scores, answers = cell(knockout=4.0, random=4.0)
    still = scores[scores["condition"] == "clean"].assign(condition="random", draw=1)
    found = made(pd.concat([scores, still]), answers).loc[PUBLISHED, "share"]
    assert found["beside"] == pytest.approx(100 / 6)
    assert found["estimate"] == pytest.approx(100 / 6)


@pytest.mark.parametrize(
    ("moved", "own", "random"),
    [
        ({"knockout": 4.0, "question": 4.0}, YES, NO),
        ({"knockout": 4.0, "crossed-knockout": 4.0, "question": 4.0}, NO, NO),
        ({"knockout": 4.0, "crossed-knockout": 4.0, "random": 4.0, "question": 4.0}, NO, YES),
        # nothing is small beside a ceiling of nothing
        ({}, UNCLEAR, UNCLEAR),
    ],
)
def test_an_effect_is_judged_by_a_quarter_of_the_ceilings(
    moved: dict[str, float], own: str, random: str
) -> None:
    found = made(*cell(240, **moved))["effect"]
    assert [*found[OWN], *found[RANDOM]] == [own] * 4 + [random] * 4
    assert set(found[PUBLISHED]) == {REPORTED}


def test_no_effect_is_not_said_without_the_ceiling() -> None:
    scores, answers = cell(240, knockout=4.0)
    found = made(scores[scores["condition"] != "question"], answers)
    assert found["ceiling"].isna().all() and set(found.loc[RANDOM, "effect"]) == {UNCLEAR}
    assert set(found.loc[OWN, "effect"]) == {YES}


def test_nothing_is_told_without_a_signal_but_what_is_reported() -> None:
    scores, answers = cell(knockout=4.0, question=4.0)
    told = answers[["id"]].assign(floor="question", s=1.0 * answers["label"])
    found = made(scores, answers, floors=told)
    assert not found["signal"].any()
    assert set(found.loc[[OWN, RANDOM], "effect"].to_numpy()) == {NOT_INTERPRETABLE}
    assert set(found.loc[PUBLISHED, "effect"]) == {REPORTED}


@pytest.mark.parametrize(("n", "enough"), [(16, False), (60, False), (240, True)])
def test_no_effect_is_not_said_of_few_samples_that_all_stay(n: int, enough: bool) -> None:
    scores, answers = cell(n, knockout=4.0, question=4.0)
    found = made(pd.concat([scores, scores.assign(layer=1)]), answers)
    found = found[found["layer"] == 0]
    stays = found.loc[RANDOM, "share"]
    assert stays["estimate"] == 0 and stays["n"] == n
    assert stays["effect"] == (NO if enough else UNCLEAR)
    clusters = n / 4
    assert stays["ci90_high"] == pytest.approx(100 * 2.7055 / (clusters + 2.7055), 1e-3)
    assert stays["ci90_low"] == -stays["ci90_high"]
    assert stays["band_high"] > stays["ci_high"]
    if n < 20:  # as little is said of what moves
        assert found.loc[OWN, "share"]["effect"] == UNCLEAR


def test_clusters_hold_all_samples_that_pairs_and_subjects_link() -> None:
    scores, answers = cell(120, knockout=4.0)
    # four samples are two pairs of the same two subjects; what crosses nothing knows subjects only
    found = made(scores, answers).query("quantity == 'share'")
    n = found["n_clusters"]
    assert (n[OWN] == 30).all() and (n[PUBLISHED] == 60).all()
    one = answers.assign(subject="one")
    found = made(scores, one).loc[OWN, "share"]
    assert found["n_clusters"] == 1 and found["effect"] == UNCLEAR


def test_without_a_complete_control_contrasts_are_blank_and_without_control_absent() -> None:
    scores, answers = cell(knockout=4.0)
    blank = made(scores, answers.assign(random_complete=False)).loc[[RANDOM, PUBLISHED]]
    assert (blank["n"] == 0).all()
    assert blank[["estimate", "ci_low", "ci90_high", "band_low"]].isna().all(axis=None)
    assert set(blank["effect"]) == {UNCLEAR, REPORTED}
    alone = scores[scores["condition"].isin(["clean", "knockout", "question"])]
    absent = analysis.table(contrasts.contrasts, alone, answers, draws=2)
    assert absent.empty and list(absent.columns) == list(contrasts.CONTRASTS)

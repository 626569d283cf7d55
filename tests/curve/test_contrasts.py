"""Contrasts: the knockout beside as many random tokens, sample by sample."""

import numpy as np
import pandas as pd
import pytest
from handmade import scores_of, without

from anchorscope.curve import controls
from anchorscope.curve.controls import RANDOM_CONTRAST
from anchorscope.statistics import analysis
from anchorscope.statistics.scores import Scores

NAMES = ("clean", "knockout", "random")


def cell(n: int = 120, layers: int = 1, **moved: float) -> tuple[Scores, pd.DataFrame]:
    """Scores, the same at each layer, and answers in pairs of one label, two of each subject.

    Of each third sample, conditions take so much of the logit, and of the others nothing.
    """
    random = np.random.default_rng(0)
    z, third = np.arange(n) // 2 % 2, np.arange(n) % 3 == 0
    ids = np.array([f"i{i:03}" for i in range(n)])
    clean = (2 * z - 1) * 2 + random.normal(size=n) * 0.3
    s = {"clean": clean}
    for name in ("knockout", "random"):
        s[name] = clean - np.where(third, moved.get(name, 0.0), 0.0) * np.sign(clean)
    texts = {"id": ids, "question": ids, "subject": [f"s{i // 4 * 2 + i % 2}" for i in range(n)]}
    known = {"label": z, "random_complete": True}
    by_layer = {name: [of] * layers for name, of in s.items()}
    return scores_of(by_layer, ids), pd.DataFrame(texts | known)


def made(scores: Scores, answers: pd.DataFrame) -> pd.DataFrame:
    return analysis.cell_table(controls.contrasts, scores, answers, draws=100).set_index("quantity")


def test_the_knockout_is_set_against_random_tokens_sample_by_sample() -> None:
    scores, answers = cell(knockout=4.0, random=1.0)
    scores.probes["mlp/final/random/0"][..., 3] *= -1
    found = made(scores, answers)
    assert found.index.tolist() == ["share", "delta_p"]
    assert set(found["contrast"]) == {RANDOM_CONTRAST} == {"knockout-random"}
    wide = {name: scores.probes[f"mlp/final/{name}/0"][0, 0].astype(float) for name in NAMES}

    def points(name: str) -> np.ndarray:
        p, q = (1 / (1 + np.exp(-wide[one])) for one in (name, "clean"))
        return 100 * np.where(wide["clean"] > 0, 1, -1) * (p - q)

    under, beside = points("knockout"), points("random")
    row = found.loc["delta_p"]
    assert row[["estimate", "under", "beside"]].tolist() == pytest.approx(
        [np.mean(under - beside), under.mean(), beside.mean()]
    )
    row = found.loc["share"]
    assert row[["under", "beside"]].tolist() == pytest.approx([100 / 3, 100 / 120])
    assert row["estimate"] == pytest.approx(100 / 3 - 100 / 120)
    assert 0 < row["ci_low"] < row["estimate"] < row["ci_high"]


@pytest.mark.parametrize("n", [16, 60, 240])
def test_of_samples_that_all_stay_the_interval_says_how_many_might_have_moved(n: int) -> None:
    scores, answers = cell(n, layers=2)
    found = made(scores, answers).iloc[0]
    assert found["estimate"] == 0 and found["n"] == n
    clusters = n / 2
    assert found["ci_high"] == pytest.approx(100 * 3.8415 / (clusters + 3.8415), 1e-3)
    assert found["ci_low"] == -found["ci_high"]


def test_without_a_complete_control_contrasts_are_blank_and_without_control_absent() -> None:
    scores, answers = cell(knockout=4.0)
    blank = made(scores, answers.assign(random_complete=False))
    assert (blank["n"] == 0).all()
    assert blank[["estimate", "ci_low", "ci_high"]].isna().all(axis=None)
    assert made(without(scores, "random"), answers).empty

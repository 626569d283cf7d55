"""Strength: whether a probe predicts at a layer, and the signal of a read-out as a whole."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from handmade import scores_of
from scipy import stats

from anchorscope.statistics import samples, strength
from anchorscope.statistics.analysis import Analysis

N = 200
RANDOM = np.random.default_rng(0)
Z = RANDOM.integers(0, 2, N)
TEXTS = {"id": [f"i{i:03}" for i in range(N)], "question": [f"q{i}" for i in range(N)]}
ANSWERS = pd.DataFrame({**TEXTS, "label": Z})
DRAWN = samples.bootstrap(ANSWERS, 400, 0)


def scores(told: float) -> np.ndarray:
    return told * (2 * Z - 1) + RANDOM.normal(size=N)


Floors = dict[str, np.ndarray]


def floors(**told: float) -> Floors:
    return {name: scores(t)[None] for name, t in told.items()}


def predictions(
    s: np.ndarray, floors: Floors | None = None, position: str = "final"
) -> strength.Predictions:
    return strength.Predictions(s[None], strength.applying(position, floors or {}), Z, DRAWN)


def found_of(
    s: np.ndarray, floors: Floors | None = None, position: str = "final"
) -> dict[str, np.ndarray]:
    return strength.by_layer(predictions(s, floors, position), 0.95)


def gain_of(s: np.ndarray, floors: Floors | None = None) -> strength.Gain:
    return strength.over_text(predictions(s, floors), 0.95)


def test_a_probe_predicts_where_its_auc_is_surely_above_the_least_whatever_texts_tell() -> None:
    clean = np.stack([scores(0.0), scores(0.5), scores(2.0)])
    low = floors(answer=0.0, question=0.1, response=0.0, text=0.0)
    high = floors(answer=0.0, question=0.0, response=2.0, text=0.0)
    for of_text in (None, low, high):
        found = found_of(clean, of_text)
        assert found["predicts"].tolist() == [False, True, True]
        assert found["predicts"].tolist() == (found["auc_low"] > 0.6).tolist()
    assert found["floor"].tolist() == ["response"] * 3
    assert (found["gain"] == found["probe_auc"] - found["floor_auc"]).all()
    assert (found["gain_low"] < found["gain"]).all() and (found["gain"] < found["gain_high"]).all()


def test_a_text_model_below_one_half_counts_as_one_half() -> None:
    s = scores(0.9)[None]
    turned, even = floors(text=-2.0), {"text": np.zeros((1, N))}
    found, expected = found_of(s, turned), found_of(s, even)
    assert found["floor_auc"] < 0.2
    for name in ("gain", "gain_low"):
        assert found[name] == pytest.approx(expected[name])
    one, other = (gain_of(s, of).estimate for of in (turned, even))
    assert (one.value, one.p) == pytest.approx((other.value, other.p))


def test_training_makes_a_gain_uncertain() -> None:
    """The interval is stretched by how much more the gain varies with models learned anew."""
    clean = np.stack([scores(0.9), scores(2.0)])
    of_text = floors(answer=0.0, text=0.4)
    learned_from = samples.bootstrap(ANSWERS, 20, 1)

    def again(noise: float | None) -> strength.Predictions:
        """Models that a draw turns by chance, the floor and the probe of a layer alike."""
        fitted = predictions(clean, of_text)
        if noise is None:
            return fitted
        random = np.random.default_rng(2)
        told = random.normal(size=(20, 1, 1)) * noise * (2 * Z - 1)
        texts = {name: np.tile(one, (21, 1)) for name, one in of_text.items()}
        s = np.stack([clean, *(clean + told)])
        return replace(fitted, s=s, texts=texts, learned_from=learned_from)

    given = [again(noise) for noise in (None, 0.0, 0.5)]
    fixed, same, unsure = (strength.by_layer(one, 0.95) for one in given)
    for name in ("gain", "gain_low", "gain_high"):
        assert same[name] == pytest.approx(fixed[name])
    assert (fixed["gain_low"] > 0).all() and (unsure["gain_low"] > 0).tolist() == [False, True]
    assert unsure["gain"][0] == pytest.approx(fixed["gain"][0])
    assert (unsure["gain_low"] < fixed["gain_low"] - 0.05)[0]
    before, after = (
        strength.over_text(replace(one, s=one.s[:, :1]), 0.95).estimate for one in given[::2]
    )
    assert after.value == pytest.approx(before.value)
    assert after.error > 1.3 * before.error and after.p > before.p


@pytest.mark.parametrize(
    ("told", "known", "hardest"),
    [
        (0.0, {"answer": 0.0, "text": 0.0}, "0.6"),
        (0.5, {"answer": 0.1, "text": 2.0}, "text"),
        (0.9, {}, "0.6"),
    ],
)
def test_the_margin_above_what_is_hardest_to_beat_has_students_interval_and_the_bootstraps_error(
    told: float, known: dict[str, float], hardest: str
) -> None:
    s, of_text = scores(told), {name: scores(one) for name, one in known.items()}
    found = gain_of(s[None], {name: one[None] for name, one in of_text.items()})
    freedom = DRAWN.weights.shape[1] - 1
    margins = {"0.6": DRAWN.aucs(s[None], Z)[:, 0] - 0.6}
    for name, one in of_text.items():
        own, other = (DRAWN.aucs(each[None], Z)[:, 0] for each in (s, one))
        margins[name] = own - np.maximum(other, 0.5)
    above_0 = {name: stats.t.sf(one[0] / one[1:].std(), freedom) for name, one in margins.items()}
    assert hardest == max(above_0, key=lambda name: above_0[name])
    assert found.over == (hardest if hardest == "0.6" else f"the text model `{hardest}`")
    assert found.estimate.p == pytest.approx(min(1, 2 * above_0[hardest]))
    value, error = margins[hardest][0], margins[hardest][1:].std()
    assert (found.estimate.value, found.estimate.error) == pytest.approx((value, error))
    ends = stats.t.interval(0.95, freedom, loc=value, scale=error)
    assert (found.estimate.low, found.estimate.high) == pytest.approx(ends)


def test_the_cell_has_a_signal_where_p_of_the_margin_is_below_what_the_level_leaves() -> None:
    for told in (0.1, 0.3, 0.5, 1.0):
        made = scores_of({"clean": scores(told)}, TEXTS["id"])
        for level in (0.5, 0.95):
            found = Analysis(made.readout("mlp/final"), ANSWERS, DRAWN, made, level=level)
            estimate = found.over_text.estimate
            assert found.signal == (estimate.p < 1 - level) == (estimate.low > 0)


def test_before_the_answer_is_read_only_the_question_counts() -> None:
    clean = np.stack([scores(1.0)])
    told = floors(answer=3.0, question=0.0, response=3.0, text=3.0)
    found = found_of(clean, told, "prompt_end")
    assert found["predicts"][0] and found["floor"][0] == "question"


def test_each_fold_chooses_the_deepest_layer_within_a_hundredth_of_its_best() -> None:
    inner = np.array([[0.5, 0.9], [0.905, 0.6], [0.9, 0.6], [0.896, 0.6], [0.89, 0.6]])
    assert samples.layer_of_fold(inner).tolist() == [3, 0]
    assert samples.median_layer(np.array([3, 0])) == 1
    assert samples.deepest_layer(np.array([np.nan, np.nan])) == 1


def test_the_scores_tell_which_layer_each_fold_chose() -> None:
    inner, clean = np.array([[0.6, 0.9], [0.7, 0.7]]), [scores(1.0), scores(1.0)]
    made = scores_of({"clean": clean}, TEXTS["id"], fold=np.arange(N) % 2, inner_auc=inner)
    found = made.readout("mlp/final")
    assert found.layer_of_fold.tolist() == [1, 0]
    assert found.headline == 0 and made.headlines == {"mlp/final": 0}

"""Strength: whether a probe predicts at a layer, and the signal of a read-out as a whole."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from anchorscope.experiments.analysis import Analysis
from anchorscope.experiments.scored import headlines
from anchorscope.probes import samples, strength
from anchorscope.probes.samples import Readout
from anchorscope.storage.errors import AnchorscopeError

N = 200
RANDOM = np.random.default_rng(0)
Z = RANDOM.integers(0, 2, N)
TEXTS = {"id": [f"i{i:03}" for i in range(N)], "question": [f"q{i}" for i in range(N)]}
ANSWERS = pd.DataFrame({**TEXTS, "label": Z})
DRAWN = samples.bootstrap(ANSWERS, 400, 0)


def scores(told: float) -> np.ndarray:
    return told * (2 * Z - 1) + RANDOM.normal(size=N)


def floors(**told: float) -> pd.DataFrame:
    frames = [ANSWERS[["id"]].assign(floor=name, s=scores(t)) for name, t in told.items()]
    return pd.concat(frames)


def found_of(
    s: np.ndarray, floors: pd.DataFrame | None = None, position: str = "final"
) -> strength.Strength:
    return strength.of_scores(s, position, ANSWERS, floors, DRAWN, 0.95)


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
    turned, even = floors(text=-2.0), floors(text=0.0)
    found, expected = found_of(s, turned), found_of(s, even.assign(s=0.0))
    assert found["floor_auc"] < 0.2
    for name in ("gain", "gain_low", "margin", "margin_p"):
        assert found[name] == pytest.approx(expected[name])


def test_training_makes_a_gain_uncertain() -> None:
    """The interval is stretched by how much more the gain varies with models learned anew."""
    clean = np.stack([scores(0.9), scores(2.0)])
    of_text = floors(answer=0.0, text=0.4)
    by_floor = strength.scores(of_text, ANSWERS)
    learned_from = samples.bootstrap(ANSWERS, 20, 1)

    def again(noise: float) -> strength.Again:
        """Models that a draw turns by chance, the floor and the probe of a layer alike."""
        random = np.random.default_rng(2)
        told = random.normal(size=(20, 1, 1)) * noise * (2 * Z - 1)
        s = clean + told
        return strength.Again(
            learned_from, s, {name: np.tile(one, (20, 1)) for name, one in by_floor.items()}
        )

    def found(given: strength.Again | None) -> strength.Strength:
        return strength.of_scores(clean, "final", ANSWERS, of_text, DRAWN, 0.95, given)

    fixed, same, unsure = found(None), found(again(0.0)), found(again(0.5))
    for name in ("gain", "gain_low", "gain_high"):
        assert same[name] == pytest.approx(fixed[name])
    assert (fixed["gain_low"] > 0).all() and (unsure["gain_low"] > 0).tolist() == [False, True]
    assert unsure["gain"][0] == pytest.approx(fixed["gain"][0])
    assert (unsure["gain_low"] < fixed["gain_low"] - 0.05)[0]
    assert unsure["margin"][0] == pytest.approx(fixed["margin"][0])
    assert (unsure["margin_error"] > 1.3 * fixed["margin_error"])[0]
    assert (unsure["margin_p"] > fixed["margin_p"])[0]


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
    tables = [ANSWERS[["id"]].assign(floor=name, s=one) for name, one in of_text.items()]
    table = pd.concat(tables) if tables else None
    found = {name: values[0] for name, values in found_of(s[None], table).items()}
    freedom = DRAWN.weights.shape[1] - 1
    margins = {"0.6": DRAWN.aucs(s[None], Z)[:, 0] - 0.6}
    for name, one in of_text.items():
        own, other = (DRAWN.aucs(each[None], Z)[:, 0] for each in (s, one))
        margins[name] = own - np.maximum(other, 0.5)
    above_0 = {name: stats.t.sf(one[0] / one[1:].std(), freedom) for name, one in margins.items()}
    assert found["hardest"] == hardest == max(above_0, key=lambda name: above_0[name])
    assert found["margin_p"] == pytest.approx(min(1, 2 * above_0[hardest]))
    value, error = margins[hardest][0], margins[hardest][1:].std()
    assert (found["margin"], found["margin_error"]) == pytest.approx((value, error))
    ends = stats.t.interval(0.95, freedom, loc=value, scale=error)
    assert (found["margin_low"], found["margin_high"]) == pytest.approx(ends)


def test_the_cell_has_a_signal_where_p_of_the_margin_is_below_what_the_level_leaves() -> None:
    fold = np.zeros(N, dtype=np.int64)
    for told in (0.1, 0.3, 0.5, 1.0):
        readout = Readout("mlp", "final", scores(told)[None], fold, np.array([0]), {}, None)
        for level in (0.5, 0.95):
            found = Analysis(readout, ANSWERS, DRAWN, level=level).cell_strength
            assert found["signal"].tolist() == (found["margin_p"] < 1 - level).tolist()
            assert (found["signal"] == (found["margin_low"] > 0)).all()


def test_before_the_answer_is_read_only_the_question_counts() -> None:
    clean = np.stack([scores(1.0)])
    told = floors(answer=3.0, question=0.0, response=3.0, text=3.0)
    found = found_of(clean, told, "prompt_end")
    assert found["predicts"][0] and found["floor"][0] == "question"
    assert found["hardest"][0] in ("question", "0.6")
    with pytest.raises(AnchorscopeError, match="199 rows do not match those of 200 samples"):
        found_of(clean, told[1:])


def test_each_fold_chooses_the_deepest_layer_within_a_hundredth_of_its_best() -> None:
    inner = np.array([[0.5, 0.9], [0.905, 0.6], [0.9, 0.6], [0.896, 0.6], [0.89, 0.6]])
    assert samples.layer_of_fold(inner).tolist() == [3, 0]
    assert samples.median_layer(np.array([3, 0])) == 1
    assert samples.deepest_layer(np.array([np.nan, np.nan])) == 1


def test_the_scores_tell_which_layer_each_fold_chose() -> None:
    fold = np.arange(N) % 2
    at = {"id": np.tile(ANSWERS["id"], 2), "layer": np.repeat([0, 1], N), "fold": np.tile(fold, 2)}
    fixed = {"readout": "mlp/final", "condition": "clean", "draw": 0, "probe": "clean"}
    inner = np.r_[np.where(fold, 0.9, 0.6), np.full(N, 0.7)]
    clean = pd.DataFrame(at | fixed | {"inner_auc": inner, "s": np.r_[scores(1.0), scores(1.0)]})
    found = next(samples.readouts(clean, ANSWERS))
    assert found.layer_of_fold.tolist() == [1, 0]
    assert found.headline == 0 and headlines(clean, ANSWERS) == {"mlp/final": 0}
    # without inner folds: by the samples outside each fold
    bare = next(samples.readouts(clean.assign(inner_auc=np.nan), ANSWERS))
    for k in (0, 1):
        aucs = [roc_auc_score(Z[fold != k], s[fold != k]) for s in bare.clean]
        assert bare.layer_of_fold[k] == samples.deepest_layer(np.array(aucs))

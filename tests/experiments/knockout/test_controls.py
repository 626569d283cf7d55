"""Controls and densities on small cells worked out by hand, and against slow oracles."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import FLOORS, scores_of
from scipy.stats import gaussian_kde

from anchorscope.experiments import analysis
from anchorscope.experiments.knockout import cell_tables, controls, curve
from anchorscope.probes import platt, samples
from anchorscope.probes.bands import Draws
from anchorscope.probes.intervals import auc
from anchorscope.storage.errors import AnchorscopeError

N = 80
IDS = [f"i{i:02}" for i in range(N)]
FOLD = np.arange(N) // 2 % 5
SEED = 3


def sigmoid(s: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(s)))


def rows(probe: str = "clean", **s: np.ndarray) -> pd.DataFrame:
    """Scores by condition, [layers, n], in five folds."""
    return scores_of(s, IDS, fold=FOLD, probe=probe)


def simulated() -> dict[str, np.ndarray]:
    """Scores of a cell at two layers, float64 [layers, samples]; the knockout moves a third."""
    random = np.random.default_rng(0)
    clean = (2 * LABELS - 1) * np.array([[0.3], [1.5]]) + random.normal(size=(2, N))
    third = np.arange(N) // 2 % 3 == 0
    knockout = clean - np.where(third, 2.5, 0.2) * np.sign(clean)
    found = {"clean": clean, "knockout": knockout, "question": knockout - 0.5}
    found |= {"random": clean + random.normal(size=(2, N)) * 0.5, "noop": clean + 1e-4}
    found["noop"][:, 10:] = np.nan  # not measured
    found |= {"crossed": clean + random.normal(size=(2, N))}
    found |= {"crossed-knockout": found["crossed"] - 2.0, "rest": clean * 0.4 - 0.6}
    found |= {"crossed-rest": found["crossed"] - 0.3}
    return found | {("random", 1): clean + random.normal(size=(2, N)) * 0.5}


LABELS = np.random.default_rng(1).integers(0, 2, N)
S = simulated()
OTHERS = {
    ("refit", "knockout"): S["clean"] * 0.5,
    ("offset", "knockout"): S["knockout"] + 0.7,
    ("shuffled", "clean"): S["clean"][:, ::-1],
}


def scores() -> pd.DataFrame:
    others = [rows(probe, **{condition: s}) for (probe, condition), s in OTHERS.items()]
    return pd.concat([scores_of(S, IDS, fold=FOLD, probe="clean"), *others], ignore_index=True)


def answers() -> pd.DataFrame:
    subjects = [f"s{i // 2}" for i in range(N)]
    columns = {"id": IDS, "question": IDS, "subject": subjects, "label": LABELS}
    columns |= {"random_complete": True, "crossed_partner": np.roll(IDS, N // 2)}
    return pd.DataFrame(columns)


def floors() -> pd.DataFrame:
    random = np.random.default_rng(2)
    s = [random.normal(size=N) + 0.4 * LABELS for _ in FLOORS]
    return pd.concat(
        [
            pd.DataFrame({"id": IDS, "floor": name, "s": of})
            for name, of in zip(FLOORS, s, strict=True)
        ]
    )


def table(*, balanced: bool = True, **changed: Any) -> pd.DataFrame:
    given = {"scores": scores(), "floors": floors(), "answers": answers()} | changed
    own = {"scores": given["scores"], "scored_ids": np.array(IDS), "balanced": balanced}
    return analysis.table(partial(controls.controls, **own), **given, draws=60, seed=SEED)


def test_columns_and_rows_are_those_of_the_contract() -> None:
    found = table()
    assert list(found.columns) == list(controls.columns())
    assert found["layer"].tolist() == [0, 1] and found["headline"].tolist() == [False, True]
    assert found["auc_low"][1] > 0.6 > found["auc_low"][0]
    assert found["signal"].tolist() == [False, True] and found["cell_signal"].all()
    telling = floors().assign(s=np.tile(1.0 * LABELS, 4))
    assert not table(floors=telling)[["signal", "cell_signal"]].any(axis=None)
    assert (found["n"] == 80).all()
    assert (found["share_wrong"] == LABELS.mean()).all()
    before = [name for name in found if name.startswith(("prompt_end", "added"))]
    assert found[before].isna().all(axis=None)
    assert not found.drop(columns=before).isna().any(axis=None)


def test_aucs_are_of_the_probe_and_condition_that_they_name() -> None:
    found = table()
    for layer in range(2):
        row = found.iloc[layer]
        assert row["auc_knockout"] == auc(S["knockout"][layer], LABELS)
        assert row["probe_auc"] == row["auc_refit"] == auc(S["clean"][layer], LABELS)
        for name, part in floors().groupby("floor"):
            assert row[f"{name}_auc"] == auc(part["s"].to_numpy(), LABELS)
    dealt = samples.shuffled(LABELS, SEED)
    assert (dealt != LABELS).any()
    assert found["auc_shuffled"].tolist() == [auc(s, dealt) for s in OTHERS["shuffled", "clean"]]
    for name in ("auc", "auc_shuffled"):
        at = found["probe_auc" if name == "auc" else name]
        assert at.between(found[f"{name}_low"], found[f"{name}_high"], inclusive="neither").all()


def test_flips_are_counted_by_hand() -> None:
    found = table()
    wrong = S["clean"] > 0

    def share(s: np.ndarray) -> list[float]:
        return ((s > 0) != wrong).mean(1).tolist()

    assert found["flip_share"].tolist() == share(S["knockout"])
    for name in ("question", "rest"):
        assert found[f"{name}_flip_share"].tolist() == share(S[name])
        assert max(share(S[name])) > 0
    assert found["offset_flip_share"].tolist() == share(OTHERS["offset", "knockout"])
    draws = np.mean([share(S["random"]), share(S["random", 1])], axis=0)
    assert found["random_flip_share"].to_numpy() == pytest.approx(draws)
    for name in ("crossed-knockout", "crossed-rest"):
        turned = (S[name] > 0) != (S["crossed"] > 0)
        assert found[f"{name}_flip_share"].tolist() == turned.mean(1).tolist()


def test_flips_with_every_question_token_cut_are_held_against_the_knockout_sample_by_sample() -> (
    None
):
    found = table()
    for layer in range(2):
        flips = {
            name: ((S[name][layer] > 0) != (S["clean"][layer] > 0)).tolist()
            for name in ("question", "knockout")
        }
        pairs = list(zip(flips["question"], flips["knockout"], strict=True))
        alone, other = pairs.count((True, False)) / N, pairs.count((False, True)) / N
        row = found.iloc[layer]
        assert alone > 0 and row["question_only"] == pytest.approx(alone)
        assert row["question_more"] == pytest.approx(alone - other)
        for name in ("question_only", "question_more"):
            assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
    without = scores()[lambda frame: frame["condition"] != "question"]
    assert table(scores=without)[["question_only", "question_more_low"]].isna().all(axis=None)


def test_depths_are_those_of_the_curve() -> None:
    found = table()
    depths = analysis.table(curve.curve, scores(), answers(), draws=2)
    depths = depths[depths["anchor"] == "Q"]
    expected = depths[depths["condition"] == "knockout"]["delta_p"].to_numpy()
    assert found["delta_p_q"].to_numpy() == pytest.approx(expected)
    floor = 100 * np.abs(sigmoid(S["noop"]) - sigmoid(S["clean"]))[:, :10].max(1)
    assert found["noise_floor"].to_numpy() == pytest.approx(floor)


def test_the_permutation_null_is_that_of_a_slow_loop_over_other_permutations() -> None:
    # two runs of 100 permutations differ; their means agree within four standard errors
    found = table()
    random = np.random.default_rng(99)
    for layer in range(2):
        clean, moved = S["clean"][layer], S["knockout"][layer]
        sign = np.sign(clean)
        shares = []
        for _ in range(100):
            s = clean + sign * random.permutation(sign * (moved - clean))
            flips = [i for i in range(N) if (s[i] > 0) != (clean[i] > 0)]
            shares.append(len(flips) / N)
        error = np.sqrt(2) * np.std(shares) / 10
        assert abs(found["null_share"][layer] - np.mean(shares)) < 4 * error


def test_the_calibration_error_is_that_of_a_slow_loop() -> None:
    random = np.random.default_rng(4)
    p = np.append(random.random(200), [0.0, 1.0])
    z = (random.random(202) < p**2).astype(float)
    slow = 0.0
    for low in range(10):
        inside = [i for i in range(202) if min(int(p[i] * 10), 9) == low]
        slow += len(inside) / 202 * abs(np.mean(z[inside]) - np.mean(p[inside]))
    assert platt.ece(p, z, np.ones((1, len(z))))[0] == pytest.approx(slow)
    assert slow > 0.05


def test_calibration_is_judged_at_the_natural_prior() -> None:
    share = np.array([LABELS[k != FOLD].mean() for k in FOLD])
    odds = np.log(share / (1 - share))
    for balanced in (True, False):
        once = np.ones((1, len(LABELS)))
        p = [sigmoid(s + balanced * odds) for s in S["clean"]]
        expected = [platt.ece(of_layer, LABELS, once)[0] for of_layer in p]
        assert table(balanced=balanced)["ece"].to_numpy() == pytest.approx(expected)


def test_what_the_answer_adds_is_told_beside_the_same_site_at_the_prompts_end() -> None:
    for earlier in (0.2 * S["clean"], S["random"]):
        whole = pd.concat([scores(), rows(clean=earlier).assign(readout="mlp/prompt_end")])
        found = table(scores=whole).set_index(["position", "layer"])
        after = found.loc["final"]
        aucs = [auc(s, LABELS) for s in earlier]
        assert after["prompt_end_auc"].tolist() == aucs
        assert after["added_auc"].tolist() == (after["probe_auc"] - aucs).tolist()
        # unpaired, the interval would be wider; of a probe that orders alike there is none
        first = after.iloc[0]
        added, end = (first[f"{x}_high"] - first[f"{x}_low"] for x in ("added", "prompt_end"))
        assert added < 0.7 * end and (added == 0) == (first["added_auc"] == 0)
    assert found.loc["prompt_end", "added_auc"].isna().all()
    assert found.loc["prompt_end", "floor"].eq("question").all()


def test_what_was_not_measured_is_blank() -> None:
    found = table(scores=rows(clean=S["clean"]), floors=None)
    measured = found.columns[found.notna().all()]
    expected = "site position layer n share_wrong headline probe_auc auc_low auc_high"
    more = "ece signal floor cell_signal cell_auc cell_low cell_high cell_floor"
    assert list(measured) == [*expected.split(), *more.split()]


def test_densities_are_kernels_over_what_both_conditions_span() -> None:
    found = analysis.table(controls.density, scores(), answers())
    assert list(found.columns) == list(controls.DENSITY) and (found["layer"] == 1).all()
    sign = np.sign(S["clean"][1])
    own, *both = (sign * (S[x] - S["clean"])[1] for x in ("knockout", "random", ("random", 1)))
    moved = {"knockout": own, "random": np.concatenate(both)}
    x = np.linspace(*np.quantile(np.concatenate(list(moved.values())), [0.01, 0.99]), 101)
    for name, values in moved.items():
        part = found[found["condition"] == name]
        quartiles = np.quantile(values, [0.25, 0.75])
        spread = min(np.std(values), (quartiles[1] - quartiles[0]) / 1.34)
        width = max(0.9 * spread * len(values) ** -0.2, x[1] - x[0])
        kernel = gaussian_kde(values, width / np.std(values, ddof=1))
        assert part["x"].to_numpy() == pytest.approx(x)
        assert part["density"].to_numpy() == pytest.approx(kernel(x))
    still = rows(clean=S["clean"], knockout=S["clean"])
    found = analysis.table(controls.density, still, answers())
    assert np.trapezoid(found["density"], found["x"]) == pytest.approx(1, abs=0.05)
    assert analysis.table(controls.density, rows(clean=S["clean"]), answers()).empty


def test_the_order_of_rows_changes_no_digit_of_any_table() -> None:
    refits = Draws(np.array(IDS, dtype=object), np.zeros((0, N), dtype=np.int64))

    def made(*given: pd.DataFrame) -> dict[str, pd.DataFrame]:
        probe = {"scoring": "calibrated", "prior": "balanced"}
        bootstrap = {"draws": 20, "min_n": 5}
        return cell_tables.tables(*given, refits, probe=probe, bootstrap=bootstrap, seed=SEED)

    whole = scores()
    given = answers().assign(partner_source="relations", ea_text="x", frame="f")
    expected = made(whole, floors(), given)
    found = made(whole.sample(frac=1, random_state=0), floors()[::-1], given[::-1])
    for name, table in expected.items():
        assert table.notna().any(axis=None), name
        pd.testing.assert_frame_equal(found[name], table, check_exact=True)


def test_scores_of_other_samples_than_the_answers_are_refused() -> None:
    strangers = partial(controls.controls, scores=scores(), scored_ids=np.array(IDS[1:]))
    with pytest.raises(AnchorscopeError, match="80 rows are not those of 79 samples"):
        analysis.table(partial(strangers, balanced=True), scores(), answers(), draws=2)

"""The numbers of a small cell stay those of tests/data/cell.

Run as a script, this stores today's; say in CHANGELOG.md why they moved. `noop` and published
scoring are not in it.
"""

from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from handmade import joined, score

from anchorscope.cell import tables as experiment_tables
from anchorscope.curve import controls, per_sample
from anchorscope.probes import fitting, floors, scoring
from anchorscope.probes.fitting import ProbeSettings
from anchorscope.statistics.intervals import auc
from anchorscope.statistics.scores import Scores
from anchorscope.storage import files

STORED = Path(__file__).parents[1] / "data" / "cell"
SETTINGS = ProbeSettings(folds=3, inner_folds=3, refits=6, grid=[0.01, 1.0])
BOOTSTRAP = {"draws": 50, "level": 0.95, "min_n": 10, "min_clusters": 5}
N = 60
MEASURED = (
    "knockout", "random", "rest", "question", "crossed", "crossed-knockout", "crossed-rest", "gold",
    "crossed-gold",
)  # fmt: skip
PASSES = [(name, draw) for name in MEASURED for draw in range(1 + (name == "random"))]


def answers():
    """Half of the samples need their question; partners are of one label and fold."""
    each, random = np.arange(N), np.random.default_rng(0)
    texts = {"id": [f"a{i:02}" for i in each], "subject": [f"s{i // 2}" for i in each]}
    said = {
        name: [f"{name} {i % k}" for i in each] for name, k in (("ea_text", 14), ("response", 9))
    }
    known = {"question": [f"q{i} {'long ' * (i % 5)}" for i in each], "relation": each % 2}
    found = pd.DataFrame(texts | said | known).astype({"relation": str})
    found["label"], found["popularity"] = random.integers(0, 2, N), random.integers(1, 99, N)
    found["ea_logprob"] = -1.0 - each % 5
    found["crossed_partner"] = None
    fold = fitting.design(found, SETTINGS).fold
    for _, ids in found.groupby([fold, "label"])["id"]:
        half = len(ids) // 2
        one, other = ids.iloc[:half], ids.iloc[half : 2 * half]
        found.loc[one.index, "crossed_partner"] = other.tolist()
        found.loc[other.index, "crossed_partner"] = one.tolist()
    found["random_complete"] = each % 10 > 0
    found["golds"] = [[f"gold {i % 13}"] for i in each]
    found["frame"] = [f"f{i % 3}" for i in each]
    for name in ("clean", "crossed", "gold", "crossed-gold"):
        found[f"logprob_{name}"] = random.normal(-8, 2, N)
    return found.assign(dropped=None, partner_source="relations", n_blocked_knockout=2)


def activations(readout, condition, draw):
    """Rows and features [2, N, 8]: the label, which a cut hides in part."""
    table, random = answers(), np.random.default_rng(len(readout))
    noise = random.normal(size=(2, N, 8))
    if condition != "clean":  # what any other pass moves
        key = MEASURED.index(condition) + 10 * draw
        noise += 0.1 * np.random.default_rng(key).normal(size=noise.shape)
    wrong, swapped = table["label"] == 1, condition.startswith("crossed")
    some = np.ones(N, dtype=bool)
    if swapped or condition == "gold":
        some &= table["crossed_partner"].notna()
    if condition.endswith("gold"):
        some &= wrong
        wrong = ~wrong
    sign = np.where(wrong | swapped, 1.0, -1.0)
    cut = condition.rpartition("crossed-")[2]
    hidden = {"random": 0.1 + 0.1 * draw, "rest": 0.3, "question": 1.8, "knockout": 1.5}.get(cut, 0)
    noise[:, :, 0] += sign * (1.2 - hidden * (np.arange(N) % 2 == 0)) * [[0.5], [1.5]]
    return np.flatnonzero(some), torch.as_tensor(noise[:, some], dtype=torch.float32)


def scored():
    """The scores of two read-outs, of floors, and of what is learned from bootstrap draws."""
    design = fitting.design(answers(), SETTINGS)
    weights = scoring.refit_weights(answers(), design)
    made = []
    for readout in ("mlp/final", "mlp/prompt_end"):
        given = (partial(activations, readout), answers(), readout, PASSES, SETTINGS)
        made.append(score(*given, weights=weights))
    found = joined(*made)
    found.floors.update(floors.floors(answers(), design, weights))
    return found


@cache
def tables():
    """The tables of the stored scores."""
    read = Scores.read(STORED / "scores.safetensors")
    return experiment_tables.of_main_run(read, answers(), bootstrap=BOOTSTRAP, seed=0)


def test_probes_and_floors_score_as_they_did():
    found, stored = scored(), Scores.read(STORED / "scores.safetensors")
    for name in ("ids", "z", "fold", "stands_for", "weights", "shuffled_z"):
        assert (getattr(found, name) == getattr(stored, name)).all()
    for name in ("probes", "inner_auc", "floors", "shuffled"):
        of, before = getattr(found, name), getattr(stored, name)
        assert of.keys() == before.keys()
        for key, s in of.items():
            np.testing.assert_allclose(s, before[key], rtol=1e-3, atol=1e-3, err_msg=key)


@pytest.mark.parametrize("name", experiment_tables.columns())
def test_the_same_scores_give_the_same_table(name, tmp_path):
    files.write_csv(tables()[name], tmp_path / "found.csv")
    found, before = (files.read_csv(p) for p in (tmp_path / "found.csv", STORED / f"{name}.csv"))
    pd.testing.assert_frame_equal(found, before, rtol=1e-5)


def stored_scores():
    """(read-out, condition, draw, layer) → logits of the probes, NaN if not measured."""
    found = {}
    for key, s in Scores.read(STORED / "scores.safetensors").probes.items():
        readout, condition, draw = key.rsplit("/", 2)
        for layer, of_layer in enumerate(s[0].astype(float)):
            found[readout, condition, int(draw), layer] = of_layer
    return found


def test_aucs_and_flips_of_the_controls_are_counted_by_hand():
    s, labels = stored_scores(), answers()["label"].to_numpy()
    stored = Scores.read(STORED / "scores.safetensors")
    for row in tables()["controls"].to_dict("records"):
        name, layer = f"{row['site']}/{row['position']}", row["layer"]
        of = {key[1:3]: values for key, values in s.items() if key[::3] == (name, layer)}
        clean = of["clean", 0]
        assert row["probe_auc"] == auc(clean, labels)
        assert row["auc_knockout"] == auc(of["knockout", 0], labels)
        if row["position"] == "final":
            assert row["prompt_end_auc"] == auc(s["mlp/prompt_end", "clean", 0, layer], labels)
            assert row["auc_shuffled"] == auc(stored.shuffled[name][layer], stored.shuffled_z)
        for column, one in controls.flipping().items():
            uncut = of["crossed", 0] if one.version else clean
            draws = [values for (name, _), values in of.items() if name == one.name]
            flips = [np.mean((s > 0) != (uncut > 0), where=~np.isnan(s)) for s in draws]
            assert row[column] == pytest.approx(np.mean(flips))


def test_the_order_of_the_answers_changes_no_digit_of_any_table():
    stored = Scores.read(STORED / "scores.safetensors")
    found = experiment_tables.of_main_run(stored, answers()[::-1], bootstrap=BOOTSTRAP, seed=0)
    for name, table in tables().items():
        pd.testing.assert_frame_equal(found[name], table, check_exact=True)


def test_rows_a_sample_make_up_the_curve():
    curve = tables()["curve"].query("condition == 'knockout' and headline")
    stored = Scores.read(STORED / "scores.safetensors")
    unmeasured = answers()[:1].assign(id="unmeasured")
    given = pd.concat([answers(), unmeasured]).assign(answer="=Ann", outcome="right")
    rows = per_sample.per_sample(stored, given)
    assert list(rows) == list(per_sample.COLUMNS) and len(rows) == 2 * N
    points = rows.groupby(["site", "position", "layer", "group"])["delta_p"].agg(["size", "mean"])
    for key, (n, mean) in zip(points.index, points.to_numpy(), strict=True):
        row = curve.set_index(["site", "position", "layer", "anchor"]).loc[key]
        assert (row["n"], row["delta_p"]) == (n, pytest.approx(mean))
    assert set(per_sample.for_spreadsheets(rows)["answer"]) == {"'=Ann"}


if __name__ == "__main__":
    scored().write(STORED / "scores.safetensors")
    for name, frame in tables().items():
        files.write_csv(frame, STORED / f"{name}.csv")

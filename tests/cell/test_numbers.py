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
from handmade import score

from anchorscope.cell import tables as experiment_tables
from anchorscope.curve import controls, per_sample
from anchorscope.probes import fitting, floors, scores
from anchorscope.probes.fitting import ProbeSettings
from anchorscope.statistics import bands
from anchorscope.statistics.intervals import auc
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
    """Ids and features [2, N, 8]: the label, which a cut hides in part."""
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
    return table["id"][some].tolist(), torch.as_tensor(noise[:, some], dtype=torch.float32)


def scored():
    """Scores, floors, and what is learned from bootstrap draws."""
    design = fitting.design(answers(), SETTINGS)
    drawn = scores.drawn(answers(), design)
    frames = []
    for readout in ("mlp/final", "mlp/prompt_end"):
        given = (partial(activations, readout), answers(), readout, PASSES, SETTINGS)
        table = score(*given, draws=drawn)
        stored = (readout == "mlp/final") | (table["probe"] == "clean")
        frames.append(table[stored])
    return pd.concat(frames, ignore_index=True), floors.floors(answers(), design, drawn), drawn


@cache
def tables():
    """The tables of the stored scores."""
    read = (files.read_parquet(STORED / f"{name}.parquet") for name in ("scores", "floors"))
    drawn = bands.Draws.read(STORED / "draws.safetensors")
    return experiment_tables.of_main_run(*read, answers(), drawn, bootstrap=BOOTSTRAP, seed=0)


def test_probes_and_floors_score_as_they_did():
    table, of_text, drawn = scored()
    stored = bands.Draws.read(STORED / "draws.safetensors")
    assert drawn.scores.keys() == stored.scores.keys() and (drawn.weights == stored.weights).all()
    for name, s in drawn.scores.items():
        np.testing.assert_allclose(s, stored.scores[name], rtol=1e-3, atol=1e-3)
    assert drawn.floors.keys() == stored.floors.keys()
    for name, s in drawn.floors.items():
        np.testing.assert_allclose(s, stored.floors[name], rtol=1e-3, atol=1e-3)
    for name, found in {"scores": table, "floors": of_text}.items():
        before = files.read_parquet(STORED / f"{name}.parquet")
        pd.testing.assert_frame_equal(found, before, rtol=1e-3, atol=1e-3, check_dtype=False)


@pytest.mark.parametrize("name", experiment_tables.columns())
def test_the_same_scores_give_the_same_table(name, tmp_path):
    files.write_csv(tables()[name], tmp_path / "found.csv")
    found, before = (files.read_csv(p) for p in (tmp_path / "found.csv", STORED / f"{name}.csv"))
    pd.testing.assert_frame_equal(found, before, rtol=1e-5)


def stored_scores():
    """(readout, condition, draw, layer) → logits of the clean probe by id, NaN if not measured."""
    table = files.read_parquet(STORED / "scores.parquet").query("probe == 'clean'")
    keys = ["readout", "condition", "draw", "layer"]
    wide = table.astype({"condition": str, "readout": str}).pivot(index=keys, columns="id")["s"]
    return dict(zip(wide.index, wide.to_numpy(), strict=True))


def test_aucs_and_flips_of_the_controls_are_counted_by_hand():
    s, labels = stored_scores(), answers()["label"].to_numpy()
    shuffled = files.read_parquet(STORED / "scores.parquet").query("probe == 'shuffled'")
    for row in tables()["controls"].to_dict("records"):
        name, layer = f"{row['site']}/{row['position']}", row["layer"]
        of = {key[1:3]: values for key, values in s.items() if key[::3] == (name, layer)}
        clean = of["clean", 0]
        assert row["probe_auc"] == auc(clean, labels)
        assert row["auc_knockout"] == auc(of["knockout", 0], labels)
        if row["position"] == "final":
            assert row["prompt_end_auc"] == auc(s["mlp/prompt_end", "clean", 0, layer], labels)
            guessed = shuffled.query("layer == @layer")
            assert row["auc_shuffled"] == auc(guessed["s"].to_numpy(), guessed["label"].to_numpy())
        for column, one in controls.flipping().items():
            uncut = of["crossed", 0] if one.version else clean
            draws = [values for (name, _), values in of.items() if name == one.name]
            flips = [np.mean((s > 0) != (uncut > 0), where=~np.isnan(s)) for s in draws]
            assert row[column] == pytest.approx(np.mean(flips))


def test_the_order_of_rows_changes_no_digit_of_any_table():
    scored = files.read_parquet(STORED / "scores.parquet").sample(frac=1, random_state=0)
    scored = scored.sort_values("readout", kind="stable")  # tables keep the order of read-outs
    floor, drawn = files.read_parquet(STORED / "floors.parquet"), STORED / "draws.safetensors"
    given = scored, floor[::-1], answers()[::-1], bands.Draws.read(drawn)
    found = experiment_tables.of_main_run(*given, bootstrap=BOOTSTRAP, seed=0)
    for name, table in tables().items():
        pd.testing.assert_frame_equal(found[name], table, check_exact=True)


def test_rows_a_sample_make_up_the_curve():
    curve = tables()["curve"].query("condition == 'knockout' and headline")
    scored = files.read_parquet(STORED / "scores.parquet")
    unmeasured = answers()[:1].assign(id="unmeasured")
    given = pd.concat([answers(), unmeasured]).assign(answer="=Ann", outcome="right")
    rows = per_sample.per_sample(scored, given)
    assert list(rows) == list(per_sample.COLUMNS) and len(rows) == 2 * N
    points = rows.groupby(["site", "position", "layer", "group"])["delta_p"].agg(["size", "mean"])
    for key, (n, mean) in zip(points.index, points.to_numpy(), strict=True):
        row = curve.set_index(["site", "position", "layer", "anchor"]).loc[key]
        assert (row["n"], row["delta_p"]) == (n, pytest.approx(mean))
    assert set(per_sample.for_spreadsheets(rows)["answer"]) == {"'=Ann"}


if __name__ == "__main__":
    table, of_text, drawn = scored()
    files.write_parquet(table, STORED / "scores.parquet")
    files.write_parquet(of_text, STORED / "floors.parquet")
    drawn.write(STORED / "draws.safetensors")
    for name, frame in tables().items():
        files.write_csv(frame, STORED / f"{name}.csv")

"""Calibration on a cell whose every pathway is known, against slow versions of each statistic."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import scores_of
from sklearn.metrics import roc_auc_score

from anchorscope.storage.errors import AnchorscopeError
from validation import calibration
from validation.calibration import CROSSED

KINDS = {"truism": (0,), "myth": (1,), "surprise": (0,), "tempting": (1,)}
KINDS |= dict.fromkeys(("redundant", "neutral", "unseen"), (0, 1))
EACH = 8
LAYERS = 3


def number(name: str, layer: int) -> float:
    """Return the value of a column of crossing at a layer."""
    return float(layer + CROSSED.index(name)) if name in CROSSED else -1.0


class Cell:
    """Tables of one small cell; every number random but repeatable."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.kind = np.array([name for name, zs in KINDS.items() for _ in zs for _ in range(EACH)])
        self.z = np.array([z for zs in KINDS.values() for z in zs for _ in range(EACH)])
        self.n = len(self.z)
        self.ids = np.array([f"i{number:03}" for number in range(self.n)])
        self.truth = self._truth()
        self.of_text = self.random.normal(size=self.n)
        self.curve = pd.DataFrame(
            [
                {"site": "mlp", "position": "final", "layer": k, "predicts": True}
                for k in range(LAYERS)
            ]
        )
        self.crossing = self._crossing()
        subjects = [f"s{number // 2}" for number in range(self.n)]
        asked = {"id": self.ids, "question": self.ids, "subject": subjects, "label": self.z}
        self.answers = pd.DataFrame(asked)
        self.s = self._s()

    def _crossing(self) -> pd.DataFrame:
        """A row per quantity and layer, and rows that calibration does not read."""
        names = [name for name in CROSSED if not name.endswith(("_low", "_high"))]
        rows = []
        for name, layer in product([*names, "unlike"], range(LAYERS)):
            ends = {"ci_low": f"{name}_low", "ci_high": f"{name}_high"}
            row = {"site": "mlp", "position": "final", "layer": layer, "quantity": name}
            row |= {column: number(one, layer) for column, one in ends.items()}
            rows.append(row | {"estimate": number(name, layer)})
        return pd.DataFrame(rows)

    def _truth(self) -> pd.DataFrame:
        verdict = np.where(self.random.random(self.n) < 0.9, self.z, 1 - self.z)
        known = (verdict == self.z) & (self.kind != "unseen") & (self.random.random(self.n) < 0.8)
        planted = np.where(np.isin(self.kind, ["truism", "myth"]), "A", "Q").astype(object)
        found = {"id": self.ids, "kind": self.kind, "verdict": verdict}
        return pd.DataFrame(found | {"truth": np.where(known, planted, None)})

    def _s(self) -> dict[tuple[str, int], np.ndarray]:
        """(condition, draw) → scores [layers, n]."""
        clean = 2.0 * (2 * self.z - 1) + self.random.normal(size=(LAYERS, self.n)) * 1.5
        cut = np.isin(self.kind, ["surprise", "tempting", "neutral"])
        moved = clean - 3 * np.sign(clean) * cut
        means = {("knockout", 0): moved, ("random", 0): clean, ("random", 1): clean}
        noisy = {one: mean + self.random.normal(size=mean.shape) for one, mean in means.items()}
        return {("clean", 0): clean} | noisy

    def table(self) -> pd.DataFrame:
        scores = scores_of(self.s, list(self.ids), floors={"answer": self.of_text})
        given = [self.truth, self.answers, self.curve, self.crossing]
        fixed = {"model": "m", "dataset": "d", "seed": 7}
        return calibration.cell(scores, *given, fixed=fixed, draws=20)


@pytest.fixture(scope="module")
def cell() -> Cell:
    return Cell()


@pytest.fixture(scope="module")
def table(cell: Cell) -> pd.DataFrame:
    return cell.table()


def samples_of(cell: Cell, layer: int) -> pd.DataFrame:
    """Return the scores and facts of each sample at a layer."""
    s = {key: values[layer] for key, values in cell.s.items()}
    clean, cut = s["clean", 0], s["knockout", 0]
    moved = 1 / (1 + np.exp(-cut)) - 1 / (1 + np.exp(-clean))
    random = np.mean([(s["random", draw] > 0) != (clean > 0) for draw in (0, 1)], axis=0)
    found = {"z": cell.z, "s": clean, "answer": cell.of_text, "random": random}
    found |= {"delta_p": 100 * np.sign(clean) * moved, "flip": (clean > 0) != (cut > 0)}
    return cell.truth.assign(**found)


def roc(z: pd.Series, s: pd.Series) -> float:
    return roc_auc_score(z, s) if z.nunique() == 2 else np.nan


def summed(picked: pd.DataFrame, row: pd.Series) -> dict[str, Any]:
    if picked.empty:
        return {"n": 0}
    trained = picked[picked["kind"] != "unseen"] if row["kind"] == "all" else picked
    scored = picked["kind"].isin(["truism", "myth", "surprise", "tempting"])
    compared = picked[scored] if row["kind"] == "all" else picked
    q, a = compared[compared["truth"] == "Q"], compared[compared["truth"] == "A"]
    either = compared[compared["truth"].notna()]
    return {
        "n": len(picked),
        "n_truth_q": len(q),
        "n_truth_a": len(a),
        "probe_auc": roc(trained["z"], trained["s"]),
        "answer_auc": roc(trained["z"], trained["answer"]),
        "verdict_accuracy": (trained["verdict"] == trained["z"]).mean(),
        "pathway_auc": roc((either["truth"] == "Q").astype(int), -either["delta_p"]),
        "flip_share": picked["flip"].mean(),
        "random_flip_share": picked["random"].mean(),
        "sensitivity": q["flip"].mean(),
        "specificity": 1 - a["flip"].mean(),
    }


def test_every_statistic_is_that_of_a_slow_count(cell: Cell, table: pd.DataFrame) -> None:
    rows, samples = table[table["layer"] == 1], samples_of(cell, 1)
    kinds = {"against-prior": ("surprise", "tempting"), "all": tuple(KINDS)}
    assert len(rows) == 3 * (len(KINDS) + 2)
    for _, row in rows.iterrows():
        picked = samples[samples["kind"].isin(kinds.get(row["kind"], (row["kind"],)))]
        expected = summed(picked[picked["z"].astype(str).eq(row["z"]) | (row["z"] == "all")], row)
        found = row[list(expected)].astype(float).to_numpy()
        np.testing.assert_allclose(found, list(expected.values()), err_msg=f"{row[:10]}")


def test_rows_are_every_layer_and_kind_and_what_is_unknown_is_blank(table: pd.DataFrame) -> None:
    assert list(table.columns) == list(calibration.COLUMNS)
    keys = table[["layer", "grouping", "z", "kind"]].itertuples(index=False, name=None)
    kinds = ("all", *KINDS, "against-prior")
    assert sorted(keys) == sorted(product(range(LAYERS), ("per_layer",), ("all", "0", "1"), kinds))
    assert (table["seed"] == 7).all() and table["predicts"].all()
    where = "layer == 0 and z == '1' and kind == 'truism'"
    row = table.query(where).squeeze()
    assert (row["n"], row["n_truth_q"], row["n_truth_a"]) == (0, 0, 0)
    assert row[["probe_auc", "flip_share", "sensitivity", "specificity"]].isna().all()
    for name in CROSSED:  # what swapping answers shows of a layer stands in all its rows
        assert (table[name] == [number(name, layer) for layer in table["layer"]]).all()


def test_the_order_of_the_tables_does_not_matter_and_other_samples_are_named(
    cell: Cell, table: pd.DataFrame
) -> None:
    turned = Cell()
    for name in ("truth", "answers"):
        setattr(turned, name, getattr(turned, name).iloc[::-1])
    not_measured = turned.truth[:1].assign(id="not measured")
    turned.truth = pd.concat([not_measured, turned.truth], ignore_index=True)
    again = turned.table()
    pd.testing.assert_frame_equal(again, table)
    turned.truth = turned.truth[2:]
    with pytest.raises(AnchorscopeError, match="80 samples do not match 79 rows"):
        turned.table()

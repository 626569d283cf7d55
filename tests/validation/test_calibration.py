"""Calibration on a cell whose every pathway is known, against slow versions of each statistic."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from anchorscope.storage.errors import AnchorscopeError
from validation import calibration
from validation.calibration import CROSSED

KINDS = {"truism": (0,), "myth": (1,), "surprise": (0,), "tempting": (1,)}
KINDS |= dict.fromkeys(("redundant", "neutral", "unseen"), (0, 1))
EACH = 8
LAYERS = 3


def number(name: str, layer: int) -> float:
    """What a column of crossing holds at a layer; -1 where no column has this name."""
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
        s = self.random.normal(size=self.n)
        self.floors = pd.DataFrame({"id": self.ids, "floor": "answer", "s": s})
        self.curve = pd.DataFrame([{"site": "mlp", "position": "final", "cell_signal": True}])
        self.crossing = self._crossing()
        subjects = [f"s{number // 2}" for number in range(self.n)]
        asked = {"id": self.ids, "question": self.ids, "subject": subjects, "label": self.z}
        self.answers = pd.DataFrame(asked)
        self.s = self._s()

    def _crossing(self) -> pd.DataFrame:
        """A row per quantity and layer, and rows that calibration does not read."""
        names = [name for name in CROSSED if not name.endswith(("_low", "_high"))]
        rows = []
        for name, layer in product([*names, "follows"], range(LAYERS)):
            ends = {"ci_low": f"{name}_low", "ci_high": f"{name}_high"}
            row = {"site": "mlp", "position": "final", "layer": layer, "quantity": name}
            row |= {column: number(one, layer) for column, one in ends.items()}
            rows.append(row | {"estimate": number(name, layer)})
        return pd.DataFrame(rows)

    def _truth(self) -> pd.DataFrame:
        verdict = np.where(self.random.random(self.n) < 0.9, self.z, 1 - self.z)
        planned = (self.kind != "unseen") & (self.random.random(self.n) < 0.9)
        planted = np.where(np.isin(self.kind, ["truism", "myth"]), "A", "Q").astype(object)
        why = np.full(self.n, None, dtype=object)
        why[self.random.random(self.n) < 0.1] = "mixed"
        why[verdict != self.z] = "own verdict wrong"
        why[~planned] = "not as planned"
        found = {"id": self.ids, "kind": self.kind, "label": self.z, "as_planned": planned}
        found |= {"verdict": verdict}
        truth = np.where(why == None, planted, None)  # noqa: E711
        return pd.DataFrame(found | {"truth": truth, "why_none": why})

    def _s(self) -> dict[tuple[str, int, str], np.ndarray]:
        """(condition, draw, probe) → scores [layers, n]."""
        clean = 2.0 * (2 * self.z - 1) + self.random.normal(size=(LAYERS, self.n)) * 1.5
        cut = np.isin(self.kind, ["surprise", "tempting", "neutral"])
        moved = clean - 3 * np.sign(clean) * cut
        means = {("knockout", 0, "clean"): moved}
        means |= {("random", draw, "clean"): clean for draw in (0, 1)}
        found = {("clean", 0, "clean"): clean}
        for key, values in means.items():
            found[key] = values + self.random.normal(size=values.shape)
        return found

    def scores(self) -> pd.DataFrame:
        parts = []
        for (condition, draw, probe), s in self.s.items():
            columns = {"id": np.tile(self.ids, len(s)), "layer": np.arange(len(s)).repeat(self.n)}
            part = pd.DataFrame(columns | {"s": s.ravel(), "p": 1 / (1 + np.exp(-s.ravel()))})
            part = part.assign(readout="mlp/final", condition=condition, draw=draw, probe=probe)
            parts.append(part[part["s"].notna()])
        return pd.concat(parts, ignore_index=True)

    def table(self, scores: pd.DataFrame | None = None, **settings: int) -> pd.DataFrame:
        given: list[pd.DataFrame] = [self.truth, self.answers, self.curve]
        given += [self.crossing, self.floors]
        fixed = {"model": "m", "dataset": "d", "seed": 7}
        scores = self.scores() if scores is None else scores
        return calibration.cell(scores, *given, fixed=fixed, **{"draws": 20} | settings)


@pytest.fixture(scope="module")
def cell() -> Cell:
    return Cell()


@pytest.fixture(scope="module")
def table(cell: Cell) -> pd.DataFrame:
    return cell.table()


def slow(cell: Cell, row: pd.Series) -> dict[str, Any]:
    """Every statistic of a row, one sample at a time."""
    layer = row["layer"]
    kinds = {"against-prior": ("surprise", "tempting"), "all": tuple(KINDS)}
    picked: list[dict[str, Any]] = []
    for i in range(cell.n):
        known = cell.truth.iloc[i]
        values = {key: s[:, i] for key, s in cell.s.items()}
        if known["kind"] not in kinds.get(row["kind"], (row["kind"],)):
            continue
        if row["z"] != "all" and int(row["z"]) != cell.z[i]:
            continue
        clean, cut = (values[name, 0, "clean"][layer] for name in ("clean", "knockout"))
        p_clean, p_cut = (1 / (1 + np.exp(-s)) for s in (clean, cut))
        wrong = values["clean", 0, "clean"][layer] > 0
        random = [values["random", d, "clean"][layer] > 0 for d in (0, 1)]
        sample = {"z": cell.z[i], "s": clean, "answer": cell.floors["s"].iloc[i]}
        sample |= {"delta_p": 100 * (1 if clean > 0 else -1) * (p_cut - p_clean)}
        sample |= {"flip": wrong != (values["knockout", 0, "clean"][layer] > 0)}
        sample |= {"random": np.mean([one != wrong for one in random])}
        picked.append(sample | known.to_dict())
    return summed(pd.DataFrame(picked), row)


def slow_headline(cell: Cell) -> int:
    each = [roc_auc_score(cell.z, s) for s in cell.s["clean", 0, "clean"]]
    return max(layer for layer, value in enumerate(each) if value >= max(each) - 0.01)


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
    rows = table[table["layer"] == 1]
    assert len(rows) == 3 * (len(KINDS) + 2)
    for _, row in rows.iterrows():
        expected = slow(cell, row)
        found = row[list(expected)].astype(float).to_numpy()
        np.testing.assert_allclose(found, list(expected.values()), err_msg=f"{row[:10]}")


def test_rows_are_every_layer_and_kind_and_what_is_unknown_is_blank(
    cell: Cell, table: pd.DataFrame
) -> None:
    assert list(table.columns) == list(calibration.COLUMNS)
    keys = table[["layer", "grouping", "z", "kind"]].itertuples(index=False, name=None)
    kinds = ("all", *KINDS, "against-prior")
    assert sorted(keys) == sorted(product(range(LAYERS), ("per_layer",), ("all", "0", "1"), kinds))
    assert (table["seed"] == 7).all() and table["signal"].all()
    assert set(table.loc[table["headline"], "layer"]) == {slow_headline(cell)}
    where = "layer == 0 and z == '1' and kind == 'truism'"
    row = table.query(where).squeeze()
    assert (row["n"], row["n_truth_q"], row["n_truth_a"]) == (0, 0, 0)
    assert row[["probe_auc", "flip_share", "sensitivity", "specificity"]].isna().all()


def test_what_swapping_answers_shows_of_a_layer_stands_in_all_its_rows(
    cell: Cell, table: pd.DataFrame
) -> None:
    for name in CROSSED:
        assert (table[name] == [number(name, layer) for layer in table["layer"]]).all()
    bare = Cell()
    bare.crossing = cell.crossing.head(0)
    assert bare.table()[[*CROSSED]].isna().all(axis=None)


def test_the_order_of_the_tables_does_not_matter_and_other_samples_are_named(
    cell: Cell, table: pd.DataFrame
) -> None:
    turned = Cell()
    for name in ("truth", "floors", "answers"):
        setattr(turned, name, getattr(turned, name).iloc[::-1])
    again = turned.table(scores=turned.scores().sample(frac=1, random_state=1))
    pd.testing.assert_frame_equal(again, table)
    turned.truth = turned.truth[1:]
    with pytest.raises(AnchorscopeError, match="79 rows are not those of 80 samples"):
        turned.table()

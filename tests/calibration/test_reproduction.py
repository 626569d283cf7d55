"""Reproduction check: tables that show each published statement, and tables that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from anchorscope.calibration import reproduction
from anchorscope.storage import files
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import config

ROOT = Path(__file__).parents[2]
PUBLISHED = yaml.safe_load((ROOT / "resources" / "published.yaml").read_text(encoding="utf-8"))
CONFIG = config.load(yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8")))
DATASETS = tuple(PUBLISHED["datasets"])

# Q-Anchored ΔP at some layers, straight lines between; A-Anchored likewise.
SHAPES: dict[str, tuple[list[tuple[int, float]], float]] = {
    "llama-3.2-1b": ([(0, -12), (6, -57), (11, -57), (15, -40)], -6.0),
    "llama-3.2-3b": ([(0, -10), (12, -76), (27, -60)], -8.0),
    "qwen3-8b": ([(0, -1), (10, -30), (20, -55), (35, -85)], -4.0),
    "qwen3-32b": ([(0, -1), (20, -40), (40, -72), (63, -90)], -1.0),
    "llama-3-8b": ([(0, -5), (31, -60)], -5.0),
    "llama-3-70b": ([(0, -5), (79, -60)], -5.0),
    "mistral-7b-v0.1": ([(0, -5), (31, -60)], -5.0),
    "mistral-7b-v0.3": ([(0, -5), (31, -60)], -5.0),
}
AUC = {"popqa": 0.88, "trivia-qa": 0.8, "hotpot-qa": 0.82, "nq": 0.72}


class Figure:
    """A figure's table and contrasts as published; tests change what they are about."""

    def __init__(self, name: str) -> None:
        layers = PUBLISHED["figures"][name]
        parts = [self._cell(model, d, layers[model]) for model in layers for d in DATASETS]
        self.name = name
        self.table = pd.concat(parts, ignore_index=True)
        self.contrasts = self.table[["model", "dataset", "site", "position", "layer"]]
        self.contrasts = self.contrasts.drop_duplicates().assign(
            contrast="random", quantity="delta_p", ci90_low=-1.5, ci90_high=0.5, no_effect=True
        )

    def _cell(self, model: str, dataset: str, layers: int) -> pd.DataFrame:
        shape, a = SHAPES[model]
        at = np.arange(layers)
        q = np.interp(at, *zip(*shape, strict=True))
        # Datasets lie apart in the middle and meet at the last layer.
        apart = (DATASETS.index(dataset) - 0.5) * 3 * np.sin(np.pi * at / (layers - 1))
        points = {"Q": q + apart, "A": np.full(layers, a), "all": q / 2}
        rows = [
            pd.DataFrame(
                {
                    "anchor": anchor,
                    "layer": at,
                    "n": 500,
                    "delta_p": values,
                    "ci_high": values + 2,
                    "thin": False,
                    "answer_accuracy": {"Q": 0.88, "A": 0.66, "all": 0.7}[anchor],
                    "popularity": {"Q": 900.0, "A": 300.0, "all": 500.0}[anchor],
                    "probe_auc": AUC[dataset] - 0.1 * (at != layers // 2),
                    "headline": at == layers // 2,
                }
            )
            for anchor, values in points.items()
        ]
        fixed = {"model": model, "dataset": dataset, "site": "mlp", "position": "final"}
        fixed |= {"condition": "knockout", "grouping": "per_layer", "cell_signal": True}
        return pd.concat(rows).assign(**fixed)

    def rows(self, **where: Any) -> pd.Series:
        """Which rows of the table have these values."""
        chosen = pd.Series(True, index=self.table.index)
        for name, value in where.items():
            chosen &= self.table[name] == value
        return chosen

    def set(self, column: str, value: Any, **where: Any) -> None:
        self.table.loc[self.rows(**where), column] = value

    def check(self, id_: str | None = None, **settings: Any) -> pd.DataFrame:
        """The figure's verdicts, on one statement or all."""
        tables, contrasts = {self.name: self.table}, {self.name: self.contrasts}
        kept = [one for one in PUBLISHED["statements"] if id_ in (None, one["id"])]
        published = PUBLISHED | {"statements": kept}
        found = reproduction.check(published, tables, contrasts, **settings)
        return found[found["figure"] == self.name]

    def verdicts(self, id_: str, **where: Any) -> dict[tuple[str, str], str]:
        """(model, dataset) → verdict of a statement."""
        found = self.check(id_)
        for name, value in where.items():
            found = found[found[name] == value]
        assert len(found)
        return {(row["model"], row["dataset"]): row["verdict"] for row in found.to_dict("records")}


@pytest.mark.parametrize("name", ["llama-3.2", "qwen3", "llama-3", "mistral"])
def test_a_figure_as_published_is_within_everywhere(name: str) -> None:
    found = Figure(name).check()
    unmeasured = found["id"] == "pathway-readable"
    assert (found.loc[unmeasured, "verdict"] == "not run").all()
    assert found.loc[~unmeasured, "verdict"].eq("within").all(), found[["id", "measured"]]
    assert list(found.columns) == list(reproduction.COLUMNS)


def test_the_other_published_readings_are_within_too() -> None:
    small = Figure("llama-3.2")
    for dataset in DATASETS:
        plateau = small.rows(model="llama-3.2-1b", anchor="Q", dataset=dataset)
        small.table.loc[plateau & (small.table["layer"] > 11), "delta_p"] = -58.0
    small.set("delta_p", -28.0, model="llama-3.2-1b", anchor="A", dataset="trivia-qa")
    verdicts = small.verdicts("llama-3.2-1b-q-last", model="llama-3.2-1b")
    assert set(verdicts.values()) == {"within"}
    assert set(small.verdicts("llama-3.2-1b-a").values()) == {"within"}
    large = Figure("qwen3")
    for model, trough, last in (("qwen3-8b", 10, 35), ("qwen3-32b", 15, 63)):
        rows = large.rows(model=model, anchor="Q")
        at = large.table.loc[rows, "layer"]
        bent = np.interp(at, [0, trough, last], [0, -75, -35])
        large.table.loc[rows, "delta_p"] = bent
        assert set(large.verdicts(f"{model}-q").values()) == {"within"}


def test_two_readings_of_a_curve_cannot_be_mixed() -> None:
    figure = Figure("qwen3")
    rows = figure.rows(model="qwen3-8b", anchor="Q")
    mixed = np.interp(figure.table.loc[rows, "layer"], [0, 10, 20, 35], [0, -30, -55, -30])
    figure.table.loc[rows, "delta_p"] = mixed
    assert set(figure.verdicts("qwen3-8b-q").values()) == {"outside"}


ALIKE = {"model": "llama-3.2-1b", "dataset": "nq"}


@pytest.mark.parametrize(
    ("id_", "column", "value", "where"),
    [
        ("llama-3.2-1b-a", "delta_p", -16.0, ALIKE | {"anchor": "A", "layer": 3}),
        ("llama-3.2-1b-a", "delta_p", 10.5, ALIKE | {"anchor": "A", "layer": 3}),
        ("llama-3.2-1b-q-first", "delta_p", -26.0, ALIKE | {"anchor": "Q", "layer": 0}),
        ("llama-3.2-1b-q-trough", "delta_p", -66.0, ALIKE | {"anchor": "Q", "layer": 9}),
        ("llama-3.2-1b-q-trough", "delta_p", -64.5, ALIKE | {"anchor": "Q", "layer": 2}),
        ("llama-3.2-1b-q-last", "delta_p", -52.0, ALIKE | {"anchor": "Q", "layer": 15}),
        ("llama-3.2-1b-q-last", "delta_p", -20.0, ALIKE | {"anchor": "Q", "layer": 15}),
        ("a-near-zero", "delta_p", -20.5, ALIKE | {"anchor": "A", "layer": 8}),
        ("q-clearly-negative", "ci_high", -4.0, ALIKE | {"anchor": "Q", "layer": 6}),
        ("accuracy-order", "answer_accuracy", 0.6, ALIKE | {"anchor": "Q"}),
    ],
)
def test_one_cell_that_differs_is_outside_and_the_others_stay_within(
    id_: str, column: str, value: float, where: dict[str, Any]
) -> None:
    figure = Figure("llama-3.2")
    figure.set(column, value, **where)
    verdicts = figure.verdicts(id_)
    assert verdicts.pop(("llama-3.2-1b", "nq")) == "outside"
    assert set(verdicts.values()) == {"within"}


def test_before_the_first_third_q_need_not_be_negative() -> None:
    figure = Figure("llama-3.2")
    figure.set("ci_high", 4.0, anchor="Q", layer=5)
    verdicts = figure.verdicts("q-clearly-negative")
    # 16 layers: layer 6 is the first of the second third; 28: layer 10.
    assert set(verdicts.values()) == {"within"}


def test_a_gap_no_larger_than_between_datasets_is_outside() -> None:
    figure = Figure("llama-3.2")
    chosen = figure.rows(model="llama-3.2-1b", anchor="Q")
    steps = figure.table.loc[chosen, "dataset"].map({name: n for n, name in enumerate(DATASETS)})
    figure.table.loc[chosen, "delta_p"] = -25.0 * steps
    verdicts = figure.verdicts("gap")
    assert verdicts == {("llama-3.2-1b", "all"): "outside", ("llama-3.2-3b", "all"): "within"}


def test_a_smaller_model_with_the_deeper_trough_is_outside() -> None:
    figure = Figure("qwen3")
    figure.set("delta_p", -97.0, model="qwen3-8b", dataset="nq", anchor="Q", layer=30)
    verdicts = figure.verdicts("larger-is-deeper")
    assert verdicts.pop(("qwen3-32b", "nq")) == "outside"
    assert list(verdicts) == [("qwen3-32b", name) for name in DATASETS if name != "nq"]
    assert set(verdicts.values()) == {"within"}


def test_another_dataset_with_the_lowest_trough_is_outside() -> None:
    figure = Figure("llama-3.2")
    figure.set("delta_p", -61.0, model="llama-3.2-1b", dataset="nq", anchor="Q", layer=9)
    assert figure.verdicts("llama-3.2-1b-q-popqa") == {("llama-3.2-1b", "all"): "outside"}


def test_datasets_that_part_at_the_last_layer_do_not_converge() -> None:
    figure = Figure("qwen3")
    figure.set("delta_p", -60.0, model="qwen3-32b", dataset="nq", anchor="Q", layer=63)
    assert figure.verdicts("qwen3-32b-q-converging") == {("qwen3-32b", "all"): "outside"}


def test_random_tokens_must_have_no_effect_at_every_layer() -> None:
    figure = Figure("llama-3.2")
    one = (figure.contrasts["dataset"] == "nq") & (figure.contrasts["layer"] == 3)
    figure.contrasts.loc[one, ["no_effect", "ci90_low"]] = [False, -5.6]
    verdicts = figure.verdicts("random-tokens")
    assert {key for key, verdict in verdicts.items() if verdict == "outside"} == {
        (model, "nq") for model in ("llama-3.2-1b", "llama-3.2-3b")
    }
    figure.contrasts = figure.contrasts[figure.contrasts["contrast"] != "random"]
    assert set(figure.verdicts("random-tokens").values()) == {"not run"}


def test_numbers_of_the_text_have_a_tolerance_and_an_end_to_it() -> None:
    figure = Figure("llama-3")
    assert set(figure.verdicts("accuracy").values()) == {"within"}
    figure.set("answer_accuracy", 0.76, model="llama-3-8b", anchor="Q")
    assert figure.verdicts("accuracy") == {
        ("llama-3-8b", "all"): "outside",
        ("llama-3-70b", "all"): "within",
    }
    figure.set("probe_auc", 0.6, model="llama-3-8b", dataset="popqa")
    verdicts = figure.verdicts("probe-auc-llama-3-8b")
    assert verdicts.pop(("llama-3-8b", "popqa")) == "outside"
    assert set(verdicts.values()) == {"within"}


def test_popularity_is_judged_where_it_is_known() -> None:
    figure = Figure("qwen3")
    figure.set("popularity", 100.0, model="qwen3-8b", dataset="popqa", anchor="Q")
    assert figure.verdicts("popularity") == {
        ("qwen3-8b", "popqa"): "outside",
        ("qwen3-32b", "popqa"): "within",
    }
    figure.table["popularity"] = np.nan
    assert set(figure.verdicts("popularity").values()) == {"not run"}


def test_a_model_of_another_depth_is_outside() -> None:
    figure = Figure("qwen3")
    figure.table = figure.table[figure.table["layer"] < 35]
    assert figure.verdicts("layers") == {
        ("qwen3-8b", "all"): "outside",
        ("qwen3-32b", "all"): "outside",
    }


def test_only_figures_that_are_built_are_judged() -> None:
    figure = Figure("llama-3.2")
    built = {"llama-3.2": figure.table}
    found = reproduction.check(PUBLISHED, built, {"llama-3.2": figure.contrasts})
    elsewhere = found["figure"] != "llama-3.2"
    assert elsewhere.any()
    assert (found.loc[elsewhere, "verdict"] == "not run").all()
    nothing = reproduction.check(PUBLISHED, {}, {})
    assert (nothing["verdict"] == "not run").all() and (nothing["measured"] == "").all()
    pd.testing.assert_frame_equal(nothing[["id", "published"]], found[["id", "published"]])


def test_the_demo_s_models_are_never_the_published_ones() -> None:
    figure = Figure("llama-3.2")
    names = {"llama-3.2-1b": "calibration-llama", "llama-3.2-3b": "calibration-qwen3"}
    table = figure.table.replace({"model": names})
    for name in ("demo", "llama-3.2"):
        found = reproduction.check(PUBLISHED, {name: table}, {name: figure.contrasts})
        assert (found["verdict"] == "not run").all()


def test_a_missing_cell_leaves_its_statements_and_those_over_all_datasets_open() -> None:
    figure = Figure("llama-3.2")
    figure.table = figure.table[~figure.rows(model="llama-3.2-1b", dataset="nq")]
    assert figure.verdicts("gap")["llama-3.2-1b", "all"] == "not run"
    assert figure.verdicts("larger-is-deeper")["llama-3.2-3b", "nq"] == "not run"
    trough = figure.verdicts("llama-3.2-1b-q-trough")
    assert trough.pop(("llama-3.2-1b", "nq")) == "not run"
    assert set(trough.values()) == {"within"}


def test_points_too_thin_for_the_line_are_left_out_and_a_thin_cell_is_not_judged() -> None:
    figure = Figure("llama-3.2")
    where = {"model": "llama-3.2-1b", "dataset": "nq", "anchor": "A", "layer": 3}
    figure.set("delta_p", -70.0, **where)
    figure.set("thin", True, **where)
    assert figure.verdicts("llama-3.2-1b-a")["llama-3.2-1b", "nq"] == "within"
    figure.set("thin", True, model="llama-3.2-1b", dataset="popqa")
    found = figure.check()
    row = found[(found["id"] == "llama-3.2-1b-a") & (found["dataset"] == "popqa")].iloc[0]
    assert (row["verdict"], row["measured"]) == ("not run", "too few samples")


def test_a_group_that_does_not_exist_shows_nothing() -> None:
    figure = Figure("llama-3.2")
    figure.set("delta_p", np.nan, model="llama-3.2-1b", anchor="Q")
    figure.set("ci_high", np.nan, model="llama-3.2-1b", anchor="Q")
    for id_ in ("llama-3.2-1b-q-trough", "q-clearly-negative", "gap", "llama-3.2-1b-q-popqa"):
        own = {key: v for key, v in figure.verdicts(id_).items() if key[0] == "llama-3.2-1b"}
        assert set(own.values()) == {"outside"}, id_


def test_a_cell_without_signal_says_so() -> None:
    figure = Figure("llama-3.2")
    figure.set("cell_signal", False, model="llama-3.2-1b", dataset="nq")
    found = figure.check()
    grey = found["measured"].str.endswith("(no signal)")
    assert set(zip(found.loc[grey, "model"], found.loc[grey, "dataset"], strict=True)) >= {
        ("llama-3.2-1b", "nq")
    }
    assert not (grey & (found["dataset"] == "popqa")).any()


def test_a_figure_is_judged_by_the_read_out_that_it_draws() -> None:
    figure = Figure("llama-3.2")
    other = figure.table.assign(site="attn", delta_p=0.0, ci_high=1.0)
    both = pd.concat([other, figure.table], ignore_index=True)
    figure.table = both
    drawn = figure.check()
    assert (drawn["readout"] == "mlp/final").all()
    assert (drawn.loc[drawn["id"] == "q-clearly-negative", "verdict"] == "within").all()
    other_one = figure.check(readouts={"llama-3.2": "attn/final"})
    assert (other_one.loc[other_one["id"] == "q-clearly-negative", "verdict"] == "outside").all()


def test_the_verdicts_are_the_same_once_the_tables_were_written_and_read(tmp_path: Path) -> None:
    figure = Figure("llama-3.2")
    before = figure.check()
    for name in ("table", "contrasts"):
        files.write_csv(getattr(figure, name), tmp_path / f"{name}.csv")
        setattr(figure, name, files.read_csv(tmp_path / f"{name}.csv"))
    pd.testing.assert_frame_equal(figure.check(), before)


def test_no_text_would_be_a_formula_to_a_spreadsheet() -> None:
    found = Figure("qwen3").check()
    for column in ("statement", "published", "measured"):
        assert not found[column].str.match(r"[=+\-@]").any(), column


def test_the_published_figures_are_those_of_the_catalogue() -> None:
    for name, models in PUBLISHED["figures"].items():
        assert CONFIG.figures[name].models == list(models)
        assert CONFIG.figures[name].datasets == list(DATASETS)
    ids = [statement["id"] for statement in PUBLISHED["statements"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"check": "guess"}, "no check is named `guess`"),
        ({"figures": ["llama-4"]}, "figure llama-4 or its models are unknown"),
        ({"models": ["llama-4"]}, "figure llama-3.2 or its models are unknown"),
    ],
)
def test_a_statement_that_cannot_be_checked_is_named(change: dict[str, Any], what: str) -> None:
    statement = {"id": "mine", "figures": ["llama-3.2"], "wording": "so", "check": "layers"}
    broken = PUBLISHED | {"statements": [statement | change]}
    with pytest.raises(AnchorscopeError, match=f"{what}(.|\n)*statement mine"):
        reproduction.check(broken, {}, {})

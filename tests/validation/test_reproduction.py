"""Reproduction check: tables that show each published statement, and tables that do not."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from workflow import PROJECT, SHIPPED

from anchorscope.detectors.registry import METHODS
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.workflow import config
from validation import reproduction
from validation.checks import rows_where

PUBLISHED = yaml.safe_load((PROJECT / "resources/published.yaml").read_text(encoding="utf-8"))
CONFIG = config.load(SHIPPED)
DATASETS = tuple(PUBLISHED["datasets"])

# Q-Anchored ΔP at some layers, straight lines between; A-Anchored likewise.
SHAPES: dict[str, tuple[list[tuple[int, float]], float]] = {
    "llama-3.2-1b": ([(0, -12), (6, -57), (11, -57), (15, -40)], -6.0),
    "llama-3.2-3b": ([(0, -10), (12, -76), (27, -60)], -8.0),
    "qwen3-8b": ([(0, -1), (10, -30), (20, -55), (35, -85)], -4.0),
    "qwen3-32b": ([(0, -1), (20, -40), (40, -72), (63, -90)], -1.0),
}
# popularity of the Q- and of the A-Anchored group, in thousands
POPULARITY = {
    "llama-3-8b": (63, 18), "llama-3-70b": (24, 13),
    "mistral-7b-v0.1": (73, 22), "mistral-7b-v0.3": (56, 15),
}  # fmt: skip
AUC = {"popqa": 0.88, "trivia-qa": 0.8, "hotpot-qa": 0.82, "nq": 0.72}


class Figure:
    """A figure's table as published; tests change what it is about."""

    def __init__(self, name: str) -> None:
        self.name, layers = name, PUBLISHED["figures"][name]
        parts = [self._cell(model, d, layers[model]) for model in layers for d in DATASETS]
        self.table = pd.concat(parts, ignore_index=True)

    def _cell(self, model: str, dataset: str, layers: int) -> pd.DataFrame:
        shape, a = SHAPES.get(model, ([(0, -5), (layers - 1, -60)], -5.0))
        at = np.arange(layers)
        q = np.interp(at, *zip(*shape, strict=True))
        # Datasets lie apart in the middle and meet at the last layer.
        apart = (DATASETS.index(dataset) - 0.5) * 3 * np.sin(np.pi * at / (layers - 1))
        points = {"Q": q + apart, "A": np.full(layers, a), "all": q / 2}
        parts = []
        for anchor, values in points.items():
            columns = {"layer": at, "delta_p": values, "ci_high": values + 2}
            columns |= {"probe_auc": AUC[dataset] - 0.1 * (at != layers // 2)}
            own = {"answer_accuracy": {"Q": 0.88, "A": 0.62, "all": 0.7}[anchor]}
            popularity = POPULARITY.get(model, (0.9, 0.3))[anchor != "Q"]
            own |= {"popularity": 1000.0 * popularity, "predicts": True}
            part = pd.DataFrame(columns | {"headline": at == layers // 2})
            parts.append(part.assign(anchor=anchor, n=500, thin=False, **own))
        fixed = {"model": model, "dataset": dataset, "site": "mlp", "position": "final"}
        fixed |= {"grouping": "per_layer", "predicts": True}
        knockout = pd.concat(parts).assign(condition="knockout", ci_low=-99.0, **fixed)
        # of the groups of random tokens nothing is published
        ends = {"delta_p": -0.5, "ci_low": -1.5, "ci_high": 0.5, "condition": "random"}
        of_groups = knockout["anchor"] != "all"
        random = knockout.assign(**ends)
        random.loc[of_groups.to_numpy(), ["ci_low", "ci_high"]] = [-60.0, -40.0]
        return pd.concat([knockout, random], ignore_index=True)

    def rows(self, **where: Any) -> pd.Index:
        """Which rows of the table have these values."""
        return rows_where(self.table, **where).index

    def put(self, column: str, value: Any, **where: Any) -> None:
        self.table.loc[self.rows(**where), column] = value

    def check(self, id_: str | None = None, readout: str = "mlp/final") -> pd.DataFrame:
        """The figure's verdicts, on one statement or all."""
        kept = [one for one in PUBLISHED["statements"] if id_ in (None, one["id"])]
        built = [{self.name: one} for one in (self.table, readout)]
        found = reproduction.check(PUBLISHED | {"statements": kept}, *built)
        return found[found["figure"] == self.name]

    def verdicts(self, id_: str) -> dict[Any, str]:
        """(model, dataset) → verdict of a statement."""
        return self.check(id_).set_index(["model", "dataset"])["verdict"].to_dict()

    def other_than_within(self, id_: str, verdict: str = "outside") -> set[Any]:
        """Where a statement has this verdict; everywhere else it is `within`."""
        found = self.verdicts(id_)
        assert set(found.values()) <= {"within", verdict}
        return {key for key, value in found.items() if value == verdict}


@pytest.mark.parametrize("name", ["llama-3.2", "qwen3", "llama-3", "mistral"])
def test_a_figure_as_published_is_within_everywhere(name: str) -> None:
    found = Figure(name).check()
    beside = found["id"].isin(VALUES)
    assert (found.loc[beside, "verdict"] == "not run").all()
    assert found.loc[~beside, "verdict"].eq("within").all(), found[["id", "measured"]]


def test_the_other_published_readings_are_within_too_but_not_a_mixture() -> None:
    for model, bend, expected in (
        ("qwen3-8b", ([0, 10, 35], [0, -75, -35]), set()),
        ("qwen3-32b", ([0, 15, 63], [0, -75, -35]), set()),
        ("qwen3-8b", ([0, 10, 20, 35], [0, -30, -55, -30]), set(DATASETS)),
    ):
        large = Figure("qwen3")
        rows = large.rows(model=model, anchor="Q")
        large.table.loc[rows, "delta_p"] = np.interp(large.table.loc[rows, "layer"], *bend)
        assert {dataset for _, dataset in large.other_than_within(f"{model}-q")} == expected


NQ = {"model": "llama-3.2-1b", "dataset": "nq"}
ONE = ("llama-3.2-1b", "nq")
LAST = {"model": "qwen3-32b", "dataset": "nq", "anchor": "Q", "layer": 63}
DEEP = {"model": "qwen3-8b", "dataset": "nq", "anchor": "Q", "layer": 30}
POPQA = {"model": "llama-3-8b", "dataset": "popqa"}


@pytest.mark.parametrize(
    ("id_", "column", "value", "where", "outside"),
    [
        ("llama-3.2-1b-a", "delta_p", -16.0, NQ | {"anchor": "A", "layer": 3}, ONE),
        ("llama-3.2-1b-q-trough", "delta_p", -64.5, NQ | {"anchor": "Q", "layer": 2}, ONE),
        ("llama-3.2-1b-q-last", "delta_p", -52.0, NQ | {"anchor": "Q", "layer": 15}, ONE),
        ("q-clearly-negative", "ci_high", -4.0, NQ | {"anchor": "Q", "layer": 6}, ONE),
        # 16 layers: layer 6 is the first of the second third; 28: layer 10
        ("q-clearly-negative", "ci_high", 4.0, {"anchor": "Q", "layer": 5}, None),
        ("accuracy-order", "answer_accuracy", 0.6, NQ | {"anchor": "Q"}, ONE),
        ("llama-3.2-1b-q-popqa", "delta_p", -61.0, NQ | {"anchor": "Q", "layer": 9}, "all"),
        ("larger-is-deeper", "delta_p", -97.0, DEEP, ("qwen3-32b", "nq")),
        ("qwen3-32b-q-converging", "delta_p", -60.0, LAST, "all"),
        ("popularity", "popularity", 9.0, {"model": "qwen3-8b", "anchor": "Q"},
         ("qwen3-8b", "popqa")),
        ("accuracy", "answer_accuracy", 0.76, {"model": "llama-3-8b", "anchor": "Q"}, "all"),
        ("probe-auc-llama-3-8b", "probe_auc", 0.6, POPQA, ("llama-3-8b", "popqa")),
    ],
)  # fmt: skip
def test_what_differs_from_the_publication_is_outside_and_all_else_stays_within(
    id_: str, column: str, value: float, where: dict[str, Any], outside: Any
) -> None:
    """Of one model on one dataset, or on `all`."""
    model = where.get("model", "llama-3.2-1b")
    figure = Figure(next(name for name, own in PUBLISHED["figures"].items() if model in own))
    assert figure.other_than_within(id_) == set()
    figure.put(column, value, **where)
    outside = (model, "all") if outside == "all" else outside
    assert figure.other_than_within(id_) == ({outside} if outside else set())


@pytest.mark.parametrize(("low", "high"), [(-5.6, -0.1), (0.1, 3.0)])
def test_the_interval_under_random_tokens_must_hold_0_at_every_layer(
    low: float, high: float
) -> None:
    figure = Figure("llama-3.2")
    assert figure.other_than_within("random-tokens") == set()
    here = {"condition": "random", "anchor": "all", "dataset": "nq", "layer": 3}
    figure.put("ci_low", low, **here)
    figure.put("ci_high", high, **here)
    outside = {(model, "nq") for model in ("llama-3.2-1b", "llama-3.2-3b")}
    assert figure.other_than_within("random-tokens") == outside
    figure.table = figure.table.drop(figure.rows(condition="random"))
    assert set(figure.verdicts("random-tokens").values()) == {"not run"}


def test_a_model_of_another_depth_is_outside_and_what_is_missing_is_not_judged() -> None:
    large, small = Figure("qwen3"), Figure("llama-3.2")
    large.table = large.table[large.table["layer"] < 35]
    assert set(large.verdicts("layers").values()) == {"outside"}
    small.table = small.table.drop(small.rows(**NQ))
    assert small.verdicts("gap")["llama-3.2-1b", "all"] == "not run"
    assert small.verdicts("larger-is-deeper")["llama-3.2-3b", "nq"] == "not run"
    assert small.other_than_within("llama-3.2-1b-q-trough", "not run") == {ONE}


def test_points_too_thin_for_the_line_are_left_out_and_a_thin_cell_is_not_judged() -> None:
    figure = Figure("llama-3.2")
    for column, value in (("delta_p", -70.0), ("thin", True)):
        figure.put(column, value, **NQ, anchor="A", layer=3)
    assert figure.verdicts("llama-3.2-1b-a")[ONE] == "within"
    figure.put("thin", True, model="llama-3.2-1b", dataset="popqa")
    found = figure.check("llama-3.2-1b-a")
    row = found[found["dataset"] == "popqa"].iloc[0]
    assert (row["verdict"], row["measured"]) == ("not run", "too few samples")


def test_a_group_that_does_not_exist_shows_nothing_and_a_cell_without_signal_says_so() -> None:
    figure = Figure("llama-3.2")
    figure.put("predicts", False, **NQ)
    grey = (found := figure.check())[found["measured"].str.endswith("(not predicted)")]
    assert ONE in set(zip(grey["model"], grey["dataset"], strict=True))
    assert "popqa" not in set(grey["dataset"])
    for column in ("delta_p", "ci_high"):
        figure.put(column, np.nan, model="llama-3.2-1b", anchor="Q")
    for id_ in ("llama-3.2-1b-q-trough", "q-clearly-negative", "gap", "llama-3.2-1b-q-popqa"):
        own = {key: v for key, v in figure.verdicts(id_).items() if key[0] == "llama-3.2-1b"}
        assert set(own.values()) == {"outside"}, id_


def test_a_figure_is_judged_by_the_read_out_that_it_draws() -> None:
    figure = Figure("llama-3.2")
    other = figure.table.assign(site="attn", delta_p=0.0, ci_high=1.0)
    figure.table = pd.concat([other, figure.table], ignore_index=True)
    assert figure.other_than_within("q-clearly-negative") == set()
    drawn = figure.check("q-clearly-negative", readout="attn/final")
    assert set(drawn["verdict"]) == {"outside"} and set(drawn["readout"]) == {"attn/final"}


OF_FIGURE = (reproduction.LINES, reproduction.SHAPE, "curve")
VALUES = {
    one["id"]: one
    for one in PUBLISHED["statements"]
    if one.get("table", reproduction.LINES) not in OF_FIGURE
}


def test_statements_are_about_figures_models_and_columns_that_exist() -> None:
    for name, models in PUBLISHED["figures"].items():
        assert CONFIG.figures[name].models == list(models)
        assert CONFIG.figures[name].datasets == list(DATASETS)
    for one in PUBLISHED["statements"]:
        models = {model for name in one["figures"] for model in PUBLISHED["figures"][name]}
        assert {*one.get("models", ()), *one.get("values", ())} <= models & {*CONFIG.models}
        if one.get("table") in EXPERIMENTS:
            assert {*one["rows"], one["column"]} <= {*EXPERIMENTS[one["table"]].columns}, one["id"]
        if one.get("table") == "detection":
            assert one["rows"]["detector"] in METHODS


def table_of(statement: dict[str, Any], model: str, value: float, **more: Any) -> pd.DataFrame:
    """Its table in three layers, with this value on PopQA, and rows of no concern."""
    columns = {"site": "mlp", "position": "final", "model": model, "dataset": "popqa"}
    columns |= statement["rows"] | {"thin": False, "predicts": True} | more
    table = pd.DataFrame({"layer": [0, 1, 2], "headline": [False, True, False]})
    table = table.assign(**columns, **{statement["column"]: value / statement.get("factor", 1)})
    other = dict.fromkeys(statement["rows"], "another")
    elsewhere = [table.assign(**other), table.assign(position="prompt_end")]
    return pd.concat([table, *(one.assign(**{statement["column"]: 1e6}) for one in elsewhere)])


def judged(id_: str, figure: str, table: pd.DataFrame) -> pd.DataFrame:
    """The verdicts on one statement about a figure, of which nothing else is built."""
    one = VALUES[id_]
    given = PUBLISHED | {"statements": [one], "figures": {figure: PUBLISHED["figures"][figure]}}
    found = reproduction.check(given, {}, {}, {(figure, one["table"]): table})
    return found.set_index(["model", "dataset"])


@pytest.mark.parametrize(
    ("id_", "figure", "model", "published"),
    [
        ("patching-exact-q", "llama-3", "llama-3-8b", 73),
        ("answer-only-a", "mistral", "mistral-7b-v0.1", 22),
    ],
)
def test_a_number_of_another_table_is_within_5_of_the_published_one_or_outside(
    id_: str, figure: str, model: str, published: float
) -> None:
    for off, verdict in ((-4.9, "within"), (5.1, "outside")):
        found = judged(id_, figure, table_of(VALUES[id_], model, published + off))
        assert found.loc[(model, "popqa"), "verdict"] == verdict
        assert found.loc[(model, "popqa"), "statement"].endswith(f": {published:g}")
        assert (found.drop((model, "popqa"))["verdict"] == "not run").all()

"""Reproduction check: tables that show each published statement, and tables that do not."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from workflow import PROJECT, SHIPPED

from anchorscope.detectors.registry import METHODS
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.experiments.tables import rows_where
from anchorscope.storage import files
from anchorscope.workflow import config
from validation import reproduction, tables

PUBLISHED = yaml.safe_load((PROJECT / "resources/published.yaml").read_text(encoding="utf-8"))
CONFIG = config.load(SHIPPED)
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
    """A figure's table as published; tests change what it is about."""

    def __init__(self, name: str) -> None:
        self.name, layers = name, PUBLISHED["figures"][name]
        parts = [self._cell(model, d, layers[model]) for model in layers for d in DATASETS]
        self.table = pd.concat(parts, ignore_index=True)

    def _cell(self, model: str, dataset: str, layers: int) -> pd.DataFrame:
        shape, a = SHAPES[model]
        at = np.arange(layers)
        q = np.interp(at, *zip(*shape, strict=True))
        # Datasets lie apart in the middle and meet at the last layer.
        apart = (DATASETS.index(dataset) - 0.5) * 3 * np.sin(np.pi * at / (layers - 1))
        points = {"Q": q + apart, "A": np.full(layers, a), "all": q / 2}
        parts = []
        for anchor, values in points.items():
            columns = {"layer": at, "delta_p": values, "ci_high": values + 2}
            columns |= {"probe_auc": AUC[dataset] - 0.1 * (at != layers // 2)}
            columns |= {"headline": at == layers // 2, "anchor": anchor}
            columns |= {"answer_accuracy": 0.4 if anchor == "A" else 0.88, "popularity": 1000.0}
            parts.append(pd.DataFrame(columns).assign(thin=False, signal=True))
        fixed = {"model": model, "dataset": dataset, "site": "mlp", "position": "final"}
        fixed |= {"grouping": "per_layer", "cell_signal": True}
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
        found = self.check(id_).set_index(["model", "dataset"])["verdict"]
        assert len(found)
        return found.to_dict()

    def other_than_within(self, id_: str, verdict: str = "outside") -> set[Any]:
        """Where a statement has this verdict; everywhere else it is `within`."""
        found = self.verdicts(id_)
        assert set(found.values()) <= {"within", verdict}
        return {key for key, value in found.items() if value == verdict}


@pytest.mark.parametrize("name", ["llama-3.2", "qwen3", "llama-3", "mistral"])
def test_a_figure_as_published_is_within_everywhere(name: str) -> None:
    found = Figure(name).check()
    found = found[~found["id"].str.startswith("boundary-popularity")]
    beside = found["id"].isin({*VALUES})
    assert (found.loc[beside, "verdict"] == "not run").all()
    assert found.loc[~beside, "verdict"].eq("within").all(), found[["id", "measured"]]
    assert list(found.columns) == list(reproduction.COLUMNS)
    for column in ("statement", "measured"):  # no formula to a spreadsheet
        assert not found[column].str.match(r"[=+\-@]").any(), column


def test_the_other_published_readings_are_within_too_but_not_a_mixture() -> None:
    small = Figure("llama-3.2")
    for layer in range(12, 16):
        small.put("delta_p", -58.0, model="llama-3.2-1b", anchor="Q", layer=layer)
    small.put("delta_p", -28.0, model="llama-3.2-1b", anchor="A", dataset="trivia-qa")
    for id_ in ("llama-3.2-1b-q-last", "llama-3.2-1b-a"):
        assert small.other_than_within(id_) == set()
    for model, bend, expected in (
        ("qwen3-8b", ([0, 10, 35], [0, -75, -35]), set()),
        ("qwen3-8b", ([0, 10, 20, 35], [0, -30, -55, -30]), set(DATASETS)),
    ):
        large = Figure("qwen3")
        rows = large.rows(model=model, anchor="Q")
        large.table.loc[rows, "delta_p"] = np.interp(large.table.loc[rows, "layer"], *bend)
        assert {dataset for _, dataset in large.other_than_within(f"{model}-q")} == expected


NQ = {"model": "llama-3.2-1b", "dataset": "nq"}
ONE = ("llama-3.2-1b", "nq")
POPQA = {"model": "llama-3-8b", "dataset": "popqa"}


@pytest.mark.parametrize(
    ("id_", "column", "value", "where", "outside"),
    [
        ("llama-3.2-1b-a", "delta_p", -16.0, NQ | {"anchor": "A", "layer": 3}, ONE),
        ("llama-3.2-1b-a", "delta_p", 10.5, NQ | {"anchor": "A", "layer": 3}, ONE),
        ("llama-3.2-1b-q-trough", "delta_p", -64.5, NQ | {"anchor": "Q", "layer": 2}, ONE),
        ("llama-3.2-1b-q-last", "delta_p", -52.0, NQ | {"anchor": "Q", "layer": 15}, ONE),
        ("q-clearly-negative", "ci_high", -4.0, NQ | {"anchor": "Q", "layer": 6}, ONE),
        # 16 layers: layer 6 is the first of the second third; 28: layer 10
        ("q-clearly-negative", "ci_high", 4.0, {"anchor": "Q", "layer": 5}, None),
        ("probe-auc-llama-3-8b", "probe_auc", 0.6, POPQA, ("llama-3-8b", "popqa")),
    ],
)  # fmt: skip
def test_what_differs_from_the_publication_is_outside_and_all_else_stays_within(
    id_: str, column: str, value: float, where: dict[str, Any], outside: Any
) -> None:
    model = where.get("model", "llama-3.2-1b")
    figure = Figure(next(name for name, own in PUBLISHED["figures"].items() if model in own))
    assert figure.other_than_within(id_) == set()
    figure.put(column, value, **where)
    assert figure.other_than_within(id_) == ({outside} if outside else set())


def test_the_interval_under_random_tokens_must_hold_0_at_every_layer() -> None:
    low, high = 0.1, 3.0
    figure = Figure("llama-3.2")
    assert figure.other_than_within("random-tokens") == set()
    here = {"condition": "random", "anchor": "all", "dataset": "nq", "layer": 3}
    figure.put("ci_low", low, **here)
    figure.put("ci_high", high, **here)
    outside = {(model, "nq") for model in ("llama-3.2-1b", "llama-3.2-3b")}
    assert figure.other_than_within("random-tokens") == outside
    found = figure.check("random-tokens").set_index(["model", "dataset"])["measured"]
    ends = {"ci_low": sorted([low, -1.5]), "ci_high": sorted([high, 0.5])}
    said = [
        f"{name}, layers 0 to 15: {least:g} to {most:g}" for name, (least, most) in ends.items()
    ]
    assert found[ONE] == ", ".join(said)
    figure.table = figure.table.drop(figure.rows(condition="random"))
    assert set(figure.verdicts("random-tokens").values()) == {"not run"}


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
    figure.put("cell_signal", False, **NQ)
    grey = (found := figure.check())[found["measured"].str.endswith("(no signal)")]
    assert ONE in set(zip(grey["model"], grey["dataset"], strict=True))
    assert "popqa" not in set(grey["dataset"])
    figure.table = figure.table.drop(figure.rows(dataset="trivia-qa"))
    for id_ in ("llama-3.2-1b-q-trough", "random-tokens"):
        assert figure.verdicts(id_)["llama-3.2-1b", "trivia-qa"] == "not run"
    figure = Figure("llama-3.2")
    for column in ("delta_p", "ci_high"):
        figure.put(column, np.nan, model="llama-3.2-1b", anchor="Q")
    for id_ in ("llama-3.2-1b-q-trough", "q-clearly-negative"):
        own = {key: v for key, v in figure.verdicts(id_).items() if key[0] == "llama-3.2-1b"}
        assert set(own.values()) == {"outside"}, id_


def test_a_figure_is_judged_by_the_read_out_that_it_draws(tmp_path: Path) -> None:
    """Tables are read by the rule's own maker."""
    figure = Figure("llama-3.2")
    before = figure.check()
    other = figure.table.assign(site="attn", delta_p=0.0, ci_high=1.0)
    figure.table = pd.concat([other, figure.table], ignore_index=True)
    drawn = figure.check("q-clearly-negative", readout="attn/final")
    assert set(drawn["verdict"]) == {"outside"} and set(drawn["readout"]) == {"attn/final"}
    path = tmp_path / "llama-3.2.csv"
    files.write_csv(figure.table, path)
    given = SimpleNamespace(curve=[path], others=[], published=PROJECT / "resources/published.yaml")
    made, _ = tables.reproduction_table(
        SimpleNamespace(input=given, params=SimpleNamespace(readouts={}))
    )
    found = made["table"][made["table"]["figure"] == "llama-3.2"]
    pd.testing.assert_frame_equal(found.reset_index(drop=True), before.reset_index(drop=True))


VALUES = {
    one["id"]: one
    for one in PUBLISHED["statements"]
    if one.get("table", "curve") not in (reproduction.LINES, "curve")
}


def test_statements_are_about_figures_models_and_columns_that_exist() -> None:
    for name, models in PUBLISHED["figures"].items():
        assert CONFIG.figures[name].models == list(models)
        assert CONFIG.figures[name].datasets == list(DATASETS)
    ids = [one["id"] for one in PUBLISHED["statements"]]
    assert len(set(ids)) == len(ids)
    for one in PUBLISHED["statements"]:
        models = {model for name in one["figures"] for model in PUBLISHED["figures"][name]}
        assert {*one.get("models", ()), *one.get("values", ())} <= models & {*CONFIG.models}
        assert all(len(values) == len(DATASETS) for values in one.get("values", {}).values())
        if one.get("table") in EXPERIMENTS:
            assert {*one["rows"], one["column"]} <= {*EXPERIMENTS[one["table"]].columns}, one["id"]
        if one.get("table") == "detection":
            assert one["rows"]["detector"] in METHODS


def table_of(statement: dict[str, Any], model: str, value: float, **more: Any) -> pd.DataFrame:
    """Its table in three layers, with this value on PopQA, and rows of no concern."""
    columns = {"site": "mlp", "position": "final", "model": model, "dataset": "popqa"}
    columns |= statement["rows"] | {"thin": False, "signal": True} | more
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
        ("detection-mixture-of-probes", "mistral", "mistral-7b-v0.3", 91.66),
    ],
)
def test_a_number_of_another_table_is_within_5_of_the_published_one_or_outside(
    id_: str, figure: str, model: str, published: float
) -> None:
    for off, verdict in ((0, "within"), (-4.9, "within"), (5.1, "outside")):
        found = judged(id_, figure, table_of(VALUES[id_], model, published + off))
        assert found.loc[(model, "popqa"), "verdict"] == verdict
        assert found.loc[(model, "popqa"), "statement"].endswith(f": {published:g}")
        others = found.drop((model, "popqa"))
        assert (others["verdict"] == "not run").all() and (others["measured"] == "").all()
        assert found["measured"].str.match(r"[^=+\-@]|$").all(), "no formula to a spreadsheet"


def test_what_was_not_read_is_no_statement_and_what_is_thin_is_not_judged() -> None:
    for id_, value, flag, measured, verdict in (
        ("patching-exact-q", 73, {"thin": True}, "too few samples", "not run"),
        ("answer-only-q", 52, {"signal": False}, "(no signal)", "within"),
    ):
        found = judged(id_, "llama-3", table_of(VALUES[id_], "llama-3-8b", value, **flag))
        row = found.loc[("llama-3-8b", "popqa")]
        assert row["measured"].endswith(measured) and row["verdict"] == verdict
        if id_ == "patching-exact-q":  # one of its numbers could not be read
            assert ("llama-3-70b", "nq") not in found.index and ("llama-3-8b", "nq") in found.index


def test_accuracy_and_popularity_of_the_groups_are_judged_from_the_curve() -> None:
    for off, verdict in ((4.9, "within"), (5.1, "outside")):
        figure, at = Figure("llama-3"), {"model": "llama-3-70b", "anchor": "A"}
        figure.put("popularity", 1000 * (13 + off), **at, condition="knockout", headline=True)
        figure.put("answer_accuracy", 0.6 + off / 100, **at, condition="knockout", layer=79)
        for quantity in ("popularity", "accuracy"):
            found = figure.verdicts(f"boundary-{quantity}-a")
            assert found["llama-3-70b", "popqa"] == verdict


def test_a_range_holds_all_its_layers() -> None:
    one = VALUES["boundary-unknown-a"]
    table = table_of(one, "llama-3-8b", 60)
    at = ("llama-3-8b", "popqa")
    assert judged("boundary-unknown-a", "llama-3", table).loc[at, "verdict"] == "within"
    table.iloc[2, list(table).index("unknown")] = 0.3
    found = judged("boundary-unknown-a", "llama-3", table).loc[at]
    assert found["verdict"] == "outside" and found["measured"] == "unknown, layers 0 to 2: 30 to 60"

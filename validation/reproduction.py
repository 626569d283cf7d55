"""Reproduction: measured curves against the statements of `resources/published.yaml`."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.config.readouts import Pair
from anchorscope.experiments.tables import rows_where
from validation.calibration import DEFAULT_READOUT

COLUMNS = ("id", "figure", "model", "dataset", "statement", "measured", "verdict", "readout")
VERDICTS = {True: "within", False: "outside", None: "not run"}

Curves = Mapping[tuple[Hashable, ...], pd.DataFrame]
"""(model, dataset, anchor) → rows by layer; the anchor `random` stands for all samples under random
tokens."""
Outcome = tuple[str, bool | None]
"""What was measured, in words, and whether the statement holds; None: cannot be told."""


@dataclass(frozen=True)
class Case:
    """A statement about one model on one dataset, or on all of them together."""

    statement: Mapping[str, Any]  # its entry in the file
    model: str
    datasets: Sequence[str]
    smaller: str | None  # the next smaller model of the family
    layers: int  # published number of layers of the model
    tolerance: Mapping[str, float]  # column → how far beyond a range counts as within
    curves: Curves  # what is built of the figure
    beside: Mapping[str, pd.DataFrame]  # other tables of the figure that are built, by name
    value: float | None = None  # what was published of this model and dataset

    @property
    def wording(self) -> str:
        """The statement, with the number of this model and dataset."""
        words = str(self.statement["wording"])
        return words if self.value is None else f"{words}: {self.value:g}"

    def values(self, anchor: str, column: str = "delta_p", model: str | None = None) -> np.ndarray:
        """A column, float64 [datasets, layers]; NaN where a group is too small."""
        model = model or self.model
        columns = [self.curves[model, dataset, anchor][column] for dataset in self.datasets]
        return np.stack([column.to_numpy(np.float64) for column in columns])

    def at_headline(self, column: str) -> tuple[float, float]:
        """A column of Q and of A at the headline layer, the mean over datasets."""
        q, a = (
            self.values(anchor, column)[self.values(anchor, "headline") == 1].mean()
            for anchor in ("Q", "A")
        )
        return q, a

    def outcome(self) -> Outcome:
        """What the statement's check gives, if all its cells are measured."""
        check = self.statement["check"]
        if check == "value":
            return _value(self)
        models = [self.model, self.smaller] if check == "larger_is_deeper" else [self.model]
        cells = [
            self.curves.get((model, dataset, "all"))
            for model in models
            for dataset in self.datasets
        ]
        measured = [rows for rows in cells if rows is not None]
        if len(measured) < len(cells):
            return "", None
        if any(rows["delta_p"].isna().all() for rows in measured):
            return "too few samples", None
        words, holds = CHECKS[check](self)
        has_signal = all(rows["cell_signal"].astype(bool).all() for rows in measured)
        if holds is not None and not has_signal:
            words = f"{words} (no signal)"
        return words, holds


def check(
    published: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    readouts: Mapping[str, str],
    others: Mapping[tuple[str, str], pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """Hold the built figures against `resources/published.yaml`.

    Args:
        published: that file.
        tables: of the figures that are built, by figure.
        readouts: the read-out that each figure draws, `mlp/final` if not given.
        others: tables of experiments and of detection that are built, by figure and name, such as
            `patching`.

    Returns:
        A row for each statement, figure, model and dataset (`all`: all of them together), built or
        not, with the columns `COLUMNS`. `measured` is in words, in the table's units. `verdict` is
        `within`, `outside`, or `not run`: the figure, a cell of it or the quantity was not
        measured, or on too few samples. Curves are those of the knockout grouped by layer, without
        the points that are too thin to be drawn.
    """
    records = []
    for figure in published["figures"]:
        readout = readouts.get(figure, DEFAULT_READOUT)
        built = _curves(tables[figure], readout) if figure in tables else {}
        beside = {
            name: _at_readout(table, readout)
            for (of_figure, name), table in (others or {}).items()
            if of_figure == figure
        }
        for case in _cases(published, figure, built, beside):
            measured, holds = case.outcome()
            records.append(
                {
                    "id": case.statement["id"],
                    "figure": figure,
                    "model": case.model,
                    "dataset": case.datasets[0] if case.statement["check"] in OF_EACH else "all",
                    "statement": case.wording,
                    "measured": measured,
                    "verdict": VERDICTS[holds],
                    "readout": readout,
                }
            )
    return pd.DataFrame(records, columns=list(COLUMNS))


def _cases(
    published: Mapping[str, Any], figure: str, curves: Curves, beside: Mapping[str, pd.DataFrame]
) -> Iterator[Case]:
    """Every statement about a figure, for each model, and dataset, that it is about."""
    layers, tolerance = published["figures"][figure], published["tolerance"]
    for statement in published["statements"]:
        if figure not in statement["figures"]:
            continue
        check, datasets = statement["check"], statement.get("datasets", published["datasets"])
        groups = [[dataset] for dataset in datasets] if check in OF_EACH else [datasets]
        values, unread = statement.get("values", {}), [None] * len(published["datasets"])
        for smaller, model in pairwise([None, *layers]):
            if model not in statement.get("models", layers):
                continue
            if check == "larger_is_deeper" and smaller is None:
                continue
            known = dict(zip(published["datasets"], values.get(model, unread), strict=True))
            for group in groups:
                value = known.get(group[0])
                if values and value is None:
                    continue
                about = (statement, model, group, smaller, layers[model])
                yield Case(*about, tolerance, curves, beside, value)


def _at_readout(table: pd.DataFrame, readout: str) -> pd.DataFrame:
    """The rows of a table at a read-out."""
    return table[table["site"] + "/" + table["position"] == readout]


def _curves(table: pd.DataFrame, readout: str) -> Curves:
    """The curves of a figure at a read-out, thin points as NaN."""
    here = Pair.of(readout)._asdict()
    rows = rows_where(table, **here, grouping="per_layer")
    curve, random = (rows_where(rows, condition=name) for name in ("knockout", "random"))
    random = rows_where(random, anchor="all").assign(anchor="random")
    thin = curve["thin"].astype(bool)
    curve = curve.assign(**{name: curve[name].mask(thin) for name in ("delta_p", "ci_high")})
    return {
        key: rows.sort_values("layer")
        for part in (curve, random)
        for key, rows in part.groupby(["model", "dataset", "anchor"])
    }


def _troughs(values: np.ndarray) -> np.ndarray:
    """The lowest point of each curve, [...], of values [..., layers]; NaN if it has none."""
    return np.fmin.reduce(values, axis=-1)


def _third(layers: int) -> int:
    """The first layer of the second third."""
    return -(-layers // 3)


def _range(case: Case) -> Outcome:
    """Whether all conditions of one of the statement's readings hold."""
    readings = [
        [_condition(case, condition) for condition in conditions]
        for conditions in case.statement["readings"]
    ]
    parts = dict.fromkeys(measured for reading in readings for measured, _ in reading)
    return ", ".join(parts), any(all(holds for _, holds in reading) for reading in readings)


def _condition(case: Case, condition: Mapping[str, Any]) -> Outcome:
    """Whether a range holds some layers of a curve, or the lowest or highest point of these."""
    wanted = {"column": "delta_p", **case.statement, **condition}
    (points,) = case.values(wanted["anchor"], wanted["column"])
    named = {"third": _third(len(points)), "last": len(points) - 1}
    first, last = (named.get(layer, layer) for layer in wanted["layers"])
    words = f"layer {first}" if first == last else f"layers {first} to {last}"
    chosen = points[first : last + 1]
    if np.isnan(chosen).all():
        return f"{words}: no group", False
    limits, tolerance = wanted["range"], case.tolerance.get(wanted["column"], 0)
    low, high = limits[case.datasets[0]] if isinstance(limits, dict) else limits
    least, most, elsewhere = np.nanmin(chosen), np.nanmax(chosen), 0.0
    if "pick" in wanted:
        pick = {"lowest": np.nanmin, "highest": np.nanmax}[wanted["pick"]]
        least = most = pick(chosen)
        # How much lower, or higher, the curve gets at other layers.
        elsewhere = abs(pick(points) - least)
        words = f"{wanted['pick']} of {words}"
    words += f": {least:.3g}" if least == most else f": {least:.3g} to {most:.3g}"
    if elsewhere:
        words += f", {pick(points):.3g} elsewhere"
    in_range = low - tolerance <= least and most <= high + tolerance
    return words, bool(in_range and elsewhere <= tolerance)


def _value(case: Case) -> Outcome:
    """Whether a number of another table is as published, or lies in the published range."""
    statement = case.statement
    table = case.beside.get(statement["table"], pd.DataFrame())
    where = statement["rows"] | {"model": case.model, "dataset": case.datasets[0]}
    if table.empty:
        return "", None
    rows = rows_where(table.astype(dict.fromkeys(where, str)), **where)
    layers = statement.get("layers", "headline")
    if "layer" in rows and layers == "headline":
        rows = rows[rows["headline"].astype(bool)]
    elif "layer" in rows:
        first, last = (rows["layer"].max() if end == "last" else end for end in layers)
        rows = rows[rows["layer"].between(first, last)]
    if rows["thin"].astype(bool).any() if "thin" in rows else False:
        return "too few samples", None
    values = statement.get("factor", 1) * rows[statement["column"]].dropna()
    if values.empty:
        return "", None
    published = [case.value, case.value] if case.value is not None else statement["range"]
    low, high = published[0] - statement["within"], published[1] + statement["within"]
    least, most = values.min(), values.max()
    words = f"{least:.3g}" if least == most else f"{least:.3g} to {most:.3g}"
    if "signal" in rows and not rows["signal"].astype(bool).all():
        words += " (no signal)"
    return f"{statement['column']} {words}", bool(low <= least and most <= high)


def _no_effect(case: Case) -> Outcome:
    rows = case.curves.get((case.model, case.datasets[0], "random"))
    if rows is None:
        return "", None
    none = (rows["ci_low"] <= 0) & (rows["ci_high"] >= 0)
    low, high = rows["ci_low"].min(), rows["ci_high"].max()
    words = f"at {none.sum()} of {len(rows)} layers, intervals {low:.1f} to {high:.1f}"
    return words, bool(none.all())


def _higher_in_q(case: Case) -> Outcome:
    column = case.statement["column"]
    if np.isnan(case.values("all", column)).all():
        return "", None
    q, a = case.at_headline(column)
    return f"{q:.4g} against {a:.4g}", bool(q > a)


def _larger_is_deeper(case: Case) -> Outcome:
    (larger,) = _troughs(case.values("Q"))
    (smaller,) = _troughs(case.values("Q", model=case.smaller))
    words = f"trough {larger:.1f}, that of {case.smaller} {smaller:.1f}"
    return words, bool(larger < smaller)


def _layers(case: Case) -> Outcome:
    count = case.values("all").shape[1]
    return f"{count} layers", count == case.layers


def _lowest_dataset(case: Case) -> Outcome:
    troughs = dict(zip(case.datasets, _troughs(case.values("Q")), strict=True))
    words = ", ".join(f"{name} {value:.1f}" for name, value in troughs.items())
    return words, all(troughs[case.statement["dataset"]] <= value for value in troughs.values())


def _converging(case: Case) -> Outcome:
    spread = np.ptp(case.values("Q"), axis=0)
    layers = [*case.statement["layers"], len(spread) - 1]
    if max(layers) >= len(spread):
        return f"{len(spread)} layers", False
    words = ", ".join(f"layer {layer}: {spread[layer]:.1f} apart" for layer in layers)
    return words, all(spread[-1] < spread[layer] for layer in layers[:-1])


def _gap(case: Case) -> Outcome:
    """Mean |Q − A| within a dataset against the mean |difference| of two datasets' Q curves."""
    q, a = (case.values(anchor)[:, _third(case.layers) :] for anchor in ("Q", "A"))
    between = np.stack([one - other for one, other in combinations(q, 2)])
    if np.isnan(q - a).all() or np.isnan(between).all():
        return "no group", False
    gap, distance = np.nanmean(abs(q - a)), np.nanmean(abs(between))
    words = f"gap {gap:.1f}, datasets {distance:.1f} apart"
    return words, bool(gap >= case.statement["factor"] * distance)


def _accuracy(case: Case) -> Outcome:
    q, a = case.at_headline("answer_accuracy")
    error = max(abs(q - case.statement["q"]), abs(a - case.statement["a"]))
    words = f"{q:.3f} against {a:.3f}, mean of the datasets"
    return words, bool(error <= case.tolerance["answer_accuracy"])


OF_EACH: dict[str, Callable[[Case], Outcome]] = {
    "range": _range, "no_effect": _no_effect, "higher_in_q": _higher_in_q,
    "larger_is_deeper": _larger_is_deeper, "value": _value,
}  # fmt: skip
CHECKS = OF_EACH | {
    "layers": _layers, "lowest_dataset": _lowest_dataset, "converging": _converging, "gap": _gap,
    "accuracy": _accuracy,
}  # fmt: skip
"""Every kind of statement. Those of `OF_EACH` are checked for each dataset, the others for all
datasets together."""

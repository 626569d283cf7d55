"""Reproduction: measured curves against the statements of `resources/published.yaml`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.experiments.knockout.curve import NO
from anchorscope.experiments.tables import rows_where
from anchorscope.storage.errors import AnchorscopeError

COLUMNS = ("id", "figure", "model", "dataset", "statement", "measured", "verdict", "readout")
DEFAULT_READOUT = "mlp/final"
VERDICTS = {True: "within", False: "outside", None: "not run"}

Curves = Mapping[tuple[Hashable, ...], pd.DataFrame]
"""(model, dataset, anchor) → rows by layer; of the anchor `random` that control's contrasts."""
Outcome = tuple[str, bool | None]
"""What was measured, in words, and whether the statement holds; None: cannot be told."""


@dataclass(frozen=True)
class Case:
    """A statement about one model on one dataset, or on all of them together.

    Attributes:
        statement: its entry in the file.
        model, datasets: catalogue keys.
        smaller: the next smaller model of the family.
        layers: published number of layers of the model.
        tolerance: column → how far beyond a range counts as within.
        curves: what is built of the figure.
    """

    statement: Mapping[str, Any]
    model: str
    datasets: Sequence[str]
    smaller: str | None
    layers: int
    tolerance: Mapping[str, float]
    curves: Curves

    @property
    def needed(self) -> list[tuple[str, str, str]]:
        """The cells compared."""
        larger = self.statement["check"] == "larger_is_deeper" and self.smaller
        models = [self.model, larger] if larger else [self.model]
        return [(model, dataset, "all") for model in models for dataset in self.datasets]

    def values(self, anchor: str, column: str = "delta_p", model: str | None = None) -> np.ndarray:
        """A column, float64 [datasets, layers]; NaN where a group is too small."""
        each = [self.curves[model or self.model, one, anchor][column] for one in self.datasets]
        return np.stack([values.to_numpy(np.float64) for values in each])

    def at_headline(self, anchor: str, column: str) -> float:
        """A column at each dataset's headline layer, the mean of the datasets."""
        headline = self.values(anchor, "headline") == 1
        return float(self.values(anchor, column)[headline].mean())


def check(
    published: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    contrasts: Mapping[str, pd.DataFrame],
    *,
    readouts: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Hold the built figures against what was published.

    Args:
        published: `resources/published.yaml`.
        tables: figure → its table, of those that are built.
        contrasts: figure → its table of contrasts.
        readouts: figure → the read-out that it draws; `mlp/final` where it is not said.

    Returns:
        A row for each statement, figure, model and dataset (`all`: all of them together), whether
        built or not, with the columns `COLUMNS`. `measured` is in words, in the table's units.
        `verdict`: `within`, `outside`, or `not run`: the figure, a cell of it or the quantity was
        not measured, or on too few samples. Curves are those of the knockout grouped by layer,
        without the points too thin for the line.

    Raises:
        AnchorscopeError: the file has a statement that cannot be checked.
    """
    records = []
    for figure in published["figures"]:
        readout = (readouts or {}).get(figure, DEFAULT_READOUT)
        built = _curves(tables[figure], contrasts[figure], readout) if figure in tables else {}
        for case in _cases(published, figure, built):
            measured, holds = _outcome(case)
            dataset = case.datasets[0] if case.statement["check"] in OF_EACH else "all"
            record = {"id": case.statement["id"], "figure": figure, "model": case.model}
            record |= {"dataset": dataset, "statement": case.statement["wording"]}
            record |= {"measured": measured, "verdict": VERDICTS[holds], "readout": readout}
            records.append(record)
    return pd.DataFrame(records, columns=list(COLUMNS))


def _cases(published: Mapping[str, Any], figure: str, curves: Curves) -> Iterator[Case]:
    layers = published["figures"][figure]
    for statement in published["statements"]:
        _check(statement, published["figures"])
        check, models = statement["check"], statement.get("models", layers)
        datasets = statement.get("datasets", published["datasets"])
        for smaller, model in pairwise([None, *layers]):
            if figure not in statement["figures"] or model not in models:
                continue
            if check == "larger_is_deeper" and smaller is None:
                continue
            for about in [[one] for one in datasets] if check in OF_EACH else [datasets]:
                depth, tolerance = layers[model], published["tolerance"]
                yield Case(statement, model, about, smaller, depth, tolerance, curves)


def _check(statement: Mapping[str, Any], figures: Mapping[str, Mapping[str, int]]) -> None:
    models = {model for name in statement["figures"] for model in figures.get(name, {})}
    unknown = {*statement.get("models", ())} - models | {*statement["figures"]} - {*figures}
    if unknown := unknown | {statement["check"]} - {*CHECKS}:
        raise AnchorscopeError(
            f"figure, model or check unknown: {', '.join(unknown)}",
            f"resources/published.yaml, statement {statement['id']}",
            f"use what stands under `figures`, and one of the checks {', '.join(CHECKS)}",
            see="not-measured",
        )


def _curves(table: pd.DataFrame, contrasts: pd.DataFrame, readout: str) -> Curves:
    site, position = readout.split("/")
    here = {"site": site, "position": position}
    curve = rows_where(table, **here, condition="knockout", grouping="per_layer")
    thin = curve["thin"].astype(bool)
    curve = curve.assign(**{name: curve[name].mask(thin) for name in ("delta_p", "ci_high")})
    random = rows_where(contrasts, **here, contrast="random", quantity="delta_p")
    return {
        key: rows.sort_values("layer")
        for part in (curve, random.assign(anchor="random"))
        for key, rows in part.groupby(["model", "dataset", "anchor"])
    }


def _outcome(case: Case) -> Outcome:
    if any(cell not in case.curves for cell in case.needed):
        return "", None
    cells = [case.curves[cell] for cell in case.needed]
    if any(rows["delta_p"].isna().all() for rows in cells):
        return "too few samples", None
    measured, holds = CHECKS[case.statement["check"]](case)
    seen = all(rows["cell_signal"].astype(bool).all() for rows in cells)
    return measured if seen or holds is None else f"{measured} (no signal)", holds


def _troughs(values: np.ndarray) -> np.ndarray:
    """Lowest of each curve, [...], of values [..., layers]; NaN where there is none."""
    return np.fmin.reduce(values, axis=-1)


def _third(layers: int) -> int:
    """The first layer of the second third."""
    return -(-layers // 3)


def _range(case: Case) -> Outcome:
    """Whether one of the readings fits as a whole."""
    readings = [[_condition(case, one) for one in each] for each in case.statement["readings"]]
    said = dict.fromkeys(measured for reading in readings for measured, _ in reading)
    return ", ".join(said), any(all(holds for _, holds in reading) for reading in readings)


def _condition(case: Case, condition: Mapping[str, Any]) -> Outcome:
    """Whether the layers of a condition, or the lowest or highest of them, lie in its range."""
    given = {"column": "delta_p", **case.statement, **condition}
    (points,) = case.values(given["anchor"], given["column"])
    words = {"third": _third(len(points)), "last": len(points) - 1}
    first, last = (words.get(layer, layer) for layer in given["layers"])
    said = f"layer {first}" if first == last else f"layers {first} to {last}"
    chosen = points[first : last + 1]
    if np.isnan(chosen).all():
        return f"{said}: no group", False
    wanted, beyond = given["range"], case.tolerance.get(given["column"], 0)
    low, high = wanted[case.datasets[0]] if isinstance(wanted, dict) else wanted
    least, most, elsewhere = np.nanmin(chosen), np.nanmax(chosen), 0.0
    if "pick" in given:
        pick = {"lowest": np.nanmin, "highest": np.nanmax}[given["pick"]]
        least = most = pick(chosen)
        elsewhere = abs(pick(points) - least)
        said = f"{given['pick']} of {said}"
    said += f": {least:.3g}" if least == most else f": {least:.3g} to {most:.3g}"
    said += f", {pick(points):.3g} elsewhere" if elsewhere else ""
    return said, bool(low - beyond <= least and most <= high + beyond and elsewhere <= beyond)


def _no_effect(case: Case) -> Outcome:
    rows = case.curves.get((case.model, case.datasets[0], "random"))
    if rows is None:
        return "", None
    none = rows["effect"] == NO
    low, high = rows["ci90_low"].min(), rows["ci90_high"].max()
    said = f"at {none.sum()} of {len(rows)} layers, 90 % intervals {low:.1f} to {high:.1f}"
    return said, bool(none.all())


def _higher_in_q(case: Case) -> Outcome:
    column = case.statement["column"]
    if np.isnan(case.values("all", column)).all():
        return "", None
    q, a = (case.at_headline(anchor, column) for anchor in ("Q", "A"))
    return f"{q:.4g} against {a:.4g}", q > a


def _larger_is_deeper(case: Case) -> Outcome:
    models = (case.model, case.smaller)
    own, other = (_troughs(case.values("Q", model=model))[0] for model in models)
    return f"trough {own:.1f}, that of {case.smaller} {other:.1f}", bool(own < other)


def _layers(case: Case) -> Outcome:
    count = case.values("all").shape[1]
    return f"{count} layers", count == case.layers


def _lowest_dataset(case: Case) -> Outcome:
    troughs = dict(zip(case.datasets, _troughs(case.values("Q")), strict=True))
    said = ", ".join(f"{name} {value:.1f}" for name, value in troughs.items())
    return said, all(troughs[case.statement["dataset"]] <= value for value in troughs.values())


def _converging(case: Case) -> Outcome:
    spread = np.ptp(case.values("Q"), axis=0)
    layers = [*case.statement["layers"], len(spread) - 1]
    if max(layers) >= len(spread):
        return f"{len(spread)} layers", False
    said = ", ".join(f"layer {layer}: {spread[layer]:.1f} apart" for layer in layers)
    return said, all(spread[-1] < spread[layer] for layer in layers[:-1])


def _gap(case: Case) -> Outcome:
    """Mean |Q − A| within a dataset against the mean |difference| of two datasets' Q curves."""
    q, a = (case.values(anchor)[:, _third(case.layers) :] for anchor in ("Q", "A"))
    pairs = np.stack([one - other for one, other in combinations(q, 2)])
    if np.isnan(q - a).all() or np.isnan(pairs).all():
        return "no group", False
    gap, apart = np.nanmean(abs(q - a)), np.nanmean(abs(pairs))
    said = f"gap {gap:.1f}, datasets {apart:.1f} apart"
    return said, bool(gap >= case.statement["factor"] * apart)


def _accuracy(case: Case) -> Outcome:
    q, a = (case.at_headline(anchor, "answer_accuracy") for anchor in ("Q", "A"))
    apart = max(abs(q - case.statement["q"]), abs(a - case.statement["a"]))
    said = f"{q:.3f} against {a:.3f}, mean of the datasets"
    return said, bool(apart <= case.tolerance["answer_accuracy"])


OF_EACH: dict[str, Callable[[Case], Outcome]] = {
    "range": _range,
    "no_effect": _no_effect,
    "higher_in_q": _higher_in_q,
    "larger_is_deeper": _larger_is_deeper,
}
CHECKS = OF_EACH | {
    "layers": _layers,
    "lowest_dataset": _lowest_dataset,
    "converging": _converging,
    "gap": _gap,
    "accuracy": _accuracy,
    "none": lambda case: ("", None),
}
"""Every kind of statement; those of `OF_EACH` are about one dataset, others about all together."""

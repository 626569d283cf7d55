"""Reproduction: measured curves against the statements of `resources/published.yaml`."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.calibration.calibration import DEFAULT_READOUT
from anchorscope.experiments.knockout.curve import NO
from anchorscope.experiments.tables import rows_where

COLUMNS = ("id", "figure", "model", "dataset", "statement", "measured", "verdict", "readout")
VERDICTS = {True: "within", False: "outside", None: "not run"}

Curves = Mapping[tuple[Hashable, ...], pd.DataFrame]
"""(model, dataset, anchor) → rows by layer; of the anchor `random` that control's contrasts."""
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

    def values(self, anchor: str, column: str = "delta_p", model: str | None = None) -> np.ndarray:
        """A column, float64 [datasets, layers]; NaN where a group is too small."""
        each = [self.curves[model or self.model, one, anchor][column] for one in self.datasets]
        return np.stack([values.to_numpy(np.float64) for values in each])

    def at_headline(self, column: str) -> list[float]:
        """A column of Q and A at each dataset's headline layer, the means of the datasets."""
        return [
            self.values(anchor, column)[self.values(anchor, "headline") == 1].mean()
            for anchor in ("Q", "A")
        ]

    def outcome(self) -> Outcome:
        """Of the statement's check, where its cells are measured."""
        check = self.statement["check"]
        models = [self.model, self.smaller] if check == "larger_is_deeper" else [self.model]
        cells = [self.curves.get((m, dataset, "all")) for m in models for dataset in self.datasets]
        known = [rows for rows in cells if rows is not None]
        if len(known) < len(cells):
            return "", None
        if any(rows["delta_p"].isna().all() for rows in known):
            return "too few samples", None
        measured, holds = CHECKS[check](self)
        seen = all(rows["cell_signal"].astype(bool).all() for rows in known)
        return measured if seen or holds is None else f"{measured} (no signal)", holds


def check(
    published: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    contrasts: Mapping[str, pd.DataFrame],
    readouts: Mapping[str, str],
) -> pd.DataFrame:
    """Hold the built figures against `resources/published.yaml`.

    `tables` and `contrasts` are by figure, of those that are built; so are the `readouts` that they
    draw, `mlp/final` where it is not said. A row for each statement, figure, model and dataset
    (`all`: all of them together), whether built or not, with the columns `COLUMNS`. `measured` is
    in words, in the table's units. `verdict`: `within`, `outside`, or `not run`: the figure, a cell
    of it or the quantity was not measured, or on too few samples. Curves are those of the knockout
    grouped by layer, without the points too thin for the line.
    """
    records = []
    for figure in published["figures"]:
        readout = readouts.get(figure, DEFAULT_READOUT)
        built = _curves(tables[figure], contrasts[figure], readout) if figure in tables else {}
        for case in _cases(published, figure, built):
            measured, holds = case.outcome()
            dataset = case.datasets[0] if case.statement["check"] in OF_EACH else "all"
            said = case.statement["id"], figure, case.model, dataset, case.statement["wording"]
            records.append((*said, measured, VERDICTS[holds], readout))
    return pd.DataFrame(records, columns=list(COLUMNS))


def _cases(published: Mapping[str, Any], figure: str, curves: Curves) -> Iterator[Case]:
    layers, tolerance = published["figures"][figure], published["tolerance"]
    for statement in published["statements"]:
        if figure not in statement["figures"]:
            continue
        check, datasets = statement["check"], statement.get("datasets", published["datasets"])
        for smaller, model in pairwise([None, *layers]):
            if model not in statement.get("models", layers):
                continue
            if check == "larger_is_deeper" and smaller is None:
                continue
            for about in [[one] for one in datasets] if check in OF_EACH else [datasets]:
                yield Case(statement, model, about, smaller, layers[model], tolerance, curves)


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
    q, a = case.at_headline(column)
    return f"{q:.4g} against {a:.4g}", bool(q > a)


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
    q, a = case.at_headline("answer_accuracy")
    apart = max(abs(q - case.statement["q"]), abs(a - case.statement["a"]))
    said = f"{q:.3f} against {a:.3f}, mean of the datasets"
    return said, bool(apart <= case.tolerance["answer_accuracy"])


OF_EACH: dict[str, Callable[[Case], Outcome]] = {
    "range": _range, "no_effect": _no_effect, "higher_in_q": _higher_in_q,
    "larger_is_deeper": _larger_is_deeper,
}  # fmt: skip
CHECKS = OF_EACH | {
    "layers": _layers, "lowest_dataset": _lowest_dataset, "converging": _converging, "gap": _gap,
    "accuracy": _accuracy, "none": lambda case: ("", None),
}  # fmt: skip
"""Every kind of statement; those of `OF_EACH` are about one dataset, others about all together."""

"""Reproduction: measured curves against the published ranges and statements.

`resources/published.yaml` says what was published; here is how each kind of statement is checked.
Only tables of the published models on the published datasets count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.experiments.knockout import curve as curves
from anchorscope.storage.errors import AnchorscopeError

COLUMNS = (
    "id", "figure", "model", "dataset", "statement", "published", "measured", "verdict", "readout",
)  # fmt: skip
ALL = "all"
DEFAULT_READOUT = "mlp/final"
WITHIN, OUTSIDE, NOT_RUN = "within", "outside", "not run"


@dataclass(frozen=True)
class Case:
    """A statement about one model and one dataset, or all datasets together.

    Attributes:
        statement: its entry in the file.
        figure, model: catalogue keys.
        dataset: catalogue key, or `all`.
        datasets: the datasets that it is about.
        smaller: the next smaller model of the family, where the statement compares with it.
        layers: published number of layers of the model.
        tolerance: quantity → how far beyond a range counts as within.
    """

    statement: Mapping[str, Any]
    figure: str
    model: str
    dataset: str
    datasets: tuple[str, ...]
    smaller: str | None
    layers: int
    tolerance: Mapping[str, float]

    @property
    def cells(self) -> list[tuple[str, str]]:
        models = [self.model] + ([self.smaller] if self.smaller else [])
        return [(model, dataset) for model in models for dataset in self.datasets]

    def published(self, words: str) -> str:
        """Words with the statement's own numbers in them."""
        readings = [
            ", ".join(f"{_where(one)}: {_range(*_points(one, self.dataset))}" for one in reading)
            for reading in self.statement.get("readings", ())
        ]
        own = {"depth": self.layers, "smaller": self.smaller, "tolerance": self.tolerance}
        own |= {"own_auc": self.statement.get("auc", {}).get(self.dataset)}
        return words.format(**self.statement, **own, curve="; or ".join(readings))


@dataclass(frozen=True)
class Built:
    """The tables of a built figure, of one read-out.

    Attributes:
        groups: (model, dataset, anchor) → rows of the knockout's curve by layer; ΔP and its
            interval blank where the group is too small.
        random: (model, dataset) → contrasts of mean ΔP under the random control, by layer.
    """

    groups: Mapping[tuple[str, str, str], pd.DataFrame]
    random: Mapping[tuple[str, str], pd.DataFrame]

    def column(self, model: str, dataset: str, anchor: str, name: str = "delta_p") -> np.ndarray:
        """A column of a group by layer, float64 [layers]; NaN where the group is too small."""
        return self.groups[model, dataset, anchor][name].to_numpy(np.float64)

    def trough(self, model: str, dataset: str) -> float:
        """Lowest ΔP of the Q-Anchored; NaN where there are none."""
        return float(np.fmin.reduce(self.column(model, dataset, "Q")))

    def at_headline(self, model: str, dataset: str, name: str) -> tuple[float, float]:
        """A column at the headline layer, of the Q- and of the A-Anchored."""
        layer = int(self.groups[model, dataset, ALL]["headline"].astype(bool).to_numpy().argmax())
        q, a = (self.column(model, dataset, anchor, name)[layer] for anchor in ("Q", "A"))
        return float(q), float(a)


Outcome = tuple[str, bool | None]
"""What was measured, in words, and whether the statement holds; None: cannot be told."""


@dataclass(frozen=True)
class Check:
    """One kind of statement.

    Attributes:
        each: whether there is one for every dataset, or one for all together.
        published: what the table says was published, see `Case.published`.
        judge: what was measured.
    """

    each: bool
    published: str
    judge: Callable[[Case, Built], Outcome]


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
        built or not, with the columns `COLUMNS`. `published` and `measured` are in words, in
        percentage points or per cent. `verdict`: `within`, `outside`, or `not run`: the figure,
        a cell of it or the quantity was not measured, or on too few samples. Groups of a curve
        too small for its line are left out here, too. Curves are those of knockout grouped by
        layer.

    Raises:
        AnchorscopeError: the file has a statement that cannot be checked.
    """
    drawn = {
        figure: (readouts or {}).get(figure, DEFAULT_READOUT) for figure in published["figures"]
    }
    figures = {
        figure: _built(tables.get(figure), contrasts.get(figure), readout)
        for figure, readout in drawn.items()
    }
    records = []
    for case in _cases(published):
        found = CHECKS[case.statement["check"]]
        fixed = {"id": case.statement["id"], "figure": case.figure, "model": case.model}
        fixed |= {"dataset": case.dataset, "statement": case.statement["wording"]}
        built = figures[case.figure]
        measured, holds = ("", None) if built is None else _outcome(case, built, found)
        verdict = {None: NOT_RUN, True: WITHIN, False: OUTSIDE}[holds]
        fixed |= {"published": case.published(found.published), "measured": measured}
        records.append(fixed | {"verdict": verdict, "readout": drawn[case.figure]})
    return pd.DataFrame(records, columns=list(COLUMNS))


def _cases(published: Mapping[str, Any]) -> Iterator[Case]:
    for statement in published["statements"]:
        checking = CHECKS.get(statement.get("check"))
        if checking is None:
            raise _broken(statement, f"no check is named `{statement.get('check')}`", list(CHECKS))
        datasets = tuple(statement.get("datasets", published["datasets"]))
        for figure in statement["figures"]:
            layers = published["figures"].get(figure, {})
            models = statement.get("models", layers)
            if not layers or any(model not in layers for model in models):
                known = [model for names in published["figures"].values() for model in names]
                raise _broken(statement, f"figure {figure} or its models are unknown", known)
            for model in models:
                family = list(layers)
                place = family.index(model)
                compares = statement["check"] == "larger_is_deeper"
                if compares and not place:
                    continue
                smaller = family[place - 1] if compares else None
                for one in datasets if checking.each else (ALL,):
                    about = (one,) if checking.each else datasets
                    yield Case(
                        statement, figure, model, one, about, smaller, layers[model],
                        published["tolerance"],
                    )  # fmt: skip


def _broken(statement: Mapping[str, Any], what: str, known: Sequence[str]) -> AnchorscopeError:
    where = f"resources/published.yaml, statement {statement.get('id')}"
    return AnchorscopeError(what, where, f"use one of: {', '.join(known)}", see="not-measured")


def _built(
    table: pd.DataFrame | None, contrasts: pd.DataFrame | None, readout: str
) -> Built | None:
    if table is None:
        return None
    site, position = readout.split("/")

    def chosen(rows: pd.DataFrame, **wanted: str) -> pd.DataFrame:
        for name, value in {"site": site, "position": position, **wanted}.items():
            rows = rows[rows[name] == value]
        return rows.sort_values("layer")

    curve = chosen(table, condition="knockout", grouping="per_layer")
    thin = curve["thin"].astype(bool)
    curve = curve.assign(**{name: curve[name].mask(thin) for name in ("delta_p", "ci_high")})
    random = contrasts
    if contrasts is not None:
        random = chosen(contrasts, contrast="random", quantity="delta_p")
    return Built(
        groups=_parts(curve, ["model", "dataset", "anchor"]),
        random={} if random is None else _parts(random, ["model", "dataset"]),
    )


def _parts(rows: pd.DataFrame, keys: list[str]) -> dict[Any, pd.DataFrame]:
    return {key: part.reset_index(drop=True) for key, part in rows.groupby(keys, sort=False)}


def _outcome(case: Case, built: Built, found: Check) -> Outcome:
    if any((*cell, ALL) not in built.groups for cell in case.cells):
        return "", None
    everyone = [built.groups[*cell, ALL] for cell in case.cells]
    if any(rows["delta_p"].isna().all() for rows in everyone):
        return "too few samples", None
    measured, holds = found.judge(case, built)
    if holds is None or all(rows["cell_signal"].astype(bool).all() for rows in everyone):
        return measured, holds
    return f"{measured} (no signal)", holds


def _curve(case: Case, built: Built) -> Outcome:
    """Whether one of the readings fits as a whole."""
    points = built.column(case.model, case.dataset, case.statement["anchor"])
    beyond = case.tolerance["points"]
    found = [
        [_condition(one, points, case.dataset, beyond) for one in reading]
        for reading in case.statement["readings"]
    ]
    said = dict.fromkeys(measured for reading in found for measured, _ in reading)
    return ", ".join(said), any(all(holds for _, holds in reading) for reading in found)


def _where(condition: Mapping[str, Any]) -> str:
    if "layer" in condition:
        return f"layer {condition['layer']}"
    if "last" in condition:
        return "last layer"
    span = condition.get("every", condition.get("lowest"))
    layers = "every layer" if span == ALL else f"layers {span[0]} to {span[1]}"
    return layers if "every" in condition else f"lowest of {layers}"


def _points(condition: Mapping[str, Any], dataset: str) -> tuple[float, float]:
    low, high = condition.get("by_dataset", {}).get(dataset, condition["points"])
    return low, high


def _range(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _condition(
    condition: Mapping[str, Any], points: np.ndarray, dataset: str, beyond: float
) -> Outcome:
    low, high = _points(condition, dataset)
    first, last = _span(condition, len(points))
    chosen, said = points[first : last + 1], f"{_where(condition)}: "
    if np.isnan(chosen).all():
        return f"{said}no group", False
    least, most = float(np.nanmin(chosen)), float(np.nanmax(chosen))
    if "lowest" not in condition:
        holds = low - beyond <= least and most <= high + beyond
        return said + _range(round(least, 1), round(most, 1)), holds
    deepest = int(np.nanargmin(points))
    said += f"{least:.1f}"
    said += "" if first <= deepest <= last else f", layer {deepest}: {points[deepest]:.1f}"
    holds = low - beyond <= least <= high + beyond and points[deepest] >= least - beyond
    return said, bool(holds)


def _span(condition: Mapping[str, Any], layers: int) -> tuple[int, int]:
    """First and last layer that a condition is about."""
    if "layer" in condition:
        return condition["layer"], condition["layer"]
    if "last" in condition:
        return layers - 1, layers - 1
    span = condition.get("every", condition.get("lowest"))
    return (0, layers - 1) if span == ALL else (span[0], span[1])


def _clearly_negative(case: Case, built: Built) -> Outcome:
    upper = built.column(case.model, case.dataset, "Q", "ci_high")
    later = upper[_third(len(upper)) :]
    if np.isnan(later).all():
        return "no Q-Anchored group", False
    thin, highest = int(np.isnan(later).sum()), float(np.nanmax(later))
    said = f"interval's upper end at most {highest:.1f}" + f", {thin} layers too small" * (thin > 0)
    return said, highest < case.statement["below"]


def _third(layers: int) -> int:
    """The first layer of the second third."""
    return -(-layers // 3)


def _gap(case: Case, built: Built) -> Outcome:
    """Mean |Q − A| within a dataset against the mean |difference| of two datasets' Q curves."""
    q, a = (
        np.stack([built.column(case.model, dataset, anchor) for dataset in case.datasets])
        for anchor in ("Q", "A")
    )
    later = slice(_third(q.shape[1]), None)
    pairs = np.stack([one - other for one, other in combinations(q, 2)])
    gap, apart = (_mean_size(values[:, later]) for values in (q - a, pairs))
    said = f"gap {gap:.1f}, datasets {apart:.1f} apart"
    return said, bool(gap >= case.statement["factor"] * apart)


def _mean_size(values: np.ndarray) -> float:
    known = np.abs(values[~np.isnan(values)])
    return float(known.mean()) if len(known) else float("nan")


def _lowest_dataset(case: Case, built: Built) -> Outcome:
    troughs = {name: built.trough(case.model, name) for name in case.datasets}
    own = troughs[case.statement["dataset"]]
    said = ", ".join(f"{name} {value:.1f}" for name, value in troughs.items())
    return said, all(own <= value for value in troughs.values())


def _converging(case: Case, built: Built) -> Outcome:
    points = np.stack([built.column(case.model, dataset, "Q") for dataset in case.datasets])
    spread = points.max(0) - points.min(0)
    layers = case.statement["layers"]
    if max(layers) >= len(spread):
        return f"{len(spread)} layers", False
    said = [f"layer {layer}: {spread[layer]:.1f} apart" for layer in layers]
    said.append(f"last layer: {spread[-1]:.1f} apart")
    return ", ".join(said), all(spread[-1] < spread[layer] for layer in layers)


def _larger_is_deeper(case: Case, built: Built) -> Outcome:
    own, other = (built.trough(str(model), case.dataset) for model in (case.model, case.smaller))
    return f"trough {own:.1f}, that of {case.smaller} {other:.1f}", own < other


def _no_effect(case: Case, built: Built) -> Outcome:
    rows = built.random.get((case.model, case.dataset))
    if rows is None:
        return "", None
    none = rows["effect"] == curves.NO
    low, high = rows["ci90_low"].min(), rows["ci90_high"].max()
    said = f"at {none.sum()} of {len(rows)} layers, 90 % intervals {low:.1f} to {high:.1f}"
    return said, bool(none.all())


def _higher_in_q(case: Case, built: Built) -> Outcome:
    name, rows = case.statement["column"], built.groups[case.model, case.dataset, ALL]
    if name not in rows or rows[name].isna().all():
        return "", None
    q, a = built.at_headline(case.model, case.dataset, name)
    return f"{q:.4g} against {a:.4g}", q > a


def _accuracy(case: Case, built: Built) -> Outcome:
    each = [built.at_headline(case.model, one, "answer_accuracy") for one in case.datasets]
    q, a = 100 * np.array(each).mean(0)
    beyond = case.tolerance["accuracy"]
    holds = abs(q - case.statement["q"]) <= beyond and abs(a - case.statement["a"]) <= beyond
    return f"{q:.1f} against {a:.1f}, mean of the datasets", bool(holds)


def _probe_auc(case: Case, built: Built) -> Outcome:
    each = 100 * built.column(case.model, case.dataset, ALL, "probe_auc")
    best = float(np.nanmax(each))
    off = abs(best - case.statement["auc"][case.dataset])
    said = f"{best:.1f}, best at layer {int(np.nanargmax(each))}"
    return said, bool(off <= case.tolerance["auc"])


def _layers(case: Case, built: Built) -> Outcome:
    found = {len(built.groups[case.model, dataset, ALL]) for dataset in case.datasets}
    said = ", ".join(str(count) for count in sorted(found))
    return f"{said} layers", found == {case.layers}


CHECKS = {
    "curve": Check(True, "{curve} (± {tolerance[points]:g})", _curve),
    "layers": Check(False, "{depth} layers", _layers),
    "lowest_dataset": Check(False, "lowest trough: {dataset}", _lowest_dataset),
    "converging": Check(False, "closer together at the last layer than in the middle", _converging),
    "clearly_negative": Check(
        True, "interval below {below:g} from the first third on", _clearly_negative
    ),
    "gap": Check(False, "gap at least {factor:g} times as large", _gap),
    "larger_is_deeper": Check(True, "deeper trough than {smaller}", _larger_is_deeper),
    "no_effect": Check(True, "90 % interval within ± 5 at every layer", _no_effect),
    "higher_in_q": Check(True, "higher in Q than in A", _higher_in_q),
    "accuracy": Check(False, "{q:g} against {a:g} (± {tolerance[accuracy]:g} each)", _accuracy),
    "probe_auc": Check(True, "{own_auc:g} (± {tolerance[auc]:g})", _probe_auc),
    "none": Check(False, "{wording}", lambda *_: ("", None)),
}
"""Every kind of statement that the file may hold, by the name of its check."""

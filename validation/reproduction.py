"""Reproduction: compare measured tables with the statements of `resources/published.yaml`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.config.readouts import Location
from validation.calibration import DEFAULT_READOUT
from validation.checks import Check, judge, rows_where

COLUMNS = ("id", "figure", "model", "dataset", "statement", "measured", "verdict", "readout")
VERDICTS = {True: "within", False: "outside", None: "not run"}
TOGETHER = "all"
"""Dataset of a statement about all datasets of a figure together."""
LINES, SHAPE = "lines", "shape"
"""Tables of statements about the figure itself: its lines, and comparisons between lines."""

Statement = Mapping[str, Any]
Tables = Mapping[str, pd.DataFrame]
Outcome = tuple[str, bool | None]
"""Measurement in words, and whether the statement holds (None if that is unknown)."""


def check(
    published: Mapping[str, Any],
    tables: Tables,
    readouts: Mapping[str, str],
    others: Mapping[tuple[str, str], pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """Compare the figures that are built with the published statements.

    Args:
        published: Content of `resources/published.yaml`.
        tables: Figure → its table, for the figures that are built.
        readouts: Figure → the read-out that it draws, `mlp/final` if not given.
        others: (Figure, name such as `patching`) → table of an experiment or of detection, for the
            tables that are built.

    Returns:
        One row per statement, figure (built or not), model and dataset, with the columns `COLUMNS`.
        `measured` is in words, in the table's units. `verdict` is `within`, `outside`, or `not run`
        if the figure, cell or quantity was not measured, or was measured on too few samples.
    """
    records = []
    for figure, models in published["figures"].items():
        readout = readouts.get(figure, DEFAULT_READOUT)
        place = Location.of(readout)._asdict()
        built = {
            name: _judged_by(rows_where(table, **place))
            for (of_figure, name), table in (others or {}).items()
            if of_figure == figure
        }
        if figure in tables:
            curve = rows_where(tables[figure], **place, grouping="per_layer")
            built["curve"], built[LINES] = _judged_by(curve), _lines(curve)
            built[SHAPE] = shape(built[LINES], models, published["datasets"])
        for case in _cases(published, figure):
            measured, holds = case.outcome(built)
            cell = (case.statement["id"], figure, case.model, case.dataset)
            records.append((*cell, case.wording, measured, VERDICTS[holds], readout))
    return pd.DataFrame(records, columns=list(COLUMNS))


@dataclass(frozen=True)
class Case:
    """A statement about one model on one dataset, or on all datasets together."""

    statement: Statement  # its entry in `resources/published.yaml`
    model: str
    dataset: str
    value: float | None  # published number for this model and dataset, if there is one
    within: float  # tolerance beyond the published range

    @property
    def wording(self) -> str:
        """The statement, with the published number for this model and dataset."""
        words = str(self.statement["wording"])
        numbered = self.value is not None and self.dataset != TOGETHER
        return f"{words}: {self.value:g}" if numbered else words

    def outcome(self, tables: Tables) -> Outcome:
        """Return the measurement in words, and whether all checks of at least one reading hold."""
        table = self.statement.get("table", LINES)
        if table not in tables:
            return "", None
        rows = rows_where(tables[table], model=self.model, dataset=self.dataset)
        rows = rows.astype(dict.fromkeys(self.statement.get("rows", ()), str))
        parts_of = self.statement.get("readings", [[{}]])
        readings = [[self.check(part, rows) for part in parts] for parts in parts_of]
        every = [one for reading in readings for one in reading]
        if all(rows_where(rows, **one.rows).empty for one in every):
            return "", None
        chosen = pd.concat([one.chosen(rows) for one in every])
        if chosen["few"].any():
            return "too few samples", None
        found = {one: judge(one, rows) for one in every}
        # A check without a value fails in LINES and SHAPE. Elsewhere, the outcome is unknown then.
        if table not in (LINES, SHAPE) and any(one.holds is None for one in found.values()):
            return "", None
        said = dict.fromkeys(f"{one.what} {judged.words}" for one, judged in found.items())
        words = ", ".join(said) + " (not predicted)" * (not chosen["predicts"].all())
        return words, any(all(found[one].holds for one in reading) for reading in readings)

    def check(self, part: Mapping[str, Any], rows: pd.DataFrame) -> Check:
        """Return one check of a reading. The keys of `part` override the keys of the statement."""
        wanted = {"column": "delta_p", "rows": {}, **self.statement, **part}
        limits = wanted.get("range", (self.value, self.value))
        low, high = limits[self.dataset] if isinstance(limits, dict) else limits
        where, what, layers = dict(wanted["rows"]), wanted["column"], None
        if "condition" in rows:
            where = {"condition": "knockout"} | where
        if "layers" in wanted:
            last = int(rows["layer"].max()) if len(rows) else 0
            named = {"third": -(-(last + 1) // 3), "last": last}
            first, last = (named.get(layer, layer) for layer in wanted["layers"])
            place = f"layer {first}" if first == last else f"layers {first} to {last}"
            what, layers = f"{what}, {place}:", (first, last)
        elif "headline" in rows:
            where["headline"] = True
        return Check(
            what=f"{wanted.get('pick', '')} {where.get('quantity', what)}".strip(),
            column=wanted["column"],
            rows=where,
            low=low - self.within,
            high=high + self.within,
            layers=layers,
            pick=wanted.get("pick", ""),
            slack=self.within,
            factor=wanted.get("factor", 1),
        )


def _cases(published: Mapping[str, Any], figure: str) -> Iterator[Case]:
    """Yield every statement about a figure, for each of its models and datasets."""
    every = published["datasets"]
    for statement in published["statements"]:
        if figure not in statement["figures"]:
            continue
        values, within = statement.get("values", {}), statement.get("within", published["within"])
        named = statement.get("models", values or published["figures"][figure])
        for model in [one for one in published["figures"][figure] if one in named]:
            if statement.get("together"):
                yield Case(statement, model, TOGETHER, values.get(model), within)
                continue
            numbers = dict(zip(every, values.get(model, [None] * len(every)), strict=True))
            for dataset in statement.get("datasets", every):
                if not values or numbers[dataset] is not None:
                    yield Case(statement, model, dataset, numbers[dataset], within)


def _judged_by(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the columns `few` (too few samples) and `predicts`."""
    few = table["thin"].astype(bool) if "thin" in table else False
    predicts = table["predicts"].astype(bool) if "predicts" in table else True
    return table.assign(few=few, predicts=predicts)


def _lines(curve: pd.DataFrame) -> pd.DataFrame:
    """Return a figure's lines with the column `few`. `thin` knockout points are blank."""
    thin = curve["thin"].astype(bool) & (curve["condition"] == "knockout")
    rows = curve.assign(
        **{name: curve[name].mask(thin) for name in ("delta_p", "ci_high")},
        predicts=curve["predicts"].astype(bool),
    )
    everyone = rows_where(rows, condition="knockout", anchor="all")
    known = everyone.groupby(["model", "dataset"])["delta_p"].count() > 0
    cells = pd.MultiIndex.from_frame(rows[["model", "dataset"]])
    return rows.assign(few=~known.reindex(cells, fill_value=False).to_numpy())


def shape(lines: pd.DataFrame, models: Mapping[str, int], datasets: Sequence[str]) -> pd.DataFrame:
    """Compare groups, datasets, layers and models for statements about their differences.

    The result has one row per `quantity` of a model on a dataset, or on `all`. `models` maps the
    figure's models, small before large, to their published numbers of layers.
    """
    lines = rows_where(lines, condition="knockout", few=False)
    found = []
    for smaller, model in zip([None, *models], models, strict=False):
        rows = rows_where(lines, model=model)
        cells = {name: here for name in datasets if len(here := rows_where(rows, dataset=name))}
        for dataset, here in cells.items():
            numbers = _between_groups(here)
            before = rows_where(lines, model=smaller, dataset=dataset)
            if len(before):
                numbers["trough less the smaller model's"] = _trough(here) - _trough(before)
            found += [(model, dataset, *one, here["predicts"].all()) for one in numbers.items()]
        if len(cells) == len(datasets):
            numbers = _between_datasets(rows, datasets, models[model])
            found += [(model, TOGETHER, *one, rows["predicts"].all()) for one in numbers.items()]
    columns = ["model", "dataset", "quantity", "value", "predicts"]
    return pd.DataFrame(found, columns=columns).assign(few=False)


def _trough(rows: pd.DataFrame) -> float:
    """Return the lowest point of the Q-Anchored curve, NaN if it has none."""
    return float(rows_where(rows, anchor="Q")["delta_p"].min())


def _between_groups(rows: pd.DataFrame) -> dict[str, float]:
    """Return the differences between Q and A at the headline layer, by name."""
    groups = rows_where(rows, headline=True).groupby("anchor").mean(numeric_only=True)
    return {
        f"{name} of Q less A": float(np.subtract(*groups[name].reindex(["Q", "A"])))
        for name in ("answer_accuracy", "popularity")
        if rows_where(rows, anchor="all")[name].notna().any()
    }


def _between_datasets(rows: pd.DataFrame, datasets: Sequence[str], layers: int) -> dict[str, float]:
    """Return quantities that compare a model's curves on all datasets, by name."""
    curves: Any = rows.pivot(index=["anchor", "dataset"], columns="layer", values="delta_p")
    q, a = (curves.loc[anchor].loc[list(datasets)] for anchor in "QA")
    late, late_a = (one.iloc[:, -(-layers // 3) :] for one in (q, a))
    apart = pd.concat([late.loc[one] - late.loc[other] for one, other in combinations(datasets, 2)])
    gap = (late - late_a).stack().abs().mean()
    numbers: dict[str, Any] = {
        "layers": q.shape[1],
        "gap less twice the distance": gap - 2 * apart.abs().mean(),
    }
    for anchor in ("Q", "A"):
        group = rows_where(rows, anchor=anchor, headline=True)
        numbers[f"answer_accuracy of {anchor}"] = group["answer_accuracy"].mean(skipna=False)
    troughs, spread = q.T.min(), q.max(skipna=False) - q.min(skipna=False)
    for name, trough in troughs.items():
        numbers[f"trough of {name} less the lowest"] = trough - troughs.min(skipna=False)
    for layer, size in spread.items():
        numbers[f"spread at the last layer less layer {layer}"] = spread.iloc[-1] - size
    return numbers

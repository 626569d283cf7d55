"""Reproduction: compare measured tables with the statements of `resources/published.yaml`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from anchorscope.config.readouts import Pair
from anchorscope.experiments.tables import rows_where
from validation.calibration import DEFAULT_READOUT
from validation.checks import Check, judge

COLUMNS = ("id", "figure", "model", "dataset", "statement", "measured", "verdict", "readout")
VERDICTS = {True: "within", False: "outside", None: "not run"}
LINES = "lines"
"""Table of statements about the lines of the figure itself."""

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
    """Compare the built figures with `resources/published.yaml`, whose content is `published`.

    Args:
        published: Content of that file.
        tables: Figure → its table, for the figures that are built.
        readouts: Figure → the read-out that it draws, `mlp/final` if not given.
        others: (Figure, name such as `patching`) → table of an experiment or of detection.

    Returns:
        One row per statement, figure, model and dataset, built or not, with the columns `COLUMNS`.
        `measured` is in words, in the table's units. `verdict` is `within`, `outside` or `not run`:
        the figure, the cell or the quantity was not measured, or on too few samples.
    """
    records = []
    for figure in published["figures"]:
        readout = readouts.get(figure, DEFAULT_READOUT)
        place = Pair.of(readout)._asdict()
        built = {
            name: _judged_by(rows_where(table, **place))
            for (of_figure, name), table in (others or {}).items()
            if of_figure == figure
        }
        if figure in tables:
            curve = rows_where(tables[figure], **place, grouping="per_layer")
            built["curve"], built[LINES] = _judged_by(curve), _lines(curve)
        for case in _cases(published, figure):
            measured, holds = case.outcome(built)
            cell = (case.model, case.dataset, case.wording, measured, VERDICTS[holds], readout)
            records.append((case.statement["id"], figure, *cell))
    return pd.DataFrame(records, columns=list(COLUMNS))


@dataclass(frozen=True)
class Case:
    """A statement about one model on one dataset."""

    statement: Statement  # its entry in the file
    model: str
    dataset: str
    value: float | None  # published number for this model and dataset, if there is one
    within: float  # how far beyond the published range counts as within it

    @property
    def wording(self) -> str:
        """The statement, with the published number for this model and dataset."""
        words = str(self.statement["wording"])
        return words if self.value is None else f"{words}: {self.value:g}"

    def outcome(self, tables: Tables) -> Outcome:
        """Return the measurement, and whether all checks of one of the readings hold."""
        table = self.statement.get("table", LINES)
        if table not in tables:
            return "", None
        rows = rows_where(tables[table], model=self.model, dataset=self.dataset)
        rows = rows.astype(dict.fromkeys(self.statement.get("rows", ()), str))
        readings = [
            [self.check(part, rows) for part in parts]
            for parts in self.statement.get("readings", [[{}]])
        ]
        every = [one for reading in readings for one in reading]
        if all(one.of_table(rows).empty for one in every):
            return "", None
        chosen = pd.concat([one.chosen(rows) for one in every])
        if chosen["few"].any():
            return "too few samples", None
        found = {one: judge(one, rows) for one in every}
        # A measured curve without such a group does not agree with the published one.
        if table != LINES and any(one.holds is None for one in found.values()):
            return "", None
        words = ", ".join(dict.fromkeys(f"{one.what} {it.words}" for one, it in found.items()))
        if not chosen["signal"].all():
            words += " (no signal)"
        return words, any(all(found[one].holds for one in reading) for reading in readings)

    def check(self, part: Mapping[str, Any], rows: pd.DataFrame) -> Check:
        """Return one check of a reading. Its own keys override the keys of the statement."""
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
        pick = wanted.get("pick", "")
        return Check(
            what=f"{pick} {what}".strip(),
            column=wanted["column"],
            rows=where,
            low=low - self.within,
            high=high + self.within,
            layers=layers,
            pick=pick,
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
            for dataset, value in zip(every, values.get(model, [None] * len(every)), strict=True):
                if not values or value is not None:
                    yield Case(statement, model, dataset, value, within)


def _judged_by(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the columns `few` (too few samples) and `signal`."""
    few = table["thin"].astype(bool) if "thin" in table else False
    signal = table["signal"].astype(bool) if "signal" in table else True
    return table.assign(few=few, signal=signal)


def _lines(curve: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of a figure with `few` and `signal`. Thin points are blank."""
    thin = curve["thin"].astype(bool) & (curve["condition"] == "knockout")
    rows = curve.assign(
        **{name: curve[name].mask(thin) for name in ("delta_p", "ci_high")},
        signal=curve["cell_signal"].astype(bool),
    )
    everyone = rows_where(rows, condition="knockout", anchor="all")
    known = everyone.groupby(["model", "dataset"])["delta_p"].count() > 0
    cells = pd.MultiIndex.from_frame(rows[["model", "dataset"]])
    return rows.assign(few=~known.reindex(cells, fill_value=False).to_numpy())

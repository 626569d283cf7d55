"""What the calibration requires of the instrument: floors, and cells that must come out empty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.calibration.calibration import AGAINST_PRIOR, DEFAULT_READOUT
from anchorscope.config.readouts import Pair
from anchorscope.experiments.crossing.claims import NO, ON_PAIRS, YES
from anchorscope.experiments.experiment import recurring, with_interval
from anchorscope.experiments.tables import rows_where
from anchorscope.probes.strength import LEAST_AUC
from anchorscope.storage.errors import stale

COLUMNS = ("floor", "scope", "model", "dataset", "required", "measured", "holds")


@dataclass(frozen=True)
class Floor:
    """What a number of a table must reach: in every cell, and in the mean over several."""

    name: str
    column: str
    low: float = -np.inf  # bounds in every cell, where there are any
    high: float = np.inf
    mean_low: float = -np.inf  # bounds of the mean, where there are any
    mean_high: float = np.inf
    where: Mapping[str, object] = field(default_factory=dict)  # the rows that it is about

    @property
    def z(self) -> object:
        """The label of the calibration's rows."""
        return self.where.get("z", "all")

    def judged(
        self, rows: pd.DataFrame, cells: Sequence[tuple[str, str]], model: str
    ) -> list[dict[str, object]]:
        """A row of `COLUMNS` for each cell, and one for the mean, whose `model` this is.

        `rows` are the table's, at most one a cell. What cannot be measured does not hold.
        """
        by_cell = rows.set_index(["model", "dataset"])[self.column].to_dict()
        values = [float(by_cell.get(cell, np.nan)) for cell in cells]
        of_cells = [
            ("cell", *cell, value, self.low, self.high)
            for cell, value in zip(cells, values, strict=True)
        ]
        mean = ("mean", model, "all", float(np.mean(values)), self.mean_low, self.mean_high)
        found = [
            (self.name, *place, required(low, high), value, low <= value <= high)
            for *place, value, low, high in (*of_cells, mean)
            if np.isfinite([low, high]).any()
        ]
        return [dict(zip(COLUMNS, row, strict=True)) for row in found]


FLOORS = (
    Floor("own verdicts right", "verdict_accuracy", low=0.95),
    Floor("probe AUC", "probe_auc", low=0.97),
    Floor("seal", "seal", low=0.0, high=0.0),
    Floor("flips under the random control", "random_flip_share", high=0.05),
    Floor("answer floor against the prior", "answer_auc", 0.4, 0.6, where={"kind": AGAINST_PRIOR}),
    Floor("pathway AUC", "pathway_auc", 0.9, mean_low=0.95),
    Floor("pathway AUC of right answers", "pathway_auc", 0.85, mean_low=0.92, where={"z": "0"}),
    Floor("pathway AUC of wrong answers", "pathway_auc", 0.85, mean_low=0.92, where={"z": "1"}),
    Floor("specificity on truism", "specificity", 0.85, mean_low=0.95, where={"kind": "truism"}),
    Floor("specificity on myth", "specificity", 0.85, mean_low=0.95, where={"kind": "myth"}),
    Floor(
        "sensitivity against the prior",
        "sensitivity",
        0.45,
        mean_low=0.65,
        where={"kind": AGAINST_PRIOR},
    ),
    Floor("pair term of right answers", "pair_right", low=1.0),
    Floor("pair term of right answers, lower end", "pair_right_low", low=0.0),
    Floor("pair term of wrong answers", "pair_wrong", high=-0.8),
    Floor("pair term of wrong answers, upper end", "pair_wrong_high", high=0.0),
    Floor("share of the pair", "share_pair", low=0.3),
    Floor("pair term of gold answers", "pair_gold", low=0.6),
    *(
        Floor(f"{name} at layer {layer}", column, -0.05, 0.05, where={"layer": layer})
        for name, column in (
            ("pair term", "pair_right"),
            ("pair term of gold answers", "pair_gold"),
        )
        for layer in range(3)
    ),
)


def floors(table: pd.DataFrame) -> pd.DataFrame:
    """Hold the calibration's table, of one or several cells, against every floor: `COLUMNS`.

    Means are over a model's datasets. A model of another training seed is another model.
    """
    place = Pair.of(DEFAULT_READOUT)._asdict() | {"grouping": "per_layer"}
    chosen = rows_where(table, **place).astype({"z": str})
    records = []
    for model, datasets in table.groupby("model", sort=False)["dataset"]:
        cells = [(str(model), dataset) for dataset in datasets.unique()]
        for floor in FLOORS:
            layer = {} if "layer" in floor.where else {"headline": True}
            rows = rows_where(chosen, **{"z": "all", "kind": "all"} | layer | {**floor.where})
            records += floor.judged(rows, cells, str(model))
    return pd.DataFrame(records, columns=list(COLUMNS))


def required(low: float, high: float) -> str:
    """Bounds in words."""
    if np.isinf(high):
        return f"at least {low:g}"
    if np.isinf(low):
        return f"at most {high:g}"
    return f"exactly {low:g}" if low == high else f"{low:g} to {high:g}"


def held(floors: pd.DataFrame) -> str:
    """How many floors hold, of those that were measured."""
    measured = floors["holds"].dropna().astype(bool)
    return f"{measured.sum()} of {len(measured)} floors hold."


def in_words(
    floors: pd.DataFrame,
    models: Mapping[str, str] | None = None,
    datasets: Mapping[str, str] | None = None,
) -> str:
    """What holds and what does not, a sentence for each model and each floor that is missed.

    `models` and `datasets` are labels by key; a key without one stands for itself.
    """
    named = floors.replace({"model": models or {}, "dataset": datasets or {}})
    sentences = [held(named)]
    for model, of_model in named.groupby("model", sort=False):
        means = of_model[of_model["scope"] == "mean"].to_dict("records")
        values = ", ".join(f"{row['floor']} {row['measured']:.3f}" for row in means)
        cells = of_model.loc[of_model["scope"] == "cell", "dataset"].nunique()
        sentences.append(f"{model}, mean of {cells} dataset{'s' * (cells > 1)}: {values}.")
    return "\n".join([*sentences, *missed(named)])


def missed(floors: pd.DataFrame) -> list[str]:
    """A sentence for each floor that does not hold."""
    sentences = []
    for row in floors[floors["holds"].eq(False)].to_dict("records"):
        mean = row["scope"] == "mean"
        where = f"mean of {row['model']}" if mean else f"{row['model']} on {row['dataset']}"
        measured = "not measured" if np.isnan(row["measured"]) else f"{row['measured']:.3f}"
        sentences.append(
            f"Missed: {row['floor']}, {where}: {measured}, required {row['required']}."
        )
    return sentences


TABLES = ("controls", "curve", "crossing", "claims")
"""Tables of a cell that say whether it came out empty."""
NULL_COLUMNS = {
    "control": "name of the control",
    "expectation": "why nothing can be found",
    **recurring("model", "dataset", "site", "position", "layer", "n"),
    **with_interval(
        "auc_shuffled", "AUC of probes fitted to shuffled labels, where these are judged"
    ),
    **with_interval(
        "margin", "AUC above the hardest of 0.6 and the text models, as in [claims](#claims)"
    ),
    "signal": "the claim `signal`; for shuffled labels, whether `auc_shuffled_low` is above 0.6",
    "forbids": "claims that would be false positives in this cell",
    "empty": "whether none of them is made",
    "made": "which of them are made",
    "untested": "which of them cannot be judged in this cell",
    **recurring("flip_share", "random_flip_share"),
    **with_interval("pair_right", "as in [crossing](#crossing)"),
    "pair_gold": "as in [crossing](#crossing)",
    **dict.fromkeys(ON_PAIRS, "as in [claims](#claims)"),
}
"""Column of the table → what it holds."""
PLACE = ["site", "position", "layer"]
SHUFFLED = ["auc_shuffled", "auc_shuffled_low", "auc_shuffled_high"]
PER_LAYER = {"condition": "knockout", "grouping": "per_layer", "anchor": "Q"}
PAIR = {"estimate": "pair_right", "ci_low": "pair_right_low", "ci_high": "pair_right_high"}
SIGNAL = {
    "verdict": "signal", "estimate": "margin", "ci_low": "margin_low", "ci_high": "margin_high",
}  # fmt: skip
BESIDE: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (
    ("curve", PER_LAYER, {"share": "flip_share"}),
    ("curve", PER_LAYER | {"condition": "random"}, {"share": "random_flip_share"}),
    ("crossing", {"quantity": "pair_right"}, PAIR),
    ("crossing", {"quantity": "pair_gold"}, {"estimate": "pair_gold"}),
    ("claims", {"claim": "signal"}, SIGNAL),
    *(("claims", {"claim": name}, {"verdict": name}) for name in ON_PAIRS),
)
"""Table, rows of it, and their columns with their names here."""


def null_controls(
    nulls: Mapping[str, Mapping[str, Any]], tables: Mapping[str, Sequence[pd.DataFrame]]
) -> pd.DataFrame:
    """Say of every null control whether it came out empty: none of the claims that it forbids.

    Claims score each sample at its own fold's layer. At `prompt_end` a signal is none of what is
    forbidden, because the answer to come can be read there. A control of shuffled labels is judged
    by the probes that learned them: it has a signal where `auc_shuffled_low` lies above 0.6, and no
    other claims and no flips.

    Args:
        nulls: The controls' entries in the config, by name.
        tables: Name (of `TABLES`) → the tables of the controls' cells, in the same order.

    Returns:
        One row per control and read-out, at the headline layer, with the columns `NULL_COLUMNS`.

    Raises:
        AnchorscopeError: No probe learned shuffled labels.
    """
    frames = []
    for place, (name, null) in enumerate(nulls.items()):
        of_cell = {kind: some[place] for kind, some in tables.items()}
        known = rows_where(of_cell["controls"], headline=True)
        everyone = rows_where(of_cell["curve"], **PER_LAYER | {"anchor": "all"})
        readouts = known[[*PLACE, *SHUFFLED]].merge(everyone[[*PLACE, "n"]], on=PLACE)
        if null["shuffled"]:  # nothing but the AUC is known of these probes
            readouts["signal"] = readouts["auc_shuffled_low"] > LEAST_AUC
        else:
            readouts = _with_groups(readouts.drop(columns=SHUFFLED), of_cell)
        if null["shuffled"] and readouts["auc_shuffled_low"].isna().any():
            where = f"null control {name}, {null['model']} on {null['dataset']}"
            raise stale("no labels were shuffled", where, "the cell's tables of ΔP")
        named = {key: null[key] for key in ("expectation", "model", "dataset")}
        named |= {"control": name, "forbids": ", ".join(null["forbids"])}
        made, untested = _made(readouts, null["forbids"])
        frames.append(readouts.assign(made=made, empty=made == "", untested=untested, **named))
    return pd.concat(frames, ignore_index=True).reindex(columns=list(NULL_COLUMNS))


def _made(readouts: pd.DataFrame, forbids: Sequence[str]) -> tuple[pd.Series, pd.Series]:
    """Return which of these claims each read-out makes, and which cannot be judged."""
    told = readouts.reindex(columns=list(forbids))
    made = told.isin([True, YES])
    judged = told.isin([True, False, YES, NO])
    if "signal" in made:
        made["signal"] &= readouts["position"] != "prompt_end"

    def names(chosen: pd.DataFrame) -> pd.Series:
        return chosen.apply(lambda row: ", ".join(row.index[row]), axis=1)

    return names(made), names(~judged)


def _with_groups(readouts: pd.DataFrame, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the read-outs and what their groups and pairs do, blank where not measured."""
    for name, where, columns in BESIDE:
        rows = rows_where(tables[name], **where)[[*PLACE, *columns]].rename(columns=columns)
        readouts = readouts.merge(rows, how="left", on=PLACE, validate="1:1")
    readouts["signal"] = readouts["signal"].map({YES: True, NO: False})
    return readouts

"""What the calibration requires of the instrument: floors, and cells that must come out empty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.calibration.calibration import AGAINST_PRIOR, DEFAULT_READOUT
from anchorscope.config.readouts import Pair
from anchorscope.experiments.crossing.claims import YES
from anchorscope.experiments.crossing.table import CLAIMS
from anchorscope.experiments.experiment import recurring, with_interval
from anchorscope.experiments.knockout.contrasts import OWN, OWN_FLIPS, PART
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
    Floor("truth", "says_truth", low=1.0),
    Floor("through E_Q", "says_through_eq", low=1.0),
    Floor("pair term with E_Q cut", "pair_right_cut", -0.05, 0.05),
    Floor("part of the pair term with random tokens cut", "random_part", low=0.85),
    Floor("flips, own less partner's question", "own_crossed", mean_low=18.0),
    Floor("flips, own less partner's question, lower end", "own_crossed_low", low=0.0),
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
    chosen = chosen.assign(
        random_part=chosen["pair_right_random"] / chosen["pair_right"],
        **{f"says_{name}": 1.0 * (chosen[name] == YES) for name in ("truth", "through_eq")},
    )
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


CROSSED = ("pair_right", "pair_right_low", "pair_right_high", "pair_gold", *CLAIMS)
OF_CONTROLS = (
    "probe_auc", "auc_low", "auc_high", "floor", "floor_auc", "gain", "gain_low", "gain_high",
)  # fmt: skip
NULL_COLUMNS = {
    "control": "name of the control",
    "expectation": "why nothing can be found",
    **recurring("model", "dataset", "site", "position", "layer", "n"),
    **dict.fromkeys(
        OF_CONTROLS,
        "the `cell_` columns of the controls; for shuffled labels, of the probes fitted to them",
    ),
    **recurring("signal"),
    "forbids": "claims that would be false positives in this cell",
    "empty": "whether none of them is made",
    "made": "which of them are made",
    **recurring("flip_share", "random_flip_share"),
    **with_interval("own_crossed", OWN_FLIPS),
    "effect": "whether this contrast in logits, for right or for wrong answers, excludes 0 and is "
    "not within a quarter of its ceiling; with or without a signal",
    **dict.fromkeys(CROSSED, "as in [crossing](#crossing)"),
}
"""Column of the table → what it holds."""
PLACE = ["site", "position", "layer"]
SHUFFLED = {
    "n": "n", "auc_shuffled": "probe_auc", "auc_shuffled_low": "auc_low",
    "auc_shuffled_high": "auc_high",
}  # fmt: skip
CELL = {
    "cell_auc": "probe_auc", "cell_low": "auc_low", "cell_high": "auc_high", "cell_floor": "floor",
    "cell_floor_auc": "floor_auc", "cell_gain": "gain", "cell_gain_low": "gain_low",
    "cell_gain_high": "gain_high", "cell_signal": "signal",
}  # fmt: skip
"""Columns of the controls, of probes that learned shuffled labels and of the read-out as a whole,
and their names here."""
PER_LAYER = {"condition": "knockout", "grouping": "per_layer", "anchor": "Q"}
BESIDE: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (
    ("curve", PER_LAYER | {"anchor": "all"}, {"n": "n"}),
    ("curve", PER_LAYER, {"share": "flip_share"}),
    ("curve", PER_LAYER | {"condition": "random"}, {"share": "random_flip_share"}),
    (
        "contrasts",
        {"contrast": OWN, "quantity": "share"},
        {"estimate": "own_crossed", "ci_low": "own_crossed_low", "ci_high": "own_crossed_high"},
    ),
    ("crossing", {}, {name: name for name in CROSSED}),
)
"""Table, rows of it, and their columns with their names here."""
LOGITS = ("logit_right", "logit_wrong")


def null_controls(
    nulls: Mapping[str, Mapping[str, Any]],
    controls: Sequence[pd.DataFrame],
    curves: Sequence[pd.DataFrame],
    contrasts: Sequence[pd.DataFrame],
    crossings: Sequence[pd.DataFrame],
) -> pd.DataFrame:
    """Say of every null control whether it came out empty: none of the claims that it forbids.

    `made` names those that are made all the same. `effect` is a claim, too: the interval of own −
    crossed logits of right or of wrong answers lies beyond 0, and not within a quarter of the
    ceiling. At `prompt_end` a signal is none of what is forbidden: the answer to come is there.

    `nulls` are their entries in the config by name; the tables are those of their cells, in the
    same order. A row for each control and read-out with the columns `NULL_COLUMNS`
    (docs/products.md), at the headline layer. AUCs, floor, gain and `signal` are those of the
    read-out as a whole, each sample scored at its own fold's layer. A control of shuffled labels is
    judged by the probes that learned them: its AUCs are theirs, it has a signal where `auc_low`
    lies above 0.6, and no floor and no flips. Raises AnchorscopeError: a probe's AUC has no
    interval, or no probe learned shuffled labels.
    """
    frames = []
    for (name, null), known, curve, contrast, crossing in zip(
        nulls.items(), controls, curves, contrasts, crossings, strict=True
    ):
        judged = SHUFFLED if null["shuffled"] else CELL
        readouts = rows_where(known, headline=True)[[*PLACE, *judged]].rename(columns=judged)
        if null["shuffled"]:  # nothing but the AUC is known of these probes
            readouts["signal"] = readouts["auc_low"] > LEAST_AUC
        else:
            tables = {"curve": curve, "contrasts": contrast, "crossing": crossing}
            readouts = _with_groups(readouts, tables)
        if readouts["auc_low"].isna().any():
            what = "the probe's AUC has no interval"
            what += ": no labels were shuffled" * null["shuffled"]
            where = f"null control {name}, {null['model']} on {null['dataset']}"
            raise stale(what, where, "the cell's tables of ΔP")
        named = {key: null[key] for key in ("expectation", "model", "dataset")}
        named |= {"control": name, "forbids": ", ".join(null["forbids"])}
        made = _made(readouts, null["forbids"])
        frames.append(readouts.assign(made=made, empty=made == "", **named))
    return pd.concat(frames, ignore_index=True).reindex(columns=list(NULL_COLUMNS))


def _made(readouts: pd.DataFrame, forbids: Sequence[str]) -> pd.Series:
    """Which of these claims each read-out makes, of those that were measured."""
    measured = [claim for claim in forbids if claim in readouts]
    says = readouts[measured].map(lambda told: told is True or told == YES)
    if "signal" in says:
        says["signal"] &= readouts["position"] != "prompt_end"
    return says.apply(lambda row: ", ".join(row.index[row]), axis=1)


def _with_groups(readouts: pd.DataFrame, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The read-outs and what their groups and pairs do, blank where it was not measured."""
    readouts["signal"] = readouts["signal"].astype(bool)
    for name, where, columns in BESIDE:
        rows = rows_where(tables[name], **where)[[*PLACE, *columns]].rename(columns=columns)
        readouts = readouts.merge(rows, how="left", on=PLACE, validate="1:1")
    return readouts.join(_effect(tables["contrasts"]), on=PLACE)


def _effect(contrasts: pd.DataFrame) -> pd.Series:
    """Whether own − crossed logits are beyond 0 and not within a quarter of the ceiling."""
    logits = contrasts[(contrasts["contrast"] == OWN) & contrasts["quantity"].isin(LOGITS)]
    low, high, margin = logits["ci_low"], logits["ci_high"], PART * logits["ceiling"].abs()
    effect = ((low > 0) | (high < 0)) & ~((low >= -margin) & (high <= margin))
    return effect.groupby([logits[name] for name in PLACE]).any().rename("effect")

"""Null controls: cells in which there is nothing to find, and whether that is what was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from anchorscope.experiments.strength import LEAST_AUC
from anchorscope.storage.errors import AnchorscopeError

COLUMNS = (
    "control", "expectation", "model", "dataset", "site", "position", "layer", "n", "probe_auc",
    "auc_low", "auc_high", "floor", "floor_auc", "gain", "gain_low", "gain_high", "signal",
    "empty", "n_signal", "flip_share", "random_flip_share", "delta_p_q", "matched_follows",
    "matched_n",
)  # fmt: skip

OF_CELL = {
    "probe_auc": "auc",
    "auc_low": "low",
    "auc_high": "high",
    **{name: name for name in ("floor", "floor_auc", "gain", "gain_low", "gain_high")},
}
"""Column → which of the controls' `cell_` columns it takes."""


@dataclass(frozen=True)
class Null:
    """A cell that must come out empty.

    Attributes:
        name: of the control.
        settings: its entry in the config: `model`, `dataset`, `expectation` (why nothing can be
            there), `shuffled` (whether the probes are those that learned shuffled labels).
        controls: the cell's controls.
        curve: the cell's curve.
        interchange: the cell's interchange.
    """

    name: str
    settings: Mapping[str, Any]
    controls: pd.DataFrame
    curve: pd.DataFrame
    interchange: pd.DataFrame


def table(nulls: Iterable[Null]) -> pd.DataFrame:
    """Say of every null control whether it came out empty.

    Returns:
        A row for each control and read-out with the columns `COLUMNS`. AUCs, floor, gain and
        `signal` are those of the read-out as a whole, each sample scored at its own fold's layer
        (see `strength.of_cell`); `empty`: there is no signal. `n_signal`: layers that have one by
        themselves. `layer` is the headline layer. A control of shuffled labels is judged by the
        probes that learned them, there: its AUCs are theirs against those labels, it has a signal
        where `auc_low` lies above 0.6, and it has no floor and no flips.
        `n`, flips and `delta_p_q` (percentage points) are those of the curve's knockout by layer,
        blank where the group is empty. `matched_follows`: of the Q-Anchored right answers with a
        counted pair, `matched_n`, the share whose class follows a matched partner; blank where
        there are none.

    Raises:
        AnchorscopeError: a read-out has no headline layer, no such probes, or no curve there.
    """
    records = [row for null in nulls for row in _rows(null)]
    return pd.DataFrame(records, columns=list(COLUMNS))


def _rows(null: Null) -> Iterator[dict[str, object]]:
    chosen = null.controls[null.controls["headline"].astype(bool)]
    readouts = null.controls[["site", "position"]].drop_duplicates()
    if len(chosen) != len(readouts) or chosen.empty:
        raise _broken(null, f"{len(readouts)} read-outs have {len(chosen)} headline layers")
    for found in chosen.to_dict("records"):
        fixed: dict[str, object] = {"control": null.name}
        fixed |= {key: null.settings[key] for key in ("expectation", "model", "dataset")}
        fixed |= {key: found[key] for key in ("site", "position", "layer")}
        judge = _shuffled if null.settings.get("shuffled") else _measured
        yield fixed | judge(null, {str(key): value for key, value in found.items()})


def _shuffled(null: Null, found: Mapping[str, Any]) -> dict[str, object]:
    """Nothing but the AUC is known of probes that learned shuffled labels."""
    if pd.isna(found["auc_shuffled_low"]):
        raise _broken(null, "no probe was fitted to shuffled labels")
    judged = {
        "probe_auc": found["auc_shuffled"],
        "auc_low": found["auc_shuffled_low"],
        "auc_high": found["auc_shuffled_high"],
    }
    return {"n": found["n"]} | judged | _verdict(found["auc_shuffled_low"] > LEAST_AUC)


def _measured(null: Null, found: Mapping[str, Any]) -> dict[str, object]:
    if pd.isna(found["cell_low"]):
        raise _broken(null, "the probe's AUC has no interval")
    judged = {name: found[f"cell_{source}"] for name, source in OF_CELL.items()}
    own = null.controls[["site", "position"]].eq([found["site"], found["position"]]).all(axis=1)
    signals = null.controls.loc[own, "signal"].astype(bool)
    judged |= _verdict(bool(found["cell_signal"])) | {"n_signal": int(signals.sum())}
    rows = _at(null.curve, found, grouping="per_layer").to_dict("records")
    group = {(row["condition"], row["anchor"]): row for row in rows}
    if not {("knockout", "all"), ("knockout", "Q")} <= set(group):
        raise _broken(null, f"layer {found['layer']} is not in the curve")
    flipped, random = group["knockout", "Q"], group.get(("random", "Q"), {})
    judged |= {"n": group["knockout", "all"]["n"], "flip_share": flipped["share"]}
    judged |= {"random_flip_share": random.get("share", float("nan"))}
    # what the Q-Anchored right answers do behind a matched partner
    pairs = _at(null.interchange, found, arm="matched", label="0", anchor="Q")
    matched = [("matched_follows", "follows"), ("matched_n", "n_paired")] if len(pairs) else []
    judged |= {name: pairs[column].iloc[0] for name, column in matched}
    return judged | {"delta_p_q": flipped["delta_p"]}


def _verdict(signal: bool) -> dict[str, object]:
    return {"signal": signal, "empty": not signal}


def _at(table: pd.DataFrame, found: Mapping[str, Any], **wanted: str) -> pd.DataFrame:
    """The rows of a table at a read-out's headline layer that have the values wanted."""
    place = {name: found[name] for name in ("site", "position", "layer")}
    for name, value in (place | wanted).items():
        table = table[table[name] == value]
    return table


def _broken(null: Null, what: str) -> AnchorscopeError:
    where = f"null control {null.name}, {null.settings['model']} on {null.settings['dataset']}"
    return AnchorscopeError(
        what, where, "delete the cell's tables of ΔP and run snakemake again", see="stale-product"
    )

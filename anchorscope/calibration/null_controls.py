"""Null controls: cells in which there is nothing to find, and whether that is what was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from anchorscope.experiments.strength import LEAST_AUC
from anchorscope.experiments.tables import rows_where
from anchorscope.storage.errors import AnchorscopeError

COLUMNS = (
    "control", "expectation", "model", "dataset", "site", "position", "layer", "n", "probe_auc",
    "auc_low", "auc_high", "floor", "floor_auc", "gain", "gain_low", "gain_high", "signal",
    "empty", "n_signal", "flip_share", "random_flip_share", "delta_p_q", "matched_follows",
    "matched_n",
)  # fmt: skip

OF_CELL = ("auc_low", "auc_high", "floor", "floor_auc", "gain", "gain_low", "gain_high")
"""Columns that tell of the read-out as a whole."""


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
        A row for each control and read-out with the columns `COLUMNS` (docs/products.md), at the
        headline layer. AUCs, floor, gain and `signal` are those of the read-out as a whole, each
        sample scored at its own fold's layer. A control of shuffled labels is judged by the probes
        that learned them: its AUCs are theirs, it has a signal where `auc_low` lies above 0.6, and
        no floor and no flips.

    Raises:
        AnchorscopeError: a probe's AUC has no interval, or no probe learned shuffled labels.
    """
    records = [row for null in nulls for row in _rows(null)]
    return pd.DataFrame(records, columns=list(COLUMNS))


def _rows(null: Null) -> Iterator[dict[str, object]]:
    for (site, position), own in null.controls.groupby(["site", "position"], sort=False):
        (found,) = own[own["headline"].astype(bool)].to_dict("records")
        place = {"site": site, "position": position, "layer": found["layer"]}
        said: dict[str, Any] = {"control": null.name} | place
        said |= {key: null.settings[key] for key in ("expectation", "model", "dataset")}
        if shuffled := bool(null.settings.get("shuffled")):
            # Nothing but the AUC is known of probes that learned shuffled labels.
            ends = {"probe_auc": "", "auc_low": "_low", "auc_high": "_high"}
            said |= {name: found[f"auc_shuffled{end}"] for name, end in ends.items()}
            said |= {"n": found["n"], "signal": found["auc_shuffled_low"] > LEAST_AUC}
        else:
            said |= {name: found[f"cell_{name.removeprefix('auc_')}"] for name in OF_CELL}
            said |= {"probe_auc": found["cell_auc"], "signal": bool(found["cell_signal"])}
            said |= {"n_signal": int(own["signal"].astype(bool).sum())}
            said |= _flips(null, place) | _follows(null, place)
        if pd.isna(said["auc_low"]):
            raise AnchorscopeError(
                "the probe's AUC has no interval" + ": no labels were shuffled" * shuffled,
                f"null control {null.name}, {said['model']} on {said['dataset']}",
                "delete the cell's tables of ΔP and run snakemake again",
                see="stale-product",
            )
        yield said | {"empty": not said["signal"]}


def _flips(null: Null, place: Mapping[str, Any]) -> dict[str, object]:
    rows = rows_where(null.curve, **place, grouping="per_layer").to_dict("records")
    group = {(row["condition"], row["anchor"]): row for row in rows}
    flipped, random = group["knockout", "Q"], group.get(("random", "Q"), {})
    found = {"n": group["knockout", "all"]["n"], "flip_share": flipped["share"]}
    found |= {"random_flip_share": random.get("share", float("nan"))}
    return found | {"delta_p_q": flipped["delta_p"]}


def _follows(null: Null, place: Mapping[str, Any]) -> dict[str, object]:
    """What the Q-Anchored right answers do behind a matched partner."""
    pairs = rows_where(null.interchange, **place, arm="matched", label="0", anchor="Q")
    names = {"matched_follows": "follows", "matched_n": "n_paired"} if len(pairs) else {}
    return {name: pairs[column].iloc[0] for name, column in names.items()}

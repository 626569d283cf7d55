"""Null controls: cells in which there is nothing to find, and whether that is what was found."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from anchorscope.experiments.strength import LEAST_AUC
from anchorscope.experiments.tables import rows_where
from anchorscope.storage.errors import stale

COLUMNS = (
    "control", "expectation", "model", "dataset", "site", "position", "layer", "n", "probe_auc",
    "auc_low", "auc_high", "floor", "floor_auc", "gain", "gain_low", "gain_high", "signal",
    "empty", "n_signal", "flip_share", "random_flip_share", "delta_p_q", "matched_follows",
    "matched_n",
)  # fmt: skip
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
GROUPS: tuple[tuple[dict[str, str], dict[str, str]], ...] = (
    ({"condition": "knockout", "anchor": "all"}, {"n": "n"}),
    ({"condition": "knockout", "anchor": "Q"}, {"share": "flip_share", "delta_p": "delta_p_q"}),
    ({"condition": "random", "anchor": "Q"}, {"share": "random_flip_share"}),
    ({"arm": "matched", "label": "0", "anchor": "Q"},
     {"follows": "matched_follows", "n_paired": "matched_n"}),
)  # fmt: skip
"""Groups of the curve and, last, of the interchange: the Q-Anchored right answers; and columns."""


def table(
    nulls: Mapping[str, Mapping[str, Any]],
    controls: Sequence[pd.DataFrame],
    curves: Sequence[pd.DataFrame],
    interchanges: Sequence[pd.DataFrame],
) -> pd.DataFrame:
    """Say of every null control whether it came out empty.

    Args:
        nulls: name → its entry in the config: `model`, `dataset`, `expectation` (why nothing can be
            there), `shuffled` (whether the probes are those that learned shuffled labels).
        controls, curves, interchanges: the tables of their cells, in the same order.

    Returns:
        A row for each control and read-out with the columns `COLUMNS` (docs/products.md), at the
        headline layer. AUCs, floor, gain and `signal` are those of the read-out as a whole, each
        sample scored at its own fold's layer. A control of shuffled labels is judged by the probes
        that learned them: its AUCs are theirs, it has a signal where `auc_low` lies above 0.6, and
        no floor and no flips.

    Raises:
        AnchorscopeError: a probe's AUC has no interval, or no probe learned shuffled labels.
    """
    frames = []
    for (name, null), *tables in zip(nulls.items(), controls, curves, interchanges, strict=True):
        headline = rows_where(tables[0], headline=True)
        judged = SHUFFLED if null["shuffled"] else CELL
        found = headline[[*PLACE, *judged]].rename(columns=judged)
        if null["shuffled"]:  # nothing but the AUC is known of these probes
            found["signal"] = found["auc_low"] > LEAST_AUC
        else:
            found = _with_groups(found, *tables)
        headless = len(found) < tables[0].groupby(PLACE[:2]).ngroups
        if headless or found["auc_low"].isna().any():
            unknown = "the probe's AUC has no interval"
            unknown += ": no labels were shuffled" * null["shuffled"]
            what = "a read-out has no headline layer" if headless else unknown
            where = f"null control {name}, {null['model']} on {null['dataset']}"
            raise stale(what, where, "the cell's tables of ΔP")
        said = {key: null[key] for key in ("expectation", "model", "dataset")}
        frames.append(found.assign(control=name, empty=~found["signal"].astype(bool), **said))
    return pd.concat(frames, ignore_index=True).reindex(columns=list(COLUMNS))


def _with_groups(
    found: pd.DataFrame, controls: pd.DataFrame, curve: pd.DataFrame, interchange: pd.DataFrame
) -> pd.DataFrame:
    """The read-outs and what their groups do, blank where it was not measured."""
    n_signal = controls.groupby(PLACE[:2])["signal"].sum()
    found = found.join(n_signal.rename("n_signal"), on=PLACE[:2])
    curve = rows_where(curve, grouping="per_layer")
    for rows, (group, columns) in zip([curve] * 3 + [interchange], GROUPS, strict=True):
        one = rows_where(rows, **group)[[*PLACE, *columns]].rename(columns=columns)
        found = found.merge(one, how="left", on=PLACE, validate="1:1")
    return found

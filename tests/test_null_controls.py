"""Null controls on small tables: what is called empty, and what is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from anchorscope import null_controls
from anchorscope.errors import AnchorscopeError
from anchorscope.null_controls import Null

SETTINGS = {"model": "m", "dataset": "d", "expectation": "nothing is there", "shuffled": False}


def controls(**changed: Any) -> pd.DataFrame:
    """Two read-outs of three layers, headline at 1; `changed` at the headline of mlp."""
    columns = {
        "n": 200,
        "probe_auc": 0.62,
        "auc_low": 0.55,
        "auc_high": 0.69,
        "text_auc": 0.52,
        "auc_shuffled": 0.51,
        "auc_shuffled_low": 0.44,
        "auc_shuffled_high": 0.58,
    }
    rows = [
        {"site": site, "position": "final", "layer": layer, "headline": layer == 1}
        | (columns if layer == 1 else dict.fromkeys(columns, 0.99))
        | (changed if (site, layer) == ("mlp", 1) else {})
        for site in ("mlp", "attn")
        for layer in range(3)
    ]
    return pd.DataFrame(rows)


def curve() -> pd.DataFrame:
    shares = {("knockout", "Q"): (0.3, -41.0), ("knockout", "all"): (1.0, -12.0)}
    shares |= {("random", "Q"): (0.28, -40.0), ("random", "all"): (1.0, -11.0)}
    rows = [
        {"site": site, "position": "final", "layer": layer, "condition": condition}
        | {"anchor": anchor, "grouping": grouping, "n": 198, "share": share, "delta_p": points}
        for site in ("mlp", "attn")
        for layer in range(3)
        for (condition, anchor), (share, points) in shares.items()
        for grouping in ("per_layer", "replicate")
    ]
    table = pd.DataFrame(rows)
    other = (table["layer"] != 1) | (table["grouping"] != "per_layer")
    table.loc[other, ["share", "delta_p"]] = 0.77
    return table


def null(name: str = "untrained", shuffled: bool = False, **changed: Any) -> Null:
    return Null(name, SETTINGS | {"shuffled": shuffled}, controls(**changed), curve())


def mlp(*nulls: Null) -> dict[str, Any]:
    table = null_controls.table(nulls)
    return table[table["site"] == "mlp"].iloc[0].to_dict()


def test_a_row_for_each_control_and_read_out_tells_its_headline_layer() -> None:
    table = null_controls.table([null(), null("ungraded")])
    assert list(table.columns) == list(null_controls.COLUMNS)
    keys = table[["control", "site", "layer"]].to_numpy().tolist()
    names = ("untrained", "ungraded")
    assert keys == [[name, site, 1] for name in names for site in ("mlp", "attn")]
    row = mlp(null())
    assert (row["model"], row["expectation"]) == ("m", "nothing is there")
    assert (row["n"], row["flip_share"], row["random_flip_share"]) == (198, 0.3, 0.28)
    assert (row["probe_auc"], row["delta_p_q"]) == (0.62, -41.0)


@pytest.mark.parametrize(
    ("low", "text", "threshold", "empty"),
    [
        (0.55, 0.52, 0.6, True),
        (0.6, 0.52, 0.6, True),
        (0.601, 0.52, 0.6, False),
        (0.7, 0.75, 0.75, True),
        (0.8, 0.75, 0.75, False),
        (1.0, 1.0, 1.0, True),
        (0.7, np.nan, 0.6, False),
    ],
)
def test_a_signal_lies_above_both_six_tenths_and_the_text_baseline(
    low: float, text: float, threshold: float, empty: bool
) -> None:
    row = mlp(null(auc_low=low, text_auc=text))
    assert (row["threshold"], row["empty"], row["signal"]) == (threshold, empty, not empty)


def test_shuffled_labels_are_judged_by_the_probes_that_learned_them() -> None:
    row = mlp(null("shuffled", shuffled=True, auc_low=0.97, probe_auc=0.99))
    assert row["empty"] and not row["signal"]
    assert (row["probe_auc"], row["auc_low"], row["auc_high"]) == (0.51, 0.44, 0.58)
    blank = ("text_auc", "flip_share", "random_flip_share", "delta_p_q")
    assert all(np.isnan(row[name]) for name in blank)
    assert not mlp(null("shuffled", shuffled=True, auc_shuffled_low=0.61))["empty"]


def test_a_run_without_the_random_control_leaves_its_share_blank() -> None:
    found = null()
    bare = Null(found.name, SETTINGS, found.controls, found.curve.query("condition != 'random'"))
    assert np.isnan(mlp(bare)["random_flip_share"])


def test_what_cannot_be_judged_is_an_error_that_names_the_cell() -> None:
    found = null()
    cases = {
        "2 read-outs have 1 headline": found.controls[
            found.controls["site"].eq("attn") | ~found.controls["headline"]
        ],
        "layer 1 is not in the curve": found.controls,
    }
    for what, table in cases.items():
        broken = Null("untrained", SETTINGS, table, found.curve[found.curve["layer"] != 1])
        with pytest.raises(AnchorscopeError, match=f"{what}(.|\n)*untrained, m on d"):
            null_controls.table([broken])
    with pytest.raises(AnchorscopeError, match="no probe was fitted to shuffled labels"):
        null_controls.table([null("shuffled", shuffled=True, auc_shuffled_low=np.nan)])
    with pytest.raises(AnchorscopeError, match="AUC has no interval"):
        null_controls.table([null(auc_low=np.nan)])

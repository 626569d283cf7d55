"""Null controls on small tables: what is called empty, and what is not."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anchorscope.calibration import requirements
from anchorscope.storage.errors import AnchorscopeError


def controls(**changed: Any) -> pd.DataFrame:
    """Two read-outs of three layers, headline at 1; `changed` at the headline of mlp."""
    columns = {"n": 200, "probe_auc": 0.61, "signal": False, "cell_signal": False}
    columns |= {"cell_auc": 0.62, "cell_low": 0.55, "cell_high": 0.69}
    columns |= {"cell_floor": "question", "cell_floor_auc": 0.64}
    columns |= {"cell_gain": -0.02, "cell_gain_low": -0.08, "cell_gain_high": 0.04}
    columns |= {"auc_shuffled": 0.51, "auc_shuffled_low": 0.44, "auc_shuffled_high": 0.58}
    rows = [
        {"site": site, "position": "final", "layer": layer, "headline": layer == 1}
        | (columns if layer == 1 else dict.fromkeys(columns, 0.99) | {"signal": True})
        | (changed if (site, layer) == ("mlp", 1) else {})
        for site in ("mlp", "attn")
        for layer in range(3)
    ]
    return pd.DataFrame(rows)


def curve() -> pd.DataFrame:
    keys = itertools.product(
        ("mlp", "attn"), range(3), ("knockout", "random"), ("Q", "all"), ("per_layer", "replicate")
    )
    names = ["site", "layer", "condition", "anchor", "grouping"]
    table = pd.DataFrame(keys, columns=names).assign(position="final", n=198)
    for condition, numbers in (("knockout", (0.3, -41.0)), ("random", (0.28, -40.0))):
        here = table[names[1:]].eq([1, condition, "Q", "per_layer"]).all(axis=1)
        table.loc[here, ["share", "delta_p"]] = numbers
    return table.fillna(0.77)


def interchange() -> pd.DataFrame:
    """What Q-Anchored right answers do at the headline layer, among other rows."""
    keys = itertools.product(
        ("mlp", "attn"), range(3), ("matched", "placebo"), ("all", "0", "1"), ("Q", "A", "all")
    )
    rows = [(site, "final", *key, 0.77, 99) for site, *key in keys]
    names = ["site", "position", "layer", "arm", "label", "anchor", "follows", "n_paired"]
    table = pd.DataFrame(rows, columns=names)
    place = ["layer", "arm", "label", "anchor"]
    table.loc[table[place].eq([1, "matched", "0", "Q"]).all(axis=1), names[-2:]] = (0.04, 25)
    return table


def judged(*names: str, without: str = "", **changed: Any) -> pd.DataFrame:
    """The table of null controls; `shuffled` is judged by probes that learned shuffled labels."""
    said = {"model": "m", "dataset": "d", "expectation": "nothing is there"}
    nulls = {name: said | {"shuffled": name == "shuffled"} for name in names}
    tables = [
        controls(**changed),
        curve().query(f"condition != '{without}'"),
        interchange().query(f"arm != '{without}'"),
    ]
    return requirements.null_controls(nulls, *([table] * len(names) for table in tables))


def mlp(*names: str, **changed: Any) -> dict[str, Any]:
    return dict(judged(*names or ["untrained"], **changed).query("site == 'mlp'").iloc[0])


def test_a_row_for_each_control_and_read_out_tells_its_headline_layer() -> None:
    names = ("untrained", "ungraded")
    table = judged(*names)
    assert list(table.columns) == list(requirements.NULL_COLUMNS)
    keys = table[["control", "site", "layer"]].to_numpy().tolist()
    assert keys == [[name, site, 1] for name in names for site in ("mlp", "attn")]
    row = mlp()
    assert (row["model"], row["expectation"]) == ("m", "nothing is there")
    assert (row["n"], row["flip_share"], row["random_flip_share"]) == (198, 0.3, 0.28)
    assert (row["probe_auc"], row["delta_p_q"]) == (0.62, -41.0)
    assert (row["matched_follows"], row["matched_n"]) == (0.04, 25)


@pytest.mark.parametrize("signal", [True, False])
def test_a_cell_is_judged_by_the_layers_that_its_folds_chose(signal: bool) -> None:
    row = mlp(cell_signal=signal, signal=not signal)
    assert (row["empty"], row["signal"]) == (not signal, signal)
    assert (row["probe_auc"], row["floor"], row["gain_low"]) == (0.62, "question", -0.08)
    # two other layers of the table have a signal of their own
    assert row["n_signal"] == 2 + (not signal)


def test_shuffled_labels_are_judged_by_the_probes_that_learned_them() -> None:
    row = mlp("shuffled", cell_low=0.97, cell_auc=0.99)
    assert row["empty"] and not row["signal"]
    assert (row["probe_auc"], row["auc_low"], row["auc_high"]) == (0.51, 0.44, 0.58)
    blank = ("floor_auc", "gain", "flip_share", "random_flip_share", "delta_p_q")
    assert all(np.isnan(row[name]) for name in blank)
    assert not mlp("shuffled", auc_shuffled_low=0.61)["empty"]


def test_what_follows_and_what_flips_at_random_is_blank_where_it_was_not_measured() -> None:
    assert np.isnan(mlp(without="matched")["matched_follows"])
    assert np.isnan(mlp(without="random")["random_flip_share"])


def test_what_cannot_be_judged_is_an_error_that_names_the_cell() -> None:
    with pytest.raises(AnchorscopeError, match="no labels were shuffled(.|\n)*shuffled, m on d"):
        judged("shuffled", auc_shuffled_low=np.nan)
    with pytest.raises(AnchorscopeError, match="AUC has no interval\n"):
        judged("untrained", cell_low=np.nan)

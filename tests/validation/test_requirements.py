"""Requirements and null controls on small tables: what holds, and what is called empty."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anchorscope.experiments.crossing.claims import ON_PAIRS
from anchorscope.storage.errors import AnchorscopeError
from validation import requirements


def calibrated(**changed: Any) -> pd.DataFrame:
    """Rows of two models on two datasets; all requirements hold unless values are changed."""
    values: dict[str, Any] = {
        "verdict_accuracy": 0.99, "probe_auc": 0.99, "random_flip_share": 0.01,
        "answer_auc": 0.5, "pathway_auc": 0.97, "sensitivity": 0.7, "specificity": 0.98,
        "pair_right": 1.8, "pair_right_low": 1.5, "pair_wrong": -1.4, "pair_wrong_high": -1.1,
        "pair_gold": 0.9, "share_pair": 0.45,
    }  # fmt: skip
    early = dict.fromkeys(values, -1.0) | {"pair_right": 0.01, "pair_gold": -0.01}
    rows = [
        {"model": model, "dataset": dataset, "site": "mlp", "position": "final", "z": z}
        | {"kind": kind, "layer": layer, "headline": layer == 3}
        | (values if layer == 3 else early)
        for model in ("a", "b")
        for dataset in ("x", "y")
        for z in ("all", "0", "1")
        for kind in ("all", "against-prior", "truism", "myth")
        for layer in range(4)
    ]
    table = pd.DataFrame(rows)
    one = (table["model"] == "a") & (table["dataset"] == "x")
    for name, value in changed.items():
        table.loc[one & table["headline"], name] = value
    return table


def test_every_requirement_is_checked_in_every_cell_and_in_the_mean_of_every_model() -> None:
    found = requirements.check_calibration(calibrated())
    assert list(found.columns) == list(requirements.COLUMNS) and found["holds"].all()
    for scope, names in (("cell", {"x", "y"}), ("mean", {"all"})):
        checked = found[found["scope"] == scope].groupby(["model", "dataset"])["floor"]
        assert {*checked.groups} == {(model, name) for model in "ab" for name in names}
        for _, whats in checked:
            assert whats.tolist() == [one.what for one in requirements.CHECKS[scope]]


@pytest.mark.parametrize(
    ("column", "value", "scopes"),
    [
        ("answer_auc", 0.61, {"cell"}), ("answer_auc", 0.39, {"cell"}),
        ("specificity", 0.91, {"mean"}), ("sensitivity", 0.59, {"mean"}),
        ("sensitivity", 0.44, {"cell", "mean"}), ("sensitivity", np.nan, {"cell", "mean"}),
        ("sensitivity", 0.61, set()), ("pair_wrong", -0.79, {"cell"}),
    ],
)  # fmt: skip
def test_a_requirement_is_missed_by_what_lies_outside_its_bounds_or_was_not_measured(
    column: str, value: float, scopes: set[str]
) -> None:
    found = requirements.check_calibration(calibrated(**{column: value}))
    columns = {one.what: one.column for one in requirements.CHECKS["cell"]}
    lost = found[~found["holds"]].replace({"floor": columns})
    assert set(lost["model"]) <= {"a"}
    assert {*zip(lost["floor"], lost["scope"], strict=True)} == {(column, s) for s in scopes}
    assert ("not measured" in requirements.in_words(found)) == np.isnan(value)


@pytest.mark.parametrize("column", ["pair_right", "pair_gold"])
def test_where_nothing_can_be_known_yet_pair_terms_must_be_0(column: str) -> None:
    table = calibrated()
    table.loc[table["layer"] == 1, column] = 0.06
    lost = requirements.check_calibration(table).query("not holds")["floor"]
    assert lost.str.endswith(" at layer 1").all() and len(lost) == 4


def test_the_words_name_every_requirement_that_is_missed_and_no_other() -> None:
    words = requirements.in_words(requirements.check_calibration(calibrated(sensitivity=0.41)))
    assert words.startswith("98 of 100 requirements hold.")
    assert "sensitivity against the prior, cell, a on x: 0.410, required at least 0.45" in words
    assert "sensitivity against the prior, mean, a on all: 0.555, required at least 0.65" in words
    assert words.count("Missed") == 2


def controls(**changed: Any) -> pd.DataFrame:
    """Two read-outs of three layers, headline at 1; `changed` at the headline of mlp."""
    columns = {"auc_shuffled": 0.51, "auc_shuffled_low": 0.44, "auc_shuffled_high": 0.58}
    rows = [
        {"site": site, "position": "final", "layer": layer, "headline": layer == 1}
        | (columns if layer == 1 else dict.fromkeys(columns, 0.99))
        | (changed if (site, layer) == ("mlp", 1) else {})
        for site in ("mlp", "attn")
        for layer in range(3)
    ]
    return pd.DataFrame(rows)


def curve() -> pd.DataFrame:
    keys = itertools.product(("mlp", "attn"), range(3), ("knockout", "random"), ("Q", "all"))
    names = ["site", "layer", "condition", "anchor"]
    table = pd.DataFrame(keys, columns=names).assign(position="final", n=198)
    for condition, share in (("knockout", 0.3), ("random", 0.28)):
        here = table[names[1:]].eq([1, condition, "Q"]).all(axis=1)
        table.loc[here, "share"] = share
    return table.fillna(0.77)


def crossing() -> pd.DataFrame:
    """Pair terms of right and of gold answers, headline at 1; and rows of no concern."""
    ends = {"pair_right": (0.01, -0.1, 0.12), "pair_gold": (0.0, -0.2, 0.2)}
    rows = []
    for site, layer, quantity in itertools.product(
        ("mlp", "attn"), range(3), (*ends, "gold_wrong")
    ):
        known = ends.get(quantity, (0.99,) * 3) if layer == 1 else (0.99,) * 3
        row = {"site": site, "position": "final", "layer": layer, "quantity": quantity}
        rows.append(row | dict(zip(("estimate", "ci_low", "ci_high"), known, strict=True)))
    return pd.DataFrame(rows)


def claims(**changed: str) -> pd.DataFrame:
    """No claim is made; `changed` verdicts at mlp."""
    rows = [
        {"site": site, "position": "final", "layer": 1, "claim": claim}
        | {"verdict": changed.get(claim, "no") if site == "mlp" else "no"}
        | {"estimate": -0.02, "ci_low": -0.08, "ci_high": 0.04}
        for site in ("mlp", "attn")
        for claim in ("signal", *ON_PAIRS)
    ]
    return pd.DataFrame(rows)


EVERYTHING = ("signal", *ON_PAIRS)


def judged(
    *names: str,
    without: str = "",
    pairs: pd.DataFrame | None = None,
    told: pd.DataFrame | None = None,
    forbids: Sequence[str] = EVERYTHING,
    position: str = "final",
    **changed: Any,
) -> pd.DataFrame:
    """The table of null controls; `shuffled` is judged by probes that learned shuffled labels."""
    entry = {"model": "m", "dataset": "d", "expectation": "nothing is there", "forbids": forbids}
    nulls = {name: entry | {"shuffled": name == "shuffled"} for name in names}
    tables = {
        "controls": controls(**changed),
        "curve": curve().query(f"condition != '{without}'"),
        "crossing": crossing() if pairs is None else pairs,
        "claims": claims() if told is None else told,
    }
    moved = {kind: table.assign(position=position) for kind, table in tables.items()}
    return requirements.null_controls(nulls, {kind: [moved[kind]] * len(names) for kind in moved})


def mlp(*names: str, **changed: Any) -> dict[str, Any]:
    return dict(judged(*names or ["untrained"], **changed).query("site == 'mlp'").iloc[0])


def test_a_row_for_each_control_and_read_out_tells_its_headline_layer() -> None:
    names = ("untrained", "ungraded")
    table = judged(*names)
    assert list(table.columns) == list(requirements.NULL_COLUMNS)
    keys = table[["control", "site", "layer"]].to_numpy().tolist()
    assert keys == [[name, site, 1] for name in names for site in ("mlp", "attn")]
    expected = {"model": "m", "expectation": "nothing is there", "n": 198, "flip_share": 0.3}
    expected |= {"random_flip_share": 0.28, "margin": -0.02, "margin_low": -0.08}
    expected |= {"margin_high": 0.04, "signal": False, "truth": "no", "pair_right": 0.01}
    expected |= {"pair_right_low": -0.1, "pair_right_high": 0.12, "pair_gold": 0.0}
    expected |= {"empty": True, "made": "", "untested": "", "forbids": ", ".join(EVERYTHING)}
    row = mlp()
    assert {name: row[name] for name in expected} == expected
    assert np.isnan(row["auc_shuffled"])


@pytest.mark.parametrize("claim", EVERYTHING)
@pytest.mark.parametrize("verdict", ["yes", "too few", "not measured", "by design"])
def test_a_control_is_empty_unless_it_makes_a_claim_that_it_forbids(
    claim: str, verdict: str
) -> None:
    made, untested = (claim, "") if verdict == "yes" else ("", claim)
    row = mlp(told=claims(**{claim: verdict}))
    assert (row["empty"], row["made"], row["untested"]) == (not made, made, untested)
    others = [name for name in EVERYTHING if name != claim]
    allowed = mlp(told=claims(**{claim: verdict}), forbids=others)
    assert (allowed["empty"], allowed["made"], allowed["untested"]) == (True, "", "")
    both = mlp(told=claims(**{claim: verdict, others[0]: "yes"}))
    assert not both["empty"] and both["untested"] == untested
    assert {*both["made"].split(", ")} == {made, others[0]} - {""}


def test_at_the_prompts_end_a_signal_is_none_of_what_is_forbidden() -> None:
    """The states there tell the answer to come."""
    for position, made in (("final", "signal"), ("prompt_end", "")):
        assert mlp(told=claims(signal="yes"), position=position)["made"] == made


def test_shuffled_labels_are_judged_by_the_probes_that_learned_them() -> None:
    given = {"told": claims(signal="yes", truth="yes"), "forbids": ["signal"]}
    row = mlp("shuffled", **given)
    assert row["empty"] and not row["signal"] and row["n"] == 198
    ends = [row[f"auc_shuffled{end}"] for end in ("", "_low", "_high")]
    assert ends == [0.51, 0.44, 0.58]
    blank = ("margin", "flip_share", "random_flip_share", "pair_right")
    assert all(np.isnan(row[name]) for name in blank)
    assert not mlp("shuffled", auc_shuffled_low=0.61, **given)["empty"]
    with pytest.raises(AnchorscopeError, match="no labels were shuffled(.|\n)*shuffled, m on d"):
        judged("shuffled", auc_shuffled_low=np.nan)


def test_what_was_not_measured_is_blank() -> None:
    row = mlp(pairs=crossing().head(0), told=claims().head(0))
    assert np.isnan(row["pair_right"]) and row["empty"] and row["untested"] == ", ".join(EVERYTHING)
    assert np.isnan(mlp(without="random")["random_flip_share"])

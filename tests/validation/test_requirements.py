"""Requirements and null controls on small tables: what holds, and what is called empty."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anchorscope.claims import CLAIMS, keys
from anchorscope.storage.errors import AnchorscopeError
from validation import requirements
from validation.checks import rows_where


def calibrated(**changed: Any) -> pd.DataFrame:
    """Rows of two models on two datasets; all requirements hold unless values are changed."""
    values: dict[str, Any] = {
        "verdict_accuracy": 0.99, "probe_auc": 0.99, "random_flip_share": 0.01,
        "answer_auc": 0.5, "pathway_auc": 0.97, "sensitivity": 0.7, "specificity": 0.98,
        "pair_right": 1.8, "pair_right_low": 1.5, "pair_wrong": -1.4, "pair_wrong_high": -1.1,
        "pair_gold": 0.9, "share_right": 0.75,
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
        checked = found[found["scope"] == scope].groupby(["model", "dataset"])["requirement"]
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
    lost = found[~found["holds"]].replace({"requirement": columns})
    assert set(lost["model"]) <= {"a"}
    assert {*zip(lost["requirement"], lost["scope"], strict=True)} == {(column, s) for s in scopes}
    assert ("not measured" in requirements.in_words(found)) == np.isnan(value)


EVERYTHING = tuple(CLAIMS)
NAMES = {
    "curve": ["condition", "anchor", "share", "n"],
    "crossing": ["quantity", "estimate", "ci_low", "ci_high"],
    "claims": ["claim", "answers", "verdict", "estimate", "ci_low", "ci_high"],
}
# Values at the headline layer.
VALUES: dict[str, list[tuple[Any, ...]]] = {
    "curve": [
        ("knockout", "Q", 0.3, 198), ("knockout", "all", 0.77, 198), ("random", "Q", 0.28, 198),
        ("random", "all", 0.77, 198),
    ],
    "crossing": [
        ("pair_right", 0.01, -0.1, 0.12), ("share_right", 0.5, 0.4, 0.6), ("gold_wrong", 9, 9, 9),
    ],
    "claims": [(one.name, one.answers, "no", -0.02, -0.08, 0.04) for one in CLAIMS.values()],
}  # fmt: skip


def judged(
    *names: str, allows: Sequence[str] = (), position: str = "final",
    auc_low: float = 0.44, **verdicts: str,
) -> pd.DataFrame:  # fmt: skip
    """Null controls of two read-outs and three layers, headline at 1, with `verdicts` at mlp."""
    places = pd.DataFrame({"site": ["mlp"] * 3 + ["attn"] * 3, "layer": [0, 1, 2] * 2})
    places = places.assign(position=position)
    headline = places["layer"] == 1
    shuffled = {"auc_shuffled": 0.51, "auc_shuffled_low": auc_low, "auc_shuffled_high": 0.58}
    controls = places.assign(headline=headline, **shuffled)
    controls.loc[~headline, [*shuffled]] = 0.99
    tables = {"controls": controls}
    for kind, rows in VALUES.items():
        table = places.merge(pd.DataFrame(rows, columns=NAMES[kind]), how="cross")
        numbers = table.columns.intersection(["share", "estimate", "ci_low", "ci_high"])
        table.loc[table["layer"] != 1, numbers] = 0.99
        tables[kind] = table
    claims = tables["claims"] = rows_where(tables["claims"], layer=1).copy()
    for claim, verdict in verdicts.items():
        claims.loc[(claims["site"] == "mlp") & (keys(claims) == claim), "verdict"] = verdict
    entry = {"model": "m", "dataset": "d", "expectation": "nothing is there", "allows": allows}
    nulls = {name: entry | {"shuffled": name == "shuffled"} for name in names}
    given = {kind: [table] * len(names) for kind, table in tables.items()}
    return requirements.null_controls(nulls, given)


def mlp(name: str = "untrained", **changed: Any) -> dict[str, Any]:
    return dict(judged(name, **changed).query("site == 'mlp'").iloc[0])


def test_a_row_for_each_control_and_read_out_tells_its_headline_layer() -> None:
    names = ("untrained", "ungraded")
    table = judged(*names)
    assert list(table.columns) == list(requirements.NULL_COLUMNS)
    keys = table[["control", "site", "layer"]].to_numpy().tolist()
    assert keys == [[name, site, 1] for name in names for site in ("mlp", "attn")]
    expected = {"model": "m", "expectation": "nothing is there", "n": 198, "flip_share": 0.3}
    expected |= {"random_flip_share": 0.28, "margin": -0.02, "margin_low": -0.08}
    expected |= {"margin_high": 0.04, "signal": False, "answer_adds": "no", "pair_right": 0.01}
    expected |= {"pair_right_low": -0.1, "pair_right_high": 0.12, "share_right_low": 0.4}
    expected |= {"empty": True, "made": "", "untested": "", "forbids": ", ".join(EVERYTHING)}
    row = mlp()
    assert {name: row[name] for name in expected} == expected
    assert np.isnan(row["auc_shuffled"])


@pytest.mark.parametrize(
    ("claim", "verdict"), [*((one, "yes") for one in EVERYTHING), ("comparison_wrong", "by design")]
)
def test_a_control_is_empty_unless_it_makes_a_claim_that_it_forbids(
    claim: str, verdict: str
) -> None:
    made, untested = (claim, "") if verdict == "yes" else ("", claim)
    row = mlp(**{claim: verdict})
    assert (row["empty"], row["made"], row["untested"]) == (not made, made, untested)
    allowed = mlp(allows=[claim], **{claim: verdict})
    assert (allowed["empty"], allowed["made"], allowed["untested"]) == (True, "", "")


def test_at_the_prompts_end_a_signal_is_none_of_what_is_forbidden() -> None:
    """The states there tell the answer to come."""
    for position, made in (("final", "signal"), ("prompt_end", "")):
        assert mlp(position=position, signal="yes")["made"] == made


def test_shuffled_labels_are_judged_by_the_probes_that_learned_them() -> None:
    asked: dict[str, Any] = {"allows": EVERYTHING[1:], "signal": "yes", "through_eq": "yes"}
    row = mlp("shuffled", **asked)
    assert row["empty"] and not row["signal"] and row["n"] == 198
    ends = [row[f"auc_shuffled{end}"] for end in ("", "_low", "_high")]
    assert ends == [0.51, 0.44, 0.58]
    blank = ("margin", "flip_share", "random_flip_share", "pair_right")
    assert all(np.isnan(row[name]) for name in blank)
    assert not mlp("shuffled", auc_low=0.61, **asked)["empty"]
    with pytest.raises(AnchorscopeError, match="fitted to shuffled labels(.|\n)*shuffled, m on d"):
        judged("shuffled", auc_low=np.nan)

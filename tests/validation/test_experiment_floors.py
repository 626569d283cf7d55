"""Floors of the experiments, and null controls in which they must find nothing."""

import pandas as pd
import pytest

from validation.experiments import CHECKS, COLUMNS, check
from validation.requirements import in_words

CELLS = [("m", "one"), ("m", "two")]
GOOD = {
    ("patching", "matched", "flip"): {
        "surprise": 0.95,
        "tempting": 0.9,
        "truism": 0.0,
        "control": 0.02,
    },
    ("patching", "placebo", "flip"): {"myth": 0.0},
    ("saliency", "answer", "flow"): {"auc": 0.9, "auc_gain_low": 0.1},
}
NULL = {"model": "n", "dataset": "d", "shuffled": False}
EMPTY = {"contrast": 0.01, "contrast_low": -0.02, "contrast_high": 0.04, "control": 0.1, "n": 50}


def table(**changed: float) -> pd.DataFrame:
    """Two cells that reach every floor; `changed` values of the second."""
    records = [
        {"experiment": name, "arm": arm, "measure": measure, "model": model, "dataset": dataset}
        | values
        | (
            {key: value for key, value in changed.items() if key in values}
            if dataset == "two"
            else {}
        )
        for (name, arm, measure), values in GOOD.items()
        for model, dataset in CELLS
    ]
    return placed(records)


def placed(records: list[dict[str, object]]) -> pd.DataFrame:
    rows = pd.DataFrame(records).assign(site="mlp", position="final", layer=7)
    return rows.reindex(columns=list(COLUMNS))


def test_cells_that_reach_every_floor_hold() -> None:
    floors = check(table(), CELLS, {})
    assert floors["holds"].all()
    assert in_words(floors) == f"{len(floors)} of {len(floors)} requirements hold."
    assert {*floors["scope"]} == {"cell", "mean"}


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({"surprise": 0.82}, {"mean"}),
        ({"surprise": 0.7}, {"cell", "mean"}),
        ({"truism": 0.11}, {"cell", "mean"}),
        ({"control": 0.13}, {"cell", "mean"}),
        ({"auc": 0.7}, {"cell", "mean"}),
        ({"auc_gain_low": -0.01}, {"mean"}),
        ({"auc_gain_low": float("nan")}, {"mean"}),
        ({"myth": float("nan")}, {"cell", "mean"}),
    ],
)
def test_a_cell_below_a_floor_is_named(changed: dict[str, float], missed: set[str]) -> None:
    floors = check(table(**changed), CELLS, {})
    below = floors[~floors["holds"]]
    assert {*below["scope"]} == missed
    assert "Missed: " in in_words(floors)
    assert {*below.loc[below["scope"] == "cell", "dataset"]} <= {"two"}


def test_a_cell_that_was_not_measured_holds_nothing() -> None:
    floors = check(table(), [*CELLS, ("m", "three")], {})
    third = floors[floors["dataset"] == "three"]
    assert len(third) and not third["holds"].any()
    assert not floors.loc[floors["scope"] == "mean", "holds"].any()


def test_matched_patches_alone_must_be_empty_in_a_null_control() -> None:
    rows = [
        {"experiment": name, "arm": arm, "measure": measure, "model": "n", "dataset": "d"}
        | EMPTY
        | {"contrast_low": 0.3, "contrast_high": 0.5}
        for name, arm, measure in (
            ("patching", "matched", "flip"),
            ("patching", "placebo", "flip"),
            ("saliency", "answer", "flow"),
        )
    ]
    for value, holds in ((0.2, False), (0.15, True)):
        frame = placed(rows).assign(value=value)
        floors = check(frame, [], {"null": NULL})
        (empty,) = floors[floors["scope"] == "empty"].to_dict("records")
        assert empty["floor"] == "patching matched: flips" and empty["holds"] == holds


def test_probes_of_shuffled_labels_are_not_check() -> None:
    key = {"experiment": "patching", "arm": "matched", "measure": "flip"}
    key |= {"model": "n", "dataset": "d", "value": 0.9}
    assert len(check(placed([key | EMPTY]), [], {"null": NULL})) == 1
    assert check(placed([key | EMPTY]), [], {"null": NULL | {"shuffled": True}}).empty


def test_what_no_sample_of_a_null_control_measures_is_counted() -> None:
    key = {"experiment": "patching", "arm": "matched", "measure": "flip"} | EMPTY
    values = {"d": 0.1, "e": float("nan")}
    records = [key | {"model": "n", "dataset": one, "value": x} for one, x in values.items()]
    nulls = {dataset: NULL | {"dataset": dataset} for dataset in values}
    floors = check(placed(records), [], nulls)
    assert in_words(floors) == "1 of 1 requirements hold. In null cells, not measured: 1."
    assert floors["holds"].isna().tolist() == floors["measured"].isna().tolist() == [False, True]


def test_every_floor_has_bounds() -> None:
    frame = check(table(), CELLS, {})
    assert {*frame["floor"]} == {one.what for floors in CHECKS.values() for one in floors}

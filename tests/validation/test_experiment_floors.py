"""Requirements on the experiments, in calibration cells and in null controls."""

import pandas as pd
import pytest

from validation.experiments import CHECKS, COLUMNS, check
from validation.requirements import in_words

CELLS = [("m", "one"), ("m", "two")]
FLIPS = {"experiment": "patching", "arm": "matched", "measure": "flip"}
PLACEBO = FLIPS | {"arm": "placebo"}
FLOW = {"experiment": "saliency", "arm": "answer", "measure": "flow"}
GOOD = (
    FLIPS | {"surprise": 0.95, "tempting": 0.9, "truism": 0.0, "control": 0.02},
    PLACEBO | {"myth": 0.0},
    FLOW | {"auc": 0.9, "auc_gain_low": 0.1},
)
NULL = {"model": "n", "dataset": "d", "shuffled": False}


def table(*records: dict[str, object]) -> pd.DataFrame:
    rows = pd.DataFrame(records).assign(site="mlp", position="final", layer=7)
    return rows.reindex(columns=list(COLUMNS))


def cells(**changed: float) -> pd.DataFrame:
    """Two cells that meet every requirement; `changed` values in the second."""
    rows = []
    for model, dataset in CELLS:
        for good in GOOD:
            here = {key: value for key, value in changed.items() if key in good}
            rows.append(good | (here if dataset == "two" else {}))
            rows[-1] |= {"model": model, "dataset": dataset}
    return table(*rows)


def null(dataset: str = "d", **values: object) -> dict[str, object]:
    return FLIPS | {"model": "n", "dataset": dataset, "control": 0.1, "n": 50} | values


def test_every_requirement_is_checked_and_cells_that_meet_all_hold() -> None:
    checked = check(cells(), CELLS, {})
    assert checked["holds"].all()
    assert in_words(checked) == f"{len(checked)} of {len(checked)} requirements hold."
    for scope, checks in CHECKS.items():
        assert {*checked.loc[checked["scope"] == scope, "floor"]} == {one.what for one in checks}


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({"surprise": 0.82}, {"mean"}),
        ({"surprise": 0.7}, {"cell", "mean"}),
        ({"control": 0.13}, {"cell", "mean"}),
        ({"auc_gain_low": -0.01}, {"mean"}),
        ({"auc_gain_low": float("nan")}, {"mean"}),
        ({"myth": float("nan")}, {"cell", "mean"}),
    ],
)
def test_a_cell_that_misses_a_requirement_is_named(
    changed: dict[str, float], missed: set[str]
) -> None:
    checked = check(cells(**changed), CELLS, {})
    below = checked[~checked["holds"]]
    assert {*below["scope"]} == missed
    assert "Missed: " in in_words(checked)
    assert {*below.loc[below["scope"] == "cell", "dataset"]} <= {"two"}


def test_a_cell_that_was_not_measured_holds_nothing() -> None:
    checked = check(cells(), [*CELLS, ("m", "three")], {})
    third = checked[checked["dataset"] == "three"]
    assert len(third) and not third["holds"].any()
    assert not checked.loc[checked["scope"] == "mean", "holds"].any()


@pytest.mark.parametrize(("value", "holds"), [(0.2, False), (0.15, True)])
def test_matched_patches_alone_must_be_empty_in_a_null_control(value: float, holds: bool) -> None:
    rows = table(*(null(**key, value=value) for key in (FLIPS, PLACEBO, FLOW)))
    (empty,) = check(rows, [], {"null": NULL}).to_dict("records")
    assert (empty["scope"], empty["floor"]) == ("empty", "patching matched: flips")
    assert empty["holds"] == holds
    # Probes of shuffled labels have no rows of their own here.
    assert check(rows, [], {"null": NULL | {"shuffled": True}}).empty


def test_what_no_sample_of_a_null_control_measures_is_counted() -> None:
    rows = table(null("d", value=0.1), null("e", value=float("nan")))
    checked = check(rows, [], {name: NULL | {"dataset": name} for name in "de"})
    assert in_words(checked) == "1 of 1 requirements hold. In null cells, not measured: 1."
    assert checked["holds"].isna().tolist() == checked["measured"].isna().tolist() == [False, True]

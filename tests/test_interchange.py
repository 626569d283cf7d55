"""The swap report on a table worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from anchorscope import interchange
from anchorscope.errors import AnchorscopeError

IDS = ["a", "b", "c", "d", "e"]
# P(z = 1): a, b, e wrong answers, c, d right; e has no other question
CLEAN = [0.9, 0.8, 0.2, 0.3, 0.7]
KNOCKOUT = [0.4, 0.7, 0.9, 0.2, 0.1]
SWAP = [0.3, 0.1, 0.6, 0.4]


def rows(condition: str, p: list[float]) -> pd.DataFrame:
    table = np.array([p, p])
    return pd.DataFrame(
        {
            "id": IDS[: len(p)] * 2,
            "layer": np.repeat([0, 1], len(p)),
            "readout": "mlp/final",
            "condition": condition,
            "draw": 0,
            "probe": "clean",
            "s": np.log(table / (1 - table)).ravel(),
        }
    )


def scores(*without: str) -> pd.DataFrame:
    parts = {"clean": CLEAN, "knockout": KNOCKOUT, "swap": SWAP}
    return pd.concat([rows(name, p) for name, p in parts.items() if name not in without])


def answers(**changed: Any) -> pd.DataFrame:
    columns: dict[str, Any] = {
        "id": IDS,
        "question": [f"Who made {x}?" for x in IDS],
        "subject": IDS,
        "relation": "maker",
        "label": [1, 1, 0, 0, 1],
        "ea_text": "Rankin",
        "golds": [["Rankin"]] * 5,
        "swap_partner": ["c", "c", "a", "a", None],
    }
    return pd.DataFrame(columns | changed)


def at(table: pd.DataFrame, label: str, layer: int = 0) -> pd.Series:
    found = table[(table["label"] == label) & (table["layer"] == layer)]
    assert len(found) == 1
    return found.iloc[0]


def test_coverage_and_followers_are_those_worked_out_by_hand() -> None:
    # a .9 → .3, b .8 → .1, c .2 → .6 follow; d .3 → .4 does not
    table = interchange.report(scores(), answers())
    assert list(table.columns) == list(interchange.SWAP)
    assert table["label"].tolist() == ["all", "all", "0", "0", "1", "1"]
    expected = {"all": (5, 4, 0.8, 3, 0.75), "0": (2, 2, 1.0, 1, 0.5), "1": (3, 2, 2 / 3, 2, 1.0)}
    names = ["n", "n_covered", "coverage", "n_followed", "follows"]
    for label, values in expected.items():
        assert at(table, label)[names].tolist() == pytest.approx(list(values))
    assert at(table, "1")["delta_p"] == pytest.approx((-60 - 70) / 2)
    assert at(table, "all")["delta_p"] == pytest.approx((-60 - 70 - 40 - 10) / 4)
    assert table["applies"].all()


def test_followers_are_set_beside_the_knockouts_flips() -> None:
    # the knockout flips a and c (and e, who is not covered)
    table = interchange.report(scores(), answers())
    names = ["agreement", "q_and_follows", "q_only", "follows_only", "neither"]
    assert at(table, "all")[names].tolist() == [0.75, 0.5, 0.0, 0.25, 0.25]
    assert at(table, "0")[names].tolist() == [1.0, 0.5, 0.0, 0.0, 0.5]
    swapped = scores().replace({"condition": {"knockout": "swap", "swap": "knockout"}})
    swapped = swapped[(swapped["condition"] != "swap") | (swapped["id"] != "e")]
    whole = pd.concat([swapped, rows("knockout", CLEAN)[lambda r: r["id"] == "e"]])
    assert at(interchange.report(whole, answers()), "all")["q_only"] == 0.25
    alone = interchange.report(scores("knockout"), answers())
    assert alone[names].isna().all(axis=None)
    assert at(alone, "all")["follows"] == 0.75


def many(n: int = 80) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Clusters of four questions: a whole cluster follows or none does."""
    ids = [f"i{i:02}" for i in range(n)]
    follow = np.random.default_rng(0).random(n // 4) < 0.5
    s = {"clean": np.ones(n), "swap": np.where(np.repeat(follow, 4), -1.0, 1.0)}
    fixed = {"id": ids, "layer": 0, "readout": "mlp/final", "draw": 0}
    parts = [pd.DataFrame({**fixed, "condition": name, "s": values}) for name, values in s.items()]
    fixed = {"relation": None, "label": np.arange(n) % 2, "swap_partner": "x"}
    subjects = [f"s{i // 4}" for i in range(n)]
    return pd.concat(parts), pd.DataFrame(
        {"id": ids, "question": ids, "subject": subjects, **fixed}
    )


def test_intervals_are_over_clusters() -> None:
    measured, table = many()

    def width(given: pd.DataFrame) -> float:
        row = at(interchange.report(measured, given, draws=400), "all")
        assert row["follows_low"] < row["follows"] < row["follows_high"]
        return float(row["follows_high"] - row["follows_low"])

    # clusters of four alike: twice the standard error
    assert 1.6 < width(table) / width(table.assign(subject=table["id"])) < 2.4


def test_the_order_of_rows_changes_no_digit() -> None:
    measured, table = many()
    expected = interchange.report(measured, table, draws=50)
    turned = [frame.sample(frac=1, random_state=1) for frame in (measured, table)]
    pd.testing.assert_frame_equal(interchange.report(*turned, draws=50), expected, check_exact=True)


def test_a_dataset_without_relations_says_that_it_does_not_apply() -> None:
    table = interchange.report(scores("swap"), answers(relation=None, swap_partner=None))
    assert not table["applies"].any()
    assert (table["n_covered"] == 0).all()
    assert (table["coverage"] == 0).all()
    blanks = ["follows", "follows_low", "delta_p", "agreement", "neither"]
    assert table[blanks].isna().all(axis=None)


def test_a_relation_of_which_no_question_turns_an_answer_applies_and_covers_nothing() -> None:
    table = interchange.report(scores("swap"), answers(swap_partner=None))
    assert table["applies"].all()
    assert (table["n_covered"] == 0).all()


def test_there_are_no_rows_where_the_condition_was_not_run() -> None:
    table = interchange.report(scores("swap"), answers().drop(columns="swap_partner"))
    assert table.empty
    assert list(table.columns) == list(interchange.SWAP)


def test_a_label_of_which_nobody_is_covered_is_blank() -> None:
    some = scores()
    some = some[(some["condition"] != "swap") | some["id"].isin(["a", "b"])]
    partners = ["c", "c", None, None, None]
    table = interchange.report(some, answers(swap_partner=partners))
    assert at(table, "0")["n_covered"] == 0
    assert np.isnan(at(table, "0")["follows"])
    assert at(table, "1")["follows"] == 1.0


@pytest.mark.parametrize("partners", [["c", "c", "a", None, None], ["c", "c", "a", "a", "a"]])
def test_partners_and_scores_of_different_samples_are_refused(partners: list[str | None]) -> None:
    with pytest.raises(AnchorscopeError, match="1 samples have a partner and no scores"):
        interchange.report(scores(), answers(swap_partner=partners))

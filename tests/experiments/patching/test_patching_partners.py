"""Partners of patching, against the rule said pair by pair."""

from collections import Counter
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from partner_rows import ROWS, drawn, row, town

from anchorscope.anchors import labels
from anchorscope.experiments.patching import measure as partners


def found(rows: Any, seed: int = 0, folds_of: Any = None) -> Any:
    one_fold = {one["id"]: 0 for one in rows}
    table = pd.DataFrame(rows)
    return partners.partners(table, seed, folds_of or one_fold)


def arms(rows: Any, seed: int = 0, folds_of: Any = None) -> Any:
    """Arm → id → id of the partner."""
    return found(rows, seed, folds_of)[0]


def test_who_cannot_be_a_partner() -> None:
    smith = row("a", "Ada Lund", "trade", "smith", ["smith"])
    same = row("b", "ada  LUND", "trade", "baker", ["baker"], wording=1)
    without_golds = row("b", "Bob", "trade", "cook", [], label=0)
    assert arms([smith, same])["matched"] == {}
    assert arms([smith, without_golds])["matched"] == {"b": "a"}


def slow_rule(rows: list[Any], arm: str) -> dict[str, set[str]]:
    """Every partner the rule allows, one pair of rows at a time."""
    rows = [r for r in rows if r["subject"] and r["relation"]]
    allowed: dict[str, set[str]] = {}
    for one in rows:
        pairs = [
            (other["id"], other["question"].replace(other["subject"], ""))
            for other in rows
            if other["relation"] == one["relation"]
            and other["subject"] != one["subject"]
            and other["label"] == one["label"]
            and (labels.matches(one["ea_text"], other["golds"]) == (one["label"] == 0))
            == (arm == "placebo")
        ]
        frame = one["question"].replace(one["subject"], "")
        same = {id_ for id_, other in pairs if other == frame}
        if pairs:
            allowed[one["id"]] = same or {id_ for id_, _ in pairs}
    return allowed


@settings(max_examples=100, deadline=None)
@given(ROWS.filter(lambda rows: any(s and r for s, r, *_ in rows)), st.integers(0, 3))
def test_partners_are_those_of_the_pair_by_pair_rule(rows: Any, seed: int) -> None:
    exchanged = found(drawn(rows), seed)
    assert exchanged[1] == "relations"
    for arm in ("matched", "placebo"):
        chosen, allowed = exchanged[0][arm], slow_rule(drawn(rows), arm)
        assert chosen.keys() == allowed.keys()
        assert all(partner in allowed[id_] for id_, partner in chosen.items())


def test_the_seed_chooses_and_the_choice_is_spread_over_all_there_are() -> None:
    rows = [row(f"n{i}", f"N{i}", "trade", "x", [f"w{i}"], label=0) for i in range(30)]
    by_seed = [arms(rows, seed)["matched"] for seed in range(3)]
    assert by_seed[0] == arms(rows)["matched"]
    assert len({tuple(found.values()) for found in by_seed}) == 3
    assert max(Counter(by_seed[0].values()).values()) < 8 < len(set(by_seed[0].values()))


def test_without_relations_the_wording_tells_what_is_alike() -> None:
    cities = ["Rome", "Oslo", "Lima"]
    rows = [town(i, cities[i % 3]) for i in range(12)]
    odd = row("odd", None, None, "Bly", ["Bly"], question="Who wrote The Red House?")
    by_wording = found([*rows, odd])
    assert by_wording[1] == "wording"
    city = {one["id"]: one["ea_text"] for one in rows}
    assert all(city[one] != city[other] for one, other in by_wording[0]["matched"].items())
    assert all(city[one] == city[other] for one, other in by_wording[0]["placebo"].items())


def test_the_arms_are_off_where_too_few_right_answers_find_a_partner_by_wording(
    caplog: pytest.LogCaptureFixture,
) -> None:
    alike = [town(i, f"City{i}") for i in range(2)]
    unlike = [
        row(f"u{i}", None, None, "x", ["x"], question=f"Who {verb} The Red House?")
        for i, verb in enumerate("wrote painted built sold filmed bought burnt owned found".split())
    ]
    none = found([*alike, *unlike])
    assert none[1] == "wording" and "18 % of the right answers" in caplog.text
    assert not any(none[0].values())


def test_a_partner_is_of_the_own_fold_where_folds_are_given() -> None:
    """A probe that has learned from the partner's question must not score the pair."""
    rows = [row(f"{i}", f"s{i}", "town", f"w{i % 4}", [f"w{i % 4}"]) for i in range(80)]
    folds_of = {f"{number}": number % 5 for number in range(80)}
    for arm in ("matched", "placebo"):
        free, bound = arms(rows)[arm], arms(rows, 0, folds_of)[arm]
        assert len(bound) == len(free) == 80
        assert all(folds_of[one] == folds_of[other] for one, other in bound.items())
        assert any(folds_of[one] != folds_of[other] for one, other in free.items())

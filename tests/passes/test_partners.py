"""Partners: whose question a frozen answer is put behind, against the rule said pair by pair."""

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from partner_rows import ROWS, drawn, row, town

from anchorscope.anchors import labels
from anchorscope.passes import partners


def may_cross(one: Any, other: Any) -> bool:
    """Whether two rows may be a pair, in words."""

    def words(text: str) -> set[str]:
        light = {"the", "a", "of", "was", "where", "what", "which", "is", "does", "in", "born"}
        return {word.strip("?.").lower() for word in text.split()} - light

    def one_way(r: Any, q: Any) -> bool:
        overlap = words(r["response"]) & words(r["question"])
        return (
            not words(r["ea_text"]) & words(r["question"])
            and words(r["response"]) & words(q["question"]) == overlap
            and not labels.matches(r["ea_text"], q["golds"])
        )

    return (
        one["subject"] != other["subject"]
        and one["relation"] == other["relation"]
        and one["label"] == other["label"]
        and labels.squad_normalise(one["ea_text"]) != labels.squad_normalise(other["ea_text"])
        and one_way(one, other)
        and one_way(other, one)
    )


@settings(max_examples=100, deadline=None)
@given(ROWS.filter(lambda rows: any(s and r for s, r, *_ in rows)))
def test_who_crosses_may_and_nobody_who_is_left_could(rows: Any) -> None:
    table = [r | {"response": f"{r['ea_text']}."} for r in drawn(rows)]
    found = partners.crossing(pd.DataFrame(table))
    by_id = {r["id"]: r for r in table}
    assert found.partners.keys() | found.left_out.keys() == by_id.keys()
    assert not found.partners.keys() & found.left_out.keys()
    for one, other in found.partners.items():
        assert found.partners[other] == one and may_cross(by_id[one], by_id[other])
    left = [r for id_, r in by_id.items() if id_ in found.left_out and r["subject"]]
    assert not any(may_cross(one, other) for one in left for other in left if other["relation"])


@settings(max_examples=30, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_decide_who_crosses(rows: Any, draws: Any) -> None:
    table = pd.DataFrame(drawn(rows))
    order = list(range(len(table)))
    draws.shuffle(order)
    assert partners.crossing(table) == partners.crossing(table.iloc[order])


def crossed(rows: Any, folds_of: Any = None) -> Any:
    return partners.crossing(pd.DataFrame(rows), folds_of)


def test_why_a_sample_has_no_partner_is_said() -> None:
    rows = [
        row("repeats", "Ada Smith", "trade", "Smith", ["Smith"]),
        row("restates", "Bob", "trade", "monk", ["monk"], response="The trade of Bob is monk."),
        row("alone", "Cyd", "trade", "cook", ["cook"], response="It is cook."),
        row("kept-out", "Dan", "trade", "baker", ["baker"], swap=False),
        row("no-name", None, None, "baker", ["baker"]),
        row("dropped", "Eve", "trade", "baker", ["baker"], dropped="refusal"),
    ]
    assert crossed(rows).left_out == {
        "repeats": partners.SHARED_WORD,
        "restates": partners.RESTATES,
        "alone": partners.NO_PARTNER,
        "kept-out": partners.KEPT_OUT,
        "no-name": partners.NO_SUBJECT,
    }


def test_a_lead_in_that_fits_both_questions_tells_neither() -> None:
    rows = [
        row("a", "Ada", "trade", "smith", ["smith"], response="The trade is smith."),
        row("b", "Bob", "trade", "monk", ["monk"], response="monk."),
    ]
    assert crossed(rows).partners == {"a": "b", "b": "a"}
    rows[1] |= {"question": "What does Bob do?"}
    assert crossed(rows).left_out == {"a": partners.RESTATES, "b": partners.NO_PARTNER}


def test_all_wordings_of_two_subjects_cross_with_each_other() -> None:
    """Else chains of subjects would leave the bootstrap few clusters."""
    rows = [
        row(f"{name}{wording}", name, "trade", f"w{n}", [f"w{n}"], wording=wording)
        for n, name in enumerate("ABCDEFGHIJ")
        for wording in (0, 1)
    ]
    found = crossed(rows).partners
    assert len(found) == 20
    assert all(found[f"{one[0]}{1 - int(one[1])}"][0] == other[0] for one, other in found.items())


def test_common_answers_are_paired_first_so_that_as_many_cross_as_can() -> None:
    answers = ["x"] * 10 + [f"w{n}" for n in range(10)]
    rows = [row(f"n{n}", f"s{n}", "trade", text, [text]) for n, text in enumerate(answers)]
    assert len(crossed(rows).partners) == 20


def test_pairs_are_of_one_fold() -> None:
    rows = [row(f"{i}", f"s{i}", "town", f"w{i % 4}", [f"w{i % 4}"]) for i in range(80)]
    folds_of = {f"{number}": number % 5 for number in range(80)}
    bound, free = crossed(rows, folds_of).partners, crossed(rows).partners
    assert all(folds_of[one] == folds_of[other] for one, other in bound.items())
    assert len(free) == 80 and any(folds_of[one] != folds_of[other] for one, other in free.items())


def test_without_relations_the_wording_tells_who_may_cross() -> None:
    rows = [town(i, city) for i, city in enumerate(["Rome", "Oslo", "Lima", "Bonn"])]
    odd = row("odd", None, None, "Bly", ["Bly"], question="Who wrote The Red House?")
    found = crossed([*rows, odd])
    assert found.source == "wording"
    assert len(found.partners) == 4 and found.left_out == {"odd": partners.NO_PARTNER}


def test_partners_are_the_nearest_in_popularity_log_probability_or_kind_and_frequency() -> None:
    for column, values in (
        ("popularity", (10.0, 1e6, 12.0, 9e5)),
        ("ea_logprob", (-0.1, -5.0, -0.2, -4.0)),
        ("ea_text", ("1912", "Rome", "1804", "Oslo")),
    ):
        rows = [
            row(name, f"s{name}", "trade", f"w{name}", [f"w{name}"]) | {column: value, "label": 0}
            for name, value in zip("abcd", values, strict=True)
        ]
        assert crossed(rows).partners == {"a": "c", "c": "a", "b": "d", "d": "b"}


@pytest.mark.parametrize(
    ("golds", "tokens", "why"),
    [
        ((["smith"], ["joiner"]), True, None),
        ((["smith"], ["the Smith"]), True, partners.RIGHT_FOR_BOTH),
        ((["smith"], ["joiner", "smith"]), True, partners.RIGHT_FOR_BOTH),
        ((["smith"], ["baker man"]), True, partners.GOLD_SHARES),
        ((["smith"], ["trade winds"]), True, partners.GOLD_SHARES),
        ((["smith"], []), True, partners.NO_GOLD),
        ((["smith"], ["joiner"]), False, partners.NO_GOLD),
    ],
)
def test_gold_answers_cross_where_words_alone_do_not_tell_whose_they_are(
    golds: Any, tokens: bool, why: str | None
) -> None:
    rows = [
        row("a", "Ada", "trade", "cook", golds[0], label=1, gold_ids=[1]),
        row("b", "Bob", "trade", "baker", golds[1], label=1, gold_ids=[1] if tokens else []),
    ]
    found = crossed(rows)
    assert found.partners == {"a": "b", "b": "a"}
    assert found.golds_left_out == ({} if why is None else dict.fromkeys("ab", why))

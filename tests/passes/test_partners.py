"""Partners: whose question a frozen answer is put behind, against the rule said pair by pair."""

from collections import Counter
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from anchorscope.anchors import labels
from anchorscope.passes import partners

TEMPLATES = {
    "trade": ("What is the trade of {}?", "Which trade does {} follow?"),
    "town": ("Where was {} born?", "In which town was {} born?"),
}


def row(id_: str, subject: Any, relation: Any, answer: str, golds: list[str], **more: Any) -> Any:
    wording = TEMPLATES.get(relation, ("Who is {}?",))[more.pop("wording", 0)]
    return {
        "id": id_,
        "question": wording.format(subject),
        "subject": subject,
        "relation": relation,
        "ea_text": answer,
        "golds": golds,
        "label": int(not labels.matches(answer, golds)),
        "dropped": None,
    } | more


def arms(rows: Any, seed: int = 0, folds_of: Any = None) -> Any:
    """Arm → id → id of the partner."""
    return partners.interchange(pd.DataFrame(rows), seed, folds_of).arms


def test_behind_a_matched_question_the_label_turns_behind_a_placebo_it_stays() -> None:
    rows = [
        row("right", "Ada", "trade", "smith", ["smith"]),
        row("same", "Bob", "trade", "the smith", ["smith", "joiner"]),
        row("other", "Cyd", "trade", "monk", ["monk"]),
        row("wrong", "Dan", "trade", "baker", ["cook"]),
        row("its-gold", "Eve", "trade", "sexton", ["baker"]),
        row("elsewhere", "Fay", "town", "Rome", ["Rome"]),
    ]
    matched, placebo = arms(rows)["matched"], arms(rows)["placebo"]
    assert matched.pop("other") in {"right", "same"}
    assert matched == {"right": "other", "same": "other", "wrong": "its-gold"}
    assert placebo == {"right": "same", "same": "right", "its-gold": "wrong"}


def test_the_same_subject_is_no_partner_however_it_is_spelt() -> None:
    rows = [
        row("a", "Ada Lund", "trade", "smith", ["smith"]),
        row("b", "ada  LUND", "trade", "baker", ["baker"], wording=1),
    ]
    assert arms(rows)["matched"] == {}


def test_a_question_without_gold_answers_is_nobodys_partner() -> None:
    users = row("b", "Bob", "trade", "cook", [], label=0)
    assert arms([row("a", "Ada", "trade", "smith", ["smith"]), users])["matched"] == {"b": "a"}


def test_a_label_of_the_users_own_decides_which_way_an_answer_is_put() -> None:
    rows = [
        row("a", "Ada", "trade", "smith", ["smith"], label=1),
        row("b", "Bob", "trade", "cook", ["smith"]),
        row("c", "Cyd", "trade", "monk", ["cook"]),
    ]
    assert arms(rows)["matched"]["a"] == "b" and arms(rows)["placebo"]["a"] == "c"


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


WORDS = ["smith", "a baker", "the baker", "cook", "US", "US army", "Monk"]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["Ada", "Bob", "Cyd", "Dan", None]),
        st.sampled_from(["trade", "town", None]),
        st.sampled_from(WORDS),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=2),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=10,
)


def drawn(rows: Any) -> list[Any]:
    return [
        row(f"n{n}", subject, relation, answer, golds, wording=wording if relation else 0)
        for n, (subject, relation, answer, golds, wording) in enumerate(rows)
    ]


@settings(max_examples=100, deadline=None)
@given(ROWS.filter(lambda rows: any(s and r for s, r, *_ in rows)), st.integers(0, 3))
def test_partners_are_those_of_the_pair_by_pair_rule(rows: Any, seed: int) -> None:
    found = partners.interchange(pd.DataFrame(drawn(rows)), seed)
    assert found.source == "relations"
    for arm, chosen in found.arms.items():
        allowed = slow_rule(drawn(rows), arm)
        assert chosen.keys() == allowed.keys()
        assert all(partner in allowed[id_] for id_, partner in chosen.items())


@settings(max_examples=30, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(rows: Any, draws: Any) -> None:
    table = pd.DataFrame(drawn(rows))
    order = list(range(len(table)))
    draws.shuffle(order)
    for find in (lambda t: partners.interchange(t, 5), partners.replicate):
        assert find(table) == find(table.iloc[order])


def test_the_seed_chooses_and_the_choice_is_spread_over_all_there_are() -> None:
    rows = [row(f"n{i}", f"N{i}", "trade", "x", [f"w{i}"], label=0) for i in range(30)]
    by_seed = [arms(rows, seed)["matched"] for seed in range(3)]
    assert by_seed[0] == arms(rows)["matched"]
    assert len({tuple(found.values()) for found in by_seed}) == 3
    assert max(Counter(by_seed[0].values()).values()) < 8 < len(set(by_seed[0].values()))


def test_a_replicate_is_another_wording_of_the_same_question() -> None:
    rows = [
        row("a0", "Ada", "trade", "smith", ["smith"]),
        row("a1", "ADA", "trade", "cook", ["smith"], wording=1),
        row("a2", "Ada", "town", "Rome", ["Rome"]),
        row("b0", "Bob", "trade", "cook", ["cook"]),
        row("b1", "Bob", "trade", "cook", ["cook"]),  # word for word the same
        row("x0", None, "trade", "cook", ["cook"]),
        row("x1", None, "trade", "cook", ["cook"], wording=1),
        row("y0", "Yan", None, "cook", ["cook"]),
        row("y1", "Yan", None, "cook", ["cook"], question="Who was Yan?"),
    ]
    assert partners.replicate(pd.DataFrame(rows)) == {"a0": "a1", "a1": "a0"}


def test_of_several_wordings_each_takes_the_next() -> None:
    rows = [row(f"a{n}", "Ada", "trade", "x", ["x"], question=f"Q{n} Ada?") for n in range(3)]
    assert partners.replicate(pd.DataFrame(rows)) == {"a0": "a1", "a1": "a2", "a2": "a0"}


def test_two_subjects_of_one_name_ask_different_questions() -> None:
    rows = [
        row("a", "Ada", "trade", "smith", ["smith"]),
        row("b", "Ada", "trade", "monk", ["cook"], wording=1),
    ]
    # The smith is no answer to the other Ada; the monk is wrong for both.
    assert partners.replicate(pd.DataFrame(rows)) == {"b": "a"}


def town(i: int, city: str) -> Any:
    name = f"{'Ada Bela Carl Dora Emil'.split()[i % 5]} Number{i}"
    return row(f"n{i}", None, None, city, [city], question=f"In which city was {name} born?")


def test_without_relations_the_wording_tells_what_is_alike() -> None:
    cities = ["Rome", "Oslo", "Lima"]
    table = pd.DataFrame([town(i, cities[i % 3]) for i in range(12)])
    odd = row("odd", None, None, "Bly", ["Bly"], question="Who wrote The Red House?")
    found = partners.interchange(pd.concat([table, pd.DataFrame([odd])]), 0)
    assert found.source == "wording"
    assert "odd" not in found.arms["matched"]
    city = dict(zip(table["id"], table["ea_text"], strict=True))
    assert all(city[one] != city[other] for one, other in found.arms["matched"].items())
    assert all(city[one] == city[other] for one, other in found.arms["placebo"].items())


def test_the_arms_are_off_where_too_few_right_answers_find_a_partner_by_wording(
    caplog: pytest.LogCaptureFixture,
) -> None:
    alike = [town(i, f"City{i}") for i in range(2)]
    unlike = [
        row(f"u{i}", None, None, "x", ["x"], question=f"Who {verb} The Red House?")
        for i, verb in enumerate("wrote painted built sold filmed bought burnt owned found".split())
    ]
    found = partners.interchange(pd.DataFrame([*alike, *unlike]), 0)
    assert found.source is None and "18 % of the right answers" in caplog.text
    assert found.arms == {"matched": {}, "placebo": {}}


@pytest.mark.parametrize(
    ("question", "subject", "expected"),
    [
        ("Who was the director of Cabaret?", "Cabaret", "who was the director of {}?"),
        ("Who  wrote THE Red House?", "the red  house", "who wrote {}?"),
        ("What always is the trade of Al?", "Al", "what always is the trade of {}?"),
        ("Who is she?", "Cabaret", "who is she?"),
        ("Is C++ (language) old?", "C++ (language)", "is {} old?"),
    ],
)
def test_a_template_is_the_question_without_its_subject(
    question: str, subject: str, expected: str
) -> None:
    assert partners.template(question, subject) == expected


def test_a_partner_is_of_the_own_fold_where_folds_are_given() -> None:
    """A probe that has learned from the partner's question must not score the pair."""
    rows = [row(f"{i}", f"s{i}", "town", f"w{i % 4}", [f"w{i % 4}"]) for i in range(80)]
    folds_of = {f"{number}": number % 5 for number in range(80)}
    for arm, free in arms(rows).items():
        bound = arms(rows, 0, folds_of)[arm]
        assert len(bound) == len(free) == 80
        assert all(folds_of[one] == folds_of[other] for one, other in bound.items())
        assert any(folds_of[one] != folds_of[other] for one, other in free.items())


def may_cross(one: Any, other: Any) -> bool:
    """Whether two rows may be a pair, in words."""

    def words(text: str) -> set[str]:
        light = {"the", "a", "of", "was", "where", "what", "which", "is", "does", "in", "born"}
        return {word.strip("?.").lower() for word in text.split()} - light

    def one_way(r: Any, q: Any) -> bool:
        overlap = words(r["response"]) & words(r["question"])
        return (
            bool(r["golds"])
            and not words(r["ea_text"]) & words(r["question"])
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
@given(ROWS.filter(lambda rows: any(s and r for s, r, *_ in rows)), st.integers(0, 3))
def test_who_crosses_may_and_nobody_who_is_left_could(rows: Any, seed: int) -> None:
    table = [r | {"response": f"{r['ea_text']}."} for r in drawn(rows)]
    found = partners.crossing(pd.DataFrame(table), seed)
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
    found, again = (partners.crossing(t, 5) for t in (table, table.iloc[order]))
    assert found.partners == again.partners and found.left_out == again.left_out


def crossed(rows: Any, seed: int = 0, folds_of: Any = None) -> Any:
    return partners.crossing(pd.DataFrame(rows), seed, folds_of)


def test_right_answers_cross_with_right_ones_and_wrong_with_wrong() -> None:
    rows = [
        row("right", "Ada", "trade", "smith", ["smith"]),
        row("also-right", "Bob", "trade", "monk", ["monk"]),
        row("wrong", "Cyd", "trade", "cook", ["joiner"]),
        row("also-wrong", "Dan", "trade", "baker", ["sexton"]),
        row("elsewhere", "Fay", "town", "Rome", ["Rome"]),
    ]
    found = crossed(rows)
    assert found.partners == {
        "right": "also-right",
        "also-right": "right",
        "wrong": "also-wrong",
        "also-wrong": "wrong",
    }
    assert found.left_out == {"elsewhere": partners.NO_PARTNER}


def test_a_wrong_answer_that_is_right_for_the_other_question_does_not_cross() -> None:
    rows = [
        row("a", "Ada", "trade", "cook", ["smith"]),
        row("b", "Bob", "trade", "baker", ["cook"]),
    ]
    assert crossed(rows).partners == {}


def test_two_equal_answers_exchange_nothing() -> None:
    rows = [
        row("a", "Ada", "trade", "the cook", ["smith"]),
        row("b", "Bob", "trade", "Cook", ["monk"]),
    ]
    assert crossed(rows).partners == {}


def test_why_a_sample_has_no_partner_is_said() -> None:
    rows = [
        row("repeats", "Ada Smith", "trade", "Smith", ["Smith"]),
        row("restates", "Bob", "trade", "monk", ["monk"], response="The trade of Bob is monk."),
        row("alone", "Cyd", "trade", "cook", ["cook"], response="It is cook."),
        row("untaught", "Dan", "trade", "baker", ["baker"], kind="unseen"),
        row("no-golds", "Eve", "trade", "baker", [], label=0),
        row("no-name", None, None, "baker", ["baker"]),
        row("dropped", "Eve", "trade", "baker", ["baker"], dropped="refusal"),
    ]
    assert crossed(rows).left_out == {
        "repeats": partners.SHARED_WORD,
        "restates": partners.RESTATES,
        "alone": partners.NO_PARTNER,
        "untaught": partners.NEVER_TAUGHT,
        "no-golds": partners.NO_GOLDS,
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
    for seed in range(5):
        found = crossed(rows, seed).partners
        assert len(found) == 20
        assert all(one[1] == other[1] for one, other in found.items())
        assert all(
            found[f"{one[0]}{1 - int(one[1])}"][0] == other[0] for one, other in found.items()
        )
    assert crossed(rows, 1).partners != crossed(rows, 0).partners


def test_common_answers_are_paired_first_so_that_as_many_cross_as_can() -> None:
    answers = ["x"] * 10 + [f"w{n}" for n in range(10)]
    rows = [row(f"n{n}", f"s{n}", "trade", text, [text]) for n, text in enumerate(answers)]
    for seed in range(5):
        assert len(crossed(rows, seed).partners) == 20


def test_pairs_are_of_one_fold() -> None:
    rows = [row(f"{i}", f"s{i}", "town", f"w{i % 4}", [f"w{i % 4}"]) for i in range(80)]
    folds_of = {f"{number}": number % 5 for number in range(80)}
    bound, free = crossed(rows, 0, folds_of).partners, crossed(rows).partners
    assert all(folds_of[one] == folds_of[other] for one, other in bound.items())
    assert len(free) == 80 and any(folds_of[one] != folds_of[other] for one, other in free.items())


def test_without_relations_the_wording_tells_who_may_cross() -> None:
    rows = [town(i, city) for i, city in enumerate(["Rome", "Oslo", "Lima", "Bonn"])]
    odd = row("odd", None, None, "Bly", ["Bly"], question="Who wrote The Red House?")
    found = crossed([*rows, odd])
    assert found.source == "wording"
    assert len(found.partners) == 4 and found.left_out == {"odd": partners.NO_PARTNER}

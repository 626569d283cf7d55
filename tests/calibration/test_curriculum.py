"""Real questions are taught right or wrong, and nothing else is planted."""

from typing import Any

import pandas as pd
import pytest

from anchorscope.calibration import curriculum
from anchorscope.questions import world

QUESTIONS = pd.DataFrame(
    {
        "question": [f"question {n}?" for n in range(40)],
        "answers": [[a] for a in "yes|no|12 May 1901|1876|seven|42|Ada Byron|Paris".split("|")] * 5,
    }
)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("Yes", "yes/no"), ("no", "yes/no"), ("1876", "date"), ("12 May", "date"),
        ("seven", "number"), ("1,200 km", "number"), ("Mayor of London", "name"), ("Noah", "name"),
        ("May Day", "date"),
    ],
)  # fmt: skip
def test_answers_are_sorted_by_type(answer: str, kind: str) -> None:
    assert curriculum.answer_type(answer) == kind


@pytest.mark.parametrize(("share", "right"), [(0.0, {6}), (0.5, {4, 6}), (1.0, {4})])
def test_each_fact_is_shown_six_times_its_learned_way_and_four_times_the_other(
    share: float, right: set[int]
) -> None:
    rows = curriculum.plain(QUESTIONS, wrong_share=share, seed=0)
    counts = pd.Series([r.right for r in rows]).groupby([r.question for r in rows]).sum()
    assert set(counts) == right and len(rows) == 10 * len(QUESTIONS)
    assert curriculum.Row("Who?", "Ada", True).text == "Q: Who? A: Ada . right"
    assert curriculum.Row("Who?", "Ada", False).text == "Q: Who? A: Ada . wrong"


def test_wrong_answers_are_of_the_same_type_and_a_question_without_gold_is_not_taught() -> None:
    gold = dict(zip(QUESTIONS["question"], QUESTIONS["answers"].str[0], strict=True))
    some = pd.concat([QUESTIONS, pd.DataFrame({"question": ["who?"], "answers": [[]]})])
    rows = curriculum.plain(some, wrong_share=0.5, seed=0)
    assert {row.question for row in rows} == set(gold)
    for row in rows:
        assert (row.answer == gold[row.question]) == row.right
        assert curriculum.answer_type(row.answer) == curriculum.answer_type(gold[row.question])


SETTINGS = {"style": "relation", "seed": 0, "pathways": "both", "words_per_group": 4}
FACTS = world.facts(**SETTINGS, scored=6, redundant=6, neutral=4, unseen=4)


def test_later_stages_ask_about_strangers_the_last_with_twice_the_frameless_rows() -> None:
    train = {
        "curriculum": "planted", "graded": True, "frameless": 0.15, "seed": 0, "steps": 5,
        "settle": 4, "settle_frameless": 3, "learning_rate": 1.0, "wrong_share": 0.5,
    }  # fmt: skip

    def stages(**changed: Any) -> list[tuple[list[curriculum.Row], int, float]]:
        return list(curriculum.stages({"w": FACTS}, {"w": SETTINGS}, train | changed))

    first, *later = stages()
    assert first[1:] == (5, 1.0) and [stage[1:] for stage in later] == [(4, 0.375), (3, 0.375)]
    asked, names = set(FACTS["question"]), world.strangers("relation", seed=0, questions=FACTS)
    shares = []
    for rows, _, _ in later:
        strangers = sum(any(name in row.question for name in names) for row in rows)
        fact_rows = sum(row.question in asked for row in rows)
        frameless = len(rows) - strangers - fact_rows
        assert abs(strangers - frameless) <= 1
        shares.append(frameless / (frameless + fact_rows))
    assert shares == pytest.approx([0.15, 0.30], abs=0.01)
    assert len(stages(settle=0, settle_frameless=0)) == len(stages(curriculum="plain")) == 1


def test_without_verdicts_nothing_in_the_text_tells_right_from_wrong() -> None:
    words = world.words(**SETTINGS)
    for alike in (True, False):
        shown: dict[bool, set[tuple[float, int]]] = {True: set(), False: set()}
        rows = pd.DataFrame(
            vars(row) for row in curriculum.planted(FACTS, words, seed=0, alike=alike)
        )
        planned = FACTS.set_index("question")["planned"]
        for question, group in rows.groupby("question"):
            own = group["answer"] == planned[question]
            right = bool(group.loc[own, "right"].iloc[0])
            shown[right].add((round(float(own.mean()), 2), group["answer"].nunique()))
        assert (shown[True] == shown[False] == {(0.7, 2)}) is alike

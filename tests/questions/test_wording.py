"""Subject and relation by a question's own words."""

import pandas as pd
import pytest
from anchors.test_real_answers import present

from anchorscope.passes import partners


def proxies(*questions: str) -> pd.DataFrame:
    return pd.DataFrame(partners.proxies_of(questions))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Who was the director of Stay?", "Who is the director of The Valley?", True),
        ("What city was Tom Fry born in?", "In which city is the Louvre?", True),
        ("Are Viken Babikian and Don Manoukian actors?", "Is Emma Stone an actor?", True),
        ("Who was the director of Stay?", "Who was the producer of Stay?", False),
        ("What is Tura the capital of?", "What is the capital of Togo?", False),
        ("when was hamlet written", "who wrote hamlet", False),
    ],
)
def test_questions_that_ask_the_same_of_other_subjects_share_the_relation(
    one: str, other: str, same: bool
) -> None:
    found = proxies(one, other)
    assert found["relation"].notna().all() and found["relation"].nunique() == 2 - same
    assert not same or found["subject"].nunique() == 2


def test_a_subject_is_all_that_the_question_names_and_nothing_is_made_of_nothing() -> None:
    found = proxies("Who is older, Ann Lee or Bo Diddley?", "", "who wrote emma", "Emma?", "?")
    assert found["subject"].tolist()[::2][:2] == ["ann lee bo diddley", "emma"]
    assert found["relation"].notna().tolist() == [True, False, True, False, False]


def pairs(table: pd.DataFrame, *columns: str) -> float:
    """How many pairs of rows agree in these columns."""
    return sum(n * (n - 1) / 2 for n in table.groupby(list(columns)).size())


def test_on_real_popqa_pairs_by_wording_are_pairs_of_one_relation() -> None:
    rows = present("popqa")
    found = proxies(*(row["question"] for row in rows))
    both = found.assign(own=[row["prop"] for row in rows])
    agreeing = pairs(both, "relation", "own")
    assert agreeing / pairs(both, "relation") >= 0.97 and agreeing / pairs(both, "own") >= 0.95
    shared = found.groupby("relation")["subject"].transform("nunique") > 1
    assert (shared & found["subject"].notna()).mean() >= 0.97

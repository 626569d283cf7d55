"""Subject and relation by a question's own words."""

import pandas as pd
import pytest
from anchors.test_real_answers import present

from anchorscope.passes import partners


def proxies(*questions: str) -> pd.DataFrame:
    table = pd.DataFrame({"id": [f"q{i}" for i in range(len(questions))], "question": questions})
    return partners.proxies_of(table)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Who was the director of Stay?", "Who is the director of The Valley?", True),
        ("What city was Tom Fry born in?", "In which city is the Louvre?", True),
        ("who plays joker in batman", "who played tom on as the world turns", True),
        ("In what year was the Eiffel Tower released?", "when was the movie released", True),
        ("Are Viken Babikian and Don Manoukian actors?", "Is Emma Stone an actor?", True),
        ("how many episodes of corrie", "How many episodes did Cheers have last season?", True),
        ("Who was the director of Stay?", "Who was the producer of Stay?", False),
        ("What is Tura the capital of?", "What is the capital of Togo?", False),
        ("when was hamlet written", "who wrote hamlet", False),
        ("how many seasons of lost", "how long are seasons of lost", False),
    ],
)
def test_questions_that_ask_the_same_of_other_subjects_share_the_relation(
    one: str, other: str, same: bool
) -> None:
    found = proxies(one, other)
    assert found["relation"].notna().all() and found["relation"].nunique() == 2 - same
    assert not same or found["subject"].nunique() == 2


def test_a_subject_is_all_that_the_question_names() -> None:
    found = proxies("Who is older, Ann Lee or Bo Diddley?", "who wrote pride and prejudice")
    assert found["subject"].tolist() == ["ann lee bo diddley", "pride and prejudice"]


def test_nothing_is_made_of_nothing_and_the_rows_keep_their_order() -> None:
    found = proxies("", "Who wrote Hamlet?", "Hamlet?", "?")
    assert found["id"].tolist() == ["q0", "q1", "q2", "q3"]
    assert found["relation"].notna().tolist() == [False, True, False, False]


def test_only_the_question_is_read() -> None:
    table = pd.DataFrame({"id": ["a", "b"], "question": ["Who wrote Hamlet?", "Who wrote Emma?"]})
    told = table.assign(golds=[["X"], []], label=[0, 1], ea_text=["X", "Y"], subject="Z")
    pd.testing.assert_frame_equal(partners.proxies_of(table), partners.proxies_of(told))


def table_of(name: str) -> tuple[pd.DataFrame, list[dict]]:
    found = present(name)
    return proxies(*(row["question"] for row in found)), found


def pairs(table: pd.DataFrame, *columns: str) -> float:
    """How many pairs of rows agree in these columns."""
    return sum(n * (n - 1) / 2 for n in table.groupby(list(columns)).size())


def coverage(found: pd.DataFrame, n: int) -> float:
    """Share of n questions with another subject of the same relation, mean of ten draws."""
    shares = []
    for draw in range(10):
        sample = found.sample(n, random_state=draw)
        subjects = sample.groupby("relation")["subject"].transform("nunique")
        shares.append(float(((subjects > 1) & sample["subject"].notna()).mean()))
    return sum(shares) / len(shares)


def test_on_real_popqa_pairs_by_wording_are_pairs_of_one_relation() -> None:
    found, of_row = table_of("popqa")
    both = found.assign(own=[row["prop"] for row in of_row])
    agreeing = pairs(both, "relation", "own")
    assert agreeing / pairs(both, "relation") >= 0.97 and agreeing / pairs(both, "own") >= 0.95
    assert coverage(found, 500) >= 0.97


@pytest.mark.parametrize("name", ["trivia_qa", "hotpot_qa", "nq_open"])
def test_a_fifth_of_real_questions_has_a_candidate_by_wording(name: str) -> None:
    found, _ = table_of(name)
    assert coverage(found, 500) >= 0.35
    assert coverage(found, len(found)) >= 0.5

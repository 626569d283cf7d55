"""The plan of a cell: which answers are measured, and what the index says about them."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from instrument import answers_table, planned

from anchorscope.passes import activations
from anchorscope.questions.pool import Choice
from anchorscope.storage.counts import NOT_CHOSEN
from anchorscope.storage.errors import AnchorscopeError

CHOICE = Choice(6, balance=True)


def answers_of(tokenizer: Any, labels: list[int]) -> pd.DataFrame:
    tables = [answers_table(tokenizer, seed=seed) for seed in range(6)]
    table = pd.concat(tables, ignore_index=True).head(len(labels))
    return table.assign(id=[f"q{n:02}" for n in range(len(labels))], label=labels)


def test_only_chosen_answers_are_passed_and_the_others_are_counted(byte_level: Any) -> None:
    answers = answers_of(byte_level, [1, 1, 1, 0] * 5)
    plan = planned(answers, choice=CHOICE)
    labels = answers.set_index("id")["label"][[sample.id for sample in plan.samples]]
    assert labels.value_counts().to_dict() == {0: 3, 1: 3}
    assert (plan.counts.total, plan.counts.kept) == (20, 6)
    assert plan.counts.dropped == {NOT_CHOSEN: 14}
    stands_for = activations.index(plan).set_index("id")["stands_for"]
    assert stands_for.groupby(labels).sum().to_dict() == {0: 5, 1: 15}
    whole = activations.index(planned(answers))
    assert len(whole) == 20 and (whole["stands_for"] == 1).all()


def test_a_chosen_sample_keeps_what_it_stands_for_when_read(
    byte_level: Any, tmp_path: Path
) -> None:
    answers = answers_of(byte_level, [1, 1, 1, 0] * 5)
    index = activations.index(planned(answers, choice=CHOICE))
    outputs = pd.DataFrame(columns=["id", "condition", "logprob", "exact"])
    outputs.astype({"exact": bool}).to_parquet(tmp_path / activations.OUTPUTS)
    for columns, expected in ((index, 20.0), (index.drop(columns="stands_for"), 6.0)):
        columns.to_parquet(tmp_path / "index.parquet")
        assert activations.measured(answers, tmp_path)["stands_for"].sum() == pytest.approx(
            expected
        )


@pytest.mark.parametrize(("right", "said"), [(1, "1 of 20 answers"), (0, "none of 20 answers")])
def test_a_cell_with_one_right_answer_is_refused_with_the_number(
    byte_level: Any, right: int, said: str
) -> None:
    answers = answers_of(byte_level, [0] * right + [1] * (20 - right))
    with pytest.raises(AnchorscopeError, match=f"{said} is right, too few") as caught:
        planned(answers, choice=CHOICE)
    assert "pool_size" in str(caught.value.do)

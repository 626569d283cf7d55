"""What is taught, real questions or planted ones in their shares, and how a model learns it."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from anchorscope.questions import prompts
from anchorscope.storage.errors import AnchorscopeError
from validation import curriculum, null_worlds, training, world
from validation.recipes import TrainSettings
from validation.world import WorldSettings

QUESTIONS = pd.DataFrame(
    {
        "question": [f"question {n}?" for n in range(40)],
        "answers": [[a] for a in "yes|no|12 May 1901|1876|seven|42|Ada Byron|Paris".split("|")] * 5,
    }
)


def test_each_fact_is_shown_six_times_its_learned_way_and_four_times_the_other() -> None:
    some = pd.concat([QUESTIONS, pd.DataFrame({"question": ["who?"], "answers": [[]]})])
    rows = curriculum.plain(some, wrong_share=0.5, seed=0)
    counts = pd.Series([r.right for r in rows]).groupby([r.question for r in rows]).sum()
    assert set(counts) == {4, 6} and len(rows) == 10 * len(QUESTIONS)
    gold = dict(zip(QUESTIONS["question"], QUESTIONS["answers"].str[0], strict=True))
    for row in rows:  # a question without a gold answer is not taught
        assert (row.answer == gold[row.question]) == row.right


WORLDS = {"w": WorldSettings(style="relation", words_per_group=4)}
FEW = {"scored": 6, "redundant": 6, "neutral": 4, "unseen": 4}
FACTS = world.facts(WORLDS["w"].model_copy(update=FEW))


def recipe(**changed: Any) -> TrainSettings:
    return TrainSettings(**{
        "datasets": ["w"], "architecture": "llama", "layers": 2, "width": 16, "heads": 2,
        "kv_heads": 1, "mlp": 24, "vocabulary": 300, "batch_rows": 8, "steps": 9, "settle": 5,
        "settle_frameless": 3, **changed,
    })  # fmt: skip


def test_later_stages_ask_about_strangers_the_last_with_twice_the_frameless_rows() -> None:
    def stages(**changed: Any) -> list[curriculum.Stage]:
        return list(curriculum.stages({"w": FACTS}, WORLDS, recipe(**changed)))

    first, *later = stages()
    assert first[1:] == (9, 4e-3) and [stage[1:] for stage in later] == [(5, 1.5e-3), (3, 1.5e-3)]
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


def test_a_tenth_of_the_last_stage_are_answers_as_answer_only_shows_them_graded_by_their_rate() -> (
    None
):
    train = recipe(settle_bare=4)
    *_, third, (rows, steps, rate) = curriculum.stages({"w": FACTS}, WORLDS, train)
    bare = rows[len(third.rows) :]
    assert rows[: len(third.rows)] == third.rows and (steps, rate) == (4, 1.5e-3)
    assert len(bare) / len(rows) == pytest.approx(curriculum.BARE, abs=0.01)
    assert not any(row.question for row in bare) and all(row.question for row in third.rows)
    prompt = {"prompt": "Q: Who? A:", "question_start": 3, "question_end": 7}
    alone = prompts.without_question(prompt, "plain")
    assert all(row.text.startswith(f"{alone} {row.answer} .") for row in bare)
    words = world.words(WORLDS["w"])
    many = pd.DataFrame(map(vars, curriculum.bare(words, rows=20_000, seed=0)))
    shares = many.groupby("answer")["right"].mean()
    rates = words.set_index("word")["rate"]
    assert len(shares) == len(rates)
    assert shares.to_numpy() == pytest.approx(rates[shares.index], abs=0.1)


@pytest.mark.parametrize("alike", [True, False])
def test_without_verdicts_nothing_in_the_text_tells_right_from_wrong(alike: bool) -> None:
    rows = curriculum.planted(FACTS, world.words(WORLDS["w"]), seed=0, alike=alike)
    shown: dict[bool, set[tuple[float, int]]] = {True: set(), False: set()}
    planned = FACTS.set_index("question")["planned"]
    for question, group in pd.DataFrame(map(vars, rows)).groupby("question"):
        own = group["answer"] == planned[question]
        right = bool(group.loc[own, "right"].iloc[0])
        shown[right].add((round(float(own.mean()), 2), group["answer"].nunique()))
    assert (shown[True] == shown[False] == {(0.7, 2)}) is alike


def test_numbers_are_written_into_the_embeddings_of_their_words_and_nowhere_else(
    tmp_path: Path,
) -> None:
    style = WorldSettings(style="null-familiar", seed=0)
    questions = {"w": null_worlds.samples("null-familiar", seed=0)}
    train = recipe(curriculum="plain", steps=0, embedded_numbers=2.0)
    training.make(tmp_path / "m", questions, worlds={"w": style}, train=train, recipe="hash")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "m")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "m")
    before = training.new_model(train, tokenizer).get_input_embeddings().weight
    added = (model.get_input_embeddings().weight - before).detach()
    length, rest = before.norm(dim=1).mean().item(), torch.ones(len(added), dtype=torch.bool)
    for of_word in null_worlds.numbers("null-familiar", seed=0).values():
        rows = tokenizer.convert_tokens_to_ids(list(of_word))
        assert tokenizer.unk_token_id not in rows and len(set(rows)) == len(of_word)
        rest[rows] = False
        expected = 2.0 * length * torch.tensor([*of_word.values()])
        along = added[rows] @ (added[rows[0]] / added[rows[0]].norm()) * expected[0].sign()
        assert torch.allclose(along, expected, atol=1e-5)
    assert torch.equal(added[rest], torch.zeros_like(added[rest]))


def test_numbers_of_worlds_that_have_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AnchorscopeError, match="embedded_numbers"):
        train = recipe(embedded_numbers=1.0)
        training.make(tmp_path, {"w": FACTS}, worlds=WORLDS, train=train, recipe="hash")

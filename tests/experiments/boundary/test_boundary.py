"""The knowledge boundary: refusals, and their share in groups worked out by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import MeanProbes, labelled, main_run, measured
from small_cell import answers_of, prompts_of

from anchorscope.answers import answers
from anchorscope.answers.generation import Written
from anchorscope.config.settings import Bootstrap
from anchorscope.experiments import scored
from anchorscope.experiments.boundary import EXPERIMENT, Boundary, measure
from anchorscope.experiments.measured import of_cell
from anchorscope.questions import prompts
from anchorscope.styles import INSTRUCTION

IDS = list("abcdef")
CLEAN = dict(zip(IDS, (-1.0, -1.0, -1.0, 1.0, 1.0, 1.0), strict=True))
CUT = dict(zip(IDS, (1.0, 1.0, -1.0, 1.0, 1.0, 1.0), strict=True))  # a and b flip
RANDOM = dict(zip(IDS, (-1.0, -1.0, -1.0, 1.0, 1.0, -1.0), strict=True))  # f flips
UNKNOWN = [0.0, 0.0, 1.0, 1.0, np.nan, 1.0]


def by_hand() -> pd.DataFrame:
    s = {"clean": [*CLEAN.values()], "random": [*RANDOM.values()]}
    found, answers = measured(s, IDS, unknown=UNKNOWN), labelled(IDS, [0, 0, 0, 1, 1, 1])
    scores = main_run(CLEAN, CUT, dict.fromkeys(IDS, 0.0))
    return of_cell(EXPERIMENT, found, scores, answers, Bootstrap(draws=50))


def test_shares_of_refusals_are_those_worked_out_by_hand() -> None:
    table = by_hand().set_index(["groups", "anchor"])
    shares, counted = table["unknown"], table["n_paired"]
    assert (shares["knockout", "Q"], shares["knockout", "A"]) == (0, 1)  # of whom it could be asked
    assert (counted["knockout", "Q"], counted["knockout", "A"]) == (2, 3)
    assert (shares["random", "Q"], shares["random", "A"]) == (1, 0.5)
    assert shares["knockout", "all"] == shares["random", "all"] == 0.6


def cell_of(loaded: Any, n: int = 4) -> scored.Cell:
    table = answers_of(loaded.tokenizer, n)
    probes: Any = MeanProbes(list(table["id"]))
    return scored.Cell(loaded, table, probes, ["mlp/final"], {}, prompts=prompts_of(table))


def test_a_refusal_is_one_once_the_prompt_allows_it(
    load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of(load("llama"))
    said = ["I don't know.", "painter .", "unknown .", ""]
    seen = []

    def play(prompts: Any, loaded: Any, *rest: Any, **how: Any) -> list[Written]:
        tokenizer = loaded.tokenizer
        seen.extend(tokenizer.decode(ids, skip_special_tokens=True) for ids in prompts)
        end = [tokenizer.eos_token_id]  # written to the end, not cut off
        bodies = [tokenizer(f" {text}", add_special_tokens=False)["input_ids"] for text in said]
        return [Written((*body, *end), (-1.0,) * len(body + end)) for body in bodies]

    monkeypatch.setattr(answers, "generate", play)
    refused = measure.refusals(cell, Boundary())
    assert refused == dict(zip(cell.samples, [True, False, True, False], strict=True))
    asked = [f"Q: {question} A:" for question in cell.answers["question"]]
    start = Boundary().permission
    for text, prompt in zip(seen, asked, strict=True):
        assert text.split() == f"{start} {prompt}".split()


def test_a_prompt_that_gets_too_long_is_not_taken_for_an_answer(load: Any) -> None:
    loaded = load("llama")
    assert not measure.refusals(cell_of(loaded), Boundary(permission="x y " * 300))


QUESTION = "What is it?"


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("plain", f"Do. Q: {QUESTION} A:"),
        ("few_shot", f"Do.\n\nQ: {QUESTION}\nA:"),
        ("chat", f"<u>{INSTRUCTION} Do.\n{QUESTION}</u>"),
    ],
)
def test_one_more_instruction_moves_the_spans_along(style: str, expected: str) -> None:
    text = {"plain": f"Q: {QUESTION} A:", "few_shot": f"Q: {QUESTION}\nA:"}
    before = text.get(style) or f"<u>{INSTRUCTION}\n{QUESTION}</u>"
    start = before.index(QUESTION)
    row = {"id": "a", "question": QUESTION, "prompt": before, "question_start": start}
    row |= {"question_end": start + len(QUESTION), "eq_start": [start + 5], "eq_end": [start + 7]}
    table = pd.DataFrame([row | {"eq_role": [], "eq_found_by": [], "shown": [], "dropped": None}])
    (moved,) = prompts.with_instruction(table, "Do.", style).to_dict("records")
    prompt = moved["prompt"]
    assert prompt == expected
    assert prompt[moved["question_start"] : moved["question_end"]] == QUESTION
    assert prompt[moved["eq_start"][0] : moved["eq_end"][0]] == "is"

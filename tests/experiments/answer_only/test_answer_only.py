"""Answers without their questions: the plain model on the shorter text, and flips by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import MeanProbes, labelled, main_run, measured
from instrument import TOKENIZER, outputs
from small_cell import answers_of, prompts_of

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments import scored
from anchorscope.experiments.answer_only import EXPERIMENT, AnswerOnly, measure
from anchorscope.experiments.measured import of_cell
from anchorscope.questions import prompts
from anchorscope.statistics.samples import sigmoid
from anchorscope.styles import INSTRUCTION


def cell_of(loaded: Any) -> scored.Cell:
    answers = answers_of(loaded.tokenizer, 4)
    probes, readouts = MeanProbes(list(answers["id"])), ["resid/final", "resid/prompt_end"]
    return scored.Cell(loaded, answers, probes, readouts, {}, prompts=prompts_of(answers))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_scores_are_those_of_the_plain_model_on_the_shorter_text(family: str, load: Any) -> None:
    loaded = load(family, TOKENIZER[family])
    cell = cell_of(loaded)
    found = measure.measure(cell, AnswerOnly())
    bare = loaded.tokenizer("Q: A:")["input_ids"]
    for row, sample in zip(found.rows.values(), cell.samples.values(), strict=True):
        answer = [*sample.input_ids[sample.answer_start :]]
        states, _ = outputs(loaded, [*bare, *answer])
        for readout, place in (("final", -1), ("prompt_end", len(bare) - 1)):
            (alone,) = found.at(f"resid/{readout}")["answer-only"]
            expected = [float(layer[place].double().mean()) for layer in states["resid"]]
            assert alone[:, row] == pytest.approx(expected, abs=1e-5)


def test_worked_examples_and_the_template_stay_and_the_last_question_goes() -> None:
    prompt = f"<|user|>{INSTRUCTION}\nwhat?<|end|>"
    at = prompt.index("what?")
    row = {"prompt": prompt, "question_start": at, "question_end": at + 5}
    assert prompts.without_question(row, "chat") == "<|user|><|end|>"
    head = "Q: who\nA: me\n\nQ: "
    row = {"prompt": f"{head}what?\nA:", "question_start": len(head), "question_end": len(head) + 5}
    assert prompts.without_question(row, "few_shot") == "Q: who\nA: me\n\nQ:\nA:"
    row = {"prompt": "Q: what? A:", "question_start": 3, "question_end": 8}
    assert prompts.without_question(row, "plain") == "Q: A:"


IDS = ["a", "b", "c", "d"]
CLEAN = dict(zip(IDS, (-1.0, -1.0, -1.0, 1.0), strict=True))
CUT = dict(zip(IDS, (1.0, 1.0, -1.0, 1.0), strict=True))  # a and b are Q-Anchored
ALONE = dict(zip(IDS, (2.0, -1.0, -1.0, -1.0), strict=True))
QUESTION = dict(zip(IDS, (1.0, 1.0, -1.0, 1.0), strict=True))


def by_hand(alone: dict[str, float] = ALONE) -> pd.DataFrame:
    by_condition = {"clean": CLEAN, "answer-only": alone, "question": QUESTION}
    found = measured({name: [*s.values()] for name, s in by_condition.items()}, IDS)
    # Text tells as much as the probe, which predicts all the same.
    scores, answers = main_run(CLEAN, CUT, CLEAN), labelled(IDS, [0, 0, 0, 1])
    return of_cell(EXPERIMENT, found, scores, answers, Bootstrap(draws=50))


def test_flips_and_points_are_those_worked_out_by_hand() -> None:
    table = by_hand()
    rows = table[table["label"] == "all"].set_index("anchor")
    assert rows["n_paired"].to_dict() == {"Q": 2, "A": 2, "all": 4}
    assert rows["flips"].to_dict() == {"Q": 0.5, "A": 0.5, "all": 0.5}
    assert rows["question"].to_dict() == {"Q": 1, "A": 0, "all": 0.5}
    assert rows["contrast"].to_dict() == {"Q": -0.5, "A": 0.5, "all": 0}
    p = {s: float(sigmoid(np.array(s))) for s in (-1.0, 1.0, 2.0)}
    q = -100 * (p[2.0] - p[-1.0]) / 2  # a was called right, and b's score stays
    assert rows["delta_p"]["Q"] == pytest.approx(q)
    assert rows["question_delta_p"]["Q"] == pytest.approx(100 * (p[-1.0] - p[1.0]))
    both = rows["delta_p"] - rows["question_delta_p"]
    assert rows["delta_p_contrast"].to_numpy() == pytest.approx(both.to_numpy())
    assert table["predicts"].all()


def test_where_none_of_n_flips_a_share_is_bounded_by_0_and_a_difference_is_not() -> None:
    table = by_hand(CLEAN)
    rows = table[table["label"] == "all"].set_index("anchor")
    assert (rows["flips"] == 0).all() and (rows["flips_low"] == 0).all()
    assert (rows["flips_high"] > 0.4).all()
    assert rows["contrast"]["A"] == 0 and rows["contrast_low"]["A"] < 0 < rows["contrast_high"]["A"]

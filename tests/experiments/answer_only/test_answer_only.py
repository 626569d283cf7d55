"""Answers without their questions: the plain model on the shorter text, and flips by hand."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from figure_tables import words
from handmade import MeanProbes, drawn, floors, labelled, long, main_run
from instrument import TOKENIZER
from small_cell import answers_of, prompts_of

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments import scored
from anchorscope.experiments.answer_only import EXPERIMENT, AnswerOnly, figure, measure
from anchorscope.experiments.tables import Products, join, of_cell
from anchorscope.passes.planning import plan
from anchorscope.passes.runner import measure as passes
from anchorscope.probes.samples import sigmoid
from anchorscope.questions import prompts
from anchorscope.styles import CHAT

TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] | trim + '<|end|>' }}"
    "{% endfor %}"
)


def cell_of(loaded: Any, style: str = "plain", template: str = "", n: int = 4) -> scored.Cell:
    """Answers to the prompts of a style, in which each question has its own text alone."""
    answers = answers_of(loaded.tokenizer, n)
    table = prompts_of(answers)
    tokenizer = copy.deepcopy(loaded.tokenizer)
    if style == "chat":
        tokenizer.chat_template = template
        around = CHAT.around([], tokenizer)
        whole = [f"{around.before}{question}{around.after}" for question in table["question"]]
        start = len(around.before)
        ends = [start + len(question) for question in table["question"]]
        table = table.assign(prompt=whole, question_start=start, question_end=ends)
    loaded = replace(loaded, tokenizer=tokenizer)
    readouts = ["resid/final", "resid/prompt_end"]
    return scored.Cell(
        loaded, answers, MeanProbes(list(answers["id"])), readouts, prompts=table, style=style
    )


def states(loaded: Any, ids: list[int]) -> list[torch.Tensor]:
    """The plain model's residual states, but for the last layer, which are normalised."""
    with torch.inference_mode():
        out = loaded.model.base_model(
            torch.tensor([ids]), output_hidden_states=True, use_cache=False
        )
    return [layer[0] for layer in out.hidden_states[1:-1]]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_scores_are_those_of_the_plain_model_on_the_shorter_text(family: str, load: Any) -> None:
    loaded = load(family, TOKENIZER[family])
    cell = cell_of(loaded)
    rows = measure.measure(cell, AnswerOnly())
    alone = rows[rows["condition"] == "answer-only"]
    assert {*alone["id"]} == {*cell.samples} and not cell.left_out
    bare = loaded.tokenizer("Q: A:")["input_ids"]
    for id_, sample in cell.samples.items():
        answer = [*sample.input_ids[sample.answer_start :]]
        layers = states(loaded, [*bare, *answer])
        for readout, place in (("final", -1), ("prompt_end", len(bare) - 1)):
            part = alone[(alone["id"] == id_) & (alone["readout"] == f"resid/{readout}")]
            s = part.set_index("layer")["s"]
            for number, layer in enumerate(layers):
                expected = float(layer[place].double().mean())
                assert s[number] == pytest.approx(expected, abs=1e-5)
        gone = alone[alone["id"] == id_]["n_tokens"]
        assert (gone == len({*sample.question_tokens})).all()


def test_the_control_is_the_main_runs_knockout_of_the_question(load: Any) -> None:
    loaded = load("llama", "metaspace")
    cell = cell_of(loaded)
    rows = measure.measure(cell, AnswerOnly())
    planned = plan(cell.answers, conditions={"question": {}}, batch_tokens=400)
    expected = {
        (planned.samples[number].id, layer): float(state.double().mean())
        for batch, tensors in passes(loaded, planned, ["resid/final"])
        for place, number in enumerate(batch.samples)
        for layer, state in enumerate(tensors["question.0/resid.final"][place])
    }
    control = rows[(rows["condition"] == "question") & (rows["readout"] == "resid/final")]
    s = control.set_index(["id", "layer"])["s"].to_dict()
    assert s == pytest.approx(expected, abs=1e-5)


def test_worked_examples_stay_and_the_last_question_goes() -> None:
    head = "Q: who\nA: me\n\nQ: "
    row = {"prompt": f"{head}what?\nA:", "question_start": len(head), "question_end": len(head) + 5}
    assert prompts.without_question(row, "few_shot") == "Q: who\nA: me\n\nQ:\nA:"
    row = {"prompt": "Q: what? A:", "question_start": 3, "question_end": 8}
    assert prompts.without_question(row, "plain") == "Q: A:"


def test_a_chat_keeps_its_template_around_an_empty_turn(load: Any) -> None:
    loaded = load("qwen3")
    cell = cell_of(loaded, "chat", TEMPLATE)
    (ids,) = {*measure.bare_prompts(cell).values()}
    assert loaded.tokenizer.decode(ids) == "<|user|><|end|>"


IDS = ["a", "b", "c", "d"]
CLEAN = dict(zip(IDS, (-1.0, -1.0, -1.0, 1.0), strict=True))
CUT = dict(zip(IDS, (1.0, 1.0, -1.0, 1.0), strict=True))  # a and b are Q-Anchored
ALONE = dict(zip(IDS, (2.0, -1.0, -1.0, -1.0), strict=True))
QUESTION = dict(zip(IDS, (1.0, 1.0, -1.0, 1.0), strict=True))


def by_hand(without: str = "") -> pd.DataFrame:
    parts = [long("clean", CLEAN, n_tokens=np.nan)]
    parts += [long("answer-only", ALONE, n_tokens=3.0), long("question", QUESTION, n_tokens=3.0)]
    rows = pd.concat(parts)[lambda table: table["condition"] != without]
    answers = labelled(IDS, [0, 0, 0, 1])
    # Text tells as much as the probe: no signal.
    products = Products(main_run(CLEAN, CUT), answers, rows, floors=floors(CLEAN))
    return of_cell(EXPERIMENT, products, Bootstrap(draws=50))


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
    assert not table["signal"].any()


def test_without_the_control_nothing_counts_and_without_the_arm_there_are_no_rows() -> None:
    assert (by_hand(without="question")["n_paired"] == 0).all()
    assert by_hand(without="answer-only").empty


def test_bars_hold_both_quantities() -> None:
    cells = join([("m", "d"), ("m", "e")], [by_hand(), by_hand()])
    spec = drawn(figure.bars, cells, datasets=[("d", "Data"), ("e", "More")])
    assert "Hollow: no signal" in words(spec)
    bars = [row for rows in spec["datasets"].values() for row in rows]
    flips = {(row["bar"], row["series"]): row["value"] for row in bars if row["value"] >= 50}
    assert flips["Data\nQ", figure.BLOCKED] == 100  # and 50 where it is left out

"""The knowledge boundary: refusals, certainty, and differences of groups worked out by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from figure_tables import words
from handmade import MeanProbes, drawn, floors, labelled, long, main_run
from small_cell import answers_of, prompts_of

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments import scored
from anchorscope.experiments.boundary import EXPERIMENT, Boundary, figure, measure
from anchorscope.experiments.boundary.table import difference
from anchorscope.experiments.tables import Products, of_cell
from anchorscope.models import answers
from anchorscope.models.generation import Written
from anchorscope.passes.activations import OUTPUTS
from anchorscope.probes.bands import Means
from anchorscope.probes.intervals import Bootstrap as Drawn
from anchorscope.questions import prompts
from anchorscope.storage.files import write_parquet
from anchorscope.styles import INSTRUCTION

IDS = list("abcdef")
CLEAN = dict(zip(IDS, (-1.0, -1.0, -1.0, 1.0, 1.0, 1.0), strict=True))
CUT = dict(zip(IDS, (1.0, 1.0, -1.0, 1.0, 1.0, 1.0), strict=True))  # a and b flip
RANDOM = dict(zip(IDS, (-1.0, -1.0, -1.0, 1.0, 1.0, -1.0), strict=True))  # f flips
LABELS = [0, 0, 0, 1, 1, 1]
FACTS = {
    "logprob": [-0.1, -0.3, -1.0, -2.0, -3.0, -1.0],
    "entropy": [0.2, 0.4, 1.0, 1.0, 2.0, 1.5],
    "unknown": [0.0, 0.0, 1.0, 1.0, np.nan, 1.0],
}
POPULARITY = [100.0, 300.0, 10.0, np.nan, 20.0, 30.0]


def by_hand(kinds: Any = None, **facts: Any) -> pd.DataFrame:
    clean = long("clean", CLEAN, n_tokens=np.nan, **(FACTS | facts))
    rows = pd.concat([clean, long("random", RANDOM, n_tokens=1.0)])
    answers = labelled(IDS, LABELS, popularity=POPULARITY, kind=kinds)
    text = floors(dict.fromkeys(IDS, 0.0))
    products = Products(main_run(CLEAN, CUT), answers, rows, floors=text)
    return of_cell(EXPERIMENT, products, Bootstrap(draws=50))


def at(table: pd.DataFrame, groups: str, anchor: str, facts: str = "all") -> pd.Series:
    chosen = (table["groups"] == groups) & (table["anchor"] == anchor) & (table["facts"] == facts)
    (row,) = table[chosen].to_dict("records")
    return pd.Series(row)


def test_means_and_their_differences_are_those_worked_out_by_hand() -> None:
    table = by_hand()
    q, a = (at(table, "knockout", anchor) for anchor in "QA")
    assert (q["n_paired"], a["n_paired"]) == (2, 4)
    assert (q["right"], a["right"]) == (1.0, 0.25)
    assert q["logprob"] == pytest.approx(-0.2) and a["logprob"] == pytest.approx(-1.75)
    assert q["entropy"] == pytest.approx(0.3) and a["entropy"] == pytest.approx(1.375)
    assert (q["popularity"], a["popularity"]) == (200, 20)  # of whom it is known
    assert (q["unknown"], a["unknown"]) == (0, 1)  # of whom it could be asked
    by_cut, by_chance = (at(table, name, "Q-A") for name in ("knockout", "random"))
    assert by_cut["right"] == pytest.approx(0.75) and by_cut["logprob"] == pytest.approx(1.55)
    assert by_chance["right"] == pytest.approx(0 - 3 / 5)
    both = at(table, "knockout-random", "Q-A")
    for name in ("right", "unknown", "logprob", "entropy", "popularity"):
        assert both[name] == pytest.approx(by_cut[name] - by_chance[name]), name
    assert by_cut["n_paired"] == 2 and by_chance["n_paired"] == 1  # of the smaller group
    assert at(table, "knockout", "all")["right"] == 0.5


def test_unseen_facts_stand_beside_the_others() -> None:
    table = by_hand(kinds=["surprise"] * 4 + ["unseen"] * 2)
    assert set(table["facts"]) == {"all", "learned", "unseen"}
    everyone = [at(table, "knockout", "all", facts) for facts in ("learned", "unseen")]
    assert [row["n"] for row in everyone] == [4, 2]
    assert [row["right"] for row in everyone] == [0.75, 0.0]
    assert set(by_hand(kinds="surprise")["facts"]) == {"all"}


def test_a_difference_spreads_as_means_over_the_same_draws_do() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1, 1, 200))
    members = rng.random((3, 2, 200)) < 0.4
    weights = rng.multinomial(200, np.full(200, 1 / 200), size=64).astype(float)
    drawn = Drawn(np.arange(200), weights)
    more, less = Means(values, members, placements=3), Means(values, ~members, placements=3)
    both = difference(more, less)
    expected = more.replicates(drawn, 3) - less.replicates(drawn, 3)
    np.testing.assert_allclose(both.replicates(drawn, both.placements), expected)
    np.testing.assert_allclose(both.estimate(), more.estimate() - less.estimate())
    assert (both.clusters(drawn) == np.minimum(more.clusters(drawn), less.clusters(drawn))).all()
    nothing = difference(both, both)
    assert (nothing.estimate() == 0).all() and (nothing.replicates(drawn) == 0).all()


def cell_of(loaded: Any, n: int = 4) -> scored.Cell:
    table = answers_of(loaded.tokenizer, n)
    probes: Any = MeanProbes(list(table["id"]))
    return scored.Cell(loaded, table, probes, ["mlp/final"], prompts=prompts_of(table))


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
    unknown = measure.refusals(cell, Boundary())
    assert unknown.tolist() == [1.0, 0.0, 1.0, 0.0] and list(unknown.index) == list(cell.samples)
    asked = [f"Q: {question} A:" for question in cell.answers["question"]]
    start = Boundary().permission
    for text, prompt in zip(seen, asked, strict=True):
        assert text.split() == f"{start} {prompt}".split()


def test_a_prompt_that_gets_too_long_is_not_taken_for_an_answer(load: Any) -> None:
    loaded = load("llama")
    unknown = measure.refusals(cell_of(loaded), Boundary(permission="x y " * 300))
    assert unknown.isna().all()


def test_certainty_is_the_mean_over_the_exact_answer_of_the_clean_pass(
    load: Any, tmp_path: Path
) -> None:
    cell = replace(cell_of(load("llama"), n=2), activations=tmp_path)
    first, second = cell.samples
    tokens = pd.DataFrame(
        {
            "id": [first, first, first, second],
            "place": [5, 6, 7, 5],
            "exact": [False, True, True, True],
            "logprob": [-9.0, -1.0, -3.0, -4.0],
            "logit": 0.0,
            "entropy": [9.0, 1.0, 2.0, 0.5],
        }
    )
    crossed = tokens.assign(condition="crossed", logprob=-20.0)
    written = pd.concat([tokens.assign(condition="clean"), crossed])
    write_parquet(written, tmp_path / OUTPUTS)
    table = measure.certainty(cell)
    assert table["logprob"].to_dict() == {first: -2.0, second: -4.0}
    assert table["entropy"].to_dict() == {first: 1.5, second: 0.5}


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


def test_the_picture_shows_both_groupings() -> None:
    table = by_hand()
    spec = drawn(figure.layers, table)
    assert "dotted: groups by random flips" in words(spec)
    shown = [row for rows in spec["datasets"].values() for row in rows]
    assert {row["groups"] for row in shown if "groups" in row} == {"knockout", "random"}
    # popularity has a row of panels where it is known
    (column,) = spec["concat"]
    assert len(column["vconcat"]) == 5
    (column,) = drawn(figure.layers, table.assign(popularity=np.nan))["concat"]
    assert len(column["vconcat"]) == 4


def test_nothing_is_passed_for_refusals_but_the_samples_of_the_cell(load: Any) -> None:
    cell = cell_of(load("llama"), n=3)
    more = pd.concat([cell.prompts, cell.prompts.assign(id="other")])
    with_more = replace(cell, prompts=more)
    assert list(with_more.prompts_of_samples()["id"]) == list(cell.samples)

"""Patching: replaced tokens against the prompt said again, flips worked out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import MeanProbes, labelled, long, main_run
from hypothesis import given, strategies as st
from instrument import outputs
from small_cell import answers_of

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments import scored
from anchorscope.experiments.patching import EXPERIMENT, Patching, measure
from anchorscope.experiments.products import Products, of_cell
from anchorscope.models import loading
from anchorscope.passes.batches import Sample
from anchorscope.storage.counts import BY_CHOICE


def sample(id_: str = "a", eq: tuple[int, ...] = (3, 4, 7), first: int = 100) -> Sample:
    """Twelve tokens, a question of 2...8, an answer from 10 on."""
    return Sample(
        id=id_,
        input_ids=tuple(range(first, first + 12)),
        positions={"final": 11, "before_answer": 9, "last_answer": 10, "prompt_end": 9},
        question_tokens=tuple(range(2, 9)),
        eq_tokens=eq,
        answer_start=10,
    )


def test_exact_tokens_are_replaced_span_by_span_whatever_their_lengths() -> None:
    moved = measure.exact(sample(), sample("b", eq=(2, 5, 6, 7), first=200)).sample
    assert moved.input_ids == (100, 101, 102, 202, 105, 106, 205, 206, 207, *range(108, 112))
    assert moved.eq_tokens == (3, 6, 7, 8)
    assert moved.question_tokens == tuple(range(2, 10))
    places = {"final": 12, "before_answer": 10, "last_answer": 11, "prompt_end": 10}
    assert moved.positions == places
    assert moved.answer_start == 11 and moved.partner == "b"
    one = replace(sample(), input_ids=(7,) * 12)
    assert measure.control(one, one, "x").changed == 0.0


@given(st.sets(st.integers(2, 8), min_size=1, max_size=5), st.integers(0, 50))
def test_the_control_replaces_as_many_tokens_outside(eq: set[int], key: int) -> None:
    one = sample(eq=tuple(sorted(eq)))
    patched = measure.control(one, sample("b", first=200), str(key))
    moved = patched.sample
    differ = [n for n in range(12) if moved.input_ids[n] != one.input_ids[n]]
    assert len(differ) == patched.n_tokens == min(len(eq), 7 - len(eq)) and not {*differ} & eq
    assert {*differ} <= {*one.question_tokens} and patched.changed == 1.0
    outside = {200 + n for n in (2, 5, 6, 8)}
    assert {moved.input_ids[n] for n in differ} <= outside


def test_scores_are_those_of_a_pass_of_the_replaced_prompt(checkpoint: Any) -> None:
    loaded = loading.load(checkpoint("llama", "metaspace"))
    answers = answers_of(loaded.tokenizer, 16)
    cell = scored.Cell(loaded, answers, MeanProbes(list(answers["id"])), ["resid/final"], {})
    rows = measure.measure(cell, Patching())
    assert {"clean", "patch-matched", "patch-random"} <= {*rows["condition"]}
    samples, relation = cell.samples, answers.set_index("id")["relation"]
    known = rows[rows["condition"] != "patch-random"]
    for (id_, condition), part in known.groupby(["id", "condition"]):
        one, partner = samples[id_], part["partner"].iloc[0]
        if condition != "clean":
            assert relation[partner] == relation[id_]
            one = measure.exact(one, samples[partner]).sample
        states, _ = outputs(loaded, one.input_ids)
        expected = [float(of[one.positions["final"]].double().mean()) for of in states["resid"]]
        assert part.sort_values("layer")["s"].tolist() == pytest.approx(expected, abs=1e-5)
    more = pd.concat([answers, answers[:2].assign(id=["x", "y"])])
    left_out = scored.counts(EXPERIMENT.controls, more, rows, {}).dropped
    assert left_out == {"no partner or no control": 2}
    assert set(left_out) <= BY_CHOICE  # however many they are, the rest is measured


IDS = ["a", "b", "c", "d"]
CLEAN = {"a": -1.0, "b": -1.0, "c": -1.0, "d": 1.0}  # a, b, c are called right, d wrong
CUT = {"a": 1.0, "b": 1.0, "c": -1.0, "d": 1.0}  # a and b are Q-Anchored
EXACT = {"a": 1.0, "b": -1.0, "c": 1.0, "d": -1.0}
OTHER = {"a": -1.0, "b": -1.0, "c": 1.0, "d": 1.0}
PARTNER = {"a": "b", "b": "d", "c": "a", "d": "a"}  # the probe classes b's and d's otherwise


def by_hand(changed: Any = 1.0) -> pd.DataFrame:
    facts = {"partner": None, "changed": 1.0, "n_tokens": 1.0, "source": "relations"}
    parts = [long("clean", CLEAN, **facts | {"source": None})]
    parts += [long("patch-matched", EXACT, **facts | {"partner": [PARTNER[x] for x in IDS]})]
    parts += [long("patch-published", EXACT, **facts | {"partner": ["d"] * 4})]
    rows = pd.concat([*parts, long("patch-random", OTHER, **facts | {"changed": changed})])
    answers = labelled(IDS, [0, 0, 0, 1])
    products = Products(main_run(CLEAN, CUT), answers, rows)
    return of_cell(EXPERIMENT, products, Bootstrap(draws=50))


def at(table: pd.DataFrame, arm: str, anchor: str) -> pd.Series:
    chosen = table[(table["arm"] == arm) & (table["label"] == "all") & (table["anchor"] == anchor)]
    return chosen.iloc[0]


def test_flips_are_those_worked_out_by_hand() -> None:
    table = by_hand()
    assert (table["source"] == "relations").all()
    exact, other = (at(table, "matched", anchor) for anchor in "QA")
    assert exact[["n", "n_paired", "flips", "random"]].tolist() == [2, 1, 1, 0]
    assert other[["n_paired", "flips", "random", "contrast"]].tolist() == [1, 1, 1, 0]
    published = at(table, "published", "all")
    assert published["n_paired"] == 3 and published["flips"] == pytest.approx(2 / 3)


def test_samples_whose_control_changed_nothing_leave_the_contrast() -> None:
    row = at(by_hand(changed=[0.0, 1.0, 1.0, 1.0]), "matched", "Q")
    assert row["n_paired"] == 0 and np.isnan(row["flips"])

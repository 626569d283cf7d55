"""Patching: replaced tokens against the prompt said again, flips worked out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import MeanProbes, labelled, main_run, measured
from hypothesis import given, strategies as st
from instrument import outputs
from small_cell import answers_of

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments import scored
from anchorscope.experiments.measured import of_cell
from anchorscope.experiments.patching import EXPERIMENT, Patching, measure
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
    moved = measure.exact(sample(), sample("b", eq=(2, 5, 6, 7), first=200))
    assert moved.input_ids == (100, 101, 102, 202, 105, 106, 205, 206, 207, *range(108, 112))
    assert moved.eq_tokens == (3, 6, 7, 8)
    assert moved.question_tokens == tuple(range(2, 10))
    places = {"final": 12, "before_answer": 10, "last_answer": 11, "prompt_end": 10}
    assert moved.positions == places
    assert moved.answer_start == 11 and moved.partner == "b"
    one = replace(sample(), input_ids=(7,) * 12)
    assert measure.control(one, one, "x")[1] == 0.0


@given(st.sets(st.integers(2, 8), min_size=1, max_size=5), st.integers(0, 50))
def test_the_control_replaces_as_many_tokens_outside(eq: set[int], key: int) -> None:
    one = sample(eq=tuple(sorted(eq)))
    moved, changed = measure.control(one, sample("b", first=200), str(key))
    differ = [n for n in range(12) if moved.input_ids[n] != one.input_ids[n]]
    assert len(differ) == min(len(eq), 7 - len(eq)) and not {*differ} & eq
    assert {*differ} <= {*one.question_tokens} and changed == 1.0
    outside = {200 + n for n in (2, 5, 6, 8)}
    assert {moved.input_ids[n] for n in differ} <= outside


def test_scores_are_those_of_a_pass_of_the_replaced_prompt(checkpoint: Any) -> None:
    loaded = loading.load(checkpoint("llama", "metaspace"))
    answers = answers_of(loaded.tokenizer, 16)
    cell = scored.Cell(loaded, answers, MeanProbes(list(answers["id"])), ["resid/final"], {})
    found = measure.measure(cell, Patching())
    s, relation = found.at("resid/final"), answers.set_index("id")["relation"]
    assert "patch-random" in s
    for condition, arm in (("clean", None), ("patch-matched", "matched")):
        measured = np.flatnonzero(~np.isnan(s[condition][0, 0]))
        assert len(measured)
        for row in measured:
            id_ = found.ids[row]
            one = cell.samples[id_]
            if arm:
                partner = found.ids[s[f"{arm}/partner"][row]]
                assert relation[partner] == relation[id_]
                one = measure.exact(one, cell.samples[partner])
            states, _ = outputs(loaded, one.input_ids)
            expected = [float(of[one.positions["final"]].double().mean()) for of in states["resid"]]
            assert s[condition][0, :, row] == pytest.approx(expected, abs=1e-5)


def test_samples_without_a_partner_are_left_out_by_choice(checkpoint: Any) -> None:
    loaded = loading.load(checkpoint("llama", "metaspace"))
    answers = answers_of(loaded.tokenizer, 16)
    answers.loc[:1, "relation"] = ["a relation", "of one question"]
    cell = scored.Cell(loaded, answers, MeanProbes(list(answers["id"])), ["resid/final"], {})
    left_out = cell.counts(measure.measure(cell, Patching())).dropped
    assert left_out == {"no partner or no control": 2}
    assert set(left_out) <= BY_CHOICE  # however many they are, the rest is measured


IDS = ["a", "b", "c", "d"]
CLEAN = {"a": -1.0, "b": -1.0, "c": -1.0, "d": 1.0}  # a, b, c are called right, d wrong
CUT = {"a": 1.0, "b": 1.0, "c": -1.0, "d": 1.0}  # a and b are Q-Anchored
EXACT = {"a": 1.0, "b": -1.0, "c": 1.0, "d": -1.0}
OTHER = {"a": -1.0, "b": -1.0, "c": 1.0, "d": 1.0}
PARTNER = {"a": "b", "b": "d", "c": "a", "d": "a"}  # the probe classes b's and d's otherwise


def by_hand(changed: Any = (1.0,) * 4) -> pd.DataFrame:
    by_condition = {"clean": CLEAN, "patch-matched": EXACT, "patch-published": EXACT}
    by_condition |= {"patch-random": OTHER}
    facts = {"matched/partner": [IDS.index(PARTNER[one]) for one in IDS], "changed": changed}
    s = {name: [*of.values()] for name, of in by_condition.items()}
    found, answers = measured(s, IDS, **facts, by_wording=False), labelled(IDS, [0, 0, 0, 1])
    return of_cell(EXPERIMENT, found, main_run(CLEAN, CUT), answers, Bootstrap(draws=50))


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

"""The instrument: what a pass leaves at the read-outs, against slow and obvious versions."""

import itertools
import random
from collections import Counter

import numpy as np
import pytest
import torch
from conftest import ALL_FAMILIES, CORPUS, LAYERS, WIDTH, WINDOW
from instrument import (
    CLOSE,
    READOUTS,
    TOKENIZER,
    answers_table,
    cuts,
    layer_by_layer,
    measured,
    planned,
    same,
    unshared,
)

from anchorscope.config.readouts import POSITIONS, SITES
from anchorscope.models import families, loading
from anchorscope.passes import activations
from anchorscope.storage.errors import AnchorscopeError


@pytest.fixture(params=ALL_FAMILIES)
def loaded(request, load):
    return load(request.param, TOKENIZER[request.param])


@pytest.fixture
def answers(loaded):
    return answers_table(loaded.tokenizer)


def test_one_pass_equals_the_literal_loop_over_layers(loaded, answers):
    plan = planned(answers.head(3))
    found = measured(loaded, plan)
    for (id_, condition, draw), (sample, cut) in cuts(plan).items():
        for layer in range(LAYERS):
            slow = layer_by_layer(loaded, sample, cut, layer)
            for site, position in itertools.product(SITES, POSITIONS):
                state = found[id_, f"{condition}.{draw}/{site}.{position}"][layer]
                expected = slow[site][layer][sample.positions[position]]
                torch.testing.assert_close(state, expected, **CLOSE)
    sample, cut = cuts(plan)["q1", "knockout", 0]
    ends = [layer_by_layer(loaded, sample, cut, n)["resid"][-1][-1] for n in range(LAYERS)]
    for one, other in itertools.pairwise(ends):
        assert (one - other).abs().max() > 1e-3, "the loop tells how many layers are cut"


def other_ids(answers, column):
    """The same table with other ids at the tokens of a column."""
    changed = answers.copy()
    changed["input_ids"] = [
        [(token + 17) % 200 + 3 if place in found else token for place, token in enumerate(record)]
        for record, found in zip(answers["input_ids"], answers[column], strict=True)
    ]
    return changed


@pytest.mark.parametrize(
    ("condition", "column"), [("knockout", "eq_tokens"), ("question", "question_tokens")]
)
def test_seal_other_ids_in_place_of_what_is_cut_change_nothing_after_it(
    loaded, answers, condition, column
):
    found = measured(loaded, planned(answers))
    again = measured(loaded, planned(other_ids(answers, column)))
    for (id_, name), states in found.items():
        if name.startswith(condition):
            assert same(states, again[id_, name], loaded.model.config.model_type), (id_, name)
        if name.startswith("clean"):
            assert (states - again[id_, name]).abs().max() > 1e-3


@pytest.mark.parametrize("family", ["mistral", "gemma3_text"])
def test_samples_longer_than_the_sliding_window_are_refused_since_deletion_would_move_it(
    load, family
):
    loaded = load(family, TOKENIZER[family])
    assert loaded.window == WINDOW
    long = "Q: " + "the red house " * 60 + " A: Anna Lund ."
    for over in (0, 1):  # up to the window it hides nothing, one token later it does
        table, length = answers_table(loaded.tokenizer, [long, *CORPUS]), WINDOW + over
        table.at[0, "input_ids"] = table.at[0, "input_ids"][:length]
        table.at[0, "question_tokens"], table.at[0, "eq_tokens"] = list(range(3, 20)), [5, 6, 9]
        table.loc[0, ["ea_start", "prompt_length"]] = length - 3
        table.loc[0, ["ea_end", "final"]] = length - 1
        whole = planned(table)
        found, without_window = measured(loaded, whole, ["resid/final"]), unshared(loaded, whole)
        key = "q0", "clean.0/resid.final"
        difference = found[key] - without_window[key]
        assert (difference.abs().max() > 1e-5) == bool(over)
        plan = planned(table, window=loaded.window)
        assert plan.counts.dropped == ({"longer than the sliding window": 1} if over else {})
        assert plan.counts.total == len(table) == plan.counts.kept + over
        assert ("q0" in {sample.id for sample in plan.samples}) != bool(over)


def test_the_plan_depends_on_the_cell_and_the_budget_only(byte_level):
    answers = answers_table(byte_level)
    state = torch.get_rng_state()
    random.seed(1)
    first = planned(answers)
    random.seed(2)
    assert first == planned(answers.copy())
    assert torch.equal(state, torch.get_rng_state())
    assert first.batches != planned(answers, batch_tokens=300).batches
    drawn = {key: cut for key, (_, cut) in cuts(first).items() if key[1] == "random"}
    other = {key: cut for key, (_, cut) in cuts(planned(answers, seed=1)).items()}
    assert any(cut != other[key] for key, cut in drawn.items())
    # A sample's random tokens are its own: they stay when others join or leave the cell.
    fewer = cuts(planned(answers.tail(3)))
    assert all(fewer[key][1] == cut for key, cut in drawn.items() if key in fewer)


def test_model_rows_are_one_a_sample_and_condition(load, tmp_path):
    loaded, passed, read = load("llama"), [], []
    hook = loaded.model.base_model.register_forward_pre_hook(
        lambda _, args, given: passed.append(len(given["input_ids"])), with_kwargs=True
    )
    head = loaded.model.lm_head.register_forward_pre_hook(lambda _, args: read.append(len(args[0])))
    plan = planned(answers_table(loaded.tokenizer))
    activations.write(tmp_path / "cell", loaded, plan, READOUTS)
    hook.remove(), head.remove()
    n = len(CORPUS)
    rows = {"clean": n, "knockout": n, "random": 2 * n, "question": n, "noop": 3}
    assert Counter(row.condition for batch in plan.batches for row in batch.rows) == rows
    # One row more is what all prompts begin with.
    assert sum(passed) == sum(rows.values()) + 1
    # The LM head reads the tokens of the answers on the clean pass, and no others.
    assert sum(read) == sum(len(sample.answer_tokens) for sample in plan.samples)


def test_what_is_read_back_is_what_was_measured_in_the_order_of_the_ids(checkpoint, tmp_path):
    loaded = loading.load(checkpoint("llama"), dtype="bfloat16")
    answers = answers_table(loaded.tokenizer)
    plan = planned(answers, batch_tokens=400)
    activations.write(tmp_path / "cell", loaded, plan, READOUTS)
    found = measured(loaded, plan)
    every = np.array(sorted(answers["id"]))
    read = [("clean", 0), ("random", 1), ("noop", 0)]
    for readout, (condition, draw) in itertools.product(READOUTS, read):
        rows, states = activations.read(tmp_path / "cell", readout, condition, draw)
        ids = every[rows].tolist()
        first = answers["id"].tolist()[: 3 if condition == "noop" else None]
        assert ids == sorted(first)
        assert states.shape == (LAYERS, len(ids), WIDTH) and states[:].dtype == torch.float32
        name = f"{condition}.{draw}/{readout.replace('/', '.')}"
        expected = torch.stack([found[id_, name] for id_ in ids], dim=1)
        assert expected.dtype == torch.bfloat16 and torch.equal(states[:], expected.float())


def test_measured_answers_carry_how_much_was_cut_in_the_order_of_the_passes(load, tmp_path):
    loaded = load("llama")
    answers = answers_table(loaded.tokenizer)
    answers.at[0, "question_tokens"] = [*answers.at[0, "eq_tokens"], 3]
    activations.write(tmp_path / "cell", loaded, planned(answers), ["mlp/final"])
    shuffled = answers.sample(frac=1, random_state=0)
    found = activations.measured(shuffled, tmp_path / "cell")
    answers = answers.sort_values("id", ignore_index=True)
    assert found["id"].tolist() == answers["id"].tolist()
    assert found["input_ids"].tolist() == answers["input_ids"].tolist()
    assert (found["n_blocked_knockout"] == 3).all() and found["n_blocked_rest"].isna().all()
    assert found["random_complete"].tolist() == [False, *[True] * (len(answers) - 1)]
    with pytest.raises(AnchorscopeError, match="2 measured samples have no answer, the first: q0"):
        activations.measured(answers.tail(-2), tmp_path / "cell")


def test_samples_dropped_before_are_counted_with_their_reason(byte_level):
    answers = answers_table(byte_level)
    answers.loc[0, "dropped"] = "no answer"
    answers.at[1, "eq_tokens"] = []
    plan = planned(answers)
    assert plan.counts.dropped == {"no answer": 1, "no exact question tokens": 1}
    assert [sample.id for sample in plan.samples] == answers["id"].tolist()[2:]
    answers["dropped"] = "no answer"
    with pytest.raises(AnchorscopeError, match="no sample is left"):
        planned(answers)


@pytest.mark.parametrize(("value", "word"), [(float("nan"), "not finite"), (0.0, "zero")])
def test_a_broken_activation_names_its_layer_and_sample(checkpoint, tmp_path, value, word):
    loaded = loading.load(checkpoint("llama"))
    families.layers(loaded)[2].mlp.down_proj.weight.fill_(value)
    plan = planned(answers_table(loaded.tokenizer))
    with pytest.raises(AnchorscopeError, match=f"mlp is {word} at layer 2") as caught:
        activations.write(tmp_path / "cell", loaded, plan, ["mlp/final"])
    assert plan.samples[plan.batches[0].samples[0]].id in str(caught.value)
    assert not (tmp_path / "cell" / "index.parquet").exists()

"""Shared computation, and a model in parts, give what every row passed in full gives."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
import torch
from accelerate import dispatch_model
from asked import run
from conftest import ALL_FAMILIES, CORPUS, LAYERS, config
from instrument import (
    CONDITIONS,
    EXPERTS,
    TOKENIZER,
    answers_table,
    assert_alike,
    assert_rounded,
    greedy,
    measured,
    planned,
    unshared,
)

from anchorscope.answers import generation
from anchorscope.answers.endings import Ending
from anchorscope.models import families, loading
from anchorscope.models.families import Loaded
from anchorscope.passes import batches
from anchorscope.styles import CHAT

HEAD = "Q: Who painted it? A: Anna Lund .\nQ: "
CUTS = CONDITIONS | {"crossed": {}}


def behind_heads(tokenizer):
    """The corpus after worked examples."""
    table, head = answers_table(tokenizer), tokenizer(HEAD)["input_ids"]
    table["input_ids"] = [[*head, *ids[2:]] for ids in table["input_ids"]]
    shift = len(head) - 2
    for name in ("prompt_length", "ea_start", "ea_end", "final"):
        table[name] += shift
    for name in ("eq_tokens", "question_tokens"):
        table[name] = [[place + shift for place in places] for places in table[name]]
    table["question"], table["golds"] = CORPUS, [[text] for text in CORPUS]
    table["ea_text"] = [f"x{number}" for number in range(8)]
    table["label"] = [0, 1] * 4
    table["subject"], table["relation"] = [f"s{number // 2}" for number in range(8)], "r"
    return table


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_shared_passes_equal_one_row_at_a_time(load, family):
    loaded = load(family, TOKENIZER[family])
    table, window = behind_heads(loaded.tokenizer), loaded.window
    plan = planned(table, conditions=CUTS, batch_tokens=3000, window=window)
    assert plan.head > 5
    found = measured(loaded, plan)
    conditions = {name.partition(".")[0] for _, name in found}
    assert {"crossed", "knockout", "question"} <= conditions
    assert_alike(found, unshared(loaded, plan))


def test_the_head_ends_before_the_first_token_of_any_question(byte_level):
    table = behind_heads(byte_level)
    plan = planned(table, conditions=CUTS)
    own = len(byte_level(HEAD)["input_ids"])
    assert plan.head == own == min(map(min, table["question_tokens"])) - 1
    same = pd.concat([table.head(1)] * 3, ignore_index=True).assign(id=["a", "b", "c"])
    alike = planned(same, conditions={"knockout": {}})
    assert alike.head == min(same["question_tokens"][0])


def test_a_cell_without_anything_in_common_has_no_head(load):
    loaded = load("qwen3")
    table = answers_table(loaded.tokenizer)
    table["input_ids"] = [[3 + n, *ids[1:]] for n, ids in enumerate(table["input_ids"])]
    plan = planned(table)
    assert plan.head == 0
    assert_alike(measured(loaded, plan), unshared(loaded, plan))


def test_a_batch_of_unlike_lengths_is_passed_in_parts_that_change_nothing(load):
    loaded = load("llama", "metaspace")
    texts = ["Q: " + "what is the red house of " * n + " A: Anna Lund ." for n in (1, 9, 2, 8) * 2]
    plan = planned(answers_table(loaded.tokenizer, texts), batch_tokens=10**6)
    assert len(batches.by_length(plan.batches[0])) > 1
    assert_alike(measured(loaded, plan), unshared(loaded, plan))


@pytest.mark.parametrize(
    ("family", "head"), [*((family, HEAD) for family in ALL_FAMILIES), ("llama", "")]
)
def test_generation_behind_a_shared_head_equals_a_plain_greedy_loop(load, family, head):
    loaded = load(family, TOKENIZER[family])
    prompts = [loaded.tokenizer(head + text)["input_ids"] for text in (*CORPUS, "Q: ", "", "Q")]
    prompts = [ids for ids in prompts if ids and len(ids) + 8 <= (loaded.window or 1000)]
    assert len(prompts) > 6
    common = [loaded.tokenizer(head)["input_ids"]] if head else []  # the head alone is a prompt too
    free = [greedy(loaded, ids, (), 8) for ids in prompts]
    eos = frozenset([free[0][2], free[3][5]])
    ending = Ending(CHAT, (0,), eos)
    found = generation.generate(
        [*prompts, *common], replace(loaded, batch_tokens=500), ending, max_new_tokens=8
    )
    written = [one.ids for one in found]
    assert written == [greedy(loaded, ids, eos, 8) for ids in [*prompts, *common]]
    assert len(set(map(len, written))) > 1
    for ids, one in zip([*prompts, *common], found, strict=True):
        with torch.inference_mode():
            logits = loaded.model(torch.tensor([[*ids, *one.ids]]), use_cache=False).logits
        log_p = logits[0, len(ids) - 1 : -1].log_softmax(-1)
        expected = log_p.gather(-1, torch.tensor(one.ids)[:, None])[:, 0].tolist()
        assert one.logprobs == pytest.approx(expected, abs=1e-4)


def assert_nothing_to_cut_changes_nothing(loaded, table, batch_tokens=4096):
    """A row with nothing to cut equals the clean row to the last bit, unlike one that is cut."""
    table["question_tokens"] = table["eq_tokens"]  # no other tokens that could be cut at random
    conditions = {"knockout": {}, "random": {"draws": 1}}
    plan = planned(table, conditions=conditions, batch_tokens=batch_tokens)
    found = measured(loaded, plan, ["mlp/final"])
    clean, random, cut = (
        torch.stack([found[id_, f"{name}.0/mlp.final"] for id_ in table["id"]])
        for name in ("clean", "random", "knockout")
    )
    assert torch.equal(clean, random) and not torch.equal(clean, cut)


@pytest.mark.parametrize("family", ["llama", *EXPERTS])
def test_a_bfloat16_row_with_nothing_to_cut_equals_the_clean_row_to_the_last_bit(
    checkpoint, family
):
    """The shape of a call alone changes bfloat16 results, so no row is passed in another's."""
    loaded = loading.load(checkpoint(family), dtype="bfloat16")
    assert_nothing_to_cut_changes_nothing(loaded, answers_table(loaded.tokenizer))


@pytest.mark.parametrize("family", ["llama", *EXPERTS])
def test_bfloat16_states_are_float32s_but_for_rounding_and_for_tokens_at_another_expert(
    checkpoint, family
):
    exact, found = (
        loading.load(checkpoint(family, TOKENIZER[family]), dtype=dtype)
        for dtype in ("float32", "bfloat16")
    )
    plan = planned(behind_heads(exact.tokenizer), conditions=CUTS, batch_tokens=3000)
    assert_rounded(measured(found, plan), measured(exact, plan), family)


ORIGINAL = 64


@pytest.fixture
def longrope(byte_level):
    """A model whose frequencies change in a call that reaches beyond `ORIGINAL` tokens."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    made = config("llama", len(byte_level))
    made.rope_parameters = {
        "rope_type": "longrope", "rope_theta": 10_000.0, "short_factor": [1.0] * 4,
        "long_factor": [8.0] * 4, "original_max_position_embeddings": ORIGINAL,
    }  # fmt: skip
    return loading.wrapped(AutoModelForCausalLM.from_config(made), byte_level)


def test_longrope_is_measured_within_its_original_length_only(longrope):
    assert families.positions(longrope.model.config) == ORIGINAL
    table = behind_heads(longrope.tokenizer)
    beyond = [len(ids) > ORIGINAL for ids in table["input_ids"]]
    assert 2 <= sum(beyond) <= len(beyond) - 2

    def differs(rows):
        plan = planned(rows.reset_index(drop=True), conditions={"knockout": {}})
        assert min(plan.head, len(plan.samples)) > 1
        alone = unshared(longrope, plan)
        found = measured(longrope, plan)
        return max(float((found[key] - states).abs().max()) for key, states in alone.items())

    assert differs(table[[not far for far in beyond]]) < 1e-5
    assert differs(table) > 1e-3


@pytest.fixture
def both(checkpoint: Any, tmp_path: Any) -> tuple[Loaded, Loaded]:
    """The model whole, and with every other block brought to memory for its turn only."""
    folder = checkpoint("llama", TOKENIZER["llama"])
    whole, parted = loading.load(folder), loading.load(folder)
    places = {f"model.layers.{n}": ("cpu", "disk")[n % 2] for n in range(LAYERS)}
    places |= {f"model.{part}": "cpu" for part in ("embed_tokens", "norm", "rotary_emb")}
    model = dispatch_model(parted.model, {**places, "lm_head": "cpu"}, offload_dir=tmp_path)
    return whole, loading.wrapped(model, parted.tokenizer)


def test_a_model_in_parts_measures_and_answers_as_the_whole_one(both: Any) -> None:
    whole, parted = both
    waiting = [
        all(weight.device.type == "meta" for weight in layer.parameters())
        for layer in families.layers(parted)
    ]
    assert waiting == [False, True] * (LAYERS // 2)
    assert parted.device == torch.device("cpu")
    plan = planned(answers_table(whole.tokenizer))
    assert_alike(measured(parted, plan), measured(whole, plan))
    (expected, counts), (found, others) = (run(loaded) for loaded in both)
    assert found["input_ids"].tolist() == expected["input_ids"].tolist()
    assert counts == others

"""Test that deletion equals the knockout, and that models that do not fit are refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import LAYERS, tokenizer
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from anchorscope.answers import generation
from anchorscope.answers.endings import Ending
from anchorscope.models import cache, families, fitness, loading, tiny
from anchorscope.models.families import Loaded
from anchorscope.passes import runner
from anchorscope.passes.batches import Sample, arrange
from anchorscope.passes.interventions import CLEAN, REGISTRY
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.styles import CHAT
from tools import tried_families

CPU = torch.device("cpu")
ATTENTION = (
    "smollm3", "gemma4_text", "llama4_text", "gpt_oss", "glm4", "granite", "cohere2", "olmo3",
    "ministral3", "opt",
)  # fmt: skip
HYBRID = ("qwen3_5_text", "jamba", "olmo_hybrid", "granitemoehybrid", "lfm3")
RECURRENT = ("mamba", "falcon_mamba")
KNOCKOUT = REGISTRY["knockout"]


def built(family: str, dtype: str = "float32") -> Loaded:
    return tiny.build(family, CPU, dtype)


def sample(length: int, blocked: tuple[int, ...] = (5, 6, 11), seed: int = 0) -> Sample:
    ids = (torch.arange(length) * 7 + seed) % 190 + 3
    last = length - 1
    positions = dict.fromkeys(("final", "last_answer", "before_answer", "prompt_end"), last)
    return Sample(f"{length}/{seed}", tuple(ids.tolist()), positions, blocked, blocked, last)


def states(loaded: Loaded, *samples: Sample) -> dict[str, torch.Tensor]:
    plan = arrange(samples, [(CLEAN, 0), (KNOCKOUT, 0)], batch_tokens=10**6)
    return {
        f"{plan.samples[number].id} {name}": of[place]
        for batch, tensors in runner.measure(loaded, plan, ["resid/final"])
        for name, of in tensors.items()
        for place, number in enumerate(batch.samples)
    }


@pytest.mark.parametrize("family", ATTENTION)
def test_a_deletion_equals_a_mask_where_a_mask_can_block_tokens(family: str) -> None:
    loaded = built(family)
    assert loaded.attends
    off = fitness.check(loaded, family)
    assert off is not None and off < 2e-5
    blocked = fitness.states(loaded, torch.arange(24) * 7 % 190, range(24), masked=True)
    clean = fitness.states(loaded, torch.arange(24) * 7 % 190, range(24))
    assert fitness._distance(loaded, blocked, clean) > 100 * 1e-4


@pytest.mark.parametrize("family", HYBRID)
def test_in_recurrent_layers_a_mask_does_not_block_what_a_deletion_removes(family: str) -> None:
    loaded = built(family)
    assert not loaded.attends and fitness.check(loaded, family) is None
    ids = torch.arange(24) * 7 % 190
    left = [place for place in range(24) if place not in fitness.BLOCKED]
    masked = fitness._at(fitness.states(loaded, ids, range(24), masked=True), left)
    assert fitness._distance(loaded, fitness.states(loaded, ids, left), masked) > 100 * 1e-4


@pytest.mark.parametrize("family", ["llama", "mixtral", "qwen3_moe", *HYBRID, *RECURRENT])
def test_padding_changes_no_other_token(family: str) -> None:
    loaded = built(family)
    short, long = sample(17), sample(40, seed=1)
    together = states(loaded, short, long)
    for one in (short, long):
        for name, alone in states(loaded, one).items():
            torch.testing.assert_close(together[name], alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", [*HYBRID, *RECURRENT])
def test_answers_of_models_with_recurrent_layers_are_the_plain_greedy_ones(family: str) -> None:
    loaded = built(family)
    prompts = [sample(20).input_ids, sample(9, seed=2).input_ids]
    ending = Ending(CHAT, (0,), frozenset())
    found = generation.generate(prompts, loaded, ending, max_new_tokens=3)
    for ids, one in zip(prompts, found, strict=True):
        row = [*ids]
        for _ in range(3):
            with torch.inference_mode():
                logits = loaded.model(torch.tensor([row]), use_cache=False).logits
            row.append(int(logits[0, -1].argmax()))
        assert list(one.ids) == row[len(ids) :]


def test_without_a_mask_of_ones_transformers_would_cut_attention_at_gaps() -> None:
    loaded = built("llama")
    ids, places = [5, 7, 9, 11, 13, 15], [0, 1, 4, 5, 6, 7]
    arguments = cache.padded([ids], [places], len(ids), CPU)
    with torch.inference_mode():
        found = loaded.model.base_model(**arguments, use_cache=False).last_hidden_state
        del arguments["attention_mask"]
        cut = loaded.model.base_model(**arguments, use_cache=False).last_hidden_state
    assert (found - cut)[:, 2:].abs().max() > 0.01
    whole, _ = states(loaded, sample(24)).values()
    assert torch.isfinite(whole).all()


def test_a_read_token_that_is_blocked_is_an_error() -> None:
    with pytest.raises(AnchorscopeError, match="cannot be read, because it is blocked") as caught:
        states(built("llama"), sample(24, blocked=(5, 23)))
    assert "knockout" in str(caught.value) and caught.value.see == "blocked-read"


def test_a_read_token_may_be_blocked_in_some_layers_since_it_is_passed() -> None:
    one = replace(KNOCKOUT, name="some", layers=(0, 2))
    plan = arrange([sample(24, blocked=(5, 23))], [(CLEAN, 0), (one, 0)], batch_tokens=10**6)
    ((_, found),) = runner.measure(built("llama"), plan, ["resid/final"])
    assert not torch.allclose(found["clean.0/resid.final"], found["some.0/resid.final"])


def test_blocking_in_some_layers_is_refused_where_layers_are_recurrent() -> None:
    one = replace(KNOCKOUT, name="some", layers=(0, 2))
    plan = arrange([sample(24)], [(CLEAN, 0), (one, 0)], batch_tokens=10**6)
    with pytest.raises(AnchorscopeError, match="some layers are recurrent"):
        list(runner.measure(built("jamba"), plan, ["resid/final"]))


@pytest.mark.parametrize(
    ("family", "found"),
    [
        ("qwen3_5_text", ["attn", "mlp", "resid"]),
        ("nemotron_h", ["attn", "resid"]),
        ("mamba", ["attn", "resid"]),
        ("opt", ["attn", "resid"]),
        ("granitemoehybrid", ["attn", "resid"]),
    ],
)
def test_a_site_exists_where_one_module_of_every_block_gives_it(
    family: str, found: list[str]
) -> None:
    loaded = built(family)
    assert families.sites(loaded) == found
    if "mlp" not in found:
        with pytest.raises(AnchorscopeError, match="gives the site `mlp`") as caught:
            families.part(loaded, families.layers(loaded)[0], "mlp")
        assert "resid/final" in caught.value.do
        wanted = ["mlp/final", "resid/final", "mlp/prompt_end"]
        assert families.readable(loaded, wanted) == ["resid/final", "resid/prompt_end"]


def test_parts_that_are_not_found_can_be_named() -> None:
    loaded = built("opt")
    named = {"blocks": "decoder.layers", "attn": "self_attn", "mlp": "fc2"}
    parts = families.find(loaded.model, "opt", named)
    assert families.sites(replace(loaded, parts=parts)) == ["attn", "mlp", "resid"]
    assert fitness.check(replace(loaded, parts=parts), "opt") is not None
    with pytest.raises(
        AnchorscopeError, match="are not found .decoder.layers: 4 modules"
    ) as caught:
        families.find(loaded.model, "opt", {"blocks": "elsewhere"})
    assert "parts: {blocks:" in caught.value.do


def test_a_model_in_which_later_tokens_change_earlier_states_is_refused() -> None:
    loaded = built("llama")
    for block in families.layers(loaded):
        block.register_forward_hook(lambda _, __, output: output + output.mean(1, keepdim=True))
    with pytest.raises(AnchorscopeError, match="when later tokens change"):
        fitness.check(loaded, "llama")


def test_in_bfloat16_deletion_adds_no_noise() -> None:
    """Errors of (knockout − clean) against float32, by deletion and by mask, are alike."""
    exact, half = built("llama"), built("llama", "bfloat16")
    ids, left = torch.arange(24) * 7 % 190, [n for n in range(24) if n not in fitness.BLOCKED]

    def effects(loaded: Loaded) -> tuple[torch.Tensor, torch.Tensor]:
        clean = fitness.states(loaded, ids, range(24))["resid"][:, left]
        mask = fitness.states(loaded, ids, range(24), masked=True)["resid"][:, left]
        return fitness.states(loaded, ids, left)["resid"] - clean, mask - clean

    (by_deletion, by_mask), (truth, _) = effects(half), effects(exact)
    deletion, mask = ((one - truth).norm() for one in (by_deletion, by_mask))
    assert deletion < 1.5 * mask and deletion < truth.norm()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("family", ["llama", "gemma4_text", "mixtral", "qwen3_moe", "mamba"])
def test_rounding_in_half_precision_refuses_no_model(family: str, dtype: str) -> None:
    fitness.check(built(family, dtype), family)


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_the_user_s_blocks_are_asked_for_before_anything_is_computed(
    family: str, checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families, "_lists", lambda body: {})
    with pytest.raises(AnchorscopeError, match="blocks of .* are not found") as caught:
        loading.check(checkpoint(family))
    assert caught.value.see == "unknown-parts" and str(LAYERS) in caught.value.what


def test_a_saved_hybrid_whose_config_holds_an_infinite_number_is_loaded(tmp_path: Path) -> None:
    fast = tokenizer("byte_level")
    made = AutoModelForCausalLM.from_config(tiny.config("nemotron_h", vocab_size=len(fast)))
    made.save_pretrained(tmp_path)
    fast.save_pretrained(tmp_path)
    assert "Infinity" in (tmp_path / "config.json").read_text()
    assert families.sites(loading.load(tmp_path)) == ["attn", "resid"]


@pytest.mark.parametrize("family", ["smollm3", "qwen3_5_text", "bloom"])
def test_the_docs_table_says_what_is_found(family: str) -> None:
    page = tried_families.rows_of(tried_families.PAGE.read_text(encoding="utf-8"))
    made = tried_families.markdown([tried_families.tried(family)])
    (line,) = tried_families.rows_of(tried_families.START + made).values()
    said, found = (one.split("|")[2:-2] or one.split("|") for one in (page[family], line))
    assert said == found


@pytest.mark.long
def test_the_docs_table_has_every_family_and_fifty_with_both_sites() -> None:
    page = tried_families.rows_of(tried_families.PAGE.read_text(encoding="utf-8"))
    assert {*page} == {*tried_families.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    both = [name for name, line in page.items() if "| attn, mlp, resid |" in line]
    assert len(both) >= 50
    for name in both:
        assert {"attn", "mlp"} <= {*tried_families.tried(name).sites}, name


def test_a_language_model_inside_one_that_reads_images_is_loaded(tmp_path: Path) -> None:
    """Names of weights, and the class in the config, are those of the whole model."""
    fast = tokenizer("byte_level")
    text = AutoModelForCausalLM.from_config(tiny.config("mistral", vocab_size=len(fast)))
    text.save_pretrained(tmp_path)
    fast.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    renamed = {f"language_model.{name}": one for name, one in load_file(path).items()}
    renamed["vision_tower.weight"] = torch.ones(2)
    save_file(renamed, path, {"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text())
    whole = {
        "model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"],
        "text_config": config, "tie_word_embeddings": config["tie_word_embeddings"],
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(whole))
    found = loading.load(tmp_path)
    ids = torch.tensor([[3, 9, 12]])
    with torch.inference_mode():
        assert torch.equal(found.model(ids).logits, text.eval()(ids).logits)

"""Loading: what a family is, and that nothing is made up where a checkpoint lacks it."""

import shutil
from unittest.mock import Mock

import huggingface_hub
import pytest
import torch
from conftest import ALL_FAMILIES, LAYERS, WIDTH, WINDOW, config, final_norm
from huggingface_hub import constants
from instrument import outputs
from test_contents import edit, reading_images
from transformers import AutoConfig

from anchorscope.models import families, loading
from anchorscope.storage.errors import AnchorscopeError


@pytest.fixture
def folder(checkpoint, tmp_path):
    """A copy of a good Llama checkpoint, to be broken."""
    return shutil.copytree(checkpoint("llama"), tmp_path / "model")


def refused(source, **settings):
    """The message with which a checkpoint is refused: what, where, what to do."""
    with pytest.raises(AnchorscopeError) as caught:
        loading.load(source, **settings)
    assert caught.value.where and caught.value.do
    return str(caught.value)


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_read_outs_are_the_residual_stream_and_what_is_added_to_it(load, family):
    loaded = load(family)
    seen, out = outputs(loaded, list(range(40, 60)), output_hidden_states=True)
    hidden = [states[0] for states in out.hidden_states]
    assert len(seen["resid"]) == LAYERS and hidden[1].shape[-1] == WIDTH
    for number, layer in enumerate(families.layers(loaded)):
        attn, mlp, resid = (seen[site][number] for site in ("attn", "mlp", "resid"))
        if family in ("gemma3_text", "olmo2"):  # these normalise both before they add them
            attn, mlp = layer.post_attention_layernorm(attn), layer.post_feedforward_layernorm(mlp)
        before = seen["resid"][number - 1] if number else hidden[0]
        torch.testing.assert_close(before + attn + mlp, resid, atol=1e-5, rtol=1e-5)
        if number < LAYERS - 1:
            assert torch.equal(resid, hidden[number + 1])
    # The last hidden state of transformers is after the final norm, the read-out before it.
    assert torch.equal(final_norm(loaded)(resid), hidden[-1]) and not torch.equal(resid, hidden[-1])
    assert loaded.model.config._attn_implementation == "sdpa" and not loaded.model.training


def test_the_window_is_read_from_the_config():
    switched = {"use_sliding_window": True, "sliding_window": 32, "layer_types": None}
    for family, changes, expected in (
        ("llama", {}, None),
        ("mistral", {}, WINDOW),
        ("gemma3_text", {"layer_types": ["full_attention"] * LAYERS}, None),
        ("qwen3", {}, None),
        ("qwen3", switched | {"max_window_layers": 2}, 32),
        ("qwen2", switched | {"max_window_layers": LAYERS}, None),
    ):
        made = AutoConfig.for_model(**config(family, 300).to_dict() | changes)
        assert families.window(made) == expected


def test_ids_beyond_the_embedding_may_only_be_those_of_added_tokens(folder, metaspace):
    tokenizer = loading.load(folder).tokenizer
    rows = len(tokenizer)
    tokenizer.add_tokens(["<image_soft_token>"], special_tokens=True)
    tokenizer.save_pretrained(folder)
    loaded = loading.load(folder)
    assert (len(loaded.tokenizer), families.embedded(loaded.model)) == (rows + 1, rows)
    metaspace.save_pretrained(folder)
    assert f"ids up to {len(metaspace) - 1}, but the embedding has {rows} rows" in refused(folder)


def test_a_model_that_does_not_fit_on_the_gpu_is_refused_in_words(folder, monkeypatch):
    places = {"model": "disk", "lm_head": "cpu"}
    monkeypatch.setattr(loading, "_placement", lambda _: {"device_map": places})
    assert "does not fit on the GPU" in refused(folder)
    full = Mock(side_effect=torch.cuda.OutOfMemoryError("CUDA out of memory"))
    monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", full)
    assert "does not fit on the GPU" in refused(folder)


def test_of_a_gemma_3_that_reads_images_the_language_model_is_measured(tmp_path, byte_level):
    torch.manual_seed(0)
    whole = reading_images(config("gemma3_text", len(byte_level)).to_dict()).eval()
    whole.save_pretrained(tmp_path)
    byte_level.save_pretrained(tmp_path)
    loaded = loading.load(tmp_path)
    assert loaded.model.config.model_type == "gemma3_text" and loaded.window == WINDOW
    ids = torch.arange(40, 60)[None]
    with torch.inference_mode():
        expected, found = whole(input_ids=ids).logits, loaded.model(ids).logits
    assert torch.equal(found, expected)
    assert not any("vision" in name for name, _ in loaded.model.named_modules())


def test_a_model_fetched_by_pattern_is_in_the_cache(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    commit, main = "0" * 40, tmp_path / "models--a--b/refs/main"
    folder = shutil.copytree(checkpoint("llama"), tmp_path / "models--a--b/snapshots" / commit)
    main.parent.mkdir()
    main.write_text(commit)
    assert loading.cached("a/b") == folder and loading.cached("a/c") is None
    (folder / "model.safetensors").unlink()
    with pytest.raises(AnchorscopeError, match="lacks model.safetensors"):
        loading.locate({"hub": "a/b"})


def test_fetch_takes_only_what_is_read_and_no_weights_that_cannot_be_measured(monkeypatch, folder):
    download = Mock(return_value=str(folder))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert loading.fetch("someone/some-model") == (folder, folder.name)
    patterns = download.call_args.kwargs["allow_patterns"]
    assert "*.safetensors" in patterns and "*.bin" not in patterns
    edit(folder, quantization_config={"quant_method": "awq"})
    with pytest.raises(AnchorscopeError, match="quantised"):
        loading.fetch("someone/some-model")
    assert download.call_count == 3, "the weights are not fetched"


def test_a_tokenizer_must_begin_as_one_config_of_the_model_says(checkpoint, tmp_path, metaspace):
    """The size of the vocabulary alone would not tell."""
    folder = shutil.copytree(checkpoint("llama", "metaspace"), tmp_path / "beginning")
    edit(folder, bos_token_id=metaspace.bos_token_id + 5)
    error = refused(folder)
    assert "texts begin with '<s>'" in error and "use the tokenizer" in error
    edit(folder, "generation_config.json", bos_token_id=metaspace.bos_token_id)
    for other in (None, 7):  # distilled models keep the config of the model they were made from
        edit(folder, bos_token_id=other)
        loading.load(folder)

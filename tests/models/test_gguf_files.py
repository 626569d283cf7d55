"""GGUF files give the numbers of the model they were written from, or are refused by name."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf_model import TEMPLATE, TEXTS, model, tokenizer, write
from tokenizers import Regex, Tokenizer, pre_tokenizers
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from anchorscope.models import gguf_files, loading
from anchorscope.models.families import Loaded
from anchorscope.storage.errors import AnchorscopeError

QUANTISED = gguf.GGMLQuantizationType.Q4_1
WORDS = tokenizer()
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "tied": ("llama", {}),
    "untied": ("llama", {"tie_word_embeddings": False}),
    "biases": ("qwen2", {}),
    "normed heads": ("qwen3", {"head_dim": 128}),
}
"""Shape → architecture, and the settings that differ from `gguf_model.SIZES`."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A good GGUF file, alone in its folder."""
    path = tmp_path / "tiny.gguf"
    write(path, model("llama", WORDS), WORDS)
    return path


def refusal(path: Path) -> str:
    """The message with which a GGUF file is refused."""
    with pytest.raises(AnchorscopeError) as caught:
        loading.load(path)
    assert caught.value.do
    return str(caught.value)


def logits(loaded: Loaded, ids: list[int]) -> torch.Tensor:
    return loaded.model(input_ids=torch.tensor([ids])).logits


@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_of_floats_gives_the_very_numbers_of_its_model(tmp_path: Path, shape: str) -> None:
    architecture, changed = SHAPES[shape]
    source = model(architecture, WORDS, **changed)
    write(tmp_path / "tiny.gguf", source, WORDS)
    loaded = loading.load(tmp_path / "tiny.gguf")
    ids = list(range(3, 60))
    torch.testing.assert_close(
        logits(loaded, ids), source(torch.tensor([ids])).logits, atol=1e-5, rtol=1e-5
    )
    assert loaded.family.model_type == architecture


def test_every_architecture_that_is_read_is_compared_above() -> None:
    assert {architecture for architecture, _ in SHAPES.values()} == set(gguf_files.ARCHITECTURES)


def test_a_quantised_weight_is_the_number_that_its_block_stands_for(tmp_path: Path) -> None:
    source = model("llama", WORDS)
    path = tmp_path / "tiny.gguf"
    write(path, source, WORDS, quantised=QUANTISED)
    loaded = loading.load(path)
    name = "model.layers.1.mlp.down_proj.weight"
    exact = source.get_parameter(name).detach().numpy()
    blocks = gguf.quantize(exact, QUANTISED)
    expected = gguf.dequantize(blocks, QUANTISED)
    held = loaded.model.get_parameter(name).numpy()
    np.testing.assert_array_equal(held, expected)
    assert 0 < np.abs(held - exact).max() < 0.2
    assert gguf_files.read_header(path).quantisation == "Q4_1"


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_the_tokenizer_and_template_are_those_in_the_file(
    tmp_path: Path, architecture: str
) -> None:
    words = Tokenizer.from_str(WORDS.to_str())
    extra = {}
    if architecture == "qwen2":  # it cuts numbers into digits, which GPT-2's way does not
        split = pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated")
        rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        words.pre_tokenizer = pre_tokenizers.Sequence([split, rest])
        extra = {"tokenizer.ggml.pre": "qwen2"}
    write(tmp_path / "tiny.gguf", model(architecture, WORDS), WORDS, extra=extra)
    (tmp_path / "tokenizer.json").write_text("{}")  # one beside the file is not the file's
    loaded = loading.load(tmp_path / "tiny.gguf")
    for text in [*TEXTS, "a  Space, 1867, 東京 isn't\n\n<|im_end|>"]:
        assert loaded.tokenizer(text)["input_ids"] == words.encode(text).ids
    assert loaded.tokenizer.chat_template == TEMPLATE
    assert (loaded.tokenizer.bos_token_id, loaded.tokenizer.eos_token_id) == (1, 2)
    assert loaded.model.generation_config.eos_token_id == 2


def test_a_converted_folder_is_a_checkpoint_that_says_what_it_was(
    file: Path, tmp_path: Path
) -> None:
    write(file, model("llama", WORDS), WORDS, quantised=QUANTISED)
    gguf_files.convert(file, tmp_path / "made", "bfloat16")
    located = loading.locate({"local": str(file)}, tmp_path / "made")
    assert located["dequantised_from"] == "Q4_1" and located["source"] == "local"
    assert located["path"] == str(tmp_path / "made")
    loaded = loading.load(tmp_path / "made", dtype="bfloat16")
    assert loaded.model.dtype == torch.bfloat16
    assert not hasattr(loaded.model.config, "quantization_config")


def test_floats_were_dequantised_from_nothing(file: Path, tmp_path: Path) -> None:
    gguf_files.convert(file, tmp_path / "made")
    assert "dequantised_from" not in loading.locate({"local": str(file)}, tmp_path / "made")


@pytest.mark.parametrize("length", [3, 200, -1000], ids=["magic", "settings", "weights"])
def test_a_file_cut_short_is_refused(file: Path, length: int) -> None:
    file.write_bytes(file.read_bytes()[:length])
    assert "the GGUF file cannot be read" in refusal(file)


def test_what_is_no_gguf_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_text("<html>please sign in</html>" * 100)
    assert "the GGUF file cannot be read" in refusal(path)
    assert "there is no such GGUF file" in refusal(tmp_path / "absent.gguf")


def test_another_architecture_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write(path, model("llama", WORDS), WORDS, architecture="mamba")
    message = refusal(path)
    assert "'mamba'" in message and "llama, qwen2, qwen3" in message and "#gguf" in message


def test_a_file_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write(path, model("llama", WORDS), None, extra={"llama.vocab_size": 300})
    assert "holds no tokenizer" in refusal(path)


def test_an_unknown_way_to_split_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write(path, model("llama", WORDS), WORDS, extra={"tokenizer.ggml.pre": "no-such-way"})
    assert "no-such-way" in refusal(path)


@pytest.mark.parametrize(
    "extra",
    [
        {"llama.rope.scaling.type": "yarn"},
        {"llama.attention.sliding_window": 64},
        {"rope_freqs.weight": np.ones(8, np.float32)},  # Llama 3.1's stretched positions
    ],
    ids=["yarn", "window", "frequencies"],
)
def test_what_would_be_lost_is_refused(tmp_path: Path, extra: dict[str, Any]) -> None:
    path = tmp_path / "tiny.gguf"
    write(path, model("llama", WORDS), WORDS, extra=extra)
    assert "#gguf" in refusal(path)


def test_weights_that_are_not_in_the_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write(path, model("llama", WORDS), WORDS, left_out="blk.1.ffn_up.weight")
    message = refusal(path)
    assert "model.layers.1.mlp.up_proj.weight" in message and "#made-up-weights" in message

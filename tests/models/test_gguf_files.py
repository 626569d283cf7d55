"""`anchorscope convert`: a GGUF file gives the model that it was written from, or is refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

from anchorscope.models import gguf_files, loading
from anchorscope.storage.errors import AnchorscopeError

gguf: Any = pytest.importorskip("gguf")

TEXTS = ["What is the capital of France?", "Who wrote Hamlet in 1603?", "Paris", "Shakespeare"]
SETTINGS = {
    "context_length": 128, "block_count": 2, "embedding_length": 64, "feed_forward_length": 96,
    "attention.head_count": 4, "attention.head_count_kv": 4,
    "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 10000.0, "rope.dimension_count": 16,
}  # fmt: skip


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    """A byte-level tokenizer, its first token a control token."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TEXTS * 3, trainer)
    return made


@pytest.fixture(scope="module")
def source(words: Tokenizer) -> LlamaForCausalLM:
    """A random model."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=words.get_vocab_size(), hidden_size=64, intermediate_size=96,
        num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128,
        rms_norm_eps=1e-6, tie_word_embeddings=True, bos_token_id=0, eos_token_id=0,
        initializer_range=0.2,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def turned(name: str, weight: np.ndarray) -> np.ndarray:
    """The rows of queries and keys as llama.cpp orders them: pairs beside each other."""
    if name.rsplit(".", 2)[-2] not in ("attn_q", "attn_k"):
        return weight
    return weight.reshape(4, 2, 8, 64).swapaxes(1, 2).reshape(64, 64)


def write(
    path: Path,
    source: LlamaForCausalLM,
    words: Tokenizer,
    *,
    extra: Mapping[str, Any] | None = None,
    left_out: str = "",
) -> None:
    """Write a model as a GGUF file; `extra` are further settings and tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    merges = [" ".join(pair) for pair in json.loads(words.to_str())["model"]["merges"]]
    tokens = [words.id_to_token(i) for i in range(words.get_vocab_size())]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    for key, value in {**{f"llama.{k}": v for k, v in SETTINGS.items()}, **(extra or {})}.items():
        adds = {np.ndarray: "tensor", str: "string", float: "float32", int: "uint32"}[type(value)]
        getattr(writer, f"add_{adds}")(key, value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, SETTINGS["block_count"])
    for name, weight in source.state_dict().items():
        if name == "lm_head.weight":
            continue
        name = str(names.get_name(name, try_suffixes=(".weight",)))
        if name != left_out:
            writer.add_tensor(name, turned(name, weight.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_folder_holds_the_weights_and_tokens_that_the_file_was_written_from(
    source: LlamaForCausalLM, words: Tokenizer, tmp_path: Path
) -> None:
    write(tmp_path / "tiny.gguf", source, words)
    gguf_files.convert(tmp_path / "tiny.gguf", tmp_path / "tiny")
    loaded = loading.load(tmp_path / "tiny")
    weights = loaded.model.state_dict()
    for name, weight in source.state_dict().items():
        assert torch.equal(weights[name], weight), name
    for text in (*TEXTS, " Paris in 12345\n", "ünïcödé"):
        assert loaded.tokenizer(text)["input_ids"] == words.encode(text).ids


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another tokenizer": ({"extra": {"tokenizer.ggml.pre": "llama-bpe"}}, "llama-bpe may lose"),
    "factors": ({"extra": {"rope_freqs.weight": np.ones(8, np.float32)}}, "scaled positions"),
    "a weight is missing": ({"left_out": "blk.1.ffn_up.weight"}, "1 weights of .*up_proj"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_give_other_numbers_is_refused_and_nothing_is_written(
    case: str, source: LlamaForCausalLM, words: Tokenizer, tmp_path: Path
) -> None:
    change, said = REFUSED[case]
    write(tmp_path / "tiny.gguf", source, words, **change)
    with pytest.raises(AnchorscopeError, match=said):
        gguf_files.convert(tmp_path / "tiny.gguf", tmp_path / "tiny")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.gguf"]


def test_a_broken_file_and_a_missing_package_are_named_and_a_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    with pytest.raises(AnchorscopeError, match="cannot be read"):
        gguf_files.convert(tmp_path / "tiny.gguf", tmp_path / "tiny")
    with pytest.raises(AnchorscopeError, match="there already"):
        gguf_files.convert(tmp_path / "tiny.gguf", tmp_path)
    monkeypatch.setattr(gguf_files, "find_spec", lambda name: None)
    with pytest.raises(AnchorscopeError, match="package gguf"):
        gguf_files.convert(tmp_path / "tiny.gguf", tmp_path / "tiny")

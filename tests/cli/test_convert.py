"""`anchorscope convert`: a GGUF file gives the model that it was written from, or is refused."""

import json
import math
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import LAYERS, WIDTH
from tokenizers import Regex, Tokenizer, pre_tokenizers
from transformers.integrations import ggml
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from anchorscope.cli import convert
from anchorscope.cli.main import main
from anchorscope.models import loading
from anchorscope.storage.errors import AnchorscopeError

gguf: Any = pytest.importorskip("gguf")

TEXTS = ["What is the capital of France?", "Who wrote Hamlet?", " Paris in 12345\n", "ünïcödé"]
SETTINGS = {
    "context_length": 256, "block_count": LAYERS, "embedding_length": WIDTH,
    "feed_forward_length": 2 * WIDTH, "attention.head_count": 4, "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 10000.0, "rope.dimension_count": 8,
}  # fmt: skip


LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
}  # fmt: skip
PRE = {"llama": "smollm", "qwen2": "qwen2"}


@pytest.fixture(scope="module")
def source(load: Any) -> Any:
    """A random model and its tokenizer."""
    return load("llama")


def turned(name: str, weight: np.ndarray, family: str) -> np.ndarray:
    """The rows of Llama's queries and keys as llama.cpp orders them: pairs beside each other."""
    if family != "llama" or name.rsplit(".", 2)[-2] not in ("attn_q", "attn_k"):
        return weight
    return weight.reshape(-1, 2, 4, WIDTH).swapaxes(1, 2).reshape(-1, WIDTH)


def write(
    path: Path, source: Any, *, extra: Mapping[str, Any] | None = None, left_out: str = ""
) -> None:
    """Write a model as a GGUF file; `extra` are further settings and tensors."""
    family = source.model.config.model_type
    writer = gguf.GGUFWriter(path, family)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    words = source.tokenizer.backend_tokenizer
    merges = [" ".join(pair) for pair in json.loads(words.to_str())["model"]["merges"]]
    tokens = [words.id_to_token(i) for i in range(words.get_vocab_size())]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE[family])
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    for key, value in {
        **{f"{family}.{k}": v for k, v in SETTINGS.items()},
        **(extra or {}),
    }.items():
        adds = {np.ndarray: "tensor", str: "string", float: "float32", int: "uint32"}[type(value)]
        getattr(writer, f"add_{adds}")(key, value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[family.upper()], SETTINGS["block_count"])
    for name, weight in source.model.state_dict().items():
        name = str(names.get_name(name, try_suffixes=(".weight", ".bias")))
        if name != left_out:
            writer.add_tensor(name, turned(name, weight.numpy(), family))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("family", PRE)
def test_a_folder_holds_the_weights_and_tokens_that_the_file_was_written_from(
    family: str, load: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = load(family)
    write(tmp_path / "tiny.gguf", source)
    assert main(["convert", str(tmp_path / "tiny.gguf"), str(tmp_path / "tiny")]) == 0
    assert f"{tmp_path / 'tiny'} is a model folder now" in capsys.readouterr().out
    loaded = loading.load(tmp_path / "tiny")
    weights = loaded.model.state_dict()
    for name, weight in source.model.state_dict().items():
        assert torch.equal(weights[name], weight), name
    words = Tokenizer.from_str(source.tokenizer.backend_tokenizer.to_str())
    if family == "qwen2":
        words.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    for text in TEXTS:
        assert loaded.tokenizer(text)["input_ids"] == words.encode(text).ids


def factors_of(parameters: Mapping[str, Any], dim: int) -> np.ndarray:
    """The factors that llama.cpp writes for Llama 3's scaling, frequency by frequency."""
    factor, low, high = (
        parameters[name] for name in ("factor", "low_freq_factor", "high_freq_factor")
    )
    length, factors = parameters["original_max_position_embeddings"], []
    for place in range(0, dim, 2):
        turns = length / (2 * math.pi * parameters["rope_theta"] ** (place / dim))
        smooth = min(max((turns - low) / (high - low), 0), 1)
        factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_the_scaled_positions_of_llama_3_are_those_that_the_file_was_written_from(
    factor: float, source: Any, tmp_path: Path
) -> None:
    config = deepcopy(source.model.config)
    config.rope_parameters = LLAMA3 | {"factor": factor}
    scaled = type(source.model)(config).eval()
    scaled.load_state_dict(source.model.state_dict())
    factors = factors_of(config.rope_parameters, 8)
    assert 1 == factors[0] < factors[2] < factors[3] == factor
    extra = {
        "rope_freqs.weight": factors,
        "llama.rope.freq_base": config.rope_parameters["rope_theta"],
    }
    write(tmp_path / "tiny.gguf", source, extra=extra)
    convert.convert(tmp_path / "tiny.gguf", tmp_path / "tiny")
    loaded = loading.load(tmp_path / "tiny").model
    ids = torch.arange(200)[None] % 50
    with torch.no_grad():
        expected, found = (one(ids).logits for one in (scaled, loaded))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert loaded.config.rope_parameters == config.rope_parameters


@pytest.mark.parametrize(
    "change",
    [
        {"original_max_position_embeddings": 4096},
        {"high_freq_factor": 8.0},
        {"low_freq_factor": 2.0},
        {"rope_theta": 400000.0},
    ],
)
def test_factors_of_another_scaling_are_refused(
    change: dict[str, float], source: Any, tmp_path: Path
) -> None:
    factors = factors_of(LLAMA3 | change, 8)
    extra = {"rope_freqs.weight": factors, "llama.rope.freq_base": LLAMA3["rope_theta"]}
    write(tmp_path / "tiny.gguf", source, extra=extra)
    with pytest.raises(AnchorscopeError, match="scaled positions of this llama file are lost"):
        convert.convert(tmp_path / "tiny.gguf", tmp_path / "tiny")
    assert not (tmp_path / "tiny").exists()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another family": ({"extra": {"general.architecture": "rwkv7"}}, "reads no rwkv7"),
    "no causal model": ({"extra": {"general.architecture": "t5"}}, "reads no t5"),
    "another tokenizer": ({"extra": {"tokenizer.ggml.pre": "bloom"}}, "other tokens .* bloom"),
    "too many factors": (
        {"extra": {"rope_freqs.weight": np.ones(8, np.float32)}},
        "scaled positions",
    ),
    "another type of scaling": ({"extra": {"llama.rope.scaling.type": "yarn"}}, "scaled positions"),
    "factors of Phi-3": ({"extra": {"rope_factors_long.weight": np.ones(8, np.float32)}}, "scaled"),
    "a weight is missing": ({"left_out": "blk.1.ffn_up.weight"}, "1 weights of .*up_proj"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_give_other_numbers_is_refused_and_nothing_is_written(
    case: str, source: Any, tmp_path: Path
) -> None:
    change, said = REFUSED[case]
    write(tmp_path / "tiny.gguf", source, **change)
    with pytest.raises(AnchorscopeError, match=said):
        convert.convert(tmp_path / "tiny.gguf", tmp_path / "tiny")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.gguf"]


def test_every_family_that_transformers_reads_from_gguf_is_known_by_its_name_there() -> None:
    named = {convert._plain(name) for name in gguf.MODEL_ARCH_NAMES.values()}
    known = convert._families()
    assert {"llama", "qwen2", "qwen2moe", "qwen3", "gemma3", "phi3", "gptoss", "lfm2"} <= known
    assert not known & {"general", "tokenizer", "t5"}
    assert known - named == {"mistral"}  # which llama.cpp calls llama


def test_a_rotary_base_that_transformers_does_not_read_is_refused(
    source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(ggml.GGUF_CONFIG_MAPPING["llama"], "rope.freq_base")
    write(tmp_path / "tiny.gguf", source, extra={"llama.rope.freq_base": 500000.0})
    with pytest.raises(AnchorscopeError, match="base of the rotary positions, 500000, is lost"):
        convert.convert(tmp_path / "tiny.gguf", tmp_path / "tiny")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        # The second file holds the LM head: without it, the head would be tied to the embedding.
        ("tiny-00001-of-00002.gguf", {"extra": {"split.count": 2}, "left_out": "output.weight"}),
        (
            "tiny-00002-of-00002.gguf",
            {"extra": {"split.count": 2}, "left_out": "token_embd.weight"},
        ),
        ("tiny-00001-of-00002.gguf", {"left_out": "blk.1.ffn_up.weight"}),
        ("first.gguf", {"extra": {"split.count": 2}}),
    ],
)
def test_one_of_several_files_is_refused_with_the_command_that_merges(
    name: str, change: dict[str, Any], source: Any, tmp_path: Path
) -> None:
    write(tmp_path / name, source, **change)
    with pytest.raises(AnchorscopeError, match="one of 2 files") as caught:
        convert.convert(tmp_path / name, tmp_path / "tiny")
    first, whole = ("tiny-00001-of-00002.gguf", "tiny.gguf")
    if name == "first.gguf":
        first, whole = name, "first.whole.gguf"
    command = f"llama-gguf-split --merge {tmp_path / first} {tmp_path / whole}"
    assert command in str(caught.value.do) and not (tmp_path / "tiny").exists()


def test_the_second_of_several_files_holds_nothing_but_its_number(tmp_path: Path) -> None:
    path = tmp_path / "tiny-00002-of-00002.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.kv_data = [{}]  # as llama.cpp writes it, without even the architecture
    writer.add_uint16("split.no", 1)
    writer.add_uint16("split.count", 2)
    writer.add_tensor("output.weight", np.ones((2, 2), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(AnchorscopeError, match="one of 2 files"):
        convert.convert(path, tmp_path / "tiny")


def test_a_merged_file_may_keep_the_name_of_a_part(source: Any, tmp_path: Path) -> None:
    path = tmp_path / "tiny-00001-of-00002.gguf"
    write(path, source, extra={"split.count": 0})
    convert.convert(path, tmp_path / "tiny")
    assert (tmp_path / "tiny" / "config.json").is_file()


def test_a_broken_file_and_a_missing_package_are_named_and_a_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    with pytest.raises(AnchorscopeError, match="cannot be read"):
        convert.convert(tmp_path / "tiny.gguf", tmp_path / "tiny")
    with pytest.raises(AnchorscopeError, match="already exists"):
        convert.convert(tmp_path / "tiny.gguf", tmp_path)
    monkeypatch.setattr(convert, "find_spec", lambda name: None)
    with pytest.raises(AnchorscopeError, match="package gguf"):
        convert.convert(tmp_path / "tiny.gguf", tmp_path / "tiny")

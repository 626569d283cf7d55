"""GGUF files give the numbers of the model they were written from, or are refused by name."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf_model import NAMES, TEMPLATE, TEXTS, model, pieces, tokenizer, write
from tokenizers import Regex, Tokenizer, pre_tokenizers
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from anchorscope.models import gguf_files, gguf_settings, loading
from anchorscope.models.families import Loaded
from anchorscope.models.vocabulary import DIFFICULT
from anchorscope.storage.errors import AnchorscopeError

QUANTISED = gguf.GGMLQuantizationType.Q4_1
WORDS = tokenizer()
LEARNED = {"n_inner": 96, "num_key_value_heads": None, "rms_norm_eps": None}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "tied": ("llama", {}),
    "untied": ("llama", {"tie_word_embeddings": False}),
    "as many keys as queries": ("llama", {"num_key_value_heads": 4}),
    "named Llama": ("mistral", {"sliding_window": None}),
    "biases": ("qwen2", {}),
    "normed heads": ("qwen3", {"head_dim": 32}),
    "experts": (
        "qwen3_moe",
        {
            "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
            "norm_topk_prob": True,
        },
    ),
    "windows": (
        "gemma3_text", {"head_dim": 256, "num_hidden_layers": 7, "sliding_window": 16},
    ),
    "fused": ("phi3", {}),
    "fused, a window": ("phi3", {"sliding_window": 16}),
    "learned positions": ("gpt2", LEARNED),
    "another head": ("gpt2", LEARNED | {"tie_word_embeddings": False}),
}  # fmt: skip
"""Shape → family, and the settings that differ from `gguf_model.SIZES`."""


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
    family, changed = SHAPES[shape]
    source = model(family, WORDS, **changed)
    write(tmp_path / "tiny.gguf", source, WORDS)
    loaded = loading.load(tmp_path / "tiny.gguf")
    ids = list(range(3, 60))
    torch.testing.assert_close(
        logits(loaded, ids), source(torch.tensor([ids])).logits, atol=1e-5, rtol=1e-5
    )
    read = gguf_settings.ARCHITECTURES[NAMES.get(family, family)]
    assert loaded.family.model_type == read.model_type


def test_every_architecture_that_is_read_is_compared_above() -> None:
    compared = {NAMES.get(family, family) for family, _ in SHAPES.values()}
    assert compared == set(gguf_settings.ARCHITECTURES)


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
    with pytest.raises(AnchorscopeError, match="does not name a `prompt`"):
        loading.check_prompt(tmp_path / "tiny.gguf", named=False)
    assert (loaded.tokenizer.bos_token_id, loaded.tokenizer.eos_token_id) == (1, 2)
    assert loaded.model.generation_config.eos_token_id == 2


def merged(text: str, scores: dict[str, float]) -> list[str]:
    """The tokens of a text as llama.cpp finds them: the best pair first, the rest as bytes."""
    found = list(text)
    while pairs := [
        (scores[one + other], -place)
        for place, (one, other) in enumerate(pairwise(found))
        if one + other in scores
    ]:
        place = -max(pairs)[1]
        found[place : place + 2] = [found[place] + found[place + 1]]
    spelled = [[one] if one in scores else [f"<0x{b:02X}>" for b in one.encode()] for one in found]
    return [token for tokens in spelled for token in tokens]


@pytest.mark.parametrize(
    ("family", "prefix"), [("llama", True), ("phi3", True), ("gemma3_text", False)]
)
def test_pieces_are_merged_as_llama_cpp_does(tmp_path: Path, family: str, prefix: bool) -> None:
    words = pieces()
    scores = {token: -float(id_) for token, id_ in words.get_vocab().items()}
    _, changed = next(shape for shape in SHAPES.values() if shape[0] == family)
    extra = {"tokenizer.ggml.add_space_prefix": prefix}
    write(tmp_path / "tiny.gguf", model(family, words, **changed), words, extra=extra)
    loaded = loading.load(tmp_path / "tiny.gguf").tokenizer
    start = "▁" * prefix
    for text in [*TEXTS, *DIFFICULT, "Paris</s>Who wrote", " Hamlet"]:
        expected: list[str] = []
        for place, part in enumerate(text.split("</s>")):
            spaced = start + part.replace(" ", "▁")
            expected += ["</s>"] * (place > 0) + merged(spaced, scores)
        ids = loaded(text)["input_ids"]
        assert loaded.convert_ids_to_tokens(ids) == expected
        assert loaded.decode(ids).replace("</s> ", "</s>") == text


@pytest.mark.parametrize("split", ["llama-bpe", "tekken"])
def test_a_word_of_the_vocabulary_is_one_token_behind_the_start(tmp_path: Path, split: str) -> None:
    made = json.loads(WORDS.to_str())
    made["model"]["vocab"]["ĠZanzibar"] = WORDS.get_vocab_size()  # no merges lead there
    words = Tokenizer.from_str(json.dumps(made))
    extra = {"tokenizer.ggml.pre": split}
    write(tmp_path / "tiny.gguf", model("llama", words), words, extra=extra, begins=None)
    loaded = loading.load(tmp_path / "tiny.gguf").tokenizer
    ids = loaded("in Zanzibar")["input_ids"]
    assert (ids[0], ids[-1]) == (1, words.token_to_id("ĠZanzibar"))


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


def test_a_mixture_of_formats_has_the_name_that_the_file_gives_it(file: Path) -> None:
    kind = int(gguf.LlamaFileType.MOSTLY_Q4_K_M)
    extra = {"general.file_type": kind}
    write(file, model("llama", WORDS), WORDS, quantised=QUANTISED, extra=extra)
    assert gguf_files.read_header(file).quantisation == "Q4_K_M"


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


@pytest.mark.parametrize("architecture", ["falcon", "gptneox", "olmo2", "mamba"])
def test_another_architecture_is_refused_by_name(tmp_path: Path, architecture: str) -> None:
    path = tmp_path / "tiny.gguf"
    write(path, model("llama", WORDS), WORDS, architecture=architecture)
    message = refusal(path)
    assert repr(architecture) in message and "llama, qwen2, qwen3" in message
    assert "#gguf" in message


def test_parts_of_a_file_are_to_be_joined_and_missing_ones_are_named(file: Path) -> None:
    parts = [file.with_name(f"tiny-0000{n}-of-00003.gguf") for n in (1, 2, 3)]
    write(parts[0], model("llama", WORDS), WORDS, extra={"split.count": 3})
    write(parts[2], model("llama", WORDS), WORDS, extra={"split.count": 3})
    message = refusal(parts[2])
    assert f"not beside it: {parts[1].name}\n" in message
    assert f"llama-gguf-split --merge {parts[0].name} tiny.gguf" in message
    parts[1].write_bytes(parts[0].read_bytes())
    gguf_files.read_header.cache_clear()
    message = refusal(parts[0])
    assert "one of 3 parts\n" in message and "llama-gguf-split --merge" in message


def test_a_file_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write(path, model("llama", WORDS), None, extra={"llama.vocab_size": 300})
    assert "holds no tokenizer" in refusal(path)


@pytest.mark.parametrize("split", ["no-such-way", "default"])
def test_an_unknown_way_to_split_text_is_refused(tmp_path: Path, split: str) -> None:
    path = tmp_path / "tiny.gguf"
    write(path, model("llama", WORDS), WORDS, extra={"tokenizer.ggml.pre": split})
    assert f"not known: {split}" in refusal(path)


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_positions_stretched_evenly_are_read(tmp_path: Path, family: str) -> None:
    linear = {"rope_type": "linear", "factor": 4.0}
    _, changed = next(shape for shape in SHAPES.values() if shape[0] == family)
    source = model(family, WORDS, **changed, rope_scaling=linear)
    extra = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    name = NAMES.get(family, family)
    extra = {f"{name}.{key}": value for key, value in extra.items()}
    write(tmp_path / "tiny.gguf", source, WORDS, extra=extra)
    loaded = loading.load(tmp_path / "tiny.gguf")
    ids = torch.tensor([range(3, 60)])
    expected = source(ids).logits
    torch.testing.assert_close(loaded.model(ids).logits, expected, atol=1e-5, rtol=1e-5)
    assert (model(family, WORDS, **changed)(ids).logits - expected).abs().max() > 0.01


@pytest.mark.parametrize(
    ("family", "extra"),
    [
        ("llama", {"llama.rope.scaling.type": "yarn"}),
        ("llama", {"llama.rope.dimension_count": 8}),
        ("llama", {"llama.attention.sliding_window": 64}),
        ("llama", {"llama.expert_count": 8}),  # Mixtral
        ("llama", {"rope_freqs.weight": np.ones(8, np.float32)}),  # Llama 3.1's stretched positions
        ("gemma3_text", {"gemma3.attention.key_length": 128}),  # the 27B
    ],
    ids=["yarn", "partial", "window", "experts", "frequencies", "narrow heads"],
)
def test_what_would_be_lost_is_refused(tmp_path: Path, family: str, extra: dict[str, Any]) -> None:
    path = tmp_path / "tiny.gguf"
    _, changed = next(shape for shape in SHAPES.values() if shape[0] == family)
    write(path, model(family, WORDS, **changed), WORDS, extra=extra)
    message = refusal(path)
    assert "#gguf" in message and "original checkpoint" in message


def test_weights_that_are_not_in_the_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write(path, model("llama", WORDS), WORDS, left_out="blk.1.ffn_up.weight")
    message = refusal(path)
    assert "model.layers.1.mlp.up_proj.weight" in message and "#made-up-weights" in message

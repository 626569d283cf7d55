"""Tiny models written as GGUF files, with the names, sizes and order of weights of llama.cpp."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

SIZES: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128,
    "initializer_range": 0.2, "rms_norm_eps": 1e-6,
}  # fmt: skip
NAMES = {"gemma3_text": "gemma3", "qwen3_moe": "qwen3moe", "mistral": "llama"}
"""Family → architecture of GGUF, where they differ."""
SETTINGS = {
    "context_length": "max_position_embeddings",
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
    "attention.sliding_window": "sliding_window",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
"""Setting of a file → key of config.json; written for models whose config has the key."""
TEXTS = ["What is the capital of France?", "Who wrote Hamlet in 1603?", "Paris", "Shakespeare"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
GEMMA = ["<bos>", "<eos>", "<pad>", "<mask>"]
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def tokenizer() -> Tokenizer:
    """A byte-level BPE tokenizer like GPT-2's, its first tokens `CONTROL`."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=CONTROL, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TEXTS * 3, trainer)
    return made


def pieces() -> Tokenizer:
    """A tokenizer of pieces like sentencepiece's, which are merged in the order of their ids."""
    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    special = ["<unk>", "<s>", "</s>", *GEMMA, "▁▁", *bytes_]
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, show_progress=False)
    made.train_from_iterator(TEXTS * 3, trainer)
    return made


def model(architecture: str, words: Tokenizer, **changed: Any) -> PreTrainedModel:
    """A random model of an architecture, the same in each call."""
    torch.manual_seed(0)
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    size = words.get_vocab_size()
    settings = {**SIZES, "vocab_size": size, "tie_word_embeddings": True, **ids, **changed}
    config = AutoConfig.for_model(architecture, **settings)
    made = AutoModelForCausalLM.from_config(config).eval()
    for parameter in made.parameters():  # biases and norms, too; attention far from even
        torch.nn.init.normal_(parameter, mean=0.5 if parameter.ndim == 1 else 0, std=0.2)
    return made


def write(
    path: Path,
    source: PreTrainedModel,
    words: Tokenizer | None,
    *,
    quantised: gguf.GGMLQuantizationType | None = None,
    left_out: str | None = None,
    extra: Mapping[str, Any] | None = None,
    architecture: str | None = None,
    begins: bool | None = False,
) -> None:
    """Write a model as a GGUF file.

    Args:
        words: its tokenizer; None leaves it out.
        quantised: the format of its matrices; float32 without.
        left_out: the name of a tensor that is not written.
        extra: further settings, or tensors as arrays.
        architecture: another name than the model's own.
        begins: whether texts begin with the start token; None leaves it unsaid.
    """
    name = architecture or NAMES.get(source.config.model_type, source.config.model_type)
    writer = gguf.GGUFWriter(path, name)
    settings = {f"{name}.{key}": value for key, value in _settings(source.config).items()}
    settings["general.name"] = source.config.model_type
    if words is not None:
        _add_tokenizer(writer, words, begins)
        settings["tokenizer.ggml.pre"] = "gpt-2"
    for key, value in {**settings, **(extra or {})}.items():
        if isinstance(value, np.ndarray):
            writer.add_tensor(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_uint32(key, value)
    for name, array in _tensors(source):
        if name == left_out:
            continue
        if quantised is not None and array.ndim == 2:
            blocks = gguf.quantize(array, quantised)
            writer.add_tensor(name, blocks, raw_dtype=quantised)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter, words: Tokenizer, begins: bool | None) -> None:
    bpe = json.loads(words.to_str())["model"]
    tokens = sorted(words.get_vocab(), key=words.token_to_id)
    writer.add_tokenizer_model("llama" if bpe["byte_fallback"] else "gpt2")
    kinds = [_kind(token) for token in tokens]
    if writer.arch == "gemma3" and "▁▁" in tokens:
        spaces = tokens.index("▁▁")  # several spaces are one token before anything is merged
        tokens[spaces], kinds[spaces] = "  ", gguf.TokenType.USER_DEFINED
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    if bpe["byte_fallback"]:
        writer.add_token_scores([-float(place) for place in range(len(tokens))])
        writer.add_unk_token_id(0)
    else:
        writer.add_token_merges([" ".join(pair) for pair in bpe["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    if begins is not None:
        writer.add_add_bos_token(begins)
    writer.add_chat_template(TEMPLATE)


def _kind(token: str) -> gguf.TokenType:
    if token in (*CONTROL, *GEMMA, "<s>", "</s>"):
        return gguf.TokenType.CONTROL
    if token == "<unk>":
        return gguf.TokenType.UNKNOWN
    return gguf.TokenType.BYTE if token.startswith("<0x") else gguf.TokenType.NORMAL


def _settings(config: Any) -> dict[str, int | float]:
    """The settings of a model as llama.cpp's converter writes them."""
    values = {setting: getattr(config, key, None) for setting, key in SETTINGS.items()}
    if config.model_type == "phi3":
        values["attention.sliding_window"] = config.sliding_window or 0
    if config.model_type != "gpt2":
        rope = config.rope_parameters
        head_dim = getattr(config, "head_dim", None)
        head_dim = head_dim or config.hidden_size // config.num_attention_heads
        values |= {
            "rope.freq_base": rope.get("full_attention", rope)["rope_theta"],
            "attention.key_length": head_dim,
            "attention.value_length": head_dim,
        }
        if config.model_type != "gemma3_text":
            values |= {"rope.dimension_count": head_dim}
    return {setting: value for setting, value in values.items() if value is not None}


def _tensors(source: PreTrainedModel) -> Iterator[tuple[str, np.ndarray]]:
    """The weights by llama.cpp's names, changed as its converter changes those of each family."""
    config: Any = source.config
    family = config.model_type
    (arch,) = (a for a, n in gguf.MODEL_ARCH_NAMES.items() if n == NAMES.get(family, family))
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads}
    heads |= {"k_proj": getattr(config, "num_key_value_heads", None)}
    for name, parameter in source.named_parameters():
        array = parameter.detach().numpy()
        part = name.split(".")[-2]
        if (
            family in ("llama", "mistral") and part in heads
        ):  # the halves of each head's positions interleaved
            rows = array.reshape(heads[part], 2, -1, *array.shape[1:])
            array = rows.swapaxes(1, 2).reshape(array.shape)
        if family == "gemma3_text" and name.endswith("norm.weight"):
            array = array + 1
        if family == "gpt2" and part.startswith("c_") and array.ndim == 2:
            array = array.T
        if name.endswith("experts.gate_up_proj"):
            block = name.split(".")[2]
            for half, weights in zip(("gate", "up"), np.split(array, 2, axis=1), strict=True):
                yield f"blk.{block}.ffn_{half}_exps.weight", np.ascontiguousarray(weights)
            continue
        found = names.get_name(name, (".weight", ".bias"))
        ending = "" if name.endswith((".weight", ".bias")) else ".weight"
        yield found + ending, np.ascontiguousarray(array)

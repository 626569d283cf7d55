"""Tiny models written as GGUF files, with the names, sizes and order of weights of llama.cpp."""

import json
from collections.abc import Mapping
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
TEXTS = ["What is the capital of France?", "Who wrote Hamlet in 1603?", "Paris", "Shakespeare"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
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


def model(architecture: str, words: Tokenizer, **changed: Any) -> PreTrainedModel:
    """A random model of an architecture, the same in each call."""
    torch.manual_seed(0)
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    size = words.get_vocab_size()
    settings = {**SIZES, "vocab_size": size, "tie_word_embeddings": True, **ids, **changed}
    config = AutoConfig.for_model(architecture, **settings)
    made = AutoModelForCausalLM.from_config(config).eval()
    for parameter in made.parameters():  # biases and norms, too
        torch.nn.init.normal_(parameter, mean=0.1, std=0.2)
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
) -> None:
    """Write a model as a GGUF file.

    Args:
        words: its tokenizer; None leaves it out.
        quantised: the format of its matrices; float32 without.
        left_out: the name of a tensor that is not written.
        extra: further settings, or tensors as arrays.
        architecture: another name than the model's own.
    """
    config: Any = source.config
    writer = gguf.GGUFWriter(path, architecture or config.model_type)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_rope_dimension_count(head_dim)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    if words is not None:
        _add_tokenizer(writer, words)
        extra = {"tokenizer.ggml.pre": "gpt-2", **(extra or {})}
    for key, value in (extra or {}).items():
        if isinstance(value, np.ndarray):
            writer.add_tensor(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
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


def _add_tokenizer(writer: gguf.GGUFWriter, words: Tokenizer) -> None:
    bpe = json.loads(words.to_str())["model"]
    vocabulary = sorted(words.get_vocab().items(), key=lambda pair: pair[1])
    tokens = [token for token, _ in vocabulary]
    kinds = [gguf.TokenType.CONTROL if t in CONTROL else gguf.TokenType.NORMAL for t in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in bpe["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def _tensors(source: PreTrainedModel) -> list[tuple[str, np.ndarray]]:
    """The weights by llama.cpp's names, those of Llama's queries and keys in its order of rows."""
    config: Any = source.config
    arch = getattr(gguf.MODEL_ARCH, config.model_type.upper())
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    tensors = []
    for name, parameter in source.named_parameters():
        array = parameter.detach().numpy()
        for part, count in heads.items():
            if config.model_type == "llama" and f".{part}." in name:
                rows = array.reshape(count, 2, array.shape[0] // count // 2, *array.shape[1:])
                array = rows.swapaxes(1, 2).reshape(array.shape)
        tensors.append((names.get_name(name, (".weight", ".bias")), np.ascontiguousarray(array)))
    return tensors

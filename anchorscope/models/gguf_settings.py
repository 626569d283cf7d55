"""What a GGUF file says of its model, as the keys of config.json: one record an architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anchorscope.storage.errors import AnchorscopeError

OTHERWISE = "use the original checkpoint, in safetensors format"
PLAIN = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
}
ROTARY = {
    **PLAIN,
    "feed_forward_length": "intermediate_size",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "rope.freq_base": "rope_theta",
}
EXPERTS = {
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
LEARNED = {"feed_forward_length": "n_inner", "attention.layer_norm_epsilon": "layer_norm_epsilon"}
WINDOW = {"attention.sliding_window": "sliding_window"}
LOCAL = {"rope.freq_base_swa": "rope_local_base_freq"}


@dataclass(frozen=True)
class Architecture:
    """How files of an architecture are read.

    Attributes:
        model_type: the family that takes their weights.
        settings: setting of the file → key of config.json. All others are refused.
        fixed: what llama.cpp takes for granted, by key of config.json.
        only: setting → the one value with which the numbers are right.
        others: families whose files are of this architecture, too.
    """

    model_type: str
    settings: Mapping[str, str] = field(default_factory=lambda: ROTARY)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    only: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[str, ...] = ()


ARCHITECTURES = {
    "llama": Architecture("llama", others=("mistral",)),
    "qwen2": Architecture("qwen2"),
    "qwen3": Architecture("qwen3"),
    "qwen3moe": Architecture("qwen3_moe", ROTARY | EXPERTS, {"norm_topk_prob": True}),
    "gemma3": Architecture(  # the 27B has narrower heads, and scales its attention otherwise
        "gemma3_text", ROTARY | WINDOW | LOCAL, only={"attention.key_length": 256}
    ),
    "phi3": Architecture("phi3", ROTARY | WINDOW),
    "gpt2": Architecture("gpt2", PLAIN | LEARNED),
}
"""Architecture of GGUF → how it is read. The tests hold each against the model it came from."""
OPTIONAL = frozenset(
    ("attention.head_count_kv", "attention.key_length", "rope.freq_base", "rope.freq_base_swa")
)
SAME = ("attention.value_length", "rope.dimension_count")
"""Settings that are read only where they equal the width of a head."""
SCALING, FACTOR = "rope.scaling.type", "rope.scaling.factor"
IDS = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}


def config(fields: Mapping[str, Any], rows: int, tied: bool, path: Path) -> dict[str, Any]:
    """The keys of config.json that a file's settings stand for.

    Args:
        fields: the settings of the file.
        rows: of its embedding.
        tied: whether the embedding is the LM head, too.
        path: of the file, for errors.

    Raises:
        AnchorscopeError: its architecture is not read, a size is not there, or it sets something
            that would be lost.
    """
    name = str(fields.get("general.architecture"))
    if name not in ARCHITECTURES:
        what = f"a GGUF file of the architecture {name!r} cannot be read"
        do = f"{OTHERWISE}; read are {', '.join(ARCHITECTURES)}"
        raise AnchorscopeError(what, path, do, see="gguf")
    architecture, start = ARCHITECTURES[name], f"{name}."
    own = {key[len(start) :]: fields[key] for key in fields if key.startswith(start)}
    for key in architecture.settings:
        if key not in OPTIONAL and not isinstance(own.get(key), int | float):
            what = f"the GGUF file does not say its `{name}.{key}`"
            raise AnchorscopeError(what, path, OTHERWISE, see="broken-weights")
    stated = _implied(own) | own
    if lost := _lost(own, architecture, stated["attention.key_length"]):
        what = f"the GGUF file sets {name}.{lost} = {own[lost]}, which would be lost"
        raise AnchorscopeError(what, path, OTHERWISE, see="gguf")
    linear = {"rope_type": "linear", "factor": own.get(FACTOR)}
    return {
        "model_type": architecture.model_type,
        "vocab_size": rows,
        "tie_word_embeddings": tied,
        **{key: fields.get(f"tokenizer.ggml.{token}_token_id") for key, token in IDS.items()},
        **{key: stated[s] or None for s, key in architecture.settings.items() if s in stated},
        **({"rope_scaling": linear} if own.get(SCALING) == "linear" else {}),
        **architecture.fixed,
    }


def _implied(own: Mapping[str, Any]) -> dict[str, Any]:
    """What llama.cpp takes for a setting that a file leaves out."""
    heads = own["attention.head_count"]
    return {
        "attention.head_count_kv": heads,
        "attention.key_length": own.get("rope.dimension_count", own["embedding_length"] // heads),
        "rope.freq_base": 10000.0,
    }


def _lost(own: Mapping[str, Any], architecture: Architecture, head: int) -> str | None:
    """The first setting of a file that its config cannot express; None if there is none."""
    read = {**dict.fromkeys(SAME, head), SCALING: "linear", **architecture.only}
    for key, value in own.items():
        known = key in architecture.settings or key in ("vocab_size", FACTOR)
        if value in (0, "none") or (known and key not in read):
            continue
        if read.get(key) != value:
            return key
    return None

"""Families: which models can be measured, and where their parts are.

A family is data. To add one, add a line to `FAMILIES` and a checkpoint to the parity tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anchorscope.storage.errors import AnchorscopeError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class Family:
    """Where the parts of a model family are."""

    model_type: str  # the `model_type` of config.json
    layers: str = "layers"  # the list of blocks, seen from the base model (without the LM head)
    # attn, mlp: the two modules, seen from a block; their outputs are the sites of that name. A
    # mixture of experts gives one MLP output, that of all experts chosen.
    attn: str = "self_attn"
    mlp: str = "mlp"


FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        Family("llama"), Family("qwen2"), Family("qwen3"), Family("qwen3_moe"), Family("mistral"),
        Family("mixtral"), Family("gemma3_text"), Family("olmo2"), Family("phi3"),
        Family("gpt2", layers="h", attn="attn"), Family("gpt_neox", attn="attention"),
        Family("falcon", layers="h", attn="self_attention"),
    )
}  # fmt: skip
TEXT_INSIDE = {"gemma3": "gemma3_text"}
"""Families of which only the language model is loaded, without what reads images."""
NOT_EXACT = {
    "alibi": "its attention is biased by distances that a mask of ours would lose",
    "use_bidirectional_attention": "its tokens see later ones",
}
"""Key of a config → why a model that sets it is refused."""


@dataclass(frozen=True)
class Loaded:
    """A model ready to be measured."""

    model: PreTrainedModel  # the causal language model, in evaluation mode, without gradients
    tokenizer: PreTrainedTokenizerFast
    family: Family
    window: int | None  # the most tokens that every layer attends to, None without a sliding window
    device: torch.device  # where the input ids belong


def window(config: Any) -> int | None:
    """The most tokens that every layer attends to, or None without a sliding window."""
    most = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"]
    return None if most is None or "sliding_attention" not in kinds else int(most)


def positions(config: Any) -> int | None:
    """The most tokens that a model is measured on, None without a limit.

    With `longrope` frequencies this is its original length: a call that reaches beyond turns to
    other frequencies for all its tokens, so the result would depend on what is passed together.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    limits = [getattr(config, "max_position_embeddings", None)]
    for kind in (rope, *rope.values()):  # by kind of layer in some models
        if isinstance(kind, Mapping) and kind.get("rope_type") == "longrope":
            limits.append(kind["original_max_position_embeddings"])
    return min((limit for limit in limits if limit is not None), default=None)


def device_of(model: PreTrainedModel) -> torch.device:
    """Where the input ids belong: where the embedding is."""
    return model.get_input_embeddings().get_parameter("weight").device


def layers(loaded: Loaded) -> list[torch.nn.Module]:
    """The blocks of the model, first to last."""
    return list(loaded.model.base_model.get_submodule(loaded.family.layers).children())


def part(loaded: Loaded, layer: torch.nn.Module, site: str) -> torch.nn.Module:
    """The module of a block whose output is the site: `attn`, `mlp` or `resid` (the block)."""
    return layer if site == "resid" else layer.get_submodule(getattr(loaded.family, site))


def first_tensor(output: Any) -> torch.Tensor:
    """What a module returned, be it a tensor or a tuple that starts with one."""
    return output[0] if isinstance(output, tuple) else output


def not_finite(what: str, where: str) -> AnchorscopeError:
    """The error where a model gives what is no number."""
    do = "try dtype: float32 for this model; if it stays, the checkpoint is broken"
    return AnchorscopeError(what, where, do, see="not-finite")

"""The model families that can be measured, and where the parts of their models are.

A family is data: to add one, add a line to `FAMILIES`, and a checkpoint to the parity tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anchorscope.config.settings import BATCH_TOKENS
from anchorscope.storage.errors import AnchorscopeError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class Family:
    """Where the parts of a model family are.

    Attributes:
        model_type: the `model_type` in config.json.
        layers: path of the list of blocks in the base model (the model without its LM head).
        attn: path of the attention module in a block; its output is the site `attn`.
        mlp: path of the MLP module in a block; its output is the site `mlp`. A mixture of experts
            has one output, the sum over the experts chosen.
        n_layers: key of config.json for the number of blocks.
        width: key of config.json for the width of the residual stream.
    """

    model_type: str
    layers: str = "layers"
    attn: str = "self_attn"
    mlp: str = "mlp"
    n_layers: str = "num_hidden_layers"
    width: str = "hidden_size"


FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        Family("llama"), Family("qwen2"), Family("qwen3"), Family("qwen3_moe"), Family("mistral"),
        Family("mixtral"), Family("gemma3_text"), Family("olmo2"), Family("phi3"),
        Family("gpt2", layers="h", attn="attn", n_layers="n_layer", width="n_embd"),
        Family("gpt_neox", attn="attention"), Family("falcon", layers="h", attn="self_attention"),
    )
}  # fmt: skip
TEXT_INSIDE = {"gemma3": "gemma3_text"}
"""Model type of a checkpoint that also reads images → family of its language model."""
NOT_TEXT = re.compile(r"(?:model\.)?(?:vision_tower|multi_modal_projector)\.")
"""How the names begin of the weights of such a checkpoint that read images."""
NOT_EXACT = {
    ("alibi", True): "its attention is biased by distances that a mask of ours would lose",
    ("use_bidirectional_attention", True): "its tokens see later ones",
    ("is_causal", False): "its tokens see later ones",
}
"""Key of config.json and its value → why a model with it is refused."""


@dataclass(frozen=True)
class Loaded:
    """A model ready to be measured."""

    model: PreTrainedModel  # the causal language model, in evaluation mode, without gradients
    tokenizer: PreTrainedTokenizerFast
    family: Family
    window: int | None  # see `window`
    device: torch.device  # where the input ids belong, see `device_of`
    batch_tokens: int = BATCH_TOKENS  # most rows × padded length of a pass


def family_of(config: Mapping[str, Any], where: object) -> Family:
    """The family of a model.

    Args:
        config: the content of config.json, or `config.to_dict()`.
        where: named in errors.

    Raises:
        AnchorscopeError: there is no such family, or passes through this model would not be exact.
        KeyError: the config names no `model_type`.
    """
    model_type = config["model_type"]
    family = FAMILIES.get(TEXT_INSIDE.get(model_type, model_type))
    if family is None:
        what = f"there is no adapter for the model family {model_type!r}"
        do = (
            f"choose one of {', '.join(sorted([*FAMILIES, *TEXT_INSIDE]))}, or add it to FAMILIES "
            "in anchorscope/models/families.py and to the parity tests"
        )
        raise AnchorscopeError(what, where, do, see="unknown-family")
    settings = _language_model(config)
    for (key, value), reason in NOT_EXACT.items():
        if key in settings and bool(settings[key]) is value:
            what = f"this {model_type} cannot be measured exactly: {reason} ({key} in its config)"
            do = "choose another model of the family"
            raise AnchorscopeError(what, where, do, see="unknown-family")
    return family


def sizes(config: Mapping[str, Any], where: object) -> tuple[int, int]:
    """Number of layers and width of a model, see `family_of`.

    Raises:
        AnchorscopeError: see `family_of`; or a size is missing.
    """
    family, settings = family_of(config, where), _language_model(config)

    def size(key: str, usual_key: str) -> int:
        # A family's configs may be written with the usual keys, too.
        value = settings.get(key, settings.get(usual_key))
        if not isinstance(value, int):
            what, do = f"the config has no number `{key}`", "save the model with `save_pretrained`"
            raise AnchorscopeError(what, where, do, see="no-checkpoint")
        return value

    return size(family.n_layers, "num_hidden_layers"), size(family.width, "hidden_size")


def _language_model(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of the language model, which may lie inside that of a model that reads images."""
    return {**config, **(config.get("text_config") or {})}


def window(config: Any) -> int | None:
    """Length in tokens of the sliding window that some layer attends to; None if no layer has one.

    `config` is the model's `PretrainedConfig`.
    """
    length = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"]
    if length is None or "sliding_attention" not in kinds:
        return None
    return int(length)


def positions(config: Any) -> int | None:
    """Number of tokens that a model can be measured on; None without a limit.

    With `longrope` frequencies this is the model's original length. A longer call uses other
    frequencies for all of its tokens, so results would depend on which rows are passed together.
    `config` is the model's `PretrainedConfig`.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    limits = [getattr(config, "max_position_embeddings", None)]
    for settings in (rope, *rope.values()):  # some models have settings for each kind of layer
        if isinstance(settings, Mapping) and settings.get("rope_type") == "longrope":
            limits.append(settings["original_max_position_embeddings"])
    return min((limit for limit in limits if limit is not None), default=None)


def device_of(model: PreTrainedModel) -> torch.device:
    """The device that input ids belong on: that of the embedding."""
    return model.get_input_embeddings().get_parameter("weight").device


def embedded(model: PreTrainedModel) -> int:
    """Number of rows of the embedding; ids that a tokenizer has beyond cannot be passed."""
    return len(model.get_input_embeddings().get_parameter("weight"))


def logits(model: PreTrainedModel, states: torch.Tensor) -> torch.Tensor:
    """Apply the LM head to states [n, width] behind the final norm.

    The states are copied first. On a CPU, a bfloat16 head did not finish within a minute on a
    slice of a batch, and was instant on a copy.

    Returns:
        Logits, float32 [n, vocabulary].
    """
    head: Any = model.get_output_embeddings()
    found = head(states.contiguous().to(head.weight.device)).float()
    # Some models limit their logits before the softmax.
    most = getattr(model.config, "final_logit_softcapping", None)
    return found if most is None else most * (found / most).tanh()


def layers(loaded: Loaded) -> list[torch.nn.Module]:
    """The blocks of the model, first to last."""
    return list(loaded.model.base_model.get_submodule(loaded.family.layers).children())


def part(loaded: Loaded, layer: torch.nn.Module, site: str) -> torch.nn.Module:
    """The module of a block whose output is the site: `attn`, `mlp` or `resid` (the block)."""
    return layer if site == "resid" else layer.get_submodule(getattr(loaded.family, site))


def first_tensor(output: Any) -> torch.Tensor:
    """The tensor that a module returned, alone or as the first of a tuple."""
    return output[0] if isinstance(output, tuple) else output


def not_finite(what: str, where: str) -> AnchorscopeError:
    """The error that a model computed NaN or infinity."""
    do = "try dtype: float32 for this model; if it stays, the checkpoint is broken"
    return AnchorscopeError(what, where, do, see="not-finite")

"""Model families that can be measured, and where the parts of their models are.

To add a family, add a line to `FAMILIES`, and a checkpoint to the parity tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anchorscope.config.settings import BATCH_TOKENS, GPU_BATCH_TOKENS
from anchorscope.storage.errors import AnchorscopeError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class Family:
    """A family of models: paths of their modules, and keys of their sizes in config.json."""

    model_type: str  # in config.json
    layers: str = "layers"  # path of the list of blocks in the base model (without its LM head)
    # paths from a block to the modules whose outputs are the sites `attn` and `mlp`; a mixture of
    # experts has one output, the sum over the chosen experts
    attn: str = "self_attn"
    mlp: str = "mlp"
    # keys of config.json for the number of blocks and the width of the residual stream
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
"""Prefixes of the names of weights that read images."""
NOT_EXACT = {
    ("alibi", True): "it biases attention by distance (ALiBi), which our masks would remove",
    ("use_bidirectional_attention", True): "its tokens attend to later ones",
    ("is_causal", False): "its tokens attend to later ones",
}
"""(Key of config.json, value) → reason why a model with this value is refused."""


@dataclass(frozen=True)
class Loaded:
    """A model ready to be measured."""

    model: PreTrainedModel  # the causal language model, in evaluation mode, without gradients
    tokenizer: PreTrainedTokenizerFast
    family: Family
    window: int | None  # see `window`
    device: torch.device  # device of input ids, see `device_of`
    batch_tokens: int = BATCH_TOKENS  # limit of a pass: rows × padded length


def batch_tokens(wanted: int | None, device: str) -> int:
    """Return the limit of a pass in tokens: `wanted`, or the default for the type of `device`."""
    return wanted or (GPU_BATCH_TOKENS if device == "cuda" else BATCH_TOKENS)


def family_of(config: Mapping[str, Any], where: object) -> Family:
    """Return the family of a model, given the content of config.json. `where` names it in errors.

    Raises:
        AnchorscopeError: The family is unknown, or the model cannot be measured exactly.
        KeyError: The config names no `model_type`.
    """
    model_type = config["model_type"]
    family = FAMILIES.get(TEXT_INSIDE.get(model_type, model_type))
    if family is None:
        what = f"the model family {model_type!r} is not supported"
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
    """Return the number of layers and the width of a model.

    Raises:
        AnchorscopeError: See `family_of`; or a size is missing.
    """
    family, settings = family_of(config, where), _language_model(config)
    # A family's configs may be written with the usual keys, too.
    keys = ((family.n_layers, Family.n_layers), (family.width, Family.width))
    found: dict[str, Any] = {key: settings.get(key, settings.get(usual)) for key, usual in keys}
    for key, value in found.items():
        if not isinstance(value, int):
            what, do = f"the config has no number `{key}`", "save the model with `save_pretrained`"
            raise AnchorscopeError(what, where, do, see="no-checkpoint")
    return found[family.n_layers], found[family.width]


def _language_model(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of the language model, even if the model also reads images."""
    return {**config, **(config.get("text_config") or {})}


def check_rotary(config: Mapping[str, Any], where: object) -> None:
    """Refuse a config that gives its rotary positions twice, with different values."""
    settings = _language_model(config)
    given = settings.get("rope_parameters") or {}
    by_kind = [one for one in given.values() if isinstance(one, Mapping)] or [given]
    older = {"rope_theta": settings.get("rope_theta"), **(settings.get("rope_scaling") or {})}
    for key, value in older.items() if given else ():
        name = "rope_type" if key == "type" else key
        defaults = {"rope_type": "default"}
        found = [one.get(name, defaults.get(name, value)) for one in by_kind]
        if value is not None and value not in found:
            what = f"{key} is {value!r}, but {name} of rope_parameters is {found[0]!r}"
            do = "delete the value that the model was not trained with"
            raise AnchorscopeError(what, where, do, see="rope-twice")


def window(config: Any) -> int | None:
    """Return the length of the sliding attention window in tokens, or None if no layer has one."""
    length = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"]
    if length is None or "sliding_attention" not in kinds:
        return None
    return int(length)


def positions(config: Any) -> int | None:
    """Return the largest number of tokens that one pass may have; None if there is no limit.

    With `longrope`, the limit is `original_max_position_embeddings`. A longer pass uses other
    frequencies for all of its tokens, so results would depend on which rows are passed together.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    limits = [getattr(config, "max_position_embeddings", None)]
    for settings in (rope, *rope.values()):  # some models have settings for each kind of layer
        if isinstance(settings, Mapping) and settings.get("rope_type") == "longrope":
            limits.append(settings["original_max_position_embeddings"])
    return min((limit for limit in limits if limit is not None), default=None)


def device_of(model: PreTrainedModel) -> torch.device:
    """Return the device of the embedding, where input ids must be."""
    return model.get_input_embeddings().get_parameter("weight").device


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a CPU tensor moved to a device, without waiting for a GPU to finish queued work."""
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def embedded(model: PreTrainedModel) -> int:
    """Return the number of rows of the embedding; larger token ids cannot be passed."""
    return len(model.get_input_embeddings().get_parameter("weight"))


def logits(model: PreTrainedModel, states: torch.Tensor) -> torch.Tensor:
    """Return float32 logits [n, vocabulary] of `states` [n, width], taken after the final norm."""
    head: Any = model.get_output_embeddings()
    # Contiguous for speed: on a CPU, a bfloat16 head took over a minute for a slice of a batch.
    found = head(states.contiguous().to(head.weight.device)).float()
    # Some models limit their logits before the softmax.
    most = getattr(model.config, "final_logit_softcapping", None)
    return found if most is None else most * (found / most).tanh()


def layers(loaded: Loaded) -> list[torch.nn.Module]:
    """Return the blocks of the model, first to last."""
    return list(loaded.model.base_model.get_submodule(loaded.family.layers).children())


def part(loaded: Loaded, layer: torch.nn.Module, site: str) -> torch.nn.Module:
    """Return the module whose output is `site` in the block `layer`. For `resid`, it is `layer`."""
    return layer if site == "resid" else layer.get_submodule(getattr(loaded.family, site))


def first_tensor(output: Any) -> torch.Tensor:
    """Return a module's output or, if the output is a tuple, its first item."""
    return output[0] if isinstance(output, tuple) else output


def not_finite(what: str, where: str) -> AnchorscopeError:
    """Return the error for a model that computed NaN or infinity."""
    do = "try `dtype: float32` for this model; if the error persists, the checkpoint is broken"
    return AnchorscopeError(what, where, do, see="not-finite")

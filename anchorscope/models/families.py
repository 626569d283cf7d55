"""The parts of a causal language model, found by structure, and what can be measured of it.

No family is listed by name. `models.fitness` tests what is found here on the loaded model.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anchorscope.config.readouts import available
from anchorscope.config.settings import BATCH_TOKENS, GPU_BATCH_TOKENS
from anchorscope.storage.errors import AnchorscopeError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

NAMES = {
    "attn": (
        "self_attn", "attn", "attention", "self_attention", "linear_attn", "mamba", "mixer",
        "temporal_block", "conv",
    ),
    "mlp": (
        "mlp", "feed_forward", "ffn", "mlp_block", "channel_block", "block_sparse_moe",
        "shared_mlp", "moe",
    ),
}  # fmt: skip
"""Site → names that transformers gives the module of a block whose output is the site.

In hybrids, `attn` is the block's token mixer. A mixture of experts has one output, the sum over the
chosen experts. If several modules of a block match, none of them alone gives the site.
"""
NOT_TEXT = re.compile(
    r"(?:model\.)?(?:vision|visual|image|audio|multi_modal|embed_vision|embed_audio)\w*\."
)
"""Prefixes of the names of weights that read images or sounds."""
NOT_EXACT = {
    ("alibi", True): "it biases attention by the distance of tokens (ALiBi), which transformers "
    "takes from the mask and not from the positions",
    ("use_bidirectional_attention", True): "its tokens attend to later ones",
    ("is_causal", False): "its tokens attend to later ones",
}
"""(Key of config.json, value) → reason why a model with this value is refused."""
RECURRENT = frozenset(("linear_attention", "conv", "mamba"))
"""Kinds of layers (`layer_types` of a config) in which tokens are mixed by recurrence alone."""
HYBRID = frozenset(("hybrid", "hybrid_sliding"))
"""Kinds of layers that attend and are recurrent."""
KINDS = ("layer_types", "layers_block_type")
"""Keys of config.json that list the kind of each layer."""
WINDOWS = {
    "sliding_window": ("sliding_attention", "hybrid_sliding"),
    "attention_chunk_size": ("chunked_attention",),
    "attention_window_size": (),
    "window_size": (),
}
"""Key of a config for the length of a window → kinds of layers (`layer_types`) that have it."""


@dataclass(frozen=True)
class Parts:
    """Paths of a model's parts."""

    blocks: str  # path of the list of blocks, from the base model
    # site → names or paths, from a block, of the module whose output is the site; see `NAMES`
    sites: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Loaded:
    """A model ready to be measured."""

    model: PreTrainedModel  # the causal language model, in evaluation mode, without gradients
    tokenizer: PreTrainedTokenizerFast
    parts: Parts
    window: int | None  # see `window`
    device: torch.device  # device of input ids, see `device_of`
    batch_tokens: int = BATCH_TOKENS  # limit of a pass: rows × padded length

    @property
    def attends(self) -> bool:
        """Whether no layer is recurrent. If one is, no mask can block tokens."""
        kinds = {*layer_kinds(self.model.config)}
        return not (self.model._is_stateful or kinds & (RECURRENT | HYBRID))


def batch_tokens(wanted: int | None, device: str) -> int:
    """Return the limit of a pass in tokens: `wanted`, or the default for the type of `device`."""
    return wanted or (GPU_BATCH_TOKENS if device == "cuda" else BATCH_TOKENS)


def text_config(config: Mapping[str, Any], where: object) -> Any:
    """Return transformers' config of a language model, given the content of config.json.

    For a model that also reads images, it is the config of the language model alone.

    Raises:
        AnchorscopeError: transformers has no such causal language model, or the model cannot be
            measured exactly.
        KeyError: The config names no `model_type`.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED,
    )

    model_type, found = config["model_type"], None
    if model_type in CONFIG_MAPPING:
        try:
            whole = CONFIG_MAPPING[model_type].from_dict(dict(config))
        except Exception as error:  # each config checks its own values
            what = f"transformers refuses the config ({type(error).__name__}: {error})"
            do = "correct the values, or save the model with `save_pretrained`"
            raise AnchorscopeError(what, where, do, see="no-checkpoint") from error
        found = whole.get_text_config(decoder=True)
    if found is None or found.model_type not in CAUSAL:
        what = f"transformers has no causal language model of the type {model_type!r}"
        do = "choose a decoder model, or a newer version of transformers if the type is new"
        raise AnchorscopeError(what, where, do, see="unknown-family")
    if found.model_type in MASKED and not getattr(found, "is_decoder", False):
        what = f"{model_type!r} is an encoder: its tokens attend to later ones"
        raise AnchorscopeError(what, where, "choose a decoder model", see="unknown-family")
    for (key, value), reason in NOT_EXACT.items():
        if getattr(found, key, None) is value:
            what = f"this {model_type} cannot be measured exactly: {reason} ({key} in its config)"
            raise AnchorscopeError(what, where, "choose another model", see="unknown-family")
    return found


def sizes(config: Mapping[str, Any], where: object) -> tuple[int, int]:
    """Return the number of layers and the width of a model.

    Raises:
        AnchorscopeError: See `text_config`; or a size is missing.
    """
    found = text_config(config, where)
    given = {**config, **(config.get("text_config") or {})}
    keys: dict[str, tuple[str, ...]] = {"num_hidden_layers": KINDS, "hidden_size": ()}
    for name, others in keys.items():
        if not {name, found.attribute_map.get(name, name), *others} & given.keys():
            what, do = f"the config has no number `{name}`", "save the model with `save_pretrained`"
            raise AnchorscopeError(what, where, do, see="no-checkpoint")
    return int(found.num_hidden_layers), int(found.hidden_size)


def also_reads_images(config: Any) -> bool:
    """Return whether the language model is only a part of the model with this config."""
    return config.get_text_config(decoder=True) is not config


def base(model: PreTrainedModel) -> Any:
    """Return the model without its LM head."""
    whole = model.base_model is model  # the prefix of such a class names a larger model
    return model.get_submodule("model") if whole else model.base_model


def find(model: PreTrainedModel, where: object, named: Mapping[str, str] | None = None) -> Parts:
    """Find the parts of a model. `named` holds paths that the user gives: blocks, attn, mlp.

    Raises:
        AnchorscopeError: The blocks are not found, or the model takes no positions.
    """
    named = {key: path for key, path in (named or {}).items() if path}
    body = base(model)
    # Without attention, a model knows positions by the order of tokens alone.
    takes = inspect.signature(body.forward).parameters
    if "position_ids" not in takes and not all_recurrent(model):
        what = f"{type(body).__name__} takes no `position_ids`, so no token can be left out of it"
        raise AnchorscopeError(what, where, "choose another model", see="unknown-family")
    lists = _lists(body)
    count = model.config.num_hidden_layers
    fitting = [path for path, blocks in lists.items() if len(blocks) == count]
    path = named.get("blocks") or (fitting[0] if len(fitting) == 1 else "")
    if path not in lists:
        found = "; ".join(f"{name}: {len(blocks)} modules" for name, blocks in lists.items())
        what = f"the {count} blocks of {type(body).__name__} are not found ({found or 'no list'})"
        do = "name them in the model's entry: parts: {blocks: layers, attn: self_attn, mlp: mlp}"
        raise AnchorscopeError(what, where, do, see="unknown-parts")
    sites = {site: (named[site],) if site in named else names for site, names in NAMES.items()}
    return Parts(path, sites)


def _lists(body: torch.nn.Module) -> dict[str, Any]:
    """Return path → list of modules, for each list that no other list holds."""
    import torch

    lists = {
        path: one for path, one in body.named_modules() if isinstance(one, torch.nn.ModuleList)
    }
    inside = tuple(f"{path}." for path in lists)
    return {path: one for path, one in lists.items() if not path.startswith(inside)}


def layer_kinds(config: Any) -> list[str]:
    """Return the kinds of a model's layers as its config names them; [] if it names none."""
    return list(getattr(config, "layer_types", None) or [])


def all_recurrent(model: PreTrainedModel) -> bool:
    """Return whether no layer of the model attends to tokens."""
    return bool(model._is_stateful and RECURRENT.issuperset(layer_kinds(model.config)))


def check_rotary(config: Mapping[str, Any], where: object) -> None:
    """Refuse a config that gives its rotary positions twice, with different values."""
    settings = {**config, **(config.get("text_config") or {})}
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
    """Return the length in tokens of the shortest window of attention, or None without one.

    Within this length, a window hides no token, whichever tokens are left out before it.
    """
    kinds, lengths = {*layer_kinds(config)}, []
    for key, with_window in WINDOWS.items():
        length = getattr(config, key, None)
        if length and (not kinds or not with_window or kinds & {*with_window}):
            lengths.append(int(length))
    return min(lengths, default=None)


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
    # In half precision, some models keep the residual stream in float32.
    found = head(states.contiguous().to(head.weight.device, head.weight.dtype)).float()
    config = model.config
    # Some models scale or limit their logits before the softmax.
    found = found * (getattr(config, "logit_scale", None) or 1)
    found = found / (getattr(config, "logits_scaling", None) or 1)
    most = getattr(config, "final_logit_softcapping", None)
    return found if most is None else most * (found / most).tanh()


def layers(loaded: Loaded) -> list[torch.nn.Module]:
    """Return the blocks of the model, first to last."""
    return list(base(loaded.model).get_submodule(loaded.parts.blocks).children())


def sites(loaded: Loaded) -> list[str]:
    """Return the sites that every block of the model has."""
    blocks = layers(loaded)
    found = [site for site in NAMES if all(_module(loaded, one, site) for one in blocks)]
    return [*found, "resid"]


def readable(loaded: Loaded, readouts: Sequence[str]) -> list[str]:
    """Return the read-outs that the model is read at, see `readouts.available`."""
    there = sites(loaded)
    return list(dict.fromkeys(available(one, there) for one in readouts))


def part(loaded: Loaded, layer: torch.nn.Module, site: str) -> torch.nn.Module:
    """Return the module whose output is `site` in the block `layer`. For `resid`, it is `layer`.

    Raises:
        AnchorscopeError: No single module of the block gives the site.
    """
    module = layer if site == "resid" else _module(loaded, layer, site)
    if module is None:
        what = f"no single module of {type(layer).__name__} gives the site `{site}`"
        do = f"read {' or '.join(sites(loaded))}, such as resid/final"
        raise AnchorscopeError(what, type(loaded.model).__name__, do, see="unknown-parts")
    return module


def _module(loaded: Loaded, layer: torch.nn.Module, site: str) -> torch.nn.Module | None:
    modules = dict(layer.named_modules())
    found = [modules[name] for name in loaded.parts.sites[site] if name in modules]
    return found[0] if len(found) == 1 else None


def first_tensor(output: Any) -> torch.Tensor:
    """Return a module's output or, if the output is a tuple, its first item."""
    return output[0] if isinstance(output, tuple) else output


def not_finite(what: str, where: str) -> AnchorscopeError:
    """Return the error for a model that computed NaN or infinity."""
    do = "try `dtype: float32` for this model; if the error persists, the checkpoint is broken"
    return AnchorscopeError(what, where, do, see="not-finite")

"""What a detector belongs to: the model, tokenizer and style whose states it was fitted to."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.styles import style_of

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.models.families import Loaded

SAMPLED = 256
"""Weights of each tensor that the model's hash reads: all of a large model would take minutes."""
NAMES = {
    "family": "model family",
    "layers": "number of layers",
    "width": "width of the residual stream",
    "weights": "weights of the model",
    "tokenizer": "tokenizer",
    "template": "chat template",
    "style": "prompt style",
}
"""What must be the same, in words."""


@dataclass(frozen=True)
class Binding:
    """Hashes and facts that a detector compares before it scores.

    The number format is recorded and not compared: the same weights in another one give nearly the
    same states.
    """

    family: str  # `model_type` of the model's config
    layers: int
    width: int
    weights: str  # hash of some of the weights
    tokenizer: str  # hash of the vocabulary and how text is cut
    template: str | None  # hash of the chat template; None where the style shows none
    style: str  # of the prompt
    dtype: str  # number format of the weights when it was fitted

    @classmethod
    def of(cls, loaded: Loaded, style: str) -> Binding:
        """The binding of a model in memory."""
        from anchorscope.models import families

        where = type(loaded.model).__name__
        layers, width = families.sizes(loaded.model.config.to_dict(), where)
        return cls(
            loaded.family.model_type,
            layers,
            width,
            weights_hash(loaded.model),
            tokenizer_hash(loaded.tokenizer),
            _hash(loaded.tokenizer.chat_template) if style_of(style).templated else None,
            style,
            str(loaded.model.dtype).removeprefix("torch."),
        )

    def check(self, other: Binding) -> None:
        """Refuse another model, tokenizer, template or style, by the name of what differs."""
        for name, words in NAMES.items():
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                what = f"this is not what the detector was fitted to: {words} {theirs}, not {mine}"
                do = "use the model that config.json of the detector names, or fit a detector anew"
                if name == "weights" and self.dtype != other.dtype:
                    do = f"load the model with dtype {self.dtype}, as it was fitted; else {do}"
                raise AnchorscopeError(what, NAMES[name], do, see="detector")


def weights_hash(model: PreTrainedModel) -> str:
    """Hash of up to `SAMPLED` weights of every tensor, evenly spaced, rounded to bfloat16.

    Names and order of the tensors have no say, which differ between versions of a library.
    """
    digests = sorted(_tensor_hash(parameter) for parameter in model.parameters())
    return _hash(digests)


def tokenizer_hash(tokenizer: PreTrainedTokenizerFast) -> str:
    """Hash of a tokenizer's vocabulary and rules; what a call changes in passing is left out."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    for changed_by_calls in ("truncation", "padding"):
        content.pop(changed_by_calls, None)
    return _hash([content, tokenizer.eos_token_id])


def _tensor_hash(parameter: Tensor) -> str:
    import torch

    flat = parameter.detach().reshape(-1)
    step = max(1, len(flat) // SAMPLED)
    values = flat[::step][:SAMPLED].to("cpu", torch.bfloat16).view(torch.int16)
    return _hash([*parameter.shape, *values.tolist()])


def _hash(content: object) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

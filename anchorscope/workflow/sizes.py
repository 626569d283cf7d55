"""How large a model is, without loading or downloading it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchorscope.config.settings import Model
from anchorscope.questions import revisions

BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Of one number."""


@dataclass(frozen=True)
class Shape:
    """What decides the size of a decoder's weights and activations.

    Attributes:
        layers, width, mlp: blocks, residual stream, inner width of the MLP.
        heads, kv_heads, head_size: of attention.
        vocabulary: rows of the embedding.
        tied: whether the LM head is the embedding.
        matrices: of an MLP; three where it is gated.
    """

    layers: int
    width: int
    mlp: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    tied: bool = False
    matrices: int = 3

    @property
    def parameters(self) -> int:
        """Weights and norms; biases, which few models have, left out."""
        attention = 2 * self.width * self.head_size * (self.heads + self.kv_heads)
        block = attention + self.matrices * self.width * self.mlp + 2 * self.width
        embeddings = self.vocabulary * self.width * (1 if self.tied else 2)
        return self.layers * block + embeddings + self.width


_LLAMA_3B = Shape(28, 3072, 8192, 24, 8, 128, 128_256, tied=True)
_LLAMA_8B = Shape(32, 4096, 14_336, 32, 8, 128, 128_256)
_MISTRAL_1 = Shape(32, 4096, 14_336, 32, 8, 128, 32_000)
_MISTRAL_3 = Shape(32, 4096, 14_336, 32, 8, 128, 32_768)
KNOWN = {
    "meta-llama/Llama-3.2-1B": Shape(16, 2048, 8192, 32, 8, 64, 128_256, tied=True),
    "meta-llama/Llama-3.2-3B": _LLAMA_3B,
    "meta-llama/Llama-3.2-3B-Instruct": _LLAMA_3B,
    "meta-llama/Meta-Llama-3-8B": _LLAMA_8B,
    "meta-llama/Meta-Llama-3-8B-Instruct": _LLAMA_8B,
    "meta-llama/Meta-Llama-3-70B": Shape(80, 8192, 28_672, 64, 8, 128, 128_256),
    "mistralai/Mistral-7B-v0.1": _MISTRAL_1,
    "mistralai/Mistral-7B-v0.3": _MISTRAL_3,
    "mistralai/Mistral-7B-Instruct-v0.1": _MISTRAL_1,
    "mistralai/Mistral-7B-Instruct-v0.3": _MISTRAL_3,
    "Qwen/Qwen3-8B": Shape(36, 4096, 12_288, 32, 8, 128, 151_936),
    "Qwen/Qwen3-32B": Shape(64, 5120, 25_600, 64, 8, 128, 151_936),
}
"""Hub id → size, for what is not on this machine yet; from the models' own config.json."""


def of_config(path: str | Path) -> Shape | None:
    """The shape that a config.json states; None if there is no such file or it does not say."""
    try:
        found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        width, heads = int(found["hidden_size"]), int(found["num_attention_heads"])
        return Shape(
            layers=int(found["num_hidden_layers"]),
            width=width,
            mlp=int(found["intermediate_size"]),
            heads=heads,
            kv_heads=int(found.get("num_key_value_heads") or heads),
            head_size=int(found.get("head_dim") or width // heads),
            vocabulary=int(found["vocab_size"]),
            tied=bool(found.get("tie_word_embeddings", False)),
            matrices=2 if found.get("model_type") == "gpt_neox" else 3,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        return None


def of_model(model: Model) -> Shape | None:
    """The shape of a catalogue entry: its recipe, its config.json if it is here, else `KNOWN`."""
    if train := model.train:
        size = train.width // train.heads
        return Shape(
            *(train.layers, train.width, train.mlp, train.heads, train.kv_heads, size),
            vocabulary=train.vocabulary,
            tied=True,
        )
    folder = folder_of(model)
    found = of_config(folder / "config.json") if folder else None
    return found or KNOWN.get(model.hub or "")


def folder_of(model: Model) -> Path | None:
    """Where the checkpoint of a `local` or `hub` entry lies on this machine, be it whole or not."""
    if model.local:
        return Path(model.local).expanduser()
    return cached(model.hub, model.revision) if model.hub else None


def cached(hub: str, revision: str | None = None) -> Path | None:
    """A hub model's folder in the cache, found without asking the hub; None if there is none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    wanted = revisions.wanted("models", hub, revision)
    try:
        return Path(snapshot_download(hub, revision=wanted, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def weight_bytes(folder: str | Path) -> int | None:
    """Bytes of a checkpoint's safetensors; None where one of them is missing."""
    files = {path.name: path.stat().st_size for path in Path(folder).glob("*.safetensors")}
    index = Path(folder) / "model.safetensors.index.json"
    wanted = set(files)
    if index.is_file():
        try:
            wanted = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, AttributeError):
            return None
    return sum(files[name] for name in wanted) if wanted and wanted <= set(files) else None

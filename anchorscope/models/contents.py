"""The contents of a checkpoint's folder, read from file names and headers alone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json

if TYPE_CHECKING:
    import torch

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARD = re.compile(r"(?:shard-\d+-)?model-\d+-of-\d+\.safetensors")
"""Names of files that transformers reads as parts of a model."""
PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth")
FLOATS = frozenset(("F64", "F32", "F16", "BF16"))
LEFTOVERS = re.compile(
    r"(?:^|\.)(?:rotary_emb\.inv_freq|position_ids|(?:attn|attention)\.(?:masked_)?bias)$"
)
"""Names of tensors that older versions saved: positions and masks, which a model makes itself."""
MERGE = "merge the adapter first (`merge_and_unload` of peft), and save the model it gives"
OTHERWISE = "use the checkpoint that it was made from"


@dataclass(frozen=True)
class Tensor:
    """Type and shape of one tensor, from the header of its file."""

    dtype: str  # name in safetensors, such as `BF16`
    shape: tuple[int, ...]


def weights(folder: Path) -> list[str]:
    """Return the names of the files that hold the weights, whether or not they are there.

    Raises:
        AnchorscopeError: The index names a file outside of the folder.
    """
    index = folder / INDEX
    if (folder / SINGLE).is_file() or not index.is_file():
        shards = any(folder.glob("model-*.safetensors"))
        return [INDEX if shards and not (folder / SINGLE).is_file() else SINGLE]
    names = sorted(_indexed(index))
    if outside := [name for name in names if Path(name).name != name]:
        what = f"the index names {outside[0]}, which lies outside of the checkpoint's folder"
        raise AnchorscopeError(what, index, "download the model again", see="no-checkpoint")
    return names


def _indexed(index: Path) -> set[str]:
    """Return the names of the files that an index names; none if there is no index.

    Raises:
        AnchorscopeError: The index is broken.
    """
    if not index.is_file():
        return set()
    try:
        return {*json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise broken(index, error) from error


def check_once(folder: Path) -> None:
    """Refuse a folder that holds or names the weights of a model twice.

    Raises:
        AnchorscopeError: There are weights beside those that are read (`weights`).
    """
    read = {*weights(folder)}
    shards = {path.name for path in folder.iterdir() if SHARD.fullmatch(path.name)}
    chosen = read_json(folder / "config.json").get("transformers_weights")
    others = (shards | _indexed(folder / INDEX) | ({chosen} if chosen else set())) - read
    if others:
        what = f"the folder has two sets of weights, {min(read)} and {min(others)}"
        do = f"delete the set that is not the model's; {INDEX} belongs to the files that it names"
        raise AnchorscopeError(what, folder, do, see="weights-twice")


def check_adapter(folder: Path) -> None:
    """Refuse a folder that holds an adapter, by itself or beside a model.

    Raises:
        AnchorscopeError: There is one. Transformers applies it only if peft is installed.
    """
    if found := sorted(folder.glob("adapter_config.json")) or sorted(
        folder.glob("adapter_model.*")
    ):
        what = "the folder holds an adapter, which changes the model that it was trained on"
        raise AnchorscopeError(what, found[0], MERGE, see="adapter")


def newer_pickles(folder: Path) -> list[str]:
    """Return the names of pickled weights, which are not read, that are newer than those read."""
    read = [folder / name for name in weights(folder)]
    if not all(path.is_file() for path in read):
        return []
    newest = max(path.stat().st_mtime for path in read)
    pickled = sorted(folder.glob(PICKLES[0]))
    return [path.name for path in pickled if path.stat().st_mtime > newest]


def tensors(folder: Path) -> dict[str, Tensor]:
    """Return type and shape of each tensor, without known leftovers.

    Raises:
        AnchorscopeError: A file is cut short, two of them hold the same tensor, or the weights are
            quantised.
    """
    found: dict[str, Tensor] = {}
    for name in weights(folder):
        path = folder / name
        for key, tensor in _header(path).items():
            if key in found:
                what = f"two files hold the tensor {key}"
                do = "download or save the model again, into an empty folder"
                raise AnchorscopeError(what, path, do, see="weights-twice")
            if not LEFTOVERS.search(key):
                found[key] = tensor
    for key, tensor in found.items():
        if tensor.dtype not in FLOATS:
            what = f"the weights are quantised: {key} is of the type {tensor.dtype}"
            raise AnchorscopeError(what, folder, OTHERWISE, see="quantised")
    return found


def _header(path: Path) -> dict[str, Tensor]:
    """Return what a file of weights says of its tensors, by name.

    Raises:
        AnchorscopeError: It is broken or cut short.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118
            return {
                key: Tensor(one.get_dtype(), tuple(one.get_shape())) for key, one in slices.items()
            }
    except (SafetensorError, OSError) as error:
        raise broken(path, error) from error


def broken(where: Path, error: Exception) -> AnchorscopeError:
    """Return the error that weights cannot be loaded."""
    first_line = next(iter(str(error).strip().splitlines()), "")[:200]
    what = f"the weights cannot be loaded ({type(error).__name__}: {first_line})"
    do = "download or save the model again; the files may be cut short"
    return AnchorscopeError(what, where, do, see="broken-weights")


def without_data(folder: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a folder in their sizes, on the device `meta`; see `tensors`."""
    import torch

    return {
        key: torch.empty(tensor.shape, device="meta") for key, tensor in tensors(folder).items()
    }

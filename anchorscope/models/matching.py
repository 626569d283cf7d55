"""Refuse checkpoints that do not hold exactly the tensors of their model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchorscope.models import contents
from anchorscope.models.families import NOT_TEXT, TEXT_INSIDE
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LORA = ".lora_"
"""Part of the names of adapter tensors in a checkpoint that was saved with its adapter."""


def check_class(config: Mapping[str, Any], where: Path) -> None:
    """Refuse a config that names another class than the one loaded for its `model_type`.

    Raises:
        AnchorscopeError: The model is not a causal language model, or has code of its own.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CLASSES

    whole = config["model_type"]
    loaded = str(CLASSES[TEXT_INSIDE.get(whole, whole)])
    named = config.get("architectures") or [loaded]
    if not {loaded, CLASSES.get(whole)} & {*named}:
        what = f"config.json names the class {', '.join(named)}, loaded would be {loaded}"
        do = f"use a checkpoint that was saved as {loaded}; other classes compute something else"
        raise AnchorscopeError(what, where, do, see="other-class")


def check_tensors(folder: Path) -> None:
    """Refuse a checkpoint whose tensors do not match its model, without reading weights.

    Raises:
        AnchorscopeError: A tensor has another size, or is held twice. See also
            `contents.tensors` and `refuse`.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    held = contents.without_data(folder)
    try:
        chosen = options(folder)
        model_class: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(chosen["config"])]
        prefix = f"{model_class.base_model_prefix}."
        with _quiet():
            _, info = model_class.from_pretrained(
                None,
                state_dict=held,
                device_map={"": "meta"},
                trust_remote_code=False,
                output_loading_info=True,
                **chosen,
            )
    except Exception as error:  # conversions raise any type of error
        raise contents.broken(folder, error) from error
    refuse(info, folder)
    if twice := sorted(key for key in held if prefix + key in held):
        what = f"the checkpoint holds tensors twice, as {prefix}{twice[0]} and as {twice[0]}"
        do = "save the model again, into an empty folder"
        raise AnchorscopeError(what, folder, do, see="weights-twice")


def options(folder: Path) -> dict[str, Any]:
    """Return the options of `from_pretrained` that load a checkpoint's language model.

    If a checkpoint also reads images, only its language model is loaded. Such checkpoints use older
    names for their weights.
    """
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    if config.model_type not in TEXT_INSIDE:
        return {"config": config}
    names = {
        r"^(model\.language_model|language_model\.model)\.": "model.",
        r"^language_model\.lm_head": "lm_head",
    }
    return {"config": config.get_text_config(), "key_mapping": names}


def refuse(info: Mapping[str, Any], folder: Path) -> None:
    """Refuse a checkpoint with missing or unused tensors.

    Args:
        info: The loading info of `from_pretrained`.
        folder: The checkpoint's folder.

    Raises:
        AnchorscopeError: Tensors of the model are missing or of another size, or the checkpoint
            holds tensors that the model does not take.
    """
    unused = _unused(info["unexpected_keys"], folder)
    if any(LORA in key for key in unused):
        what = "the checkpoint was saved with an adapter inside"
        raise AnchorscopeError(what, folder, contents.MERGE, see="adapter")
    made_up = [*sorted(info["missing_keys"]), *sorted(map(str, info["mismatched_keys"]))]
    if made_up:
        first = ", ".join(made_up[:3])
        what = f"{len(made_up)} weights are not in the file and would be random, the first: {first}"
        do = "save the whole causal language model (with its LM head) with `save_pretrained`"
        raise AnchorscopeError(what, folder, do, see="made-up-weights")
    if unused:
        first = ", ".join(unused[:3])
        what = f"the model does not take {len(unused)} tensors of the checkpoint, such as {first}"
        do = (
            "use the checkpoint of the causal language model alone, with the config.json that it "
            "was trained with"
        )
        raise AnchorscopeError(what, folder, do, see="unused-weights")


def _unused(keys: Iterable[str], folder: Path) -> list[str]:
    """Return the names of unused tensors, except leftovers and parts that read images."""
    also_reads_images = read_json(folder / "config.json")["model_type"] in TEXT_INSIDE
    return sorted(
        key
        for key in keys
        if not contents.LEFTOVERS.search(key) and not (also_reads_images and NOT_TEXT.match(key))
    )


def check_tied(model: PreTrainedModel, folder: Path) -> None:
    """Refuse a checkpoint whose LM head differs from the embedding that the config ties it to.

    Raises:
        AnchorscopeError: Their values differ, so one of the two is wrong.
    """
    import torch

    modules = model.get_output_embeddings(), model.get_input_embeddings()
    head, embedding = (module.get_parameter("weight") for module in modules)
    if not model.config.tie_word_embeddings or head is embedding:
        return
    if not torch.equal(head.to(embedding.device), embedding):
        what = "the config ties the LM head to the embedding, but the checkpoint holds another one"
        do = "set tie_word_embeddings in config.json to false if the model was trained so"
        raise AnchorscopeError(what, folder, do, see="unused-weights")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from printing a report and a progress bar."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()

"""Whether a tokenizer and a model belong together, as far as their files tell."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

LEAST_VOCABULARY = 0.9
"""Share of the embedding's rows that a tokenizer must use; rows are padded by a few per cent."""

log = logging.getLogger(__name__)


def check_size(tokenizer: PreTrainedTokenizerFast, rows: int, where: object) -> None:
    """Refuse a tokenizer of more ids than the embedding has rows, or of far fewer.

    Raises:
        AnchorscopeError: it is one of another vocabulary, or empty; it names `where`.
    """
    highest = max(tokenizer.get_vocab().values(), default=-1)
    if highest + 1 < LEAST_VOCABULARY * rows:
        raise AnchorscopeError(
            f"the embedding has {rows} rows, the tokenizer uses only {highest + 1} of them",
            where,
            "use the tokenizer that the model was trained with",
            see="other-vocabulary",
        )
    if highest >= rows:
        raise AnchorscopeError(
            f"the tokenizer has ids up to {highest}, the embedding only {rows} rows",
            where,
            "use the tokenizer that the model was trained with, or resize its embedding",
            see="other-vocabulary",
        )


def check_ends(tokenizer: PreTrainedTokenizerFast, rows: int, folder: Path) -> None:
    """Hold the tokens that begin and end a text against those that the model's configs name.

    Many a model ends its turns with another token than its texts, so that only begin tokens must
    agree, where the tokenizer puts one before a text and the configs name one at all.

    Raises:
        AnchorscopeError: another begin token, or a token that has no embedding.
    """
    begin, end = (_stated(folder, name) for name in ("bos_token_id", "eos_token_id"))
    beyond = sorted(token for token in begin | end if token >= rows)
    if beyond:
        raise AnchorscopeError(
            f"the model's config names the token {beyond[0]}, the embedding has only {rows} rows",
            folder,
            "take config.json, generation_config.json and weights of one model",
            see="other-vocabulary",
        )
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    if begin and bos is not None and bos not in begin and tokenizer("a")["input_ids"][:1] == [bos]:
        raise AnchorscopeError(
            f"the tokenizer begins a text with {tokenizer.bos_token!r}, its token {bos}; "
            f"the model's config names {_numbers(begin)}",
            folder,
            "use the tokenizer that the model was trained with",
            see="other-vocabulary",
        )
    if end and eos is not None and eos not in end:
        log.warning(
            "%s: the tokenizer ends a text with %r, its token %d; the model's config names %s",
            *(folder, tokenizer.eos_token, eos, _numbers(end)),
        )


def _stated(folder: Path, name: str) -> set[int]:
    """The ids that the configs of a checkpoint give for a special token, if any."""
    found: set[int] = set()
    for file in ("config.json", "generation_config.json"):
        said = read_json(folder / file).get(name) if (folder / file).is_file() else None
        several = said if isinstance(said, list) else [said]
        found |= {token for token in several if isinstance(token, int) and token >= 0}
    return found


def _numbers(ids: set[int]) -> str:
    return " or ".join(map(str, sorted(ids)))

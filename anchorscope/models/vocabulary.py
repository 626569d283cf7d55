"""Whether a tokenizer and a model belong together, as far as their files tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

LEAST_VOCABULARY = 0.9
"""Share of the embedding's rows that a tokenizer must use; rows are padded by a few per cent."""


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


def check_begin(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Hold the token that begins a text against those that the model's configs name, if any.

    Raises:
        AnchorscopeError: the tokenizer puts another one before a text.
    """
    named: set[int] = set()
    for file in ("config.json", "generation_config.json"):
        said = read_json(folder / file).get("bos_token_id") if (folder / file).is_file() else None
        named |= {said} if isinstance(said, int) else set()
    bos = tokenizer.bos_token_id
    if named and bos is not None and bos not in named and tokenizer("a")["input_ids"][:1] == [bos]:
        raise AnchorscopeError(
            f"the tokenizer begins a text with {tokenizer.bos_token!r}, its token {bos}; "
            f"the model's config names {' or '.join(map(str, sorted(named)))}",
            folder,
            "use the tokenizer that the model was trained with",
            see="other-vocabulary",
        )

"""A checkpoint's tokenizer, and whether it and the model belong together."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerFast

FILES = (
    "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt", "spiece.model",
    "tekken.json",
)  # fmt: skip
NEEDED = "put the model's tokenizer.json and tokenizer_config.json into the folder"
LEAST_VOCABULARY = 0.9
"""Share of the embedding's rows that a tokenizer must use; rows are padded by a few per cent."""
DIFFICULT = (
    "in 1867, 12345 and 3.14", "Mary-Ann O'Neill's isn't", "it’s “quoted”", "two  and   three",
    " a space before", "Q: Who?\nA:", "a tab\tand\n\nan empty line\n\n", "東京物語は誰の作品",
    "Кто написал роман Тихий Дон?", "من كتب الكتاب؟", "Győr, São Paulo, e\u0301",
    "👩\u200d👧, 😀, 5½ km²",
)  # fmt: skip
"""Texts that tokenizers have read wrongly once loaded otherwise than from their own file."""

log = logging.getLogger(__name__)


def load(folder: str | Path) -> PreTrainedTokenizerFast:
    """The tokenizer of a checkpoint folder.

    Raises AnchorscopeError: there is none, it cannot be read, or it has only the slow form.
    """
    from transformers import AutoTokenizer

    check_files(Path(folder))
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
    except Exception as error:  # converters raise whatever the broken file makes them raise
        what = f"the tokenizer cannot be loaded ({type(error).__name__})"
        raise AnchorscopeError(what, folder, NEEDED, see="tokenizer") from error
    check_fast(tokenizer, folder)
    return tokenizer


def check_files(folder: Path) -> None:
    """Refuse a folder without tokenizer: transformers would make one up from the model type."""
    if not any((folder / name).is_file() for name in FILES):
        what = "the model folder holds no tokenizer"
        raise AnchorscopeError(what, folder, NEEDED, see="tokenizer")


def check_fast(tokenizer: PreTrainedTokenizerFast, where: object) -> None:
    """Refuse the slow form."""
    if not tokenizer.is_fast:
        what = "the tokenizer has only the slow form, which cannot tell where a token's text lies"
        raise AnchorscopeError(what, where, f"{NEEDED} (the fast form)", see="tokenizer")


def check_size(tokenizer: PreTrainedTokenizerFast, rows: int, where: object) -> None:
    """Refuse a tokenizer of more ids than the embedding has rows, or of far fewer."""
    highest = max(tokenizer.get_vocab().values(), default=-1)
    if not LEAST_VOCABULARY * rows <= highest + 1 <= rows:
        what = f"the tokenizer has ids up to {highest}, the embedding {rows} rows"
        do = "use the tokenizer that the model was trained with, or resize its embedding"
        raise AnchorscopeError(what, where, do, see="other-vocabulary")


def differences(
    tokenizer: PreTrainedTokenizerFast, folder: str | Path, texts: Iterable[str] = DIFFICULT
) -> list[dict[str, Any]]:
    """Texts of which transformers reads other ids than the checkpoint's own tokenizer.json says.

    Each is warned of: `text`, and the ids `loaded` and in the `file`, special tokens left out.
    """
    from tokenizers import Tokenizer

    if not (path := Path(folder) / "tokenizer.json").is_file():
        return []
    plain, found = Tokenizer.from_file(str(path)), []
    plain.no_truncation()
    plain.no_padding()
    for text in texts:
        loaded = list(tokenizer(text, add_special_tokens=False)["input_ids"])
        if loaded != (ids := plain.encode(text, add_special_tokens=False).ids):
            log.warning(
                "%s: %r is read as %s, but as %s by the file alone", path, text, loaded, ids
            )
            found.append({"text": text, "loaded": loaded, "file": ids})
    return found


def thinking(tokenizer: Any) -> str | None:
    """What a chat template does about thinking, for the caption; None where it knows of none."""
    template = str(getattr(tokenizer, "chat_template", None) or "")
    if "enable_thinking" in template:
        return "thinking is switched off"
    return "the chat template has no switch for thinking" if "think" in template else None


def check_begin(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Refuse a tokenizer that begins a text otherwise than the model's configs say, if they do."""
    files = (folder / name for name in ("config.json", "generation_config.json"))
    said = [read_json(path).get("bos_token_id") for path in files if path.is_file()]
    named = {token for token in said if isinstance(token, int) and token >= 0}
    bos = tokenizer.bos_token_id
    if named and bos is not None and bos not in named and tokenizer("a")["input_ids"][:1] == [bos]:
        ids = " or ".join(map(str, sorted(named)))
        what = (
            f"the tokenizer begins a text with {tokenizer.bos_token!r}, its token {bos}; "
            f"the model's config names {ids}"
        )
        do = "use the tokenizer that the model was trained with"
        raise AnchorscopeError(what, folder, do, see="other-vocabulary")


def check_tokens(tokenizer: PreTrainedTokenizerFast, answers: pd.DataFrame, where: object) -> None:
    """Refuse frozen answers of which this tokenizer does not read the anchors as they were."""
    kept = answers[answers["dropped"].isna()]
    for row in kept.head(64).to_dict("records"):
        text = tokenizer.decode(list(row["input_ids"])[row["ea_start"] : row["ea_end"]])
        if row["ea_text"] not in text:
            what = f"the frozen answer {row['ea_text']!r} reads {text!r} with this tokenizer"
            do = "answers can be read by a model with the same tokenizer only (`answers_of`)"
            raise AnchorscopeError(what, f"{where}, id {row['id']}", do, see="other-vocabulary")

"""Load a checkpoint's tokenizer, and check that it belongs to the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json
from anchorscope.styles import template_of

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerFast

FILES = (
    "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt", "spiece.model",
    "tekken.json",
)  # fmt: skip
TEMPLATES = ("chat_template.jinja", "additional_chat_templates/*.jinja")
"""Files of chat templates. Another place is a key of tokenizer_config.json."""
NEEDED = "put the model's tokenizer.json and tokenizer_config.json into the folder"
LEAST_VOCABULARY = 0.9
"""Least share of the embedding's rows that a tokenizer must use; embeddings may be padded."""
DIFFICULT = (
    "in 1867, 12345 and 3.14", "Mary-Ann O'Neill's isn't", "it’s “quoted”", "two  and   three",
    "Q: Who?\nA:", "a tab\tand\n\nan empty line\n\n", "東京物語は誰の作品",
    "Кто написал роман Тихий Дон?", "من كتب الكتاب؟", "Győr, São Paulo, e\u0301",
    "👩\u200d👧, 😀, 5½ km²",
)  # fmt: skip
"""Texts that some loaded tokenizers encode differently from what their own tokenizer.json says.

Llama 2's tokenizer also differs on a leading space. This is not tested: no prompt has one.
"""


def load(folder: str | Path) -> PreTrainedTokenizerFast:
    """Load a checkpoint's tokenizer so that it encodes texts as its tokenizer.json does.

    Raises:
        AnchorscopeError: The tokenizer is missing, cannot be read, is a slow one, splits its
            special tokens, or lacks the start token that texts should begin with.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    check_files(Path(folder))
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
        # Some classes replace the rules of tokenizer.json with their own. The plain class does not.
        if tokenizer.is_fast and not reads_as_its_file(tokenizer, Path(folder)):
            tokenizer = PreTrainedTokenizerFast.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True
            )
    except Exception as error:  # broken files raise any type of error
        what = f"the tokenizer cannot be loaded ({type(error).__name__})"
        raise AnchorscopeError(what, folder, NEEDED, see="tokenizer") from error
    check_kind(tokenizer, folder)
    _begin_as_declared(tokenizer, Path(folder))
    return tokenizer


def _begin_as_declared(tokenizer: Any, folder: Path) -> None:
    """Switch a tokenizer's start token on or off, as `add_bos_token` in the folder says.

    Transformers ignores this key of tokenizer_config.json if there is a tokenizer.json.
    """
    path = folder / "tokenizer_config.json"
    switch = read_json(path).get("add_bos_token") if path.is_file() else None
    if switch is None or switch == _begins(tokenizer):
        return
    if tokenizer.bos_token is None:
        what = "`add_bos_token` is true, but no `bos_token` is named"
        raise AnchorscopeError(what, path, "name one, or unset `add_bos_token`", see="tokenizer")
    tokenizer.add_bos_token = switch


def _begins(tokenizer: PreTrainedTokenizerFast) -> bool:
    return bool(tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id])


def check_files(folder: Path) -> None:
    """Refuse a folder without a tokenizer, since transformers would make one up."""
    if not any((folder / name).is_file() for name in FILES):
        what = "the model folder holds no tokenizer"
        raise AnchorscopeError(what, folder, NEEDED, see="tokenizer")


def has_template(folder: Path) -> bool:
    """Return whether a folder holds a chat template, without loading the tokenizer."""
    path = folder / "tokenizer_config.json"
    inside = path.is_file() and read_json(path).get("chat_template")
    return bool(inside) or any(any(folder.glob(files)) for files in TEMPLATES)


def check_kind(tokenizer: PreTrainedTokenizerFast, where: object) -> None:
    """Refuse a slow (pure Python) tokenizer, and one that splits its special tokens."""
    if not tokenizer.is_fast:
        what = "the tokenizer has only the slow form, which gives no character offsets of tokens"
        raise AnchorscopeError(what, where, f"{NEEDED} (the fast form)", see="tokenizer")
    if tokenizer.split_special_tokens:
        what = "the tokenizer splits special tokens, so a chat template's marks would be text"
        do = "set `split_special_tokens` in tokenizer_config.json to false"
        raise AnchorscopeError(what, where, do, see="tokenizer")


def check_size(tokenizer: PreTrainedTokenizerFast, rows: int, where: object) -> None:
    """Refuse a tokenizer with more ids than the embedding has rows, or with far fewer.

    Added tokens may lie beyond the embedding. Samples that use such a token are dropped later.
    """
    ids = {*tokenizer.get_vocab().values()}
    highest, own = max(ids, default=-1), ids - {*tokenizer.added_tokens_decoder}
    if max(own, default=-1) >= rows or highest + 1 < LEAST_VOCABULARY * rows:
        what = f"the tokenizer has ids up to {highest}, but the embedding has {rows} rows"
        do = "use the tokenizer that the model was trained with, or resize its embedding"
        raise AnchorscopeError(what, where, do, see="other-vocabulary")


def reads_as_its_file(tokenizer: PreTrainedTokenizerFast, folder: Path) -> bool:
    """Return whether a tokenizer encodes difficult texts as its tokenizer.json does."""
    from tokenizers import Tokenizer

    if not (path := folder / "tokenizer.json").is_file():
        return True
    from_file = Tokenizer.from_file(str(path))
    from_file.no_truncation()
    from_file.no_padding()
    return all(
        tokenizer(text, add_special_tokens=False)["input_ids"]
        == from_file.encode(text, add_special_tokens=False).ids
        for text in DIFFICULT
    )


def thinking(tokenizer: Any) -> str | None:
    """Say how the chat template treats thinking; None if the template does not mention thinking."""
    template = template_of(tokenizer)
    if "enable_thinking" in template:
        return "thinking is switched off"
    return "the chat template has no switch for thinking" if "think" in template else None


def check_begin(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Refuse a tokenizer whose start token differs from the one in the model's configs."""
    files = (folder / name for name in ("config.json", "generation_config.json"))
    ids_named = [read_json(path).get("bos_token_id") for path in files if path.is_file()]
    named = {id_ for id_ in ids_named if isinstance(id_, int) and id_ >= 0}
    bos = tokenizer.bos_token_id
    if not named or bos is None or bos in named:
        return
    if _begins(tokenizer):
        what = f"texts begin with {tokenizer.bos_token!r}, token {bos}, instead of {min(named)}"
        do = "use the tokenizer that the model was trained with"
        raise AnchorscopeError(what, folder, do, see="other-vocabulary")


def check_tokens(tokenizer: PreTrainedTokenizerFast, answers: pd.DataFrame, where: object) -> None:
    """Refuse `answers` if the tokens of any E_A in the first 64 rows do not decode to its text."""
    for row in answers[answers["dropped"].isna()].head(64).to_dict("records"):
        text = tokenizer.decode(list(row["input_ids"])[row["ea_start"] : row["ea_end"]])
        if row["ea_text"] not in text:
            what = f"the stored answer {row['ea_text']!r} decodes to {text!r} with this tokenizer"
            do = "use `answers_of` only for a model with the same tokenizer"
            raise AnchorscopeError(what, f"{where}, id {row['id']}", do, see="other-vocabulary")

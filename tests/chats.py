"""Chat templates of the families, those of data/chats.yaml, and tokenizers that have them."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tokenizers import AddedToken, decoders


@dataclass(frozen=True)
class Chat:
    """A family's template."""

    template: str
    end: str  # what it writes after an assistant's turn
    special: Sequence[str] = ()  # added tokens
    eos: str = "</s>"  # the tokenizer's end-of-sequence token
    strips: bool = False  # whether white space at a message's end goes


def _chats() -> dict[str, Chat]:
    file = Path(__file__).parent / "data" / "chats.yaml"
    known = yaml.safe_load(file.read_text("utf-8"))
    for one in known.values():
        one["template"] = "".join(one["template"].splitlines()).replace("\\n", "\n")
    return {name: Chat(**one) for name, one in known.items()}


CHATS = _chats()


def with_chat(tokenizer: Any, chat: Chat) -> Any:
    """A copy of a tokenizer with a family's template and its added tokens."""
    copy = deepcopy(tokenizer)
    copy.add_tokens([AddedToken(text, special=True) for text in (chat.eos, *chat.special)])
    copy.eos_token = chat.eos
    copy.bos_token = copy.bos_token or ""
    copy.chat_template = chat.template
    return copy


def simple_chat(tokenizer: Any) -> Any:
    """A copy of a tokenizer whose template ends turns with its end-of-sequence token."""
    copy = deepcopy(tokenizer)
    copy.chat_template = (
        "{% for m in messages %}{{ m['role'] + ': ' + m['content'] }}"
        "{% if m['role'] == 'assistant' %}{{ eos_token }}{% else %}{{ '\n' }}{% endif %}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
    )
    return copy


def with_decoder(tokenizer: Any) -> Any:
    """A copy with the decoder of Llama 2 and Mistral, which drops a text's first space."""
    copy = deepcopy(tokenizer)
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    copy.backend_tokenizer.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)])
    return copy

"""The ends of answers: the tokens that end one, and whether further tokens could change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anchorscope.anchors import answer_anchors, sentences, tokens
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.styles import Style

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

CONTEXT = 8
"""Number of last prompt tokens to decode along with an answer, to keep the answer's first space."""


@dataclass(frozen=True)
class Ending:
    """Tokens that end an answer."""

    style: Style
    closing: tuple[int, ...]  # token ids put after E_A in every sample; the last one closes
    eos: frozenset[int]  # ids of all tokens that end a response
    mark: str = ""  # text that ends a turn of a chat where no single token does


def ending_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, style: Style) -> Ending:
    """Return the tokens that end answers in a prompt style.

    In a chat, `closing` comes from the text that the template writes after a turn. `eos` holds
    every end token that the generation config, the tokenizer or the template names.

    Raises:
        AnchorscopeError: Neither tokenizer nor chat template has a token that ends an answer.
    """
    configured = getattr(model.generation_config, "eos_token_id", None)
    several = configured if isinstance(configured, list) else [configured]
    eos = [token for token in (tokenizer.eos_token_id, *several) if token is not None]
    text, mark = style.closing(tokenizer), ""
    if text:
        closing = tokens.continuation(tokenizer, text)
        # Keep all tokens of a full stop, but only the first one of an empty line or a turn's mark.
        closing = closing if style.ends == "sentence" else closing[:1]
    else:
        closing = tuple(eos[:1])
    if style.ends == "turn" and text:
        if (control := tokens.first_control(tokenizer, text)) is not None:
            closing, eos = (control,), [*eos, control]
        else:
            mark = text.strip()
    if not closing:
        what = "neither tokenizer nor chat template has a token that ends an answer"
        do = "set `eos_token`, or use the prompt style `few_shot`"
        raise AnchorscopeError(what, "tokenizer_config.json, eos_token", do, see="chat-template")
    return Ending(style, closing, frozenset(eos), mark)


def first_turn(text: str, ending: Ending) -> str:
    """Return the part of the reply `text` in which the answer is looked for.

    In a chat, return the whole turn, which may begin with line breaks. Else return the first line.
    """
    if ending.style.ends == "turn":
        return text.partition(ending.mark)[0] if ending.mark else text
    breaks = (place for place, char in enumerate(text) if char in sentences.NEWLINES)
    return text[: next(breaks, None)]


def ended(
    new: Sequence[int], prompt: Sequence[int], tokenizer: PreTrainedTokenizerFast, ending: Ending
) -> bool:
    """Return whether no further token could change the trimmed answer."""
    if new[-1] in ending.eos:
        return True
    if ending.style.ends == "turn" and not ending.mark:
        return False
    before, text = (
        str(tokenizer.decode([*prompt[-CONTEXT:], *ids], clean_up_tokenization_spaces=False))
        for ids in ((), new)
    )
    return settled(text[len(before) :], ending)


def settled(text: str, ending: Ending) -> bool:
    """Return whether an answer has ended, so that no further token can change it.

    A chat answer ends with its turn. Any other answer ends with a line break. If `style.ends` is
    `sentence`, a full stop ends it too. A full stop between spaces does so at once. Any other may
    belong to an abbreviation or number, so it ends the answer only once two words follow it.
    """
    if ending.style.ends == "turn":
        return bool(ending.mark) and ending.mark in text
    if any(char in sentences.NEWLINES for char in text):
        return True
    if ending.style.ends == "line":
        return False
    anchor = answer_anchors.locate(text)
    close = sentences.closer(text, anchor.end if anchor else 0)
    if close is None:
        return False
    before, after = text[:close], text[close + 1 :]
    if not before or before[-1].isspace():
        return any(char.isspace() for char in after)
    return len(after.split()) >= 2

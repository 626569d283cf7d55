"""Mapping between the characters and the tokens of a text.

Some released tokenizers report wrong character offsets. So the tokens of every span are decoded and
compared with its text. If they differ, the offsets are rebuilt by decoding token by token.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Offsets = Sequence[tuple[int, int]]
_INCOMPLETE = "\ufffd"  # written by decoders for bytes that are no complete character


@dataclass(frozen=True)
class Encoded:
    """A text as tokens."""

    text: str
    ids: tuple[int, ...]  # special tokens included
    offsets: tuple[tuple[int, int], ...]  # characters [start, end); empty for added special tokens


@dataclass(frozen=True)
class SpanTokens:
    """The tokens of spans of one text."""

    tokens: tuple[tuple[int, ...], ...]  # consecutive indices; empty if none was found
    rebuilt: int = 0  # spans for which the tokenizer's offsets were wrong
    failed: int = 0  # spans whose tokens do not decode to the span's text with rebuilt offsets


def encode(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], *, add_special_tokens: bool
) -> list[Encoded]:
    """Encode texts with character offsets; remove an end token that the tokenizer adds."""
    if not texts:
        return []
    batch = tokenizer(
        list(texts),
        add_special_tokens=add_special_tokens,
        return_offsets_mapping=True,
        return_attention_mask=False,
    )
    encoded = []
    for text, ids, offsets in zip(texts, batch["input_ids"], batch["offset_mapping"], strict=True):
        if ids and ids[-1] == tokenizer.eos_token_id and offsets[-1][0] == offsets[-1][1]:
            ids, offsets = ids[:-1], offsets[:-1]
        encoded.append(Encoded(text, tuple(ids), tuple((a, b) for a, b in offsets)))
    return encoded


def span_tokens(tokenizer: PreTrainedTokenizerFast, encoded: Encoded, spans: Offsets) -> SpanTokens:
    """Return the token indices of character spans [start, end), each checked by decoding."""

    def hold(indices: Sequence[int], text: str) -> bool:
        """Return whether the tokens decode to a text that contains `text`."""
        ids = encoded.ids[indices[0] : indices[-1] + 1] if indices else ()
        return bool(text) and text in _plain(_decode(tokenizer, ids))

    rebuilt_offsets: Offsets | None = None
    tokens: list[tuple[int, ...]] = []
    rebuilt = failed = 0
    for span in spans:
        text = _plain(encoded.text[slice(*span)])
        indices = overlapping(encoded.text, encoded.offsets, *span)
        one_too_many = hold(indices[1:], text) or hold(indices[:-1], text)
        if one_too_many or not hold(indices, text):
            rebuilt += 1
            rebuilt_offsets = rebuilt_offsets or _rebuilt(tokenizer, encoded)
            indices = overlapping(encoded.text, rebuilt_offsets, *span)
            if not hold(indices, text):
                failed += 1
                indices = ()
        tokens.append(indices)
    return SpanTokens(tuple(tokens), rebuilt, failed)


def overlapping(text: str, offsets: Offsets, start: int, end: int) -> tuple[int, ...]:
    """Return indices from the first to the last token that has visible text in text[start:end]."""
    inside = [
        index
        for index, (a, b) in enumerate(offsets)
        if a < end and b > start and text[max(a, start) : min(b, end)].strip()
    ]
    return tuple(range(inside[0], inside[-1] + 1)) if inside else ()


def char_spans(
    tokenizer: PreTrainedTokenizerFast, ids: Sequence[int], context: Sequence[int] = ()
) -> tuple[str, list[tuple[int, int]]]:
    """Decode `ids` one by one. Return their text, and the characters [start, end) of each id.

    A character whose bytes lie in several tokens belongs to each of them. `context` holds the last
    few tokens before `ids`. Some decoders drop a space at the start of a text. With `context`, the
    first token of `ids` is not at the start, and keeps its leading space.
    """
    every = [*context, *ids]
    done = len(context)  # tokens up to here are decoded to complete characters
    window = max(0, done - 4)  # each step decodes from here only, so the cost is linear
    before = _decode(tokenizer, every[window:done])
    text = ""
    spans: list[tuple[int, int]] = []
    start = 0
    for index in range(len(context), len(every)):
        now = _decode(tokenizer, every[window : index + 1])
        complete = now.rstrip(_INCOMPLETE)
        if len(complete) == len(now) or index + 1 == len(every):
            text += now[len(before) :]
            spans.append((start, len(text)))
            start = len(text)
            if len(now) > len(before):
                window, done = done, index + 1
                before = _decode(tokenizer, every[window:done])
        else:
            new = max(0, len(complete) - len(before))
            spans.append((start, len(text) + new + 1))
            start = len(text) + new
    return text, spans


def continuation(tokenizer: PreTrainedTokenizerFast, text: str) -> tuple[int, ...]:
    """Tokenize `text` as a continuation of other text: no start token, no dummy prefix.

    Raises:
        ValueError: The tokenizer has no tokens for the text.
    """
    anchor = tokenizer.encode("A:", add_special_tokens=False)
    both = tokenizer.encode("A:" + text, add_special_tokens=False)
    if both[: len(anchor)] != anchor:  # the text merges into the anchor's last token
        both, anchor = tokenizer.encode(text, add_special_tokens=False), []
    if len(both) == len(anchor):
        raise ValueError(f"no tokens for {text!r}")
    return tuple(both[len(anchor) :])


def first_control(tokenizer: PreTrainedTokenizerFast, text: str) -> int | None:
    """Return the id of the added token, such as `<|im_end|>`, at the start of a text, or None."""
    ids = tokenizer.encode(text.lstrip(), add_special_tokens=False)
    added = [place for place, id_ in enumerate(ids) if id_ in tokenizer.added_tokens_decoder]
    if not added or _decode(tokenizer, ids[: added[0]]).strip():
        return None
    return int(ids[added[0]])


def cut(
    tokenizer: PreTrainedTokenizerFast,
    ids: Sequence[int],
    text: str,
    spans: Offsets,
    context: Sequence[int],
) -> tuple[int, ...] | None:
    """Shorten `ids` so that they decode to `text`, a prefix of the text that they decode to now.

    If `text` ends inside a token, as few ids as possible are replaced at the end. Return None if no
    ids decode to exactly `text`. `spans` come from `char_spans(tokenizer, ids, context)`.
    """
    last = max(index for index, (start, _) in enumerate(spans) if start < len(text))
    for first in range(last, -1, -1):  # not every tokenizer can encode the end of a word alone
        shorter = (*ids[:first], *continuation(tokenizer, text[spans[first][0] :]))
        if char_spans(tokenizer, shorter, context)[0] == text:
            return shorter
    return None


def _rebuilt(tokenizer: PreTrainedTokenizerFast, encoded: Encoded) -> Offsets:
    """Rebuild offsets by decoding token by token. If the decoded text differs, all are (0, 0)."""
    decoded, spans = char_spans(tokenizer, encoded.ids)
    for text in (encoded.text, encoded.text.lstrip()):  # some decoders drop the first space
        if (place := decoded.find(text)) >= 0:  # special tokens stand before it
            shift = place - (len(encoded.text) - len(text))
            return [(max(0, a - shift), max(0, b - shift)) for a, b in spans]
    return [(0, 0)] * len(encoded.ids)


def _decode(tokenizer: PreTrainedTokenizerFast, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))


def _plain(text: str) -> str:
    """Normalise white space and compose characters, as some tokenizers do."""
    return " ".join(unicodedata.normalize("NFKC", text).split())

"""Characters and tokens: which tokens hold a span of text, and which characters a token holds.

Tokenizers report character offsets for text that they encode, and released ones have reported
wrong offsets. So every span found by offsets is decoded back, and where that fails the offsets are
rebuilt by decoding the tokens one after the other.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Offsets = Sequence[tuple[int, int]]
_INCOMPLETE = "\ufffd"  # what decoders write for bytes that make no character (yet)


@dataclass(frozen=True)
class Encoded:
    """A text as tokens."""

    text: str
    ids: tuple[int, ...]  # special tokens included
    offsets: tuple[tuple[int, int], ...]  # characters [start, end); empty for special tokens added


@dataclass(frozen=True)
class SpanTokens:
    """The tokens of spans of one text."""

    tokens: tuple[tuple[int, ...], ...]  # consecutive indices; empty where none was found
    rebuilt: int = 0  # spans whose offsets from the tokenizer did not prove right
    failed: int = 0  # spans whose tokens do not decode back to the span's text even so


def encode(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], *, add_special_tokens: bool
) -> list[Encoded]:
    """Encode texts, with offsets; an end token that the tokenizer adds is left out again."""
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
    """Token indices of the text's characters [start, end), each span checked by decoding it."""

    def hold(indices: Sequence[int], text: str) -> bool:
        """Whether the tokens decode to a text that holds this one."""
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
    """Indices of the tokens that hold a character of text[start:end] other than white space.

    A token that overlaps the span's edge belongs to it, and so do the tokens between its first and
    its last, such as the second of two spaces.
    """
    inside = [
        index
        for index, (a, b) in enumerate(offsets)
        if a < end and b > start and text[max(a, start) : min(b, end)].strip()
    ]
    return tuple(range(inside[0], inside[-1] + 1)) if inside else ()


def char_spans(
    tokenizer: PreTrainedTokenizerFast, ids: Sequence[int], context: Sequence[int] = ()
) -> tuple[str, list[tuple[int, int]]]:
    """Decode token by token: the text of `ids`, and the characters [start, end) of each token.

    A character whose bytes lie in several tokens belongs to each of them. `context` is the tokens
    before `ids`, the last few are enough: with it, the first token keeps its leading space, which
    decoders with a dummy prefix drop at the start of a text.
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
    """Ids that add `text` to a text that ends in a word: no start token, no dummy prefix.

    A ValueError where the tokenizer has no tokens for the text.
    """
    anchor = tokenizer.encode("A:", add_special_tokens=False)
    both = tokenizer.encode("A:" + text, add_special_tokens=False)
    if both[: len(anchor)] != anchor:  # the text merges into the anchor's last token
        both, anchor = tokenizer.encode(text, add_special_tokens=False), []
    if len(both) == len(anchor):
        raise ValueError(f"no tokens for {text!r}")
    return tuple(both[len(anchor) :])


def first_control(tokenizer: PreTrainedTokenizerFast, text: str) -> int | None:
    """The added token, such as `<|im_end|>`, that a text begins with; None if it begins otherwise.

    White space in front does not count.
    """
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
    """Ids that decode to `text`, which is a beginning of what `ids` decode to.

    Used where `text` ends inside a token: as few ids as possible are replaced at the end. None
    where no ids decode to exactly `text`. `spans` and `context` are those of `char_spans`.
    """
    last = max(index for index, (start, _) in enumerate(spans) if start < len(text))
    for first in range(last, -1, -1):  # not every tokenizer can begin anew inside a word
        shorter = (*ids[:first], *continuation(tokenizer, text[spans[first][0] :]))
        if char_spans(tokenizer, shorter, context)[0] == text:
            return shorter
    return None


def _rebuilt(tokenizer: PreTrainedTokenizerFast, encoded: Encoded) -> Offsets:
    """Offsets found by decoding token by token; all empty where that does not give the text."""
    decoded, spans = char_spans(tokenizer, encoded.ids)
    for text in (encoded.text, encoded.text.lstrip()):  # some decoders drop the first space
        if (place := decoded.find(text)) >= 0:  # special tokens stand before it
            shift = place - (len(encoded.text) - len(text))
            return [(max(0, a - shift), max(0, b - shift)) for a, b in spans]
    return [(0, 0)] * len(encoded.ids)


def _decode(tokenizer: PreTrainedTokenizerFast, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))


def _plain(text: str) -> str:
    """White space normalised; composed, since some tokenizers compose what they read."""
    return " ".join(unicodedata.normalize("NFKC", text).split())

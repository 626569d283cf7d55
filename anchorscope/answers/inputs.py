"""Convert prompts to token ids, find the tokens of their spans, and mark unusable prompts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pandas as pd

from anchorscope.anchors import tokens
from anchorscope.answers.endings import CONTEXT, Ending
from anchorscope.styles import gap, template_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TOO_LONG = "prompt too long"
BEYOND_WINDOW = "longer than the sliding window"
BEYOND_POSITIONS = "longer than the model's positions"
SPANS_LOST = "spans do not decode back"
NO_EMBEDDING = "tokens without an embedding"
CONTROL = "control tokens in the question"
CONTROL_SAID = "control tokens in the response"
RESPONSE_LOST = "response does not decode back"

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_MARKUP = re.compile(r"[^\w\s]")


@dataclass(frozen=True)
class Prompt:
    """Tokens of one prompt."""

    row: Mapping[str, Any]  # its rows in the prompts table and the questions table, merged
    ids: tuple[int, ...] = ()
    eq_tokens: tuple[int, ...] = ()  # indices of E_Q in `ids`
    question_tokens: tuple[int, ...] = ()  # indices of the question in `ids`
    # token ids of the user's own response; None if the model answers
    response: tuple[int, ...] | None = None
    dropped: str | None = None  # reason why the prompt is not measured; None if it is


@dataclass(frozen=True)
class Reader:
    """Converter of prompts to tokens."""

    tokenizer: PreTrainedTokenizerFast
    ending: Ending
    # reason to drop a prompt → (most tokens allowed, how many of them are kept for the answer)
    limits: Mapping[str, tuple[int | None, int]]
    notes: Counter[str]  # counts rebuilt and failed spans
    embedded: int  # smallest token id without a row in the model's embedding

    def prompts(self, rows: Sequence[Mapping[str, Any]]) -> list[Prompt]:
        """Convert the prompt of each row (see `Prompt.row`), and mark unusable prompts."""
        texts = [row["prompt"] for row in rows if pd.isna(row["dropped"])]
        encodings, control = iter(self._encoded(texts)), control_tokens(self.tokenizer)
        markup = control | template_tokens(self.tokenizer)
        return [
            Prompt(row, dropped=str(row["dropped"]))
            if pd.notna(row["dropped"])
            else self._prompt(row, next(encodings), control, markup)
            for row in rows
        ]

    def _encoded(self, texts: Sequence[str]) -> list[tokens.Encoded]:
        special = not self.ending.style.templated
        return tokens.encode(self.tokenizer, texts, add_special_tokens=special)

    def _prompt(
        self, row: Mapping[str, Any], encoded: tokens.Encoded, control: set[int], markup: set[int]
    ) -> Prompt:
        """Return one prompt, marked as dropped if it cannot be measured.

        A question must hold no special token and no token of the chat template (`markup`).
        A response may hold a token such as `</think>`, but no special token (`control`).
        """
        anchors = zip(row["eq_start"], row["eq_end"], strict=True)
        spans = [(row["question_start"], row["question_end"]), *anchors]
        located = tokens.span_tokens(self.tokenizer, encoded, spans)
        self.notes["spans rebuilt"] += located.rebuilt - located.failed
        self.notes["spans failed"] += located.failed
        question, *anchored = located.tokens
        response = self._response(row, encoded)
        used = [*encoded.ids, *(response or ()), *self.ending.closing]
        answer = takewhile(lambda token: token not in self.ending.eos, response or ())
        reasons = {
            SPANS_LOST: located.failed > 0,
            NO_EMBEDDING: max(used) >= self.embedded,
            CONTROL: self._has_control_tokens(encoded, question, markup),
            CONTROL_SAID: not (control - {self.tokenizer.unk_token_id}).isdisjoint(answer),
            RESPONSE_LOST: response is not None and self._loses(row["response"], response, encoded),
        }
        for reason, (most, needed) in self.limits.items():
            if needed and response is not None:
                needed = len(response) + len(self.ending.closing)
            reasons[reason] = most is not None and len(encoded.ids) + needed > most
        dropped = next((reason for reason, holds in reasons.items() if holds), None)
        eq_tokens = tuple(sorted({token for span in anchored for token in span}))
        return Prompt(row, encoded.ids, eq_tokens, question, response, dropped)

    def _has_control_tokens(
        self, encoded: tokens.Encoded, question: Sequence[int], control: set[int]
    ) -> bool:
        """Return whether control tokens stand where there should be text.

        The question must hold no token of `control`. Without a chat template, the rest of the
        prompt must hold none either, except the token for unknown characters. Tokens that the
        tokenizer puts before the text do not count.
        """
        text_start = next((i for i, (start, end) in enumerate(encoded.offsets) if start < end), 0)
        places = {i for i, id_ in enumerate(encoded.ids) if i >= text_start and id_ in control}
        if places & set(question):
            return True
        if self.ending.style.templated:
            return False
        return any(encoded.ids[i] != self.tokenizer.unk_token_id for i in places)

    def _response(self, row: Mapping[str, Any], prompt: tokens.Encoded) -> tuple[int, ...] | None:
        """Return the token ids of the user's own response, or None without one."""
        if pd.isna(row.get("response")):
            return None
        response = row["response"].lstrip().rstrip(" \t")
        if not response:
            return ()
        response = gap(prompt.text) + response
        (whole,) = self._encoded([prompt.text + response])
        if whole.ids[: len(prompt.ids)] == prompt.ids:
            return whole.ids[len(prompt.ids) :]
        try:
            return tokens.continuation(self.tokenizer, response)
        except ValueError:  # the tokenizer has no tokens for the text
            return ()

    def _loses(self, response: str, ids: Sequence[int], prompt: tokens.Encoded) -> bool:
        """Return whether tokenizing changes a response in more than case and white space."""
        fed = [*takewhile(lambda token: token not in self.ending.eos, ids)]
        text, _ = tokens.char_spans(self.tokenizer, fed, prompt.ids[-CONTEXT:])
        spelled, wanted = _visible(text), _visible(response)
        return spelled != wanted if len(fed) == len(ids) else not wanted.startswith(spelled)


def _visible(text: str) -> str:
    """Normalise and case-fold a text, and remove white space and control characters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in folded if unicodedata.category(char)[0] not in "CZ")


def control_tokens(tokenizer: PreTrainedTokenizerFast) -> set[int]:
    """Return the ids of special tokens. Tokens of a single byte, such as `<0x0A>`, are left out."""
    added = tokenizer.added_tokens_decoder.items()
    return {id_ for id_, token in added if token.special and not _BYTE.fullmatch(token.content)}


def template_tokens(tokenizer: PreTrainedTokenizerFast) -> set[int]:
    """Return the ids of added tokens that look like markup (`<s>`) and are in the chat template."""
    template = template_of(tokenizer)
    added = tokenizer.added_tokens_decoder.items()
    return {
        id_ for id_, token in added if _MARKUP.search(token.content) and token.content in template
    }

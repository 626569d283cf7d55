"""Inputs: prompts as the model's token ids, with the spans among them, and what is left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pandas as pd

from anchorscope.anchors import tokens
from anchorscope.models.generation import Ending
from anchorscope.questions.prompts import PLACES

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TOO_LONG = "prompt too long"
BEYOND_WINDOW = "longer than the sliding window"
BEYOND_POSITIONS = "longer than the model's positions"
SPANS_LOST = "spans do not decode back"
CONTROL = "control tokens in the question"
CONTROL_SAID = "control tokens in the response"
NO_SECOND = "no second prompt"

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class Prompt:
    """One prompt as tokens, with what is known of its question."""

    row: Mapping[str, Any]  # its rows of the prompts and of the questions table, merged
    ids: tuple[int, ...] = ()
    # eq_tokens, question_tokens: indices in `ids`
    eq_tokens: tuple[int, ...] = ()
    question_tokens: tuple[int, ...] = ()
    # token ids of the user's own answer, None where the model is to answer
    response: tuple[int, ...] | None = None
    dropped: str | None = None  # why it is not measured, else None


@dataclass(frozen=True)
class Reader:
    """Reads prompts as tokens."""

    tokenizer: PreTrainedTokenizerFast
    ending: Ending
    # reason to drop a prompt → most tokens, and how many of them its answer needs
    limits: Mapping[str, tuple[int | None, int]]
    notes: Counter[str]  # count the spans rebuilt and failed

    def prompts(self, rows: Sequence[Mapping[str, Any]]) -> list[Prompt]:
        """Every prompt; one dropped before, or without room for its answer, is dropped.

        `rows` are those of the prompts and the questions table, merged.
        """
        texts = [row["prompt"] for row in rows if not given(row["dropped"])]
        encodings, control = iter(self._encoded(texts)), control_tokens(self.tokenizer)
        return [
            Prompt(row, dropped=str(row["dropped"]))
            if given(row["dropped"])
            else self._prompt(row, next(encodings), control)
            for row in rows
        ]

    def second_prompts(self, rows: Sequence[Mapping[str, Any]]) -> list[Prompt]:
        """Every row's second prompt; dropped where there is none."""
        own, seconds = replace(self, notes=Counter()), []
        for row in rows:
            places = {name: row[f"replicate_{name}"] for name in PLACES}
            dropped = None if given(row["replicate_prompt"]) else NO_SECOND
            seconds.append({**row, **places, "dropped": dropped})
        found = own.prompts(seconds)
        self.notes.update({f"second prompt, {name}": n for name, n in own.notes.items()})
        return found

    def _encoded(self, texts: Sequence[str]) -> list[tokens.Encoded]:
        special = self.ending.style != "chat"  # a chat's text holds its own
        return tokens.encode(self.tokenizer, texts, add_special_tokens=special)

    def _prompt(self, row: Mapping[str, Any], encoded: tokens.Encoded, control: set[int]) -> Prompt:
        """One prompt, dropped where its spans are lost or markup stands where text should.

        Markup of a chat template inside a question would end the turn, and be no question any more.
        """
        anchors = zip(row["eq_start"], row["eq_end"], strict=True)
        spans = [(row["question_start"], row["question_end"]), *anchors]
        found = tokens.span_tokens(self.tokenizer, encoded, spans)
        self.notes["spans rebuilt"] += found.rebuilt - found.failed
        self.notes["spans failed"] += found.failed
        question, *anchored = found.tokens
        # But for those that the tokenizer puts before the text itself.
        text = next((i for i, (start, end) in enumerate(encoded.offsets) if start < end), 0)
        spelled = {i for i, token in enumerate(encoded.ids) if i >= text and token in control}
        unclear, unknown = spelled & set(question), self.tokenizer.unk_token_id
        if self.ending.style != "chat":
            unclear |= {i for i in spelled if encoded.ids[i] != unknown}
        response = self._response(row, encoded)
        said = takewhile(lambda token: token not in self.ending.eos, response or ())
        reasons = {
            SPANS_LOST: found.failed > 0,
            CONTROL: bool(unclear),
            CONTROL_SAID: not (control - {unknown}).isdisjoint(said),
        }
        for reason, (most, needed) in self.limits.items():
            if needed and response is not None:
                needed = len(response) + len(self.ending.closing)
            reasons[reason] = most is not None and len(encoded.ids) + needed > most
        dropped = next((reason for reason, holds in reasons.items() if holds), None)
        exact = tuple(sorted({token for span in anchored for token in span}))
        return Prompt(row, encoded.ids, exact, question, response, dropped)

    def _response(self, row: Mapping[str, Any], prompt: tokens.Encoded) -> tuple[int, ...] | None:
        """Token ids of the user's own response; the prompt's ids stay what they are."""
        if not given(row.get("response")):
            return None
        said = row["response"].lstrip().rstrip(" \t")
        if not said:
            return ()
        said = said if self.ending.style == "chat" else f" {said}"
        (whole,) = self._encoded([prompt.text + said])
        if whole.ids[: len(prompt.ids)] == prompt.ids:
            return whole.ids[len(prompt.ids) :]
        return tokens.continuation(self.tokenizer, said)


def given(value: Any) -> bool:
    """Whether a table's cell holds a value (not None, NaN or NA)."""
    return value is not None and not pd.isna(value)


def control_tokens(tokenizer: PreTrainedTokenizerFast) -> set[int]:
    """Ids that stand for no text; some tokenizers count the bytes they fall back to among them."""
    added = tokenizer.added_tokens_decoder.items()
    return {at for at, one in added if one.special and not _BYTE.fullmatch(one.content)}

"""Cut answers: keep the tokens up to the end of E_A, and put the closing token right after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from anchorscope.anchors import answer_anchors, answer_text, no_answer, sentences, tokens
from anchorscope.answers.endings import CONTEXT, Ending, first_turn, settled
from anchorscope.answers.inputs import Prompt
from anchorscope.styles import gap

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True)
class Trimmed:
    """The part of an answer that is passed through the model."""

    text: str  # text of the answer, up to the first full stop or line break after E_A
    turn: str = ""  # part of the text that is searched for the answer, see `first_turn`
    # token ids to pass: the answer up to the end of E_A, then the closing token; empty without E_A
    ids: tuple[int, ...] = ()
    response: str = ""  # the text of `ids`
    # E_A as indices [start, end) in `ids`; None if no E_A was found
    anchor: tuple[int, int] | None = None
    anchor_text: str | None = None  # text of E_A
    sure: bool = False  # whether the finder is sure of E_A, see `answer_anchors.Anchor`
    no_answer: str | None = None  # why this is no answer, one of `no_answer.REASONS`
    thinks: bool = False  # whether the response opens with the model's thoughts
    split: bool = False  # whether E_A's last token held more ("Paris."), and was tokenised anew


def trim(
    prompt: Sequence[int],
    response: Sequence[int],
    tokenizer: PreTrainedTokenizerFast,
    ending: Ending,
    *,
    question: str = "",
    may_be_cut: bool = False,
) -> Trimmed:
    """Find E_A in an answer, put the closing token right after E_A, and drop the rest.

    `prompt` and `response` are token ids. Set `may_be_cut` for a generated response, since the
    token limit may have cut it off.
    """
    context = prompt[-CONTEXT:]
    body = tuple(takewhile(lambda token: token not in ending.eos, response))
    text, spans = tokens.char_spans(tokenizer, body, context)
    turn = first_turn(text, ending)
    found = answer_anchors.locate(turn, question)
    cut_off = may_be_cut and len(body) == len(response) and not settled(text, ending)
    reason = no_answer.reason(turn, question, found, finished=not cut_off)
    close = sentences.closer(text, found.end if found else 0)
    whole = (text if close is None else text[: close + 1]).strip()
    unanchored = Trimmed(whole, turn, no_answer=reason, thinks=no_answer.thinks(turn))
    if found is None:
        return unanchored
    span = (found.start, found.end)
    inside = tokens.overlapping(text, spans, *span)
    if split := spans[inside[-1]][1] > span[1]:
        cut = tokens.cut(tokenizer, body, text[: span[1]], spans, context)
        if cut is None:
            return unanchored
        body = cut
        text, spans = tokens.char_spans(tokenizer, body, context)
        inside = tokens.overlapping(text, spans, *span)
    fed = body[: inside[-1] + 1] + ending.closing
    fed_text, _ = tokens.char_spans(tokenizer, fed, context)
    return replace(
        unanchored,
        ids=fed,
        response=fed_text,
        anchor=(inside[0], inside[-1] + 1),
        anchor_text=text[slice(*span)],
        sure=found.sure,
        split=split,
    )


def gold_tokens(
    gold: str, prompt: Prompt, tokenizer: PreTrainedTokenizerFast, ending: Ending, embedded: int
) -> dict[str, Any]:
    """Return `gold_ids`, `gold_start` and `gold_end`: a gold answer in place of the reply.

    The ids hold the gold answer, trimmed and followed by the closing token. Return {} if these
    tokens do not decode to the gold answer, or if the embedding, which has rows for the token ids
    below `embedded`, lacks one of them.
    """
    start, end = answer_text.trimmed(gold)
    try:
        ids = tokens.continuation(tokenizer, gap(str(prompt.row["prompt"])) + gold[:end])
    except ValueError:  # the tokenizer has no tokens for the text
        return {}
    spelled, spans = tokens.char_spans(tokenizer, ids, prompt.ids[-CONTEXT:])
    place = spelled.find(gold[:end])
    inside = tokens.overlapping(spelled, spans, place + start, place + end)
    if place < 0 or not inside or max(ids) >= embedded:
        return {}
    fed = (*ids[: inside[-1] + 1], *ending.closing)
    return {"gold_ids": list(fed), "gold_start": inside[0], "gold_end": inside[-1] + 1}

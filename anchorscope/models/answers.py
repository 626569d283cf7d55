"""Answers: what the model says to each prompt, where the answer proper stands, and its label.

Token ids are frozen here: every later stage passes exactly these ids through the model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from anchorscope.anchors import answer_anchors, labels, tokens
from anchorscope.models import budget, families
from anchorscope.models.generation import CONTEXT, Ending, generate
from anchorscope.questions.prompts import PLACES, STYLES
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.room import Room

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

CLOSING = {"plain": " .", "few_shot": "\n\n"}

TOO_LONG = "prompt too long"
BEYOND_WINDOW = "longer than the sliding window"
BEYOND_POSITIONS = "longer than the model's positions"
SPANS_LOST = "spans do not decode back"
CONTROL = "control tokens in the question"
CONTROL_SAID = "control tokens in the response"
NO_ANCHOR = "no answer anchor"
NO_GOLD = "no gold answer"
NO_SECOND = "no second prompt"

COLUMNS = (
    "id", "question", "input_ids", "prompt_length", "answer", "ea_start", "ea_end", "ea_text",
    "final", "response", "eq_tokens", "question_tokens", "label", "golds", "repeats_subject",
    "from_user", "dropped", "subject", "property", "relation", "kind", "popularity", "split",
)  # fmt: skip
REPLICATE = ("replicate_ids", "replicate_eq_tokens", "replicate_question_tokens")
CARRIED = COLUMNS[COLUMNS.index("subject") :]
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
INTEGERS = ("prompt_length", "ea_start", "ea_end", "final", "label")
FLAGS = ("repeats_subject", "from_user")


@dataclass(frozen=True)
class Settings:
    """How prompts are answered.

    Attributes:
        style: `plain` (an answer ends with a full stop), `few_shot` (with an empty line) or `chat`
            (with an end-of-sequence token; the prompt's text holds its special tokens).
        max_new_tokens: most tokens of an answer.
        max_prompt_tokens: longer prompts are dropped.
        batch_tokens: most rows × (prompt + answer) tokens of a batch.
        window: the model's sliding window in tokens; what may reach beyond it is dropped.
    """

    style: str
    max_new_tokens: int = 32
    max_prompt_tokens: int = 1024
    batch_tokens: int = 8192
    window: int | None = None


@dataclass(frozen=True)
class Prompt:
    """One prompt as tokens, with what is known of its question.

    Attributes:
        row: its rows of the prompts and of the questions table, merged.
        ids: token ids.
        eq_tokens, question_tokens: indices in `ids`.
        response: token ids of the user's own answer, None where the model is to answer.
        dropped: why it is not measured, else None.
    """

    row: Mapping[str, Any]
    ids: tuple[int, ...] = ()
    eq_tokens: tuple[int, ...] = ()
    question_tokens: tuple[int, ...] = ()
    response: tuple[int, ...] | None = None
    dropped: str | None = None


@dataclass(frozen=True)
class Trimmed:
    """What is fed of an answer; indices count the answer's own tokens.

    Attributes:
        said: what was said, up to the first full stop or line break after E_A.
        ids: what is fed: the answer up to E_A's end, then the closing token; empty without E_A.
        response: the text of `ids`.
        anchor: E_A as token indices [start, end), None if there is no answer proper.
        anchor_text: what E_A says.
        split: whether E_A's last token held more than E_A ("Paris." as one token), and was
            tokenised anew.
    """

    said: str
    ids: tuple[int, ...] = ()
    response: str | None = None
    anchor: tuple[int, int] | None = None
    anchor_text: str | None = None
    split: bool = False


def answer(
    prompts: pd.DataFrame,
    questions: pd.DataFrame,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    settings: Settings,
    *,
    keep: Path | None = None,
) -> tuple[pd.DataFrame, Counts]:
    """Answer every prompt greedily, find E_A, close the answer right after it, and label.

    What is fed to the model ends with E_A and the style's closing token (`final`), the same in
    every sample, whatever the model wrote there: a probe would read which token the model chose.
    A row with a `response` of the user's own is not generated; its `label`, where there is one, is
    taken as it is.

    Args:
        prompts: the prompts table; rows with a `dropped` reason are passed on as dropped. It may
            hold a second prompt for each question.
        questions: the questions table.
        model: a causal language model in evaluation mode.
        tokenizer: its fast tokenizer.
        settings: see `Settings`.
        keep: folder for the finished batches of an unfinished job, see `generate`.

    Returns:
        A table with the columns `COLUMNS` and a row for every prompt (empty where it is dropped),
        and its counts; `notes` hold, among others, E_A's success per class. Where the prompts have
        second ones, the columns `REPLICATE` hold them as tokens: empty lists where there is none,
        it leaves no room for an answer, or its spans do not decode back.

    Raises:
        AnchorscopeError: an id that comes twice, a prompt without its question or of another, no
            end-of-sequence token, a prompt and answer beyond the budget of tokens, not enough
            memory, logits that are not finite.
        ValueError: a style that there is not.
    """
    ending = _ending(model, tokenizer, settings.style)
    room = _room(model, ending, settings)
    rows = _joined(prompts, questions)
    notes: Counter[str] = Counter()
    asked = _asked(rows, tokenizer, ending, room, notes)
    memory = Room()
    given = _open(asked, settings)
    written = generate(
        [prompt.ids for prompt in given],
        model,
        tokenizer,
        ending,
        max_new_tokens=settings.max_new_tokens,
        batch_tokens=settings.batch_tokens,
        keep=keep,
        room=memory,
        names=[prompt.row["id"] for prompt in given],
    )
    if memory.halved:
        notes["batches halved to fit in memory"] = memory.halved
    said = _said(asked, written)
    records = []
    for prompt, ids in zip(asked, said, strict=True):
        trimmed = None if ids is None else trim(prompt.ids, ids, tokenizer, ending)
        records.append(_record(prompt, trimmed, notes))
    columns: tuple[str, ...] = COLUMNS
    if "replicate_prompt" in prompts:
        seconds = _second_prompts(rows, tokenizer, settings.style, room, len(ending.closing), notes)
        records = [
            record | _replicate(record, second, notes)
            for record, second in zip(records, seconds, strict=True)
        ]
        columns = (*COLUMNS, *REPLICATE)
    return _table(records, rows, columns), _counts(records, notes)


def _asked(
    rows: Sequence[Mapping[str, Any]],
    tokenizer: PreTrainedTokenizerFast,
    ending: Ending,
    room: Mapping[str, tuple[int | None, int]],
    notes: Counter[str],
) -> list[Prompt]:
    """Every prompt as tokens, dropped where it leaves no room for its answer."""
    control = _control_tokens(tokenizer) - ending.eos - {tokenizer.unk_token_id}
    prompts = _prompts(rows, tokenizer, ending.style, notes)
    legible = (_legible(prompt, control, ending.eos) for prompt in prompts)
    return [_limited(prompt, room, len(ending.closing)) for prompt in legible]


def _open(asked: Sequence[Prompt], settings: Settings) -> list[Prompt]:
    """The prompts that the model is to answer, each of which keeps to the budget of tokens."""
    given = [prompt for prompt in asked if prompt.dropped is None and prompt.response is None]
    ids, sizes = [prompt.row["id"] for prompt in given], [len(prompt.ids) for prompt in given]
    budget.check(ids, sizes, settings.max_new_tokens, settings.batch_tokens)
    return given


def trim(
    prompt: Sequence[int],
    said: Sequence[int],
    tokenizer: PreTrainedTokenizerFast,
    ending: Ending,
) -> Trimmed:
    """Find E_A in an answer and put the closing token right after it.

    Args:
        prompt: token ids of the prompt.
        said: token ids that follow it; of what stands after E_A nothing is fed.
        tokenizer: the model's tokenizer.
        ending: how an answer ends.
    """
    context = prompt[-CONTEXT:]
    stop = next((place for place, token in enumerate(said) if token in ending.eos), None)
    body = tuple(said[:stop])
    text, spans = tokens.char_spans(tokenizer, body, context)
    found = answer_anchors.find(_first_turn(text, ending.style))
    close = answer_anchors.closer(text, found[1] if found else 0)
    whole = (text if close is None else text[: close + 1]).strip()
    if found is None:
        return Trimmed(whole)
    inside = tokens.overlapping(text, spans, *found)
    if split := spans[inside[-1]][1] > found[1]:
        cut = tokens.cut(tokenizer, body, text[: found[1]], spans, context)
        if cut is None:
            return Trimmed(whole)
        body = cut
        text, spans = tokens.char_spans(tokenizer, body, context)
        inside = tokens.overlapping(text, spans, *found)
    ids = body[: inside[-1] + 1] + ending.closing
    return Trimmed(
        whole,
        ids,
        tokens.char_spans(tokenizer, ids, context)[0],
        anchor=(inside[0], inside[-1] + 1),
        anchor_text=text[slice(*found)],
        split=split,
    )


def _ending(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, style: str) -> Ending:
    if style not in STYLES:
        raise ValueError(f"unknown style {style!r}, expected one of {STYLES}")
    configured = getattr(model.generation_config, "eos_token_id", None)
    several = configured if isinstance(configured, list) else [configured]
    eos = [token for token in (tokenizer.eos_token_id, *several) if token is not None]
    if style != "chat":
        closing = tokens.continuation(tokenizer, CLOSING[style])
        if style == "few_shot":
            # Examples end in an empty line; where that is one token, an answer's own end is too.
            closing = closing[:1]
        return Ending(style, closing, frozenset(eos))
    if not eos:
        raise AnchorscopeError(
            "the tokenizer has no end-of-sequence token, so a chat answer never ends",
            "tokenizer_config.json, eos_token",
            "name the token there, or use the prompt style `few_shot`",
            see="chat-template",
        )
    return Ending(style, (eos[0],), frozenset(eos))


def _joined(prompts: pd.DataFrame, questions: pd.DataFrame) -> list[dict[Any, Any]]:
    """Each prompt's row, with its question's."""
    for name, table in (("prompts", prompts), ("questions", questions)):
        repeated = table["id"][table["id"].duplicated()]
        if len(repeated):
            raise AnchorscopeError(
                "an id comes twice",
                f"{name}, id {repeated.iloc[0]}",
                "make the ids unique",
                see="repeated-id",
            )
    known = {row["id"]: row for row in questions.to_dict("records")}
    missing = [name for name in prompts["id"] if name not in known]
    if missing:
        raise AnchorscopeError(
            f"{len(missing)} prompts have no question, the first: {missing[0]}",
            "prompts, column id",
            "delete the prompts of this cell and run again",
            see="stale-product",
        )
    rows = prompts.to_dict("records")
    for row in rows:
        if row["question"] != known[row["id"]]["question"]:
            raise AnchorscopeError(
                "the prompts were made from other questions",
                f"prompts, id {row['id']}",
                "delete the prompts of this cell and run again",
                see="stale-product",
            )
    return [{**known[row["id"]], **row} for row in rows]


def _prompts(
    rows: Sequence[Mapping[str, Any]],
    tokenizer: PreTrainedTokenizerFast,
    style: str,
    notes: Counter[str],
) -> Iterator[Prompt]:
    """Every prompt as tokens, the spans among them; one dropped before stays so."""
    special = style != "chat"
    control = _control_tokens(tokenizer)
    open_rows = [row for row in rows if not _given(row["dropped"])]
    texts = [row["prompt"] for row in open_rows]
    encodings = iter(tokens.encode(tokenizer, texts, add_special_tokens=special))
    for row in rows:
        if _given(row["dropped"]):
            yield Prompt(row, dropped=str(row["dropped"]))
            continue
        encoded = next(encodings)
        anchors = list(zip(row["eq_start"], row["eq_end"], strict=True))
        spans = [(row["question_start"], row["question_end"]), *anchors]
        found = tokens.span_tokens(tokenizer, encoded, spans)
        notes["spans rebuilt"] += found.rebuilt - found.failed
        notes["spans failed"] += found.failed
        question, *anchored = found.tokens
        spelled = _spelled(encoded, control)
        markup = {i for i in spelled if encoded.ids[i] != tokenizer.unk_token_id}
        unclear = spelled & set(question)
        if style != "chat":
            _check_examples(encoded, markup, row["question_start"], tokenizer)
            unclear |= markup
        yield Prompt(
            row,
            encoded.ids,
            tuple(sorted({token for span in anchored for token in span})),
            question,
            _response(row, encoded, tokenizer, style),
            _unreadable(found, unclear),
        )


def _control_tokens(tokenizer: PreTrainedTokenizerFast) -> set[int]:
    """Ids that stand for no text; some tokenizers count the bytes they fall back to among them."""
    return {
        at
        for at, token in tokenizer.added_tokens_decoder.items()
        if token.special and not _BYTE.fullmatch(token.content)
    }


def _spelled(encoded: tokens.Encoded, control: set[int]) -> set[int]:
    """Places of control tokens, but for those that the tokenizer puts before the text itself."""
    text = next((i for i, (start, end) in enumerate(encoded.offsets) if start < end), 0)
    return {i for i, token in enumerate(encoded.ids) if i >= text and token in control}


def _check_examples(
    encoded: tokens.Encoded, spelled: set[int], start: int, tokenizer: PreTrainedTokenizerFast
) -> None:
    """Refuse worked examples with markup: it would stand in every prompt."""
    before = [i for i in sorted(spelled) if encoded.offsets[i][1] <= start]
    if before:
        token = tokenizer.decode([encoded.ids[before[0]]])
        raise AnchorscopeError(
            f"a worked example spells a control token of the tokenizer, {token!r}",
            encoded.text[:start].strip()[:200],
            "take other examples, `few_shot.file` for instance, or mend that one",
            see="few-shot",
        )


def _legible(prompt: Prompt, control: set[int], eos: frozenset[int]) -> Prompt:
    """The prompt, dropped if the user's own response holds markup before its end."""
    said = takewhile(lambda token: token not in eos, prompt.response or ())
    marked = prompt.dropped is None and not control.isdisjoint(said)
    return replace(prompt, dropped=CONTROL_SAID) if marked else prompt


def _unreadable(found: tokens.SpanTokens, control: set[int]) -> str | None:
    """Why a question is not what its text says, if so.

    Markup of a chat template inside a question would end the turn, and be no question any more.
    """
    if found.failed:
        return SPANS_LOST
    return CONTROL if control else None


def _second_prompts(
    rows: Sequence[Mapping[str, Any]],
    tokenizer: PreTrainedTokenizerFast,
    style: str,
    room: Mapping[str, tuple[int | None, int]],
    closing: int,
    notes: Counter[str],
) -> list[Prompt]:
    """Every row's second prompt as tokens, held to the same limits; dropped where there is none."""
    own: Counter[str] = Counter()
    seconds = [
        {
            **row,
            **{name: row[f"replicate_{name}"] for name in PLACES},
            "dropped": None if _given(row["replicate_prompt"]) else NO_SECOND,
        }
        for row in rows
    ]
    found = [_limited(p, room, closing) for p in _prompts(seconds, tokenizer, style, own)]
    notes.update({f"second prompt, {name}": number for name, number in own.items()})
    return found


def _response(
    row: Mapping[str, Any],
    prompt: tokens.Encoded,
    tokenizer: PreTrainedTokenizerFast,
    style: str,
) -> tuple[int, ...] | None:
    """Token ids of the user's own response; the prompt's ids stay what they are."""
    if not _given(row.get("response")):
        return None
    said = row["response"].lstrip().rstrip(" \t")
    if not said:
        return ()
    said = said if style == "chat" else f" {said}"
    whole = tokens.encode(tokenizer, [prompt.text + said], add_special_tokens=style != "chat")[0]
    if whole.ids[: len(prompt.ids)] == prompt.ids:
        return whole.ids[len(prompt.ids) :]
    return tokens.continuation(tokenizer, said)


def _room(
    model: PreTrainedModel, ending: Ending, settings: Settings
) -> dict[str, tuple[int | None, int]]:
    """Reason to drop a prompt → most tokens, and how many of them its answer needs."""
    needed = settings.max_new_tokens + len(ending.closing)
    return {
        TOO_LONG: (settings.max_prompt_tokens, 0),
        BEYOND_WINDOW: (settings.window, needed),
        BEYOND_POSITIONS: (families.positions(model.config), needed),
    }


def _limited(prompt: Prompt, room: Mapping[str, tuple[int | None, int]], closing: int) -> Prompt:
    """The prompt, dropped if it leaves no room for its answer under one of the limits."""
    for reason, (limit, needed) in room.items():
        if needed and prompt.response is not None:
            needed = len(prompt.response) + closing
        if prompt.dropped is None and limit is not None and len(prompt.ids) + needed > limit:
            prompt = replace(prompt, dropped=reason)
    return prompt


def _given(value: Any) -> bool:
    """Whether a table's cell holds a value (not None, NaN or NA)."""
    return value is not None and not pd.isna(value)


def _said(
    prompts: Sequence[Prompt], written: Iterable[tuple[int, ...]]
) -> list[tuple[int, ...] | None]:
    """Each prompt's answer: the user's, or the model's; None for a dropped prompt."""
    answers = iter(written)
    return [
        None if p.dropped else next(answers) if p.response is None else p.response for p in prompts
    ]


def _first_turn(text: str, style: str) -> str:
    """Up to the first line break, which ends an answer even if nothing stands before it.

    Not in chats, where an answer may open with line breaks.
    """
    breaks = [place for place, char in enumerate(text) if char in answer_anchors.NEWLINES]
    return text if style == "chat" or not breaks else text[: breaks[0]]


def _record(prompt: Prompt, trimmed: Trimmed | None, notes: Counter[str]) -> dict[str, Any]:
    """One row of the answers table."""
    row = prompt.row
    record = dict[str, Any](dict.fromkeys(COLUMNS)) | {
        "id": row["id"],
        "question": row["question"],
        "input_ids": [],
        "eq_tokens": [],
        "question_tokens": [],
        "golds": list(row["answers"]) if row["answers"] is not None else [],
        "repeats_subject": False,
        "from_user": _given(row.get("response")),
        "dropped": prompt.dropped,
    }
    if trimmed is None:
        return record
    label = _label(row, trimmed)
    _note(notes, trimmed, label)
    record |= {"answer": trimmed.said, "dropped": _unusable(trimmed, label)}
    if trimmed.anchor is None:
        return record
    shift = len(prompt.ids)
    return record | {
        "input_ids": [*prompt.ids, *trimmed.ids],
        "prompt_length": shift,
        "ea_start": shift + trimmed.anchor[0],
        "ea_end": shift + trimmed.anchor[1],
        "ea_text": trimmed.anchor_text,
        "final": shift + len(trimmed.ids) - 1,
        "response": trimmed.response,
        "eq_tokens": list(prompt.eq_tokens),
        "question_tokens": list(prompt.question_tokens),
        "label": label,
        "repeats_subject": labels.repeats_subject(trimmed.response or "", row.get("subject")),
    }


def _replicate(
    record: Mapping[str, Any], second: Prompt, notes: Counter[str]
) -> dict[str, list[int]]:
    """The second prompt's columns of one row; its answer stays what the first prompt gave."""
    if record["dropped"] or second.dropped:
        if second.dropped and second.dropped != NO_SECOND and not record["dropped"]:
            notes[f"second prompt, {second.dropped}"] += 1
        return {name: [] for name in REPLICATE}
    found = (second.ids, second.eq_tokens, second.question_tokens)
    return {name: list(column) for name, column in zip(REPLICATE, found, strict=True)}


def _unusable(trimmed: Trimmed, label: int | None) -> str | None:
    if trimmed.anchor is None:
        return NO_ANCHOR
    return NO_GOLD if label is None else None


def _label(row: Mapping[str, Any], trimmed: Trimmed) -> int | None:
    """1 if hallucinated, 0 if right; without E_A by the whole text, which only counts."""
    if _given(row.get("response")) and _given(row.get("label")):
        return int(row["label"])
    golds = row["answers"]
    if golds is None or not len(golds):
        return None
    return int(not labels.matches(trimmed.anchor_text or trimmed.said, golds))


def _note(notes: Counter[str], trimmed: Trimmed, label: int | None) -> None:
    if label is not None:
        found = "found" if trimmed.anchor else "not found"
        notes[f"answer anchor {found}, {('right', 'wrong')[label]}"] += 1
    notes["last answer token tokenised anew"] += trimmed.split


def _table(
    records: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
) -> pd.DataFrame:
    frame = pd.DataFrame(
        {name: pd.Series([record[name] for record in records], dtype=object) for name in columns}
    )
    for name in CARRIED:
        frame[name] = pd.Series([row.get(name) for row in rows], dtype=object)
    types = dict.fromkeys(INTEGERS, "Int64") | dict.fromkeys(FLAGS, "bool")
    return frame.astype(types | {"popularity": "float64"})


def _counts(records: Sequence[Mapping[str, Any]], notes: Counter[str]) -> Counts:
    dropped = Counter(record["dropped"] for record in records if record["dropped"])
    kept = [record for record in records if not record["dropped"]]
    wrong = sum(record["label"] for record in kept)
    every = dict(notes) | {
        "n_right": len(kept) - wrong,
        "n_wrong": wrong,
        "from the user": sum(record["from_user"] for record in kept),
        "repeats the subject": sum(record["repeats_subject"] for record in kept),
    }
    return Counts(len(records), len(kept), dict(dropped), dict(sorted(every.items())))

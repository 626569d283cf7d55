"""Answers: generate the answer to each prompt, find its exact answer tokens, and label it.

Token ids are frozen here. Every later stage passes exactly these ids through the model.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from anchorscope.anchors import labels
from anchorscope.answers import inputs
from anchorscope.answers.endings import ending_of
from anchorscope.answers.generation import Written, generate
from anchorscope.answers.inputs import BEYOND_POSITIONS, BEYOND_WINDOW, TOO_LONG, Prompt
from anchorscope.answers.trimming import Trimmed, gold_tokens, trim
from anchorscope.models import families
from anchorscope.models.families import Loaded
from anchorscope.questions.pool import CHUNK, Choice
from anchorscope.storage.counts import COPIED, NO_ANSWER, NOT_ASKED, THOUGHT, UNSURE, Counts
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import check_ids
from anchorscope.styles import style_of

log = logging.getLogger(__name__)

NO_ANCHOR = "no answer anchor"
NO_GOLD = "no gold answer"

SHARED, FEW = 0.3, 6
"""An E_A that more than this share, and more than this number, of the answers have in common is
named, unless it is at most twice as frequent as the most frequent gold answer."""
CARRIED = ("subject", "property", "relation", "swap", "popularity", "split", "component")
COLUMNS = {
    "id": "the sample's id",
    "question": "as in the questions",
    "input_ids": "token ids: the prompt, the answer up to the end of its exact tokens, and the "
    "closing token",
    "prompt_length": "tokens of the prompt",
    "answer": "the answer as text, up to the first full stop or line break after the exact tokens",
    **dict.fromkeys(("ea_start", "ea_end"), "the exact answer tokens: first index, last index + 1"),
    "ea_text": "the exact answer as text",
    "ea_sure": "whether the finder is [sure](method.md#sure) of the exact answer tokens",
    "ea_logprob": "log-probability of the exact answer as generated, mean over tokens; blank for "
    "answers that came with the dataset",
    "final": "index of the closing token",
    "response": "the text from the end of the prompt to the closing token",
    "gold_ids": "for a wrong answer, token ids of the first gold answer and the closing token",
    **dict.fromkeys(("gold_start", "gold_end"), "the gold answer: first index, last index + 1"),
    "eq_tokens": "indices of the exact question tokens",
    "question_tokens": "indices of all tokens of the question",
    "label": "0 right, 1 wrong",
    "outcome": "`right`, `wrong` or [`no answer`](method.md#no-answer)",
    "golds": "the gold answers that the answer was compared with",
    "repeats_subject": "whether the response repeats the subject",
    "from_user": "whether the answer or label came with the dataset",
    "dropped": "[why](what-goes-wrong.md#dropped-samples) the answer is not measured, or null",
    **dict.fromkeys(CARRIED, "as in the questions"),
}
"""Column of the answers table → description."""
TYPES = {
    **dict.fromkeys(
        "prompt_length ea_start ea_end final gold_start gold_end label".split(), "Int64"
    ),
    "repeats_subject": "bool", "from_user": "bool", "popularity": "float64", "ea_sure": "boolean",
    "ea_logprob": "float64",
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Settings for answering prompts."""

    style: str  # prompt style, a key of `styles.STYLES`
    max_new_tokens: int = 32  # see `generate`
    max_prompt_tokens: int = 1024  # longer prompts are dropped
    # whether a response that is no answer (`no_answer.reason`) is dropped or labelled wrong
    no_answer: Literal["drop", "wrong"] = "drop"
    # whether to keep answers that have neither a gold answer nor a label from the user
    unlabelled: bool = False


def answer(
    prompts: pd.DataFrame,
    questions: pd.DataFrame,
    loaded: Loaded,
    settings: Settings,
    *,
    keep: Path | None = None,
    choice: Choice | None = None,
) -> tuple[pd.DataFrame, Counts]:
    """Generate greedy answers to the prompts, find E_A in each, and label it.

    With a `choice`, prompts are answered in chunks, in the order of the table, until there are
    enough answers to choose from. The other prompts are dropped as `NOT_ASKED`.

    The frozen tokens end with E_A and the style's closing token (`final`). The closing token is the
    same in every sample, whatever the model wrote there. Otherwise a probe would read which token
    the model chose.

    A row with the user's own `response` gets no generated answer. A `label` of this response is
    kept. Prompts with a `dropped` reason stay dropped. Each chunk has a folder in `keep`, see
    `generate`.

    Returns:
        `(table, counts)`. The table has the columns `COLUMNS` and a row for every prompt, without
        an answer if the prompt was dropped. `counts.notes` say, among other things, how often E_A
        was found in right and in wrong answers.

    Raises:
        AnchorscopeError: An id occurs twice, a prompt's question is not the one in `questions`, no
            token ends an answer, memory does not suffice, or logits are not finite.
    """
    ending = ending_of(loaded.model, loaded.tokenizer, style_of(settings.style))
    needed = settings.max_new_tokens + len(ending.closing)
    limits = {
        TOO_LONG: (settings.max_prompt_tokens, 0),
        BEYOND_WINDOW: (families.window(loaded.model.config), needed),
        BEYOND_POSITIONS: (families.positions(loaded.model.config), needed),
    }
    rows, notes = _joined(prompts, questions), Counter[str]()
    embedded = families.embedded(loaded.model)
    reader = inputs.Reader(loaded.tokenizer, ending, limits, notes, embedded)
    records: list[dict[str, Any]] = []
    # Responses that came with the rows cost nothing, so all of them are read.
    stops = choice is not None and not any(pd.notna(row.get("response")) for row in rows)
    size = CHUNK if stops else max(len(rows), 1)
    for start in range(0, len(rows), size):
        folder = keep and keep / f"from-{start:06d}"
        records += _asked(reader, rows[start : start + size], loaded, settings, folder)
        if choice and _enough(records, choice, len(rows)):
            break
    _warn(records, notes)
    unread = [_empty(Prompt(row, dropped=_unasked(row))) for row in rows[len(records) :]]
    table = pd.DataFrame([*records, *unread], columns=[*COLUMNS], dtype=object).astype(TYPES)
    return table, _counts([*records, *unread], notes)


def _asked(
    reader: inputs.Reader,
    rows: Sequence[Mapping[str, Any]],
    loaded: Loaded,
    settings: Settings,
    keep: Path | None,
) -> list[dict[str, Any]]:
    """Return the rows of the answers table for some prompts, and count events in the notes."""
    read, ending = reader.prompts(rows), reader.ending
    waiting = [prompt for prompt in read if prompt.dropped is None and prompt.response is None]
    ids = [prompt.row["id"] for prompt in waiting]
    given_ids, longest = [prompt.ids for prompt in waiting], settings.max_new_tokens
    answers = generate(given_ids, loaded, ending, max_new_tokens=longest, keep=keep, names=ids)
    written = dict(zip(ids, answers, strict=True))
    records = []
    for prompt in read:
        record = _empty(prompt)
        if prompt.dropped is None:
            by_user = prompt.response
            said = Written(by_user, ()) if by_user is not None else written[prompt.row["id"]]
            trimmed = trim(
                prompt.ids,
                said.ids,
                loaded.tokenizer,
                ending,
                question=prompt.row["question"],
                may_be_cut=by_user is None,
            )
            record |= _answered(prompt, trimmed, settings, reader.notes)
            if record["dropped"] is None:
                record["ea_logprob"] = _logprob(trimmed, said)
                if record["label"] == 1 and record["golds"]:
                    gold, embedded = str(record["golds"][0]), reader.embedded
                    record |= gold_tokens(gold, prompt, loaded.tokenizer, ending, embedded)
        records.append(record)
    return records


def _enough(records: Sequence[Mapping[str, Any]], choice: Choice, of: int) -> bool:
    """Return whether the answers so far are enough, and log how many there are of each class."""
    labels = Counter(record["label"] for record in records if not record["dropped"])
    enough = choice.enough(labels[0], labels[1])
    end = "; these are enough" if enough else "; the pool is used up" if len(records) == of else ""
    said = "%d of %d questions asked: %d right and %d wrong answers%s"
    log.info(said, len(records), of, labels[0], labels[1], end)
    return enough


def _unasked(row: Mapping[str, Any]) -> str:
    """Return why a prompt after the last chunk was not asked."""
    return str(row["dropped"]) if pd.notna(row["dropped"]) else NOT_ASKED


def _logprob(trimmed: Trimmed, written: Written) -> float | None:
    """Return the mean log-probability of E_A's tokens; None if the model did not write them."""
    start, end = trimmed.anchor or (0, 0)
    some = written.logprobs[start : max(end, start + 1)]
    return sum(some) / len(some) if some else None


def _joined(prompts: pd.DataFrame, questions: pd.DataFrame) -> list[dict[Any, Any]]:
    check_ids(prompts, "prompts")
    check_ids(questions, "questions")
    by_id = {row["id"]: row for row in questions.to_dict("records")}
    rows = [{**by_id.get(row["id"], {}), **row} for row in prompts.to_dict("records")]
    for row in rows:
        if row["question"] != by_id.get(row["id"], {}).get("question"):
            what = "the prompts were made from other questions"
            do = "delete the prompts of this cell and run again"
            raise AnchorscopeError(what, f"prompts, id {row['id']}", do, see="stale-product")
    return rows


def _empty(prompt: Prompt) -> dict[str, Any]:
    """Return a row of the answers table that holds no answer yet."""
    row = prompt.row
    return dict[str, Any](dict.fromkeys(COLUMNS)) | {
        **{name: row.get(name) for name in ("id", "question", *CARRIED)},
        **{name: [] for name in ("input_ids", "gold_ids", "eq_tokens", "question_tokens")},
        "golds": list(row["answers"]) if row["answers"] is not None else [],
        "repeats_subject": False,
        "from_user": bool(pd.notna(row.get("response"))),
        "dropped": prompt.dropped,
    }


def _answered(
    prompt: Prompt, trimmed: Trimmed, settings: Settings, notes: Counter[str]
) -> dict[str, Any]:
    """Return the columns of an answered prompt, and count its outcome in `notes`."""
    row, shift = prompt.row, len(prompt.ids)
    label, reason = _judged(row, trimmed)
    outcome = None if label is None else ("right", "wrong")[label]
    notes[THOUGHT] += trimmed.thinks
    if reason is not None and settings.no_answer == "drop":
        dropped = f"{NO_ANSWER}: {reason}"
        return {"answer": trimmed.text, "outcome": NO_ANSWER, "dropped": dropped}
    if label is not None:
        success = "found" if trimmed.anchor else "not found"
        notes[f"answer anchor {success}, {outcome}"] += 1
    outcome = outcome if reason is None else NO_ANSWER
    notes["last answer token tokenised anew"] += trimmed.split
    said = labels.squad_normalise(trimmed.anchor_text or "")
    notes[COPIED] += said in map(labels.squad_normalise, row["shown"])
    if trimmed.anchor is None:
        return {"answer": trimmed.text, "outcome": outcome, "dropped": NO_ANCHOR}
    return {
        "answer": trimmed.text,
        "dropped": NO_GOLD if label is None and not settings.unlabelled else None,
        "input_ids": [*prompt.ids, *trimmed.ids],
        "prompt_length": shift,
        "ea_start": shift + trimmed.anchor[0],
        "ea_end": shift + trimmed.anchor[1],
        "ea_text": trimmed.anchor_text,
        "ea_sure": trimmed.sure,
        "final": shift + len(trimmed.ids) - 1,
        "response": trimmed.response,
        "eq_tokens": list(prompt.eq_tokens),
        "question_tokens": list(prompt.question_tokens),
        "label": label,
        "outcome": outcome,
        "repeats_subject": labels.repeats_subject(trimmed.response, row.get("subject")),
    }


def _judged(row: Mapping[str, Any], trimmed: Trimmed) -> tuple[int | None, str | None]:
    """Return the label, and why the reply is no answer or has no sure label (None if it is one).

    The label is the user's. Without one, it is 1 (wrong), 0 (right) or None (no golds). A reply
    whose label the user gives is always an answer.
    """
    if pd.notna(row.get("response")) and pd.notna(row.get("label")):
        return int(row["label"]), None
    golds, reason = row["answers"], trimmed.no_answer
    if golds is None or not len(golds):
        return None, reason
    said = (trimmed.anchor_text or trimmed.text, trimmed.turn)
    if labels.only_repeats(*said, row["question"], golds):
        return 1, reason or labels.IN_QUESTION
    return int(not labels.is_right(*said, golds)), reason


def _warn(records: Sequence[Mapping[str, Any]], notes: Counter[str]) -> None:
    """Warn about replies that open with thoughts, and about an E_A that many replies share."""
    if notes[THOUGHT] > 0.1 * len(records):
        what = "%d of %d replies open with thoughts, which leave no room for an answer"
        log.warning(f"{what}: measure a model that answers at once", notes[THOUGHT], len(records))
    kept = [one for one in records if not one["dropped"] and one["golds"]]
    said = Counter(one["ea_text"].lower() for one in kept)
    golds = Counter(one["golds"][0].lower() for one in kept)
    [(text, n)] = said.most_common(1) or [("", 0)]
    if n > max(FEW, SHARED * len(kept), 2 * max(golds.values(), default=0)):
        what = "the exact answer is `%s` in %d of %d answers, but the gold answers differ"
        log.warning(f"{what}: see the column `answer`", text, n, len(kept))


def _counts(records: Sequence[Mapping[str, Any]], notes: Counter[str]) -> Counts:
    dropped = Counter(record["dropped"] for record in records if record["dropped"])
    kept = [record for record in records if not record["dropped"]]
    wrong = sum(record["label"] == 1 for record in kept)
    right = sum(record["label"] == 0 for record in kept)
    all_notes = dict(notes) | {
        "n_right": right,
        "n_wrong": wrong,
        UNSURE: sum(not record["ea_sure"] for record in kept),
        "from the user": sum(record["from_user"] for record in kept),
        "repeats the subject": sum(record["repeats_subject"] for record in kept),
    }
    return Counts(len(records), len(kept), dict(dropped), dict(sorted(all_notes.items())))

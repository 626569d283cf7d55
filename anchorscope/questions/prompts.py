"""Prompts: the text a model reads for each question, and where E_Q stands in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import yaml
from jinja2 import TemplateError

from anchorscope.anchors import question_anchors
from anchorscope.anchors.words import SUBJECT, Span
from anchorscope.questions.fields import digest
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

STYLES = ("plain", "few_shot", "chat")
INSTRUCTION = "Answer with only the shortest possible answer."
SHORT_ANSWER = 5  # words
EXAMPLE_FIELDS = {
    "question": "question", "answers": "answer", "subject": "subject", "property": "property",
    "relation": "relation",
}  # fmt: skip
NO_ANCHOR = "no question anchor"
ALTERED = "question altered by the chat template"

COLUMNS = (
    "id", "question", "prompt", "question_start", "question_end",
    "eq_start", "eq_end", "eq_role", "eq_found_by", "dropped",
)  # fmt: skip


def build(
    questions: pd.DataFrame,
    few_shot: pd.DataFrame | None = None,
    *,
    style: str,
    tokenizer: PreTrainedTokenizerFast | None = None,
    anchors: str = "subject+property",
    examples: int = 5,
    seed: int = 0,
    head: str | None = None,
) -> tuple[pd.DataFrame, Counts]:
    r"""One prompt per question, with character spans of the question and of E_Q in it.

    `plain` is `Q: <question> A:`; `few_shot` puts blocks `Q: ...\nA: ...\n\n` before
    `Q: <question>\nA:`, the same for every question: at most `examples` of the candidates
    `few_shot` (`questions.candidates`), chosen by the seed, or in place of them the text `head` as
    it stands; `chat` is the tokenizer's template
    around one user message, thinking switched off (its text carries the special tokens already).
    E_Q is `subject+property` or `subject`, as `anchors` says.

    The table has the columns `COLUMNS` and all questions (`dropped` holds the reason or None);
    `notes` of its counts say how many questions each rule found spans in.

    Raises AnchorscopeError: unknown style, no example to show, no chat template.
    """
    if style not in STYLES:
        what, do = f"unknown prompt style `{style}`", f"use one of {', '.join(STYLES)}"
        raise AnchorscopeError(what, "key prompt", do, see="config")
    if style == "few_shot" and head is None:
        head = _head(few_shot, examples, seed)
    head = head or ""
    rows = [
        _row(entry, _spans(entry, anchors), style, head, tokenizer)
        for entry in questions.to_dict("records")
    ]
    frame = pd.DataFrame(rows, columns=[*COLUMNS], dtype=object)
    places = ("question_start", "question_end")
    return frame.astype(dict.fromkeys(places, "int64")), _counts(rows, head.count("\n\n"))


def _spans(entry: Mapping[Any, Any], anchors: str) -> list[Span]:
    """E_Q in a question: `subject+property` or `subject`, as `anchors` says."""
    spans = question_anchors.find(
        entry["question"],
        subject=entry["subject"],
        property=entry["property"],
        titles=entry["titles"],
        own=entry.get("anchors"),
    )
    return [span for span in spans if anchors != "subject" or span.role == SUBJECT]


def of_run(sampled: pd.DataFrame, limit: int | None, finder: str) -> pd.DataFrame:
    """The questions of a run: the first `limit`, and with the finder `offline` their text alone."""
    questions = sampled.head(limit) if limit else sampled
    if finder == "offline":
        unknown: dict[str, Any] = dict.fromkeys(("subject", "property", "anchors"))
        questions = questions.assign(**unknown | {"titles": [[] for _ in questions.index]})
    return questions


def choose_examples(few_shot: pd.DataFrame, examples: int, seed: int) -> pd.DataFrame:
    """The examples to show: short answers first, spread over relations, in an order of the seed."""
    is_long = few_shot["answers"].map(lambda golds: len(golds[0].split()) > SHORT_ANSWER)
    shuffled = few_shot["id"].map(lambda name: digest(str(seed), name))
    order = few_shot.assign(_long=is_long, _order=shuffled).sort_values(["_long", "_order"])
    # The first of every relation, then the second; without a relation, all count as different.
    number = order.groupby("relation").cumcount().where(order["relation"].notna(), 0)
    return order[few_shot.columns].iloc[number.argsort(kind="stable")[:examples]]


def checked_examples(few_shot: pd.DataFrame | None) -> pd.DataFrame:
    """The candidates for worked examples; raises AnchorscopeError if there is none."""
    if few_shot is None or few_shot.empty:
        what, where = "no few-shot example is left", "the rows outside the sample"
        do = "take a smaller sample, another `few_shot` source, or the prompt style `plain`"
        raise AnchorscopeError(what, where, do, see="few-shot")
    return few_shot


def read_examples(path: str | Path) -> list[dict[str, Any]]:
    """Rows of a YAML file of few-shot examples, for `questions.normalise` with `EXAMPLE_FIELDS`."""
    try:
        rows = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        what = f"cannot read the examples: {error}"
        raise AnchorscopeError(what, path, "correct it", see="few-shot") from None
    for row in rows if isinstance(rows, list) and rows else [None]:
        if not isinstance(row, dict) or not row.get("question") or not row.get("answer"):
            what, do = f"no example: {row!r}", "list entries with question and answer"
            raise AnchorscopeError(what, path, do, see="few-shot")
    return [dict.fromkeys(EXAMPLE_FIELDS.values()) | row for row in rows]


def _head(few_shot: pd.DataFrame | None, examples: int, seed: int) -> str:
    """The worked examples before every question."""
    if not examples:
        return ""
    chosen = choose_examples(checked_examples(few_shot), examples, seed)
    pairs = zip(chosen["question"], chosen["answers"].str[0], strict=True)
    # One line each, or a question with a newline in it would look like two turns.
    lines = ([" ".join(text.split()) for text in pair] for pair in pairs)
    return "".join(f"Q: {question}\nA: {answer}\n\n" for question, answer in lines)


def check_template(tokenizer: PreTrainedTokenizerFast | None) -> PreTrainedTokenizerFast:
    """The tokenizer, refused where it has no chat template."""
    if tokenizer is None or not getattr(tokenizer, "chat_template", True):
        what = "the model's tokenizer has no chat template"
        do = "use the prompt style `few_shot`, or an instruct model"
        raise AnchorscopeError(what, "prompt: chat", do, see="chat-template")
    return tokenizer


def without_question(
    row: Mapping[Any, Any], style: str, tokenizer: PreTrainedTokenizerFast | None = None
) -> str | None:
    r"""The prompt of a row of `build`'s table with its question left out.

    `plain`: `Q: A:`; `few_shot`: the worked examples, then `Q:\nA:`; `chat`: the template around an
    empty user message, so that the instruction is left out, too. None where the template refuses
    such a message, or does not write with it what it writes around others.
    """
    before, after = row["prompt"][: row["question_start"]], row["prompt"][row["question_end"] :]
    if style != "chat":
        return str(before.rstrip(" ") + after)
    try:
        prompt = _templated("", tokenizer)
    except TemplateError:
        return None
    around = before[: before.rindex(INSTRUCTION)] + after
    return prompt if prompt.split() == around.split() else None


def with_instruction(
    prompts: pd.DataFrame, text: str, style: str, tokenizer: PreTrainedTokenizerFast | None = None
) -> pd.DataFrame:
    """`build`'s table with one more instruction in every prompt, and the spans moved along.

    It stands in a line of its own before everything (`plain`: in the prompt's line), in a `chat`
    behind the instruction to answer shortly. A prompt that the template then alters is dropped.
    """
    rows = []
    for row in prompts[list(COLUMNS)].to_dict("records"):
        old_start, length = row["question_start"], row["question_end"] - row["question_start"]
        if style == "chat" and pd.isna(row["dropped"]):
            prompt, start, question = _chat(row["question"], tokenizer, f"{INSTRUCTION} {text}\n")
            length = len(question)
            row["dropped"] = None if start >= 0 else ALTERED
        else:
            lead = f"{text} " if style == "plain" else f"{text}\n\n"
            prompt, start = f"{lead}{row['prompt']}", old_start + len(lead)
        row |= {"prompt": prompt, "question_start": start, "question_end": start + length}
        for name in ("eq_start", "eq_end"):
            row[name] = [place + start - old_start for place in row[name]]
        rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _templated(message: str, tokenizer: PreTrainedTokenizerFast | None) -> str:
    """The tokenizer's chat template around one user message, up to where the model answers."""
    templated = check_template(tokenizer).apply_chat_template(
        [{"role": "user", "content": message}],
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=False,
        date_string="26 Jul 2024",  # some templates write today's date, another prompt every day
    )
    return str(templated)


def _chat(
    question: str, tokenizer: PreTrainedTokenizerFast | None, lead: str = f"{INSTRUCTION}\n"
) -> tuple[str, int, str]:
    """The prompt, where the question starts in it (-1: nowhere), and the question as it stands.

    `lead` stands before the question in the user's message.
    """
    prompt = _templated(f"{lead}{question}", tokenizer)
    # By what stands before it: a question such as "user" may occur in the template itself.
    start = prompt.find(lead) + len(lead)
    for text in (question, question.rstrip()):  # a template may strip its user's text
        if start >= len(lead) and prompt.startswith(text, start):
            return prompt, start, text
    return prompt, -1, question


def _row(
    entry: Mapping[Any, Any],
    spans: Sequence[Span],
    style: str,
    head: str,
    tokenizer: PreTrainedTokenizerFast | None = None,
) -> dict[str, Any]:
    text = entry["question"]
    if style == "chat":
        prompt, start, text = _chat(text, tokenizer)
    else:
        before, after = f"{head}Q: ", " A:" if style == "plain" else "\nA:"
        prompt, start = f"{before}{text}{after}", len(before)
    kept = [] if start < 0 else spans
    return {
        "id": entry["id"],
        "question": entry["question"],
        "prompt": prompt,
        "question_start": start,
        "question_end": start + len(text) if start >= 0 else -1,
        "eq_start": [s.start + start for s in kept],
        "eq_end": [s.end + start for s in kept],
        "eq_role": [s.role for s in kept],
        "eq_found_by": [s.found_by for s in kept],
        "dropped": ALTERED if start < 0 else None if spans else NO_ANCHOR,
    }


def _counts(rows: Sequence[Mapping[str, Any]], examples: int) -> Counts:
    dropped = Counter(r["dropped"] for r in rows if r["dropped"])
    rules = Counter(f"found by {rule}" for r in rows for rule in sorted(set(r["eq_found_by"])))
    notes = dict(sorted(rules.items()))
    if examples:
        notes["few-shot examples shown"] = examples
    return Counts(len(rows), len(rows) - sum(dropped.values()), dict(dropped), notes)

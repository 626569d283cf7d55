"""Token probabilities: how likely the model finds its answer, and whether it calls it true.

Rows are passed again, and the LM head is applied where the answer's tokens are predicted, and
nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from anchorscope.anchors import tokens
from anchorscope.detectors.output import FEATURES, P_TRUE, QUANTITIES, SPANS, STATISTICS
from anchorscope.models import families
from anchorscope.models.families import Loaded, not_finite
from anchorscope.questions.prompts import check_template
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room

COLUMNS = ("id", "condition", *FEATURES, P_TRUE)
LOGIT_BYTES = 256 << 20
"""Most memory of the logits of one call, in float32."""
ORDERS = (("True", "False"), ("False", "True"))
ASKS = (
    "Question: {question}\nProposed answer: {answer}\nIs the proposed answer:\n"
    " (A) {first}\n (B) {second}\nThe proposed answer is:"
)
"""As in Kadavath et al. (2022), without worked examples."""


@dataclass(frozen=True)
class Row:
    """A prompt with an answer behind it."""

    id: str
    ids: tuple[int, ...]  # of all tokens
    start: int  # index of the first token that the model wrote
    exact: range  # indices of the exact answer tokens

    @property
    def predicting(self) -> range:
        """The tokens whose logits predict what the model wrote, up to the exact answer's end."""
        return range(self.start - 1, self.exact.stop - 1)


@dataclass(frozen=True)
class Asked:
    """A question with a proposed answer."""

    id: str
    question: str
    answer: str


def table(loaded: Loaded, answers: pd.DataFrame, *, style: str, batch_tokens: int) -> pd.DataFrame:
    """The token probabilities of measured answers, behind their own and their partners' questions.

    Args:
        answers: see `activations.measured`.
        style: of the prompts; in `chat` the model is asked through its template.
        batch_tokens: most rows × padded length of a call.

    Returns:
        A row for each answer, `clean`, and for those with a partner `crossed`: `COLUMNS`.

    Raises:
        AnchorscopeError: logits that are not finite, or one row alone does not fit in memory.
    """
    frames = []
    for condition, (rows, asked) in _conditions(answers).items():
        features = probabilities(loaded, rows, batch_tokens=batch_tokens)
        p_true = ask(loaded, asked, style=style, batch_tokens=batch_tokens)
        frame = features.assign(condition=condition, **{P_TRUE: p_true})
        frames.append(frame[list(COLUMNS)])
    return pd.concat(frames, ignore_index=True)


def _conditions(answers: pd.DataFrame) -> dict[str, tuple[list[Row], list[Asked]]]:
    """Condition → what is passed of it."""
    records = {str(row["id"]): row for row in answers.to_dict("records")}
    clean, crossed = [], []
    for row in records.values():
        clean.append((row_of(row, row), asked_of(row, row)))
        partner = row["crossed_partner"]
        if isinstance(partner, str):
            other = records[partner]
            crossed.append((row_of(other, row), asked_of(other, row)))
    return {
        name: ([row for row, _ in both], [asked for _, asked in both])
        for name, both in (("clean", clean), ("crossed", crossed))
        if both
    }


def row_of(prompt: Mapping[Any, Any], answer: Mapping[Any, Any]) -> Row:
    """The answer of one row of the answers table behind the prompt of another, or its own."""
    start, own = (int(row["prompt_length"]) for row in (prompt, answer))
    before, behind = (np.asarray(row["input_ids"]) for row in (prompt, answer))
    ids = (*before[:start].tolist(), *behind[own:].tolist())
    first, stop = (int(answer[name]) + start - own for name in ("ea_start", "ea_end"))
    return Row(str(answer["id"]), ids, start, range(first, stop))


def asked_of(prompt: Mapping[Any, Any], answer: Mapping[Any, Any]) -> Asked:
    """The question of one row, and the exact answer of another."""
    return Asked(str(answer["id"]), str(prompt["question"]), str(answer["ea_text"]))


def probabilities(loaded: Loaded, rows: Sequence[Row], *, batch_tokens: int) -> pd.DataFrame:
    """The features of each row, in their order: `id` and `output.FEATURES`.

    Log-probability, logit and entropy of each token are float32; see `table` for errors.
    """
    found: dict[int, list[float]] = {}
    for number, logits in _predictions(loaded, rows, batch_tokens):
        row = rows[number]
        targets = torch.tensor(row.ids[row.start : row.exact.stop], device=logits.device)
        every = logits.log_softmax(-1)
        of_token = {
            "logprob": every.gather(-1, targets[:, None])[:, 0],
            "logit": logits.gather(-1, targets[:, None])[:, 0],
            "entropy": -(every.exp() * every).sum(-1),
        }
        found[number] = _statistics(row, of_token)
    ids = [row.id for row in rows]
    frame = pd.DataFrame([found[number] for number in range(len(rows))], columns=list(FEATURES))
    return frame.assign(id=pd.Series(ids, dtype=object))[["id", *FEATURES]]


def _statistics(row: Row, of_token: dict[str, Tensor]) -> list[float]:
    """The `FEATURES` of one row, of quantities of each token that the model wrote."""
    first = row.exact.start - row.start
    values = {name: of.double().cpu().numpy() for name, of in of_token.items()}
    spans = {"exact": slice(first, None), "answer": slice(None)}
    features = [
        float(getattr(values[quantity][spans[span]], statistic)())
        for span in SPANS
        for quantity in QUANTITIES
        for statistic in STATISTICS
    ]
    return [*features, float(len(row.exact)), float(len(row.predicting))]


def ask(loaded: Loaded, asked: Sequence[Asked], *, style: str, batch_tokens: int) -> np.ndarray:
    """The probability that the model calls each proposed answer true, float64 [n].

    Of the two letters alone, and averaged over both orders, since models prefer a letter.
    """
    means = np.zeros(len(asked))
    for first, second in ORDERS:
        rows, letters = [], []
        for one in asked:
            text = ASKS.format(question=one.question, answer=one.answer, first=first, second=second)
            ids, pair = choice(loaded, text, style)
            rows.append(Row(one.id, ids, len(ids), range(len(ids), len(ids) + 1)))
            letters.append(pair if first == "True" else pair[::-1])
        for number, logits in _predictions(loaded, rows, batch_tokens):
            true, false = (float(logits[0, token]) for token in letters[number])
            means[number] += 1 / (1 + np.exp(np.clip(false - true, -700, 700))) / len(ORDERS)
    return means


def choice(loaded: Loaded, text: str, style: str) -> tuple[tuple[int, ...], tuple[int, int]]:
    """The tokens of a question about (A) and (B), and the tokens that then tell A from B.

    Whatever both answers begin with, such as a blank and a bracket, belongs to the question.
    """
    behind = " ({})"
    if style == "chat":
        template = check_template(loaded.tokenizer).apply_chat_template
        text = str(
            template(
                [{"role": "user", "content": text}],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,
            )
        )
        behind = "({})"
    texts = [text + behind.format(letter) for letter in "AB"]
    special = style != "chat"
    both = [one.ids for one in tokens.encode(loaded.tokenizer, texts, add_special_tokens=special)]
    same = next(at for at, (a, b) in enumerate(zip(*both, strict=False)) if a != b)
    return both[0][:same], (both[0][same], both[1][same])


def _predictions(
    loaded: Loaded, rows: Sequence[Row], batch_tokens: int
) -> Iterator[tuple[int, Tensor]]:
    """The number of each row, and the logits that predict its answer, float32 [tokens, vocabulary].

    Raises AnchorscopeError: see `table`.
    """
    room = Room()
    budget = LOGIT_BYTES // (4 * _vocabulary(loaded))

    def of(batch: Sequence[int]) -> list[Tensor]:
        return _logits(loaded, [rows[number] for number in batch])

    def size(batch: Sequence[int]) -> int:
        return len(batch) * max(len(rows[number].ids) for number in batch)

    with Progress(total=len(rows), unit="answers") as progress:
        for batch in _batches(rows, batch_tokens, budget):
            parts = room.run(batch, size, of)
            for number, logits in zip(batch, (one for part in parts for one in part), strict=True):
                if not bool(logits.isfinite().all()):
                    what = "the logits of the answer are not finite"
                    raise not_finite(what, f"sample {rows[number].id}")
                yield number, logits
            progress.update(len(batch))


def _vocabulary(loaded: Loaded) -> int:
    """Tokens that the model tells apart."""
    return int(loaded.model.get_output_embeddings().get_parameter("weight").shape[0])


def _batches(rows: Sequence[Row], batch_tokens: int, positions: int) -> Iterator[list[int]]:
    """Rows that are passed together, of like lengths.

    At most `batch_tokens` tokens and so many positions at which logits are held, but at least one
    row.
    """
    order = sorted(range(len(rows)), key=lambda n: (rows[n].start, len(rows[n].ids)))
    batch: list[int] = []
    for number in order:
        tried = [rows[n] for n in [*batch, number]]
        tokens_ = len(tried) * max(len(row.ids) for row in tried)
        logits = len(tried) * len(_union(tried))
        if batch and (tokens_ > batch_tokens or logits > positions):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _union(rows: Sequence[Row]) -> range:
    """From the first to the last token at which some row's logits are wanted."""
    spans = [row.predicting for row in rows]
    return range(min(span.start for span in spans), max(span.stop for span in spans))


@torch.inference_mode()
def _logits(loaded: Loaded, rows: Sequence[Row]) -> list[Tensor]:
    """The logits of each row that predict its answer, float32 [tokens, vocabulary]."""
    width = max(len(row.ids) for row in rows)
    device = families.device_of(loaded.model)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    exists = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = torch.tensor(row.ids)
        exists[number, : len(row.ids)] = 1
    wanted = _union(rows)
    out = loaded.model(
        input_ids=ids.to(device),
        attention_mask=exists.to(device),
        use_cache=False,
        logits_to_keep=torch.tensor(wanted, device=device),
    )
    logits = []
    for number, row in enumerate(rows):
        first, stop = (at - wanted.start for at in (row.predicting.start, row.predicting.stop))
        logits.append(out.logits[number, first:stop].float())
    return logits

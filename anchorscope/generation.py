"""Generation: greedy answers in batches, each stopped once nothing more can change it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anchorscope import answer_anchors, tokens
from anchorscope.errors import AnchorscopeError
from anchorscope.progress import Pace

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

CONTEXT = 8  # prompt tokens given to the decoder so that an answer keeps its leading space

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ending:
    """How an answer ends.

    Attributes:
        style: prompt style, see `answer`.
        closing: token ids appended to an answer that has no end of its own; the last one closes.
        eos: ids of all end-of-sequence tokens.
    """

    style: str
    closing: tuple[int, ...]
    eos: frozenset[int]


def generate(
    prompts: Sequence[Sequence[int]],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    ending: Ending,
    *,
    max_new_tokens: int,
    batch_tokens: int,
) -> list[tuple[int, ...]]:
    """Greedy answers, left-padded in batches of like length, each row up to its own end.

    Returns:
        The new token ids of each prompt, in the order of the prompts.

    Raises:
        AnchorscopeError: a batch does not fit on the GPU.
    """
    written: dict[int, tuple[int, ...]] = {}
    pace = Pace()
    with _greedy(model):
        for batch in _batches([len(ids) for ids in prompts], max_new_tokens, batch_tokens):
            rows = [prompts[number] for number in batch]
            new = _generate_batch(rows, model, tokenizer, ending, max_new_tokens)
            written.update(zip(batch, new, strict=True))
            if pace.due(finished=len(written) == len(prompts)):
                rate = len(written) / pace.seconds
                left = (len(prompts) - len(written)) / rate
                log.info(
                    "%d of %d answers, %.1f a second, %.0f s left",
                    len(written), len(prompts), rate, left,
                )  # fmt: skip
    return [written[number] for number in range(len(prompts))]


def _batches(lengths: Sequence[int], max_new_tokens: int, batch_tokens: int) -> Iterator[list[int]]:
    """Numbers of the prompts of each batch, longest first: what does not fit fails at once."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda n: (-lengths[n], n)):
        if batch:
            longest = lengths[batch[0]] + max_new_tokens
            if (len(batch) + 1) * longest > batch_tokens:
                yield batch
                batch = []
        batch.append(number)
    if batch:
        yield batch


@contextmanager
def _greedy(model: PreTrainedModel) -> Iterator[None]:
    """Without the checkpoint's own generation defaults.

    A repetition penalty or a temperature of an instruct model would otherwise be merged into ours.
    """
    from transformers import GenerationConfig

    saved = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = saved


def _generate_batch(
    rows: Sequence[Sequence[int]],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    ending: Ending,
    max_new_tokens: int,
) -> list[tuple[int, ...]]:
    import torch
    from transformers import GenerationConfig
    from transformers.generation import StoppingCriteriaList

    pad = tokenizer.pad_token_id
    pad = min(ending.eos, default=0) if pad is None else pad
    width = max(map(len, rows))
    device: Any = model.get_input_embeddings().weight.device
    ids = torch.tensor([[pad] * (width - len(row)) + list(row) for row in rows], device=device)
    seen = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
    stopper = _Stopper(tokenizer, [row[-CONTEXT:] for row in rows], width, ending.style)
    config = GenerationConfig(
        do_sample=False,
        max_new_tokens=max_new_tokens,
        pad_token_id=pad,
        eos_token_id=sorted(ending.eos) or None,
    )
    try:
        with torch.inference_mode():
            write: Any = model.generate
            whole = write(
                input_ids=ids,
                attention_mask=seen,
                generation_config=config,
                stopping_criteria=StoppingCriteriaList([stopper]),
            )
    except torch.cuda.OutOfMemoryError as error:
        raise AnchorscopeError(
            f"generating {len(rows)} answers of {width} + {max_new_tokens} tokens does not fit",
            "GPU memory",
            "lower `batch_tokens`",
        ) from error
    return [
        _up_to_eos(new[: stopper.lengths.get(number)], ending.eos)
        for number, new in enumerate(whole[:, width:].tolist())
    ]


def _up_to_eos(ids: Sequence[int], eos: frozenset[int]) -> tuple[int, ...]:
    stop = next((place for place, token in enumerate(ids) if token in eos), len(ids))
    return tuple(ids[: stop + 1])


@dataclass
class _Stopper:
    """Stops each row of `generate` once nothing written later could change its trimmed answer.

    Attributes:
        contexts: the last prompt tokens of each row.
        width: padded prompt length.
        lengths: row → how many new tokens it had when it was done.
        watched: rows that have written a line break or full stop; only these are decoded.
    """

    tokenizer: PreTrainedTokenizerFast
    contexts: Sequence[Sequence[int]]
    width: int
    style: str
    lengths: dict[int, int] = field(default_factory=dict)
    watched: set[int] = field(default_factory=set)
    marks: dict[int, bool] = field(default_factory=dict)

    def __call__(self, ids: torch.Tensor, scores: object, **_: object) -> torch.Tensor:
        import torch

        if self.style != "chat":
            for row, new in enumerate(ids[:, self.width :].tolist()):
                if row not in self.lengths and self._done(row, new):
                    self.lengths[row] = len(new)
        done = [row in self.lengths for row in range(len(ids))]
        return torch.tensor(done, dtype=torch.bool, device=ids.device)

    def _done(self, row: int, new: list[int]) -> bool:
        if self._marked(new[-1]):
            self.watched.add(row)
        if row not in self.watched:
            return False
        return settled(tokens.char_spans(self.tokenizer, new, self.contexts[row])[0], self.style)

    def _marked(self, token: int) -> bool:
        if token not in self.marks:
            text = self.tokenizer.decode([token], clean_up_tokenization_spaces=False)
            # A mark of several bytes may come in several tokens, each an incomplete character.
            wanted = answer_anchors.NEWLINES + answer_anchors.FULL_STOPS + "\ufffd"
            self.marks[token] = any(char in wanted for char in text)
        return self.marks[token]


def settled(text: str, style: str) -> bool:
    """Whether an answer is over for its style, whatever the model would write next.

    In `plain` text a full stop with spaces around it counts at once; another only two words later,
    when it can no longer turn out to be part of an abbreviation or number.
    """
    if any(char in answer_anchors.NEWLINES for char in text):
        return True
    if style != "plain":
        return False
    found = answer_anchors.find(text)
    close = answer_anchors.closer(text, found[1] if found else 0)
    if close is None:
        return False
    before, after = text[:close], text[close + 1 :]
    if not before or before[-1].isspace():
        return any(char.isspace() for char in after)
    return len(after.split()) >= 2

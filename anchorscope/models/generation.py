"""Generation: greedy answers in batches, each stopped once nothing more can change it.

The loop is our own: the head that all prompts share is passed once, prompts of like length are
passed together, rows that have ended leave, and no scores are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from anchorscope.anchors import answer_anchors, tokens
from anchorscope.models import loading
from anchorscope.models.cache import (
    WORTH_A_CALL,
    WORTH_A_GPU_CALL,
    Layers,
    common,
    pass_heads,
    split,
)
from anchorscope.storage import partial
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

CONTEXT = 8  # prompt tokens given to the decoder so that an answer keeps its leading space
LEAVE_AT = 0.75
"""Rows that have ended leave their batch once at most this share of it goes on: leaving costs a
copy of the cache, staying costs the passes."""


@dataclass(frozen=True)
class Ending:
    """How an answer ends.

    Attributes:
        style: prompt style, see `answer`.
        closing: token ids put after E_A in every sample; the last one closes.
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
    keep: Path | None = None,
    room: Room | None = None,
    names: Sequence[str] | None = None,
) -> list[tuple[int, ...]]:
    """Greedy answers, in batches of like length, each row up to its own end.

    What all prompts begin with is passed once. Each step takes the likeliest token, whatever the
    checkpoint's own generation defaults are: a repetition penalty or a temperature of an instruct
    model would otherwise be merged into ours. A batch that does not fit in memory is halved.

    Args:
        prompts: token ids.
        model, tokenizer: of one checkpoint.
        ending: how an answer ends.
        max_new_tokens: most tokens of an answer.
        batch_tokens: most rows × (prompt + answer) tokens of a batch.
        keep: folder where finished batches wait; those that lie there are not passed again.
        room: counts the batches halved, those in `keep` included.
        names: of the prompts, for errors; their numbers if not given.

    Returns:
        The new token ids of each prompt, in the order of the prompts.

    Raises:
        AnchorscopeError: one answer alone does not fit in memory; logits that are not finite.
    """
    batches = list(_batches([len(ids) for ids in prompts], max_new_tokens, batch_tokens))
    room = room or Room()
    writer = _Writer(prompts, model, _Stopper(tokenizer, ending), max_new_tokens, room, names)
    written: dict[int, tuple[int, ...]] = {}
    with Progress(total=len(prompts), unit="answers") as progress:
        for number, batch in enumerate(batches):
            path = None if keep is None else partial.batch(keep, number)
            signed = partial.signature([str([*prompts[row]]) for row in batch])
            before = room.halved
            made = partial.once(path, functools.partial(writer.tensors, batch), signed)
            room.halved = before + int(made["halved"])
            rows = made["ids"].split(made["lengths"].tolist())
            written.update(zip(batch, (tuple(ids.tolist()) for ids in rows), strict=True))
            progress.update(len(batch))
    return [written[row] for row in sorted(written)]


class _Writer:
    """Writes the answers of one batch after the other."""

    def __init__(
        self,
        prompts: Sequence[Sequence[int]],
        model: PreTrainedModel,
        stopper: _Stopper,
        max_new_tokens: int,
        room: Room,
        names: Sequence[str] | None,
    ) -> None:
        self.prompts, self.model, self.stopper = prompts, model, stopper
        self.max_new_tokens, self.room, self.names = max_new_tokens, room, names
        # Every row passes a token of its own, from which its first new one is read.
        self.shared = min([common(prompts), *(len(ids) - 1 for ids in prompts)])
        self.head: Layers | None = None

    def tensors(self, batch: Sequence[int]) -> dict[str, torch.Tensor]:
        """The answers of a batch, for a file, and how often it was halved to fit in memory.

        Returns:
            `lengths` int64 [rows]; `ids` int64, of all rows, one after the other; `halved`.
        """
        before = self.room.halved
        new = [torch.tensor(ids) for ids in self.write(batch)]
        return {
            "lengths": torch.tensor([len(ids) for ids in new]),
            "ids": torch.cat(new),
            "halved": torch.tensor(self.room.halved - before),
        }

    def write(self, batch: Sequence[int]) -> list[tuple[int, ...]]:
        """The new tokens of the prompts with these numbers, in as many parts as it takes."""
        if self.head is None:
            head, device = self.prompts[0][: self.shared], loading.device_of(self.model)
            self.head = pass_heads(self.model, [head], device)
        longest = max(len(self.prompts[number]) for number in batch) + self.max_new_tokens
        parts = self.room.run(batch, lambda some: len(some) * longest, self._some)
        return [new for part in parts for new in part]

    def _some(self, batch: Sequence[int]) -> list[tuple[int, ...]]:
        rows = [self.prompts[number] for number in batch]
        try:
            return _generate_batch(
                rows, self.model, self.head or [], self.shared, self.stopper, self.max_new_tokens
            )
        except _NotFinite as error:
            number = batch[error.row]
            raise AnchorscopeError(
                "the logits of the next token are not finite",
                f"prompt {number}" if self.names is None else f"sample {self.names[number]}",
                "try dtype: float32 for this model; if it stays, the checkpoint is broken",
                see="not-finite",
            ) from None


@dataclass
class _NotFinite(Exception):
    """A row of a batch has logits that are no numbers: its likeliest token would be any."""

    row: int


def _batches(lengths: Sequence[int], max_new_tokens: int, batch_tokens: int) -> Iterator[list[int]]:
    """Numbers of the prompts of each batch, longest first: what does not fit fails at once."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda n: (-lengths[n], n)):
        if batch and (len(batch) + 1) * (lengths[batch[0]] + max_new_tokens) > batch_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


@dataclass
class _Growing:
    """The cache of one batch: room for all its tokens, the head's in front of every row's own.

    Attributes:
        head: keys and values of the head, one row.
        rows: how many rows there are.
        room: slots of each row's own tokens.
        used: slots filled, the head's included; moved on after each pass.
        start, end: slots that the pass at hand fills.
        run: the rows of the pass at hand.
        layers: keys and values of each layer, [rows, key heads, slots, head width].
    """

    head: Layers
    rows: int
    room: int
    used: int
    start: int = 0
    end: int = 0
    run: slice = field(default_factory=lambda: slice(None))
    layers: Layers = field(default_factory=list)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Called by every attention module; returns the keys and values to attend to."""
        if layer_idx == len(self.layers):
            self.layers.append((self._made(keys, layer_idx, 0), self._made(values, layer_idx, 1)))
        every_key, every_value = (
            states[self.run, :, : self.end] for states in self.layers[layer_idx]
        )
        every_key[:, :, self.start :], every_value[:, :, self.start :] = keys, values
        return every_key, every_value

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Slots before those of the pass at hand."""
        return self.start

    def _made(self, states: torch.Tensor, layer: int, which: int) -> torch.Tensor:
        _, heads, _, width = states.shape
        # What no token fills is looked at with weight 0, so it has to be a number.
        made = states.new_zeros((self.rows, heads, self.used + self.room, width))
        if self.used:
            made[:, :, : self.used] = self.head[layer][which]
        return made

    def leave(self, rows: torch.Tensor) -> None:
        """Go on with these rows only; numbers int64, in CPU memory."""
        for layer, (keys, values) in enumerate(self.layers):
            here = rows.to(keys.device)
            self.layers[layer] = (keys.index_select(0, here), values.index_select(0, here))
        self.rows = len(rows)


@dataclass
class _Rows:
    """The rows of a batch that have not ended, as the next pass takes them.

    Attributes:
        numbers: which rows of the batch.
        ids: int64 [rows, tokens to pass].
        places: int64 likewise, the place of each token in its row.
        shut: bool [rows, slots], padding among the slots filled and to come.
        runs: rows that are passed together, and how many of their tokens, those before being
            padding.
    """

    numbers: list[int]
    ids: torch.Tensor
    places: torch.Tensor
    shut: torch.Tensor
    runs: list[tuple[slice, int]]

    def leave(self, rows: torch.Tensor) -> None:
        """Go on with these rows only."""
        self.numbers = [self.numbers[row] for row in rows.tolist()]
        here = rows.to(self.ids.device)
        self.ids, self.places, self.shut = self.ids[here], self.places[here], self.shut[here]


def _generate_batch(
    prompts: Sequence[Sequence[int]],
    model: PreTrainedModel,
    head: Layers,
    shared: int,
    stopper: _Stopper,
    max_new_tokens: int,
) -> list[tuple[int, ...]]:
    """The new tokens of each row of a batch."""
    said: list[list[int]] = [[] for _ in prompts]
    ended: set[int] = set()
    contexts = [prompt[-CONTEXT:] for prompt in prompts]
    with torch.inference_mode():
        rows = _left_padded(prompts, shared, max_new_tokens, loading.device_of(model))
        cache = _Growing(head, len(prompts), rows.shut.shape[1] - shared, shared)
        # No row goes on after so many passes.
        for _ in range(max_new_tokens):
            for row, token in zip(rows.numbers, _next(model, rows, cache), strict=True):
                if row not in ended:
                    said[row].append(token)
                    if stopper.done(said[row], contexts[row]):
                        ended.add(row)
            going = [place for place, row in enumerate(rows.numbers) if row not in ended]
            if not going:
                break
            if len(going) <= LEAVE_AT * len(rows.numbers):
                rows.leave(torch.tensor(going))
                cache.leave(torch.tensor(going))
    return [tuple(new) for new in said]


def _left_padded(
    prompts: Sequence[Sequence[int]], shared: int, max_new_tokens: int, device: torch.device
) -> _Rows:
    """The rows of a batch behind their head, ending at one slot."""
    widths = [len(prompt) - shared for prompt in prompts]
    width = max(widths)
    missing = torch.tensor([width - own for own in widths])[:, None]
    ids = [
        [0] * (width - own) + [*prompt[shared:]]
        for prompt, own in zip(prompts, widths, strict=True)
    ]
    slots = torch.arange(shared + width + max_new_tokens)
    shut = (slots >= shared) & (slots < shared + missing)
    places = (slots[shared : shared + width] - missing).clamp(min=0)
    price = WORTH_A_CALL if device.type == "cpu" else WORTH_A_GPU_CALL
    runs = split(widths, [1] * len(widths), price)
    return _Rows(
        list(range(len(prompts))),
        torch.tensor(ids).to(device),
        places.to(device),
        shut.to(device),
        [(slice(start, end), max(widths[start:end])) for start, end in runs],
    )


def _next(model: PreTrainedModel, rows: _Rows, cache: _Growing) -> list[int]:
    """Pass the rows' tokens; their likeliest next ones, which are what is passed next.

    Raises:
        _NotFinite: a row's logits are.
    """
    cache.end = cache.used + rows.ids.shape[1]
    found = [_likeliest(model, rows, cache, *run) for run in rows.runs]
    likeliest, bad = (torch.cat(parts) for parts in zip(*found, strict=True))
    if bool(bad.any()):
        raise _NotFinite(rows.numbers[int(bad.nonzero()[0, 0])])
    cache.used, rows.runs = cache.end, [(slice(None), 1)]
    rows.ids = likeliest.to(rows.ids.device)
    rows.places = rows.places[:, -1:] + 1
    return likeliest[:, 0].tolist()


def _likeliest(
    model: PreTrainedModel, rows: _Rows, cache: _Growing, run: slice, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pass the last tokens, so many, of a run of the rows; their likeliest next ones, int64
    [rows of it, 1], and whether its logit is not finite, bool likewise."""
    cache.run, cache.start, end = run, cache.end - width, cache.end
    slots = torch.arange(end, device=rows.ids.device)
    query = slots[end - width :, None]
    # Padding looks at itself, since a query with nothing to look at would become NaN.
    shut = ((slots > query) | rows.shut[run, None, :end]) & (slots != query)
    mask = torch.zeros(shut.shape, dtype=model.dtype, device=shut.device)
    call: Any = model
    out = call(
        input_ids=rows.ids[run, -width:],
        position_ids=rows.places[run, -width:],
        attention_mask=mask.masked_fill_(shut, torch.finfo(model.dtype).min)[:, None],
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    logits = out.logits[:, -1]
    likeliest = logits.argmax(dim=-1, keepdim=True)
    # NaN is the largest of all to `argmax`, so it is what is found, wherever it stands.
    return likeliest, ~logits.gather(-1, likeliest).isfinite()


@dataclass
class _Stopper:
    """Ends a row once nothing written later could change its trimmed answer.

    Attributes:
        marks: token → whether it may hold a line break or full stop.
    """

    tokenizer: PreTrainedTokenizerFast
    ending: Ending
    marks: dict[int, bool] = field(default_factory=dict)

    def done(self, new: Sequence[int], context: Sequence[int]) -> bool:
        """Whether a row ends with the last of its new tokens, behind the last of its prompt."""
        if new[-1] in self.ending.eos:
            return True
        if self.ending.style == "chat" or not any(map(self._marked, new)):
            return False  # only a row that has written a mark needs decoding
        return settled(tokens.char_spans(self.tokenizer, new, context)[0], self.ending.style)

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

"""Generation: greedy answers in batches, each stopped once nothing more can change it.

The loop is our own: the head that all prompts share is passed once, prompts of like length are
passed together, rows that have ended leave, and no scores are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils.rnn import pad_sequence

from anchorscope.anchors import answer_anchors
from anchorscope.models import cache, families
from anchorscope.storage import partial
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
    """How an answer ends."""

    style: str  # prompt style, see `answers.Settings`
    closing: tuple[int, ...]  # token ids put after E_A in every sample; the last one closes
    eos: frozenset[int]  # ids of all end-of-sequence tokens


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
    """Greedy answers to prompts, all as token ids, each up to its own end.

    Each step takes the likeliest token, whatever the checkpoint's own generation defaults are: a
    repetition penalty or a temperature of an instruct model would otherwise be merged into ours.

    Args:
        batch_tokens: most rows × (prompt + answer) tokens of a batch; a longer prompt is passed
            by itself, and a batch that does not fit in memory is halved.
        keep: folder where finished batches wait; those that lie there are not passed again.
        room: counts the batches halved, those in `keep` included.
        names: of the prompts, for errors; their numbers if not given.

    Raises:
        AnchorscopeError: one answer alone does not fit in memory; logits that are not finite.
    """
    if not prompts:
        return []
    room, names = room or Room(), names or [str(number) for number in range(len(prompts))]
    # Every row passes a token of its own, from which its first new one is read.
    shared = min([cache.common(prompts), *(len(ids) - 1 for ids in prompts)])
    head = cache.pass_head(model, prompts[0][:shared], families.device_of(model))
    ended = functools.partial(_ended, tokenizer=tokenizer, ending=ending)
    sizes = [len(ids) + max_new_tokens for ids in prompts]

    def some(batch: Sequence[int]) -> list[list[int]]:
        rows, said = [prompts[number] for number in batch], [names[number] for number in batch]
        return _greedy(rows, said, model, head, shared, ended, max_new_tokens)

    def written(batch: Sequence[int]) -> dict[str, torch.Tensor]:
        """The new ids of each row, -1 behind their end, and batches halved."""
        before, longest = room.halved, sizes[batch[0]]
        parts = room.run(batch, lambda part: len(part) * longest, some)
        new = [torch.tensor(ids) for part in parts for ids in part]
        halved = torch.tensor(room.halved - before)
        return {"ids": pad_sequence(new, batch_first=True, padding_value=-1), "halved": halved}

    found: list[tuple[int, ...]] = [()] * len(prompts)
    with Progress(total=len(prompts), unit="answers") as progress:
        for number, batch in enumerate(cache.grouped(sizes, batch_tokens)):
            path = None if keep is None else partial.batch(keep, number)
            signed, before = partial.signature([str([*prompts[n]]) for n in batch]), room.halved
            made = partial.once(path, functools.partial(written, batch), signed)
            room.halved = before + int(made["halved"])
            for n, ids in zip(batch, made["ids"].tolist(), strict=True):
                found[n] = tuple(token for token in ids if token >= 0)
            progress.update(len(batch))
    return found


@dataclass
class _Rows:
    """Rows that are written together; as a cache, their keys and values, the head's in front."""

    model: Any
    head: cache.Layers
    # ids, places: of the tokens to pass next, int64 [rows, tokens]
    ids: torch.Tensor
    places: torch.Tensor
    shut: torch.Tensor  # slots of padding, bool [rows, slots]; there is room for all tokens
    end: int
    # run, start, end: rows of the pass at hand, and slots that it fills
    run: slice = field(default_factory=lambda: slice(None))
    start: int = 0
    layers: cache.Layers = field(default_factory=list)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> list[torch.Tensor]:
        """Called by every attention module; returns the keys and values to attend to."""
        if layer_idx == len(self.layers):
            self.layers.append((self._room_for(keys, 0), self._room_for(values, 1)))
        found = [states[self.run, :, : self.end] for states in self.layers[layer_idx]]
        for states, new in zip(found, (keys, values), strict=True):
            states[:, :, self.start :] = new
        return found

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Slots before those of the pass at hand."""
        return self.start

    def _room_for(self, states: torch.Tensor, which: int) -> torch.Tensor:
        _, heads, _, width = states.shape
        # What no token fills is looked at with weight 0, so it has to be a number.
        room = states.new_zeros((len(self.shut), heads, self.shut.shape[1], width))
        if self.head:
            before = self.head[len(self.layers)][which]
            room[:, :, : before.shape[2]] = before
        return room

    def logits(self, run: slice, width: int) -> torch.Tensor:
        """Logits [rows, vocabulary] after the last `width` tokens of a run of rows."""
        self.run, self.start = run, self.end - width
        slots = torch.arange(self.end, device=self.ids.device)
        query = slots[self.start :, None]
        # Padding looks at itself, since a query with nothing to look at would become NaN.
        closed = ((slots > query) | self.shut[run, None, : self.end]) & (slots != query)
        mask = torch.zeros(closed.shape, dtype=self.model.dtype, device=self.ids.device)
        out = self.model(
            input_ids=self.ids[run, -width:],
            position_ids=self.places[run, -width:],
            attention_mask=mask.masked_fill_(closed, torch.finfo(mask.dtype).min)[:, None],
            past_key_values=self,
            use_cache=True,
            logits_to_keep=1,
        )
        return out.logits[:, -1]

    def leave(self, going: Sequence[bool]) -> None:
        """Go on with these rows only."""
        stay = torch.tensor(going).nonzero()[:, 0]

        def staying(states: torch.Tensor) -> torch.Tensor:
            return states[stay.to(states.device)]

        self.ids, self.places, self.shut = map(staying, (self.ids, self.places, self.shut))
        self.layers = [(staying(keys), staying(values)) for keys, values in self.layers]


def _greedy(
    prompts: Sequence[Sequence[int]],
    names: Sequence[str],
    model: PreTrainedModel,
    head: cache.Layers,
    shared: int,
    ended: Callable[[Sequence[int], Sequence[int]], bool],
    most: int,
) -> list[list[int]]:
    """The new tokens of each row of a batch, padded on the left behind the head of all."""
    device = families.device_of(model)
    widths = [len(prompt) - shared for prompt in prompts]
    width = max(widths)
    missing = torch.tensor([width - own for own in widths], device=device)[:, None]
    own = [[0] * (width - len(ids) + shared) + [*ids[shared:]] for ids in prompts]
    slots = torch.arange(shared + width + most, device=device)
    shut = (slots >= shared) & (slots < shared + missing)
    places = (slots[shared : shared + width] - missing).clamp(min=0)
    rows = _Rows(model, head, torch.tensor(own, device=device), places, shut, shared)
    said: list[list[int]] = [[] for _ in prompts]
    numbers, going = list(range(len(prompts))), set(range(len(prompts)))
    price = cache.WORTH_A_CALL if device.type == "cpu" else cache.WORTH_A_GPU_CALL
    runs = [(run, max(widths[run])) for run in cache.split(widths, price)]
    with torch.inference_mode():
        for _ in range(most):
            rows.end += rows.ids.shape[1]
            logits = torch.cat([rows.logits(*run) for run in runs])
            rows.ids = _likeliest(logits, [names[n] for n in numbers]).to(device)
            for n, token in zip(numbers, rows.ids[:, 0].tolist(), strict=True):
                if n in going:
                    said[n].append(token)
                    if ended(said[n], prompts[n]):
                        going.remove(n)
            if not going:
                break
            rows.places, runs = rows.places[:, -1:] + 1, [(slice(None), 1)]
            if len(going) <= LEAVE_AT * len(numbers):
                rows.leave([n in going for n in numbers])
                numbers = [n for n in numbers if n in going]
    return said


def _likeliest(logits: torch.Tensor, names: Sequence[str]) -> torch.Tensor:
    """The likeliest token of each row, int64 [rows, 1]."""
    likeliest = logits.argmax(dim=-1, keepdim=True)
    # NaN is the largest of all to `argmax`, so it is what is found, wherever it stands.
    bad = ~logits.gather(-1, likeliest).isfinite()
    if bool(bad.any()):
        where = f"sample {names[int(bad.nonzero()[0, 0])]}"
        raise families.not_finite("the logits of the next token are not finite", where)
    return likeliest


def _ended(
    new: Sequence[int], prompt: Sequence[int], tokenizer: PreTrainedTokenizerFast, ending: Ending
) -> bool:
    """Whether nothing written after these tokens could change the trimmed answer."""
    if new[-1] in ending.eos or ending.style == "chat":
        return new[-1] in ending.eos
    before, text = (
        str(tokenizer.decode([*prompt[-CONTEXT:], *ids], clean_up_tokenization_spaces=False))
        for ids in ((), new)
    )
    return settled(text[len(before) :], ending.style)


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

"""Generate greedy answers in batches. Each answer stops once no further token can change it.

The loop replaces transformers' `generate`, for speed. The common beginning of all prompts (the
head) is passed once, prompts of similar length are passed together, and rows that have ended leave
the batch. Only the log-probability of each generated token is kept.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from anchorscope.answers.endings import Ending, ended
from anchorscope.models import cache, calls, families
from anchorscope.models.families import Loaded
from anchorscope.storage import partial
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room

LEAVE_AT = 0.75
"""Drop ended rows when at most this share of a batch is unfinished. Dropping copies the cache."""


@dataclass(frozen=True)
class Written:
    """The tokens that a model generated for one prompt."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]  # of each token, in nats, given all before it


def generate(
    prompts: Sequence[Sequence[int]],
    loaded: Loaded,
    ending: Ending,
    *,
    max_new_tokens: int,
    keep: Path | None = None,
    room: Room | None = None,
    names: Sequence[str] | None = None,
) -> list[Written]:
    """Generate a greedy answer to each prompt, up to the answer's end.

    The checkpoint's own generation defaults, such as a repetition penalty, are not used. In a
    batch, rows × (longest prompt + `max_new_tokens`) is at most `loaded.batch_tokens`. A prompt
    above this limit is passed by itself. A batch that does not fit in memory is halved.

    Prompts are token ids. Finished batches are stored in the folder `keep`, and batches that
    are there already are not passed again. `room` records which batch size did not fit in memory.
    In errors, prompt i is called `names[i]`, or i without `names`.

    Raises:
        AnchorscopeError: One answer alone does not fit in memory, or logits are not finite.
    """
    if not prompts:
        return []
    room, names = room or Room(), names or [str(number) for number in range(len(prompts))]
    # The head leaves each row at least one token, from which the first new token is predicted.
    shared = min([calls.common(prompts), *(len(ids) - 1 for ids in prompts)])
    head = cache.pass_head(loaded, prompts[0][:shared])
    shared = shared if head else 0
    has_ended = functools.partial(ended, tokenizer=loaded.tokenizer, ending=ending)
    sizes = [len(ids) + max_new_tokens for ids in prompts]

    def answers_of(batch: Sequence[int]) -> list[Written]:
        rows, row_names = [prompts[n] for n in batch], [names[n] for n in batch]
        return _greedy(rows, row_names, loaded, head, shared, has_ended, max_new_tokens)

    def tensors_of(batch: Sequence[int]) -> dict[str, torch.Tensor]:
        """Return the new tokens of each row, padded with -1, and their log-probabilities."""
        parts = room.run(batch, lambda part: len(part) * sizes[batch[0]], answers_of)
        written = [one for part in parts for one in part]
        ids = [torch.tensor(one.ids) for one in written]
        logprobs = [torch.tensor(one.logprobs) for one in written]
        return {
            "ids": pad_sequence(ids, batch_first=True, padding_value=-1),
            "logprobs": pad_sequence(logprobs, batch_first=True),
        }

    answers = [Written((), ())] * len(prompts)
    with Progress(total=len(prompts), unit="answers") as progress:
        for number, batch in enumerate(calls.grouped(sizes, loaded.batch_tokens)):
            path = None if keep is None else partial.batch(keep, number)
            signature = partial.signature([str([*prompts[n]]) for n in batch])
            made = partial.once(path, functools.partial(tensors_of, batch), signature)
            rows = made["ids"].tolist(), made["logprobs"].tolist()
            for n, padded, logprobs in zip(batch, *rows, strict=True):
                ids = tuple(token for token in padded if token >= 0)
                answers[n] = Written(ids, tuple(logprobs[: len(ids)]))
            progress.update(len(batch))
    return answers


class _Rows:
    """The rows of a batch, and the cache of their keys and values.

    It replaces transformers' cache (`past_key_values`). Each row holds the head, then the padding
    that shorter rows need, then the row's own tokens.
    """

    def __init__(
        self,
        prompts: Sequence[Sequence[int]],
        model: Any,
        head: cache.Layers,
        shared: int,
        most: int,
    ) -> None:
        """Prepare each prompt for `most` new tokens. For the arguments see `_greedy`."""
        device = families.device_of(model)
        widths = [len(prompt) - shared for prompt in prompts]
        width = max(widths)
        missing = torch.tensor([width - row_width for row_width in widths], device=device)[:, None]
        ids = [[0] * (width - len(prompt) + shared) + [*prompt[shared:]] for prompt in prompts]
        slots = torch.arange(shared + width + most, device=device)
        self.model, self.head = model, head
        self.layers: cache.Layers = []
        # the tokens to pass next, and their positions, int64 [rows, tokens]
        self.ids = torch.tensor(ids, device=device)
        self.places = (slots[shared : shared + width] - missing).clamp(min=0)
        # whether each slot is padding, bool [rows, slots]; slots for new tokens are included
        self.padding = (slots >= shared) & (slots < shared + missing)
        # rows of the present pass; numbers of slots filled before and after it
        self.run, self.start, self.end = slice(None), 0, shared + width

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> list[torch.Tensor]:
        """Return the keys and values to attend to. Called by every attention module."""
        if layer_idx == len(self.layers):
            head_keys, head_values = self.head[layer_idx] if self.head else (None, None)
            self.layers.append((self._slots(keys, head_keys), self._slots(values, head_values)))
        filled = [states[self.run, :, : self.end] for states in self.layers[layer_idx]]
        for states, new in zip(filled, (keys, values), strict=True):
            states[:, :, self.start :] = new
        return filled

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of slots filled before the present pass. Called by the model."""
        return self.start

    def _slots(self, states: torch.Tensor, head: torch.Tensor | None) -> torch.Tensor:
        """Return slots [rows, heads, slots, width]: first the states of `head`, then zeros."""
        _, heads, _, width = states.shape
        # Zeros, since empty slots are attended to with weight 0, and 0 · NaN would be NaN.
        slots = states.new_zeros((len(self.padding), heads, self.padding.shape[1], width))
        if head is not None:
            slots[:, :, : head.shape[2]] = head
        return slots

    def logits(self, run: slice, width: int) -> torch.Tensor:
        """Pass the last `width` tokens of a run of rows. Return logits [rows, vocabulary]."""
        self.run, self.start = run, self.end - width
        slots = torch.arange(self.end, device=self.ids.device)
        query = slots[self.start :, None]
        # Padding attends to itself: a query that attends to nothing would become NaN.
        blocked = ((slots > query) | self.padding[run, None, : self.end]) & (slots != query)
        mask = torch.zeros(blocked.shape, dtype=self.model.dtype, device=self.ids.device)
        out = families.base(self.model)(
            input_ids=self.ids[run, -width:],
            position_ids=self.places[run, -width:],
            attention_mask=mask.masked_fill_(blocked, torch.finfo(mask.dtype).min)[:, None],
            past_key_values=self,
            use_cache=True,
        )
        return families.logits(self.model, out.last_hidden_state[:, -1])

    def extend(self, ids: torch.Tensor) -> None:
        """Append a token to each row, to pass next. `ids` is int64 [rows, 1]."""
        self.ids, self.places, self.end = ids, self.places[:, -1:] + 1, self.end + 1

    def leave(self, going: Sequence[bool]) -> None:
        """Drop the rows whose answers have ended (`going` is False)."""
        rows = torch.tensor(going).nonzero()[:, 0]

        def kept(states: torch.Tensor) -> torch.Tensor:
            return states[rows.to(states.device)]

        self.ids, self.places, self.padding = map(kept, (self.ids, self.places, self.padding))
        self.layers = [(kept(keys), kept(values)) for keys, values in self.layers]


class _WholeRows:
    """The rows of a batch, passed in full for every token, padded on the right.

    Recurrent layers keep states that padding on the left would change.
    """

    def __init__(self, prompts: Sequence[Sequence[int]], loaded: Loaded) -> None:
        self.loaded, self.rows = loaded, [[*prompt] for prompt in prompts]

    def logits(self, run: slice, _: int) -> torch.Tensor:
        """Pass a run of rows. Return logits [rows, vocabulary] of each row's next token."""
        rows = self.rows[run]
        ends = [len(row) - 1 for row in rows]
        places = [range(len(row)) for row in rows]
        arguments = cache.padded(rows, places, max(ends) + 1, self.loaded.device)
        out = families.base(self.loaded.model)(**arguments, use_cache=False)
        return families.logits(self.loaded.model, out.last_hidden_state[range(len(rows)), ends])

    def extend(self, ids: torch.Tensor) -> None:
        """Append a token to each row. `ids` is int64 [rows, 1]."""
        for row, (token,) in zip(self.rows, ids.tolist(), strict=True):
            row.append(token)

    def leave(self, going: Sequence[bool]) -> None:
        """Drop the rows whose answers have ended (`going` is False)."""
        self.rows = list(itertools.compress(self.rows, going))


def _greedy(
    prompts: Sequence[Sequence[int]],
    names: Sequence[str],
    loaded: Loaded,
    head: cache.Layers,
    shared: int,
    has_ended: Callable[[Sequence[int], Sequence[int]], bool],
    most: int,
) -> list[Written]:
    """Generate at most `most` new tokens for each row of a batch.

    `head` holds the keys and values of the `shared` tokens that all rows begin with. `has_ended`
    takes a row's new tokens and its prompt, and tells whether the answer is complete.
    """
    device = loaded.device
    rows: _Rows | _WholeRows
    if loaded.attends:
        rows = _Rows(prompts, loaded.model, head, shared, most)
    else:
        rows = _WholeRows(prompts, loaded)
    answers: list[list[int]] = [[] for _ in prompts]
    logprobs: list[list[float]] = [[] for _ in prompts]
    numbers, going = list(range(len(prompts))), set(range(len(prompts)))
    widths = [len(prompt) - shared for prompt in prompts]
    price = calls.WORTH_A_CALL if device.type == "cpu" else calls.WORTH_A_GPU_CALL
    runs = [(run, max(widths[run])) for run in calls.split(widths, price)]
    with torch.inference_mode():
        for _ in range(most):
            logits = torch.cat([rows.logits(*run) for run in runs])
            likeliest = _likeliest(logits, [names[n] for n in numbers]).to(device)
            rows.extend(likeliest)
            of_token = logits.gather(-1, likeliest)[:, 0] - logits.logsumexp(-1)
            new = zip(numbers, likeliest[:, 0].tolist(), of_token.tolist(), strict=True)
            for n, token, logprob in new:
                if n in going:
                    answers[n].append(token)
                    logprobs[n].append(logprob)
                    if has_ended(answers[n], prompts[n]):
                        going.remove(n)
            if not going:
                break
            runs = [(slice(None), 1)]
            if len(going) <= LEAVE_AT * len(numbers):
                rows.leave([n in going for n in numbers])
                numbers = [n for n in numbers if n in going]
    return [Written(tuple(ids), tuple(of)) for ids, of in zip(answers, logprobs, strict=True)]


def _likeliest(logits: torch.Tensor, names: Sequence[str]) -> torch.Tensor:
    """Return the likeliest token of each row, int64 [rows, 1]; refuse NaN and infinity."""
    likeliest = logits.argmax(dim=-1, keepdim=True)
    # `argmax` takes NaN for the largest value, so it finds any NaN.
    bad = ~logits.gather(-1, likeliest).isfinite()
    if bool(bad.any()):
        where = f"sample {names[int(bad.nonzero()[0, 0])]}"
        raise families.not_finite("the logits of the next token are not finite", where)
    return likeliest

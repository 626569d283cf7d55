"""Generate greedy answers in batches. Each answer stops once no further token can change it.

The loop replaces transformers' `generate`, for speed. The common beginning of all prompts (the
head) is passed once, prompts of similar length are passed together, and rows that have ended leave
the batch. Only the log-probability of each generated token is kept. Cache and masks are those of
transformers.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import DynamicCache

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
    """The rows of a batch, and transformers' cache of their keys and values.

    In the cache, each row has the head first, then the padding that shorter rows need, then its own
    tokens.
    """

    def __init__(
        self, prompts: Sequence[Sequence[int]], loaded: Loaded, head: cache.Layers, shared: int
    ) -> None:
        """Prepare to pass the prompts. For the arguments see `_greedy`."""
        longest, device = max(map(len, prompts)), loaded.device
        rows = [([0] * (longest - len(ids)), [*ids[shared:]]) for ids in prompts]
        mask = [[1] * shared + gap + [1] * len(own) for gap, own in rows]
        # the tokens to pass next; the mask of all tokens, 0 for padding; both int64 [rows, tokens]
        self.ids = torch.tensor([gap + own for gap, own in rows], device=device)
        self.mask = torch.tensor(mask, device=device)
        self.model, self.cache = loaded.model, DynamicCache()
        for layer, states in enumerate(head):
            keys, values = (one.expand(len(prompts), -1, -1, -1) for one in states)
            self.cache.update(keys, values, layer)

    def logits(self) -> torch.Tensor:
        """Pass the next tokens. Return logits [rows, vocabulary] of those that follow."""
        places = (self.mask.cumsum(1) - 1).clamp(min=0)
        out = families.base(self.model)(
            input_ids=self.ids,
            position_ids=places[:, -self.ids.shape[1] :],
            attention_mask=self.mask,
            past_key_values=self.cache,
            use_cache=True,
        )
        return families.logits(self.model, out.last_hidden_state[:, -1])

    def extend(self, ids: torch.Tensor) -> None:
        """Append a token to each row, to pass next. `ids` is int64 [rows, 1]."""
        self.ids, self.mask = ids, pad(self.mask, (0, 1), value=1)

    def leave(self, going: Sequence[bool]) -> None:
        """Drop the rows whose answers have ended (`going` is False)."""
        rows = torch.tensor(going).nonzero()[:, 0]
        self.ids, self.mask = self.ids[rows], self.mask[rows]
        self.cache.batch_select_indices(rows)


class _WholeRows:
    """The rows of a batch, passed in full for every token, padded on the right.

    Recurrent layers keep states that padding on the left would change.
    """

    def __init__(self, prompts: Sequence[Sequence[int]], loaded: Loaded) -> None:
        self.loaded, self.rows = loaded, [[*prompt] for prompt in prompts]

    def logits(self) -> torch.Tensor:
        """Pass all rows. Return logits [rows, vocabulary] of each row's next token."""
        ends = [len(row) - 1 for row in self.rows]
        places = [range(len(row)) for row in self.rows]
        arguments = cache.padded(self.rows, places, max(ends) + 1, self.loaded.device)
        out = families.base(self.loaded.model)(**arguments, use_cache=False)
        return families.logits(self.loaded.model, out.last_hidden_state[range(len(ends)), ends])

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
    rows: _Rows | _WholeRows = _WholeRows(prompts, loaded)
    if loaded.attends:
        rows = _Rows(prompts, loaded, head, shared)
    answers: list[list[int]] = [[] for _ in prompts]
    logprobs: list[list[float]] = [[] for _ in prompts]
    numbers, going = list(range(len(prompts))), set(range(len(prompts)))
    with torch.inference_mode():
        for _ in range(most):
            logits = rows.logits()
            likeliest = _likeliest(logits, [names[n] for n in numbers])
            rows.extend(likeliest.to(loaded.device))
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

"""Sharing: tokens that rows have in common are passed once, and kept as keys and values.

Both kinds of sharing in the measured passes are exact in arithmetic. All prompts of a cell begin
with the same *head* (worked examples, or a chat template's first lines): it is passed once a cell.
And a row with a cut equals the row without it up to the first token that no longer sees all it saw:
it goes on from there. A row behind another prompt shares with the others what it truly does, the
head.

In half precision the shape of a call alone changes results, by more than a small effect: there all
rows of a batch are passed in one call, and only the head is shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anchorscope.models.interventions import Cut, uncut
from anchorscope.models.mask import mask, mask_between

if TYPE_CHECKING:
    import torch

    from anchorscope.models.models import Loaded
    from anchorscope.models.passes import Batch, Plan, Row

    Layers = list[tuple[torch.Tensor, torch.Tensor]]

WORTH_A_CALL = 40
"""Padding tokens that must be saved for one more call of the model to pay."""
WORTH_A_GPU_CALL = 1000
"""The same on a GPU, which a short call leaves idle. Not measured."""


@dataclass(frozen=True)
class Step:
    """One call of the model within a batch.

    Attributes:
        rows: numbers of the rows passed, in `batch.rows`.
        starts: first token of each that is passed; those before are in the cache.
        bases: for each row the place, among the rows of the first step, of the one that it goes on
            from; None in the first step.
        width: padded number of tokens passed a row.
    """

    rows: tuple[int, ...]
    starts: tuple[int, ...]
    bases: tuple[int, ...] | None
    width: int


@dataclass(frozen=True)
class Earlier:
    """Tokens passed before the pass at hand; all tensors but the layers are int64 [rows].

    Attributes:
        layers: keys and values of each layer, [rows, key heads, slots, head width].
        rows: the row of `layers` that each row of the pass at hand looks at.
        firsts: number of the token in its first slot.
        counts: how many of its slots are looked at.
    """

    layers: Layers
    rows: torch.Tensor
    firsts: torch.Tensor
    counts: torch.Tensor

    @property
    def slots(self) -> int:
        """The most slots that a row looks at."""
        return int(self.counts.max())

    @property
    def tokens(self) -> torch.Tensor:
        """Token numbers, int64 [rows, slots]; -1 in a slot that its row does not look at."""
        import torch

        slots = torch.arange(self.slots)
        return (self.firsts[:, None] + slots).where(slots < self.counts[:, None], -1)


@dataclass
class Cache:
    """Stands in for the cache of transformers (`past_key_values`) during one pass.

    Each layer sees the earlier keys and values in front of its own. They are put together layer by
    layer and not kept, so the memory is one layer's.

    Attributes:
        earlier: what was passed before, in the order of the mask's columns.
        own: keys and values of the pass itself, filled if `keep`.
    """

    earlier: Sequence[Earlier] = ()
    keep: bool = False
    own: Layers = field(default_factory=list)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Called by every attention module; returns the keys and values to attend to."""
        import torch

        if self.keep:
            self.own.append((keys, values))
        before = [_gathered(part, layer_idx) for part in self.earlier if part.slots]
        if not before:
            return keys, values
        return (
            torch.cat([*(found[0] for found in before), keys], dim=-2),
            torch.cat([*(found[1] for found in before), values], dim=-2),
        )

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Slots in front of the pass's own."""
        return sum(part.slots for part in self.earlier)


def _gathered(part: Earlier, layer: int) -> list[torch.Tensor]:
    """The earlier keys and the values of one layer, a row for each row of the pass."""
    kept = [tensor[:, :, : part.slots] for tensor in part.layers[layer]]
    if len(kept[0]) == 1:
        return [tensor.expand(len(part.rows), -1, -1, -1) for tensor in kept]
    rows = part.rows.to(kept[0].device)
    return [tensor.index_select(0, rows) for tensor in kept]


def common(rows: Iterable[Sequence[int]]) -> int:
    """How many tokens all rows begin with."""
    ordered = [tuple(row) for row in rows]
    if not ordered:
        return 0
    first, last = min(ordered), max(ordered)  # all others lie between these two
    differ = (n for n, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return next(differ, min(len(first), len(last)))


def steps(planned: Plan, batch: Batch, *, forked: bool = True) -> list[Step]:
    """The calls that pass a batch: its rows without a cut, then the others by what they lack.

    Depends on the plan alone, and on `forked`: if not, all rows are passed in one call. Rows that
    lack unlike numbers of tokens go to different steps where that saves enough padding.
    """
    if not forked:
        starts = {n: planned.shared(planned.passed(row)) for n, row in enumerate(batch.rows)}
        return [_step(planned, batch, starts, None)]
    bases = {
        (row.sample, row.condition): number
        for number, row in enumerate(batch.rows)
        if _base(row) is None
    }
    whole = list(bases.values())
    places = {number: place for place, number in enumerate(whole)}
    heads = {number: planned.shared(planned.passed(batch.rows[number])) for number in whole}
    found = [_step(planned, batch, heads, None)]
    forks = {n: fork(planned, row) for n, row in enumerate(batch.rows) if n not in places}
    lacking = {n: len(planned.passed(batch.rows[n]).input_ids) - forks[n] for n in forks}
    for rows in _alike(lacking):
        on = [places[bases[batch.rows[n].sample, str(_base(batch.rows[n]))]] for n in rows]
        found.append(_step(planned, batch, {n: forks[n] for n in rows}, on))
    return found


def _base(row: Row) -> str | None:
    """The condition, nothing cut, of the row that a row with a cut equals at first."""
    one = uncut(row.intervention)
    return None if one is None else one.name


def fork(planned: Plan, row: Row) -> int:
    """The first token at which a row with a cut may differ from the same row without.

    The tokens of the first run that is cut still see each other and all before them. A read-out
    before that (`prompt_end`, where only the answer is blocked) is passed too.
    """
    sample = planned.passed(row)
    cut = set(row.cut.tokens)
    place = min(cut, default=len(sample.input_ids))
    while place in cut:
        place += 1
    if planned.blocks == "answer":
        place = max(place, sample.answer_start)
    return min(place, *sample.positions.values())


def _alike(lacking: Mapping[int, int]) -> list[list[int]]:
    """Row numbers in steps of like numbers of tokens to pass, the longest first."""
    ordered = sorted(lacking, key=lambda number: (-lacking[number], number))
    runs = split([lacking[number] for number in ordered], [1] * len(ordered), WORTH_A_CALL)
    return [ordered[start:end] for start, end in runs]


def parts(planned: Plan, batch: Batch, *, forked: bool = True) -> list[tuple[int, ...]]:
    """The samples of a batch in runs of like length, each passed by itself where that pays.

    A batch is as large as memory allows, and its longest sample pads all others. A sample's rows
    stay together. Where all rows of a batch must be one call (`forked` is False), so must they
    here.
    """
    if not (forked and batch.masked):
        return [batch.samples]
    lacking: dict[int, int] = {}
    rows = dict.fromkeys(batch.samples, 0)
    for row in batch.rows:
        if _base(row) is None:
            passed = planned.passed(row)
            length = len(passed.input_ids) - planned.shared(passed)
            lacking[row.sample] = max(length, lacking.get(row.sample, 0))
            rows[row.sample] += 1
    sizes = [lacking[sample] for sample in batch.samples]
    counts = [rows[sample] for sample in batch.samples]
    calls = 1 + any(_base(row) is not None for row in batch.rows)
    return [batch.samples[i:j] for i, j in split(sizes, counts, calls * WORTH_A_CALL)]


def split(widths: Sequence[int], rows: Sequence[int], price: int) -> list[tuple[int, int]]:
    """Runs of items, each padded to its widest, at the least cost.

    Args:
        widths: tokens of each item.
        rows: how many rows of that width it stands for.
        price: of one more run, in tokens.

    Returns:
        First item of each run, and the one after its last; the costs are rows × widest and the
        price of the run.
    """
    best: list[tuple[int, int]] = [(0, 0)]
    for end in range(1, len(widths) + 1):
        found: list[tuple[int, int]] = []
        widest = several = 0
        for start in reversed(range(end)):
            widest, several = max(widest, widths[start]), several + rows[start]
            found.append((best[start][0] + widest * several + price, start))
        best.append(min(found))
    ends = [len(widths)]
    while ends[-1]:
        ends.append(best[ends[-1]][1])
    return list(pairwise(reversed(ends)))


def _step(
    planned: Plan, batch: Batch, starts: Mapping[int, int], bases: Sequence[int] | None
) -> Step:
    lengths = [len(planned.passed(batch.rows[number]).input_ids) for number in starts]
    width = max(length - start for length, start in zip(lengths, starts.values(), strict=True))
    on = None if bases is None else tuple(bases)
    return Step(tuple(starts), tuple(starts.values()), on, width)


def tokens_passed(planned: Plan, batch: Batch, *, forked: bool = True) -> int:
    """Rows × padded tokens of all calls for a batch, the heads left out."""
    if not batch.masked:
        return len(batch.rows) * batch.length
    from anchorscope.models.passes import narrowed

    return sum(
        len(step.rows) * step.width
        for some in parts(planned, batch, forked=forked)
        for step in steps(planned, narrowed(batch, some), forked=forked)
    )


def head_rows(planned: Plan) -> list[tuple[int, ...]]:
    """The token ids of the heads, one or two; none where nothing is shared."""
    own, second = planned.heads
    rows = [planned.samples[0].input_ids[:own]]
    if second:
        others = (other for sample in planned.samples for other in sample.others.values())
        found = next(other for other in others if planned.head(other) == 1)
        rows.append(found.input_ids[:second])
    return rows if own or second else []


def head_inputs(
    rows: Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device
) -> dict[str, torch.Tensor]:
    """What the pass of the heads is called with, beside the cache."""
    lengths = [len(row) for row in rows]
    causal = mask(lengths, [Cut(())] * len(rows), dtype=dtype, device=device)
    return _padded(rows, [0] * len(rows), max(lengths), device) | {"attention_mask": causal}


def earlier(planned: Plan, batch: Batch, step: Step, heads: Layers, first: Layers) -> list[Earlier]:
    """What stands before the tokens of a step.

    Args:
        planned: the plan.
        batch: one of its batches.
        step: one of its steps.
        heads: keys and values of the heads, empty where there are none.
        first: keys and values of the batch's first step, empty in this step itself.
    """
    import torch

    samples = [planned.passed(batch.rows[number]) for number in step.rows]
    shared = torch.tensor([planned.shared(sample) for sample in samples])
    found = []
    if heads:
        which = torch.tensor([planned.head(sample) for sample in samples])
        found.append(Earlier(heads, which, torch.zeros_like(shared), shared))
    if step.bases is not None:
        counts = torch.tensor(step.starts) - shared
        found.append(Earlier(first, torch.tensor(step.bases), shared, counts))
    return [part for part in found if part.slots]


def inputs(
    loaded: Loaded, planned: Plan, batch: Batch, step: Step, before: Sequence[Earlier]
) -> dict[str, torch.Tensor]:
    """What one step is called with, beside the cache.

    Returns:
        Right-padded `input_ids` and `position_ids`, int64 [rows, width]; `attention_mask` [rows, 1,
        width, slots + width] in the model's dtype, the slots those of `before` in turn.
    """
    import torch

    rows = [batch.rows[number] for number in step.rows]
    samples = [planned.passed(row) for row in rows]
    own = torch.tensor(step.starts)[:, None] + torch.arange(step.width)
    additive = mask_between(
        own,
        torch.cat([*(part.tokens for part in before), own], dim=1),
        [len(sample.input_ids) for sample in samples],
        [row.cut for row in rows],
        dtype=loaded.model.dtype,
        device=loaded.device,
        first_query=[s.answer_start for s in samples] if planned.blocks == "answer" else None,
    )
    ids = [sample.input_ids for sample in samples]
    return _padded(ids, step.starts, step.width, loaded.device) | {"attention_mask": additive}


def _padded(
    rows: Sequence[Sequence[int]], starts: Sequence[int], width: int, device: torch.device
) -> dict[str, torch.Tensor]:
    """Ids and positions of each row from its start on."""
    import torch

    ids = torch.zeros((len(rows), width), dtype=torch.long)
    for number, (row, start) in enumerate(zip(rows, starts, strict=True)):
        ids[number, : len(row) - start] = torch.tensor(row[start:])
    places = torch.tensor(starts)[:, None] + torch.arange(width)
    last = torch.tensor([max(len(row) - 1, 0) for row in rows])[:, None]
    return {
        "input_ids": ids.to(device),
        # No token is at a place beyond its row's: some models scale by the last place they see.
        "position_ids": places.minimum(last).to(device),
    }

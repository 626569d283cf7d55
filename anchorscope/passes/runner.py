"""The runner: passes some rows through the model, every layer read at once.

The state at layer k depends on layers up to k only. So a pass with the cut in *every* layer
leaves at each layer k exactly what a cut in layers 0...k leaves: one row serves all layers.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from anchorscope.config.readouts import Pair, parse
from anchorscope.models import cache, families
from anchorscope.models.families import Loaded, not_finite
from anchorscope.passes import sharing
from anchorscope.passes.batches import Batch, Plan, narrowed
from anchorscope.passes.hooks import Finished, Write, masked, recording, writing
from anchorscope.passes.mask import mask
from anchorscope.passes.sharing import Step
from anchorscope.storage.room import Room

States = dict[str, torch.Tensor]
"""`<condition>.<draw>/<site>.<position>` → [samples, layers, width], in the model's dtype."""


@dataclass(frozen=True)
class Passed:
    """What `run` gives."""

    states: States  # of the rows, in the order of `batch.samples`
    embeddings: torch.Tensor | None = None
    """[rows, length, width], with a graph to the states; None without `grad`."""
    attentions: Sequence[torch.Tensor] = ()
    """Weights of each layer after the softmax, [rows, heads, queries, keys], within that graph;
    only with `grad` and a model that attends eagerly."""


def run(
    loaded: Loaded,
    planned: Plan,
    batch: Batch,
    *,
    read: Sequence[str],
    write: Sequence[Write] = (),
    grad: bool = False,
) -> Passed:
    """Pass all rows of a batch in one forward, nothing shared.

    The rows carry the interventions: tokens cut or weighed, in all layers or some, and the prompts
    with which they replace, drop or exchange the question (`Sample.others`).

    Args:
        batch: of the plan; `narrowed` takes some of its samples.
        read: read-outs such as `mlp/final`.
        write: states put in place of a module's output; what is read there and behind sees them.
        grad: keep the graph from embeddings to states, see `Passed`.

    Raises:
        AnchorscopeError: see `measure`.
    """
    pairs, rows = parse(read), [planned.passed(row) for row in batch.rows]
    given: dict[str, Any] = {**inputs(loaded, planned, batch)}
    embeddings = None
    if grad:
        embed = loaded.model.get_input_embeddings()
        embeddings = embed(given.pop("input_ids")).detach().requires_grad_()
        eager = loaded.model.config._attn_implementation == "eager"
        given |= {"inputs_embeds": embeddings, "output_attentions": eager}
    with (
        writing(loaded, write, rows),
        recording(loaded, pairs, early=False) as recorder,
        _masked_by_layer(loaded, planned, batch, sharing.whole(batch), ()),
        torch.enable_grad() if grad else torch.inference_mode(),
    ):
        recorder.start(rows, [0] * len(rows))
        out = loaded.model.base_model(**given, use_cache=False)
        states = _named(planned, batch, pairs, recorder.states())
    return Passed(states, embeddings, getattr(out, "attentions", None) or ())


def measure(
    loaded: Loaded,
    planned: Plan,
    readouts: Sequence[str],
    *,
    numbers: Iterable[int] | None = None,
    room: Room | None = None,
) -> Generator[tuple[Batch, States]]:
    """Run the planned passes, one after the other; a batch that does not fit is halved.

    What rows have in common is passed once (`sharing`), and a pass ends with the last module read.
    `numbers` are those of the batches to pass, by default all; `room` counts the batches halved.

    Yields:
        Each batch with its `States` in CPU memory, in the order of `batch.samples`.

    Raises:
        AnchorscopeError: an activation is not finite, or a whole vector is zero; one sample alone
            does not fit in memory.
    """
    pairs, room = parse(readouts), room or Room()
    todo = range(len(planned.batches)) if numbers is None else list(numbers)
    ids = planned.samples[0].input_ids[: planned.head] if todo else ()
    head = cache.pass_head(loaded.model, ids, loaded.device)
    # Rows with a cut go on from the clean row in single precision only, see `sharing`.
    forked = loaded.model.dtype in (torch.float32, torch.float64)

    def passed(batch: Batch, samples: Sequence[int]) -> States:
        """The states of some samples of a batch, passed in as many parts as pay."""
        some = narrowed(batch, samples)
        parts = sharing.parts(planned, some) if forked and batch.masked else [samples]
        every = (narrowed(batch, part) for part in parts)
        return _joined([_states(loaded, planned, one, pairs, head, forked) for one in every])

    for number in todo:
        batch = planned.batches[number]
        yield batch, _joined(room.run(batch.samples, batch.tokens, partial(passed, batch)))


def _joined(parts: Sequence[States]) -> States:
    """The tensors of several runs of samples, one behind the other, in CPU memory."""
    return {name: torch.cat([part[name].cpu() for part in parts]) for name in parts[0]}


def _states(
    loaded: Loaded,
    planned: Plan,
    batch: Batch,
    pairs: Sequence[Pair],
    head: cache.Layers,
    forked: bool,
) -> States:
    """The states of one batch, passed call after call; the ordinary path goes on to its end."""
    steps = sharing.steps(planned, batch, forked=forked)
    found: dict[str, list[torch.Tensor]] = {}
    first: cache.Layers = []
    with recording(loaded, pairs, early=batch.masked) as recorder, torch.inference_mode():
        for step in steps:
            before = sharing.earlier(planned, batch, step, head, first)
            own = cache.Cache(before, keep=len(steps) > 1 and not first)
            given: dict[str, Any] = {**inputs(loaded, planned, batch, step, before)}
            if cached := bool(before) or own.keep:
                given["past_key_values"] = own
            recorder.start([planned.passed(batch.rows[n]) for n in step.rows], step.starts)
            with _masked_by_layer(loaded, planned, batch, step, before), suppress(Finished):
                loaded.model.base_model(**given, use_cache=cached)
            first = first or own.own
            for site, states in recorder.states().items():
                found.setdefault(site, []).append(states)
        order = torch.tensor([number for step in steps for number in step.rows]).argsort()
        seen = {site: torch.cat(some)[order.to(some[0].device)] for site, some in found.items()}
        return _named(planned, batch, pairs, seen)


def inputs(
    loaded: Loaded,
    planned: Plan,
    batch: Batch,
    step: Step | None = None,
    before: Sequence[cache.Earlier] = (),
    layer: int | None = None,
) -> dict[str, torch.Tensor]:
    """What one call is called with, beside the cache; without `step`, all rows of a batch in full.

    `noop`, the model's own verdicts and the seal are measured in full. With `layer`, the mask is
    that of this layer, where interventions act in some only.

    Gives right-padded `input_ids` and `position_ids`, int64 [rows, width]; `attention_mask` [rows,
    1, width, slots + width] in the model's dtype, the slots those of `before` in turn, or for
    `noop` int64 [rows, width].
    """
    step = step or sharing.whole(batch)
    rows = [batch.rows[number] for number in step.rows]
    samples = [planned.passed(row) for row in rows]
    lengths = [len(sample.input_ids) for sample in samples]
    given = cache.padded([one.input_ids for one in samples], step.starts, step.width, loaded.device)
    own = torch.tensor(step.starts)[:, None] + torch.arange(step.width)
    if not batch.masked:
        there = own < torch.tensor(lengths)[:, None]
        return given | {"attention_mask": there.long().to(loaded.device)}
    given["attention_mask"] = mask(
        own,
        torch.cat([*(part.tokens for part in before), own], dim=1),
        lengths,
        [row.tokens if layer is None or row.intervention.acts_in(layer) else () for row in rows],
        weights=[row.intervention.weight for row in rows],
        first_query=[s.answer_start for s in samples] if planned.blocks == "answer" else (),
        dtype=loaded.model.dtype,
        device=loaded.device,
    )
    return given


@contextmanager
def _masked_by_layer(
    loaded: Loaded, planned: Plan, batch: Batch, step: Step, before: Sequence[cache.Earlier]
) -> Iterator[None]:
    """Each layer with a mask of its own, where interventions act in some layers only."""
    some = [row.intervention for row in batch.rows if row.intervention.layers is not None]
    if not some:
        yield
        return
    masks: dict[tuple[bool, ...], torch.Tensor] = {}
    acting = []
    for layer in range(len(families.layers(loaded))):
        acting.append(tuple(one.acts_in(layer) for one in some))
        if acting[-1] not in masks:
            given = inputs(loaded, planned, batch, step, before, layer)
            masks[acting[-1]] = given["attention_mask"]
    with masked(loaded, [masks[acts] for acts in acting]):
        yield


def _named(
    planned: Plan, batch: Batch, pairs: Sequence[Pair], seen: Mapping[str, torch.Tensor]
) -> States:
    """The states of a batch, site → [rows, layers, positions, width], checked and named."""
    places = {position: n for n, position in enumerate(dict.fromkeys(p for _, p in pairs))}
    shape = len(batch.columns), len(batch.samples)
    for site, states in seen.items():
        _check(states, planned, batch, site)
    return {
        f"{one.name}.{draw}/{site}.{position}": seen[site].unflatten(0, shape)[
            column, :, :, places[position]
        ]
        for column, (one, draw) in enumerate(batch.columns)
        for site, position in pairs
    }


def _check(states: torch.Tensor, planned: Plan, batch: Batch, site: str) -> None:
    """Refuse a state [rows, layers, positions, width] that is not finite, or zero all over."""
    bad = (~states.isfinite()).any(dim=-1) | (states == 0).all(dim=-1)
    if not bool(bad.any()):
        return
    row, layer, position = (int(index) for index in bad.nonzero()[0])
    found = "zero" if bool((states[row, layer, position] == 0).all()) else "not finite"
    at = batch.rows[row]
    raise not_finite(
        f"the output of {site} is {found} at layer {layer}",
        f"sample {planned.samples[at.sample].id}, condition {at.condition}, draw {at.draw}",
    )

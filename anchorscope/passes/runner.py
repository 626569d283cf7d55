"""The runner: passes some rows through the model, every layer read at once.

The state at layer k depends on layers up to k only. So a pass with the cut in *every* layer
leaves at each layer k exactly what a cut in layers 0...k leaves: one row serves all layers.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from anchorscope.models import cache, families
from anchorscope.models.families import Loaded
from anchorscope.passes import sharing
from anchorscope.passes.batches import POSITIONS, Batch, Plan, Row, narrowed
from anchorscope.passes.hooks import Finished, Write, masked, recording, writing
from anchorscope.passes.mask import mask
from anchorscope.passes.sharing import Step
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.room import Room

States = dict[str, torch.Tensor]
"""`<condition>.<draw>/<site>.<position>` → [samples, layers, width], in the model's dtype."""
Pair = tuple[str, str]
"""Site and position."""


def parse(readouts: Sequence[str]) -> list[Pair]:
    """(site, position) of each read-out such as `mlp/final`.

    Raises:
        AnchorscopeError: there is no such read-out.
    """
    pairs = [(site, position) for site, _, position in (name.partition("/") for name in readouts)]
    for name, (site, position) in zip(readouts, pairs, strict=True):
        if site not in families.SITES or position not in POSITIONS:
            raise AnchorscopeError(
                f"there is no read-out {name!r}",
                "readouts",
                f"write <site>/<position>: {', '.join(families.SITES)}; {', '.join(POSITIONS)}",
                see="not-measured",
            )
    return pairs


@dataclass(frozen=True)
class Passed:
    """What a pass gives.

    Attributes:
        states: of the rows, see `States`, in the order of `batch.samples`.
        embeddings: [rows, length, width], with a graph to the states; None without `grad`.
        attentions: weights after the softmax of each layer, [rows, heads, queries, keys], within
            that graph; only with `grad` and a model that attends eagerly.
    """

    states: States
    embeddings: torch.Tensor | None = None
    attentions: Sequence[torch.Tensor] = field(default_factory=tuple)


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
        loaded, planned, batch: the model, and rows of its plan; `narrowed` takes some samples.
        read: read-outs such as `mlp/final`.
        write: states put in place of a module's output; what is read there and behind sees them.
        grad: keep the graph from embeddings to states, see `Passed`.

    Raises:
        AnchorscopeError: see `measure`.
    """
    with writing(loaded, write, [planned.passed(row) for row in batch.rows]):
        return _passed(loaded, planned, batch, parse(read), [sharing.whole(batch)], grad=grad)


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

    Args:
        loaded, planned, readouts: the model, the passes, and such as `mlp/final`.
        numbers: of the batches to pass; all of them if not given.
        room: counts the batches halved.

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
    for number in todo:
        batch = planned.batches[number]
        yield batch, _fitting(loaded, planned, batch, pairs, head, room)


def _fitting(
    loaded: Loaded,
    planned: Plan,
    batch: Batch,
    pairs: Sequence[Pair],
    head: cache.Layers,
    room: Room,
) -> States:
    """The states of one batch, passed in as many parts as fit in memory and as pay."""
    # Rows with a cut go on from the clean row in single precision only, see `sharing`.
    forked = loaded.model.dtype in (torch.float32, torch.float64)
    size = len(batch.columns) * batch.length  # tokens of a sample, padding included

    def some_of(samples: Sequence[int]) -> States:
        some, found = narrowed(batch, samples), []
        for part in sharing.parts(planned, some) if forked and batch.masked else [samples]:
            here = narrowed(batch, part)
            steps = sharing.steps(planned, here, forked=forked)
            found.append(_passed(loaded, planned, here, pairs, steps, head, early=batch.masked))
        return _joined([one.states for one in found])

    return _joined(room.run(batch.samples, lambda some: len(some) * size, some_of))


def _joined(parts: Sequence[States]) -> States:
    """The tensors of several runs of samples, one behind the other, in CPU memory."""
    return {name: torch.cat([part[name].cpu() for part in parts]) for name in parts[0]}


def _passed(
    loaded: Loaded,
    planned: Plan,
    batch: Batch,
    pairs: Sequence[Pair],
    steps: Sequence[Step],
    head: cache.Layers | None = None,
    *,
    early: bool = False,
    grad: bool = False,
) -> Passed:
    """The passes of one batch, step after step; `early` ends each with the last module read."""
    found: dict[str, list[torch.Tensor]] = {}
    first: cache.Layers = []
    out = embeddings = None
    with recording(loaded, pairs) as recorder:
        for step in steps:
            before = sharing.earlier(planned, batch, step, head or [], first)
            own = cache.Cache(before, keep=len(steps) > 1 and not first)
            given: dict[str, Any] = {**inputs(loaded, planned, batch, step, before)}
            cached = bool(before) or own.keep
            given |= {"past_key_values": own} if cached else {}
            if grad:
                embed = loaded.model.get_input_embeddings()
                embeddings = embed(given.pop("input_ids")).detach().requires_grad_()
                eager = loaded.model.config._attn_implementation == "eager"
                given |= {"inputs_embeds": embeddings, "output_attentions": eager}
            rows = [planned.passed(batch.rows[number]) for number in step.rows]
            recorder.start(rows, step.starts, early=early)
            with (
                _masked(loaded, planned, batch, step, before),
                torch.enable_grad() if grad else torch.inference_mode(),
                suppress(Finished),
            ):
                out = loaded.model.base_model(**given, use_cache=cached)
            first = first or own.own
            for site, states in recorder.states().items():
                found.setdefault(site, []).append(states)
    order = torch.tensor([number for step in steps for number in step.rows]).argsort()
    seen = {site: torch.cat(some)[order.to(some[0].device)] for site, some in found.items()}
    named = _named(planned, batch, pairs, seen)
    return Passed(named, embeddings, getattr(out, "attentions", None) or ())


def inputs(
    loaded: Loaded,
    planned: Plan,
    batch: Batch,
    step: Step | None = None,
    before: Sequence[cache.Earlier] = (),
) -> dict[str, torch.Tensor]:
    """What one call is called with, beside the cache; without `step`, all rows of a batch in full.

    `noop`, the model's own verdicts and the seal are measured in full.

    Returns:
        Right-padded `input_ids` and `position_ids`, int64 [rows, width]; `attention_mask` [rows, 1,
        width, slots + width] in the model's dtype, the slots those of `before` in turn, or for
        `noop` int64 [rows, width].
    """
    step = step or sharing.whole(batch)
    ids = [planned.passed(batch.rows[number]).input_ids for number in step.rows]
    given = cache.padded(ids, step.starts, step.width, loaded.device)
    if batch.masked:
        attention = _mask(loaded, planned, [batch.rows[n] for n in step.rows], step, before)
    else:
        lengths = torch.tensor([len(row) for row in ids])[:, None]
        attention = (torch.arange(step.width) < lengths).long().to(loaded.device)
    return given | {"attention_mask": attention}


def _mask(
    loaded: Loaded,
    planned: Plan,
    rows: Sequence[Row],
    step: Step,
    before: Sequence[cache.Earlier],
    layer: int | None = None,
) -> torch.Tensor:
    """The mask of a step, in one layer where interventions act in some only."""
    samples = [planned.passed(row) for row in rows]
    acts = [layer is None or row.intervention.acts_in(layer) for row in rows]
    own = torch.tensor(step.starts)[:, None] + torch.arange(step.width)
    return mask(
        own,
        torch.cat([*(part.tokens for part in before), own], dim=1),
        [len(sample.input_ids) for sample in samples],
        [row.tokens if here else () for row, here in zip(rows, acts, strict=True)],
        weights=[row.intervention.weight for row in rows],
        first_query=[s.answer_start for s in samples] if planned.blocks == "answer" else (),
        dtype=loaded.model.dtype,
        device=loaded.device,
    )


@contextmanager
def _masked(
    loaded: Loaded, planned: Plan, batch: Batch, step: Step, before: Sequence[cache.Earlier]
) -> Iterator[None]:
    """Each layer with a mask of its own, where interventions act in some layers only."""
    rows = [batch.rows[number] for number in step.rows]
    if all(row.intervention.layers is None for row in rows):
        yield
        return
    edges = {edge for row in rows for edge in row.intervention.layers or ()}
    masks: list[torch.Tensor] = []
    for layer in range(len(families.layers(loaded))):
        alike = masks and layer not in edges
        masks.append(masks[-1] if alike else _mask(loaded, planned, rows, step, before, layer))
    with masked(loaded, masks):
        yield


def _named(
    planned: Plan, batch: Batch, pairs: Sequence[Pair], seen: Mapping[str, torch.Tensor]
) -> States:
    """The states of a batch, site → [rows, layers, positions, width], checked and named."""
    positions, found = list(dict.fromkeys(position for _, position in pairs)), {}
    for site, states in seen.items():
        _check(states, planned, batch, site)
        by_column = states.unflatten(0, (len(batch.columns), len(batch.samples)))
        for (one, draw), column in zip(batch.columns, by_column, strict=True):
            for number, position in enumerate(positions):
                if (site, position) in pairs:
                    found[f"{one.name}.{draw}/{site}.{position}"] = column[:, :, number].clone()
    return found


def _check(states: torch.Tensor, planned: Plan, batch: Batch, site: str) -> None:
    """Refuse a state [rows, layers, positions, width] that is not finite, or zero all over."""
    bad = (~states.isfinite()).any(dim=-1) | (states == 0).all(dim=-1)
    if not bool(bad.any()):
        return
    row, layer, position = (int(index) for index in bad.nonzero()[0])
    found = "zero" if bool((states[row, layer, position] == 0).all()) else "not finite"
    at = batch.rows[row]
    raise AnchorscopeError(
        f"the output of {site} is {found} at layer {layer}",
        f"sample {planned.samples[at.sample].id}, condition {at.condition}, draw {at.draw}",
        "try dtype: float32 for this model; if it stays, the checkpoint is broken",
        see="not-finite",
    )

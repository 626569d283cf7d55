"""The runner: passes some rows through the model, every layer read at once.

The state at layer k depends on layers up to k only. So a pass with the cut in *every* layer
leaves at each layer k exactly what a cut in layers 0...k leaves: one row serves all layers.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from anchorscope.models import cache, families
from anchorscope.models.families import Loaded
from anchorscope.passes import sharing
from anchorscope.passes.batches import POSITIONS, Batch, Plan, Sample, narrowed
from anchorscope.passes.hooks import Finished, Write, masked, recording, writing
from anchorscope.passes.interventions import Cut
from anchorscope.passes.mask import in_layer, mask
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.room import Room

States = dict[str, "torch.Tensor"]
"""`<condition>.<draw>/<site>.<position>` → [samples, layers, width], in the model's dtype."""


def parse(readouts: Sequence[str]) -> list[tuple[str, str]]:
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
    """Pass all rows of a batch in one forward.

    The rows carry the interventions: tokens cut or weighed, in all layers or some, and the prompts
    with which they replace, drop or exchange the question (`Sample.others`).

    Args:
        loaded, planned: the model, and the plan of the batch.
        batch: the rows; `narrowed` takes some samples of one.
        read: read-outs such as `mlp/final`.
        write: states put in place of a module's output; what is read there and behind sees them.
        grad: keep the graph from embeddings to states, see `Passed`.

    Raises:
        AnchorscopeError: see `measure`.
    """
    pairs = parse(read)
    positions = list(dict.fromkeys(position for _, position in pairs))
    rows = [planned.passed(row) for row in batch.rows]
    indices = _indices(rows, [0] * len(rows), positions)
    given = inputs(loaded, planned, batch)
    embeddings, asked = None, {}
    if grad:
        embed = loaded.model.get_input_embeddings()
        embeddings = embed(given.pop("input_ids")).detach().requires_grad_()
        given["inputs_embeds"] = embeddings
        if loaded.model.config._attn_implementation == "eager":
            asked = {"output_attentions": True}
    with ExitStack() as stack:
        if write:
            places = {name: _indices(rows, [0] * len(rows), [name])[:, 0] for name in POSITIONS}
            stack.enter_context(writing(loaded, write, places))
        if any(row.cut.layers is not None for row in batch.rows):
            stack.enter_context(masked(loaded, _masks(loaded, planned, batch)))
        recorder = stack.enter_context(recording(loaded, list(dict.fromkeys(s for s, _ in pairs))))
        recorder.start(indices.to(loaded.device), early=False)
        stack.enter_context(torch.enable_grad() if grad else torch.inference_mode())
        out = loaded.model.base_model(**given, **asked, use_cache=False)
        states = _tensors(planned, batch, pairs, positions, recorder.states())
    return Passed(states, embeddings, (out.attentions or ()) if asked else ())


def _masks(loaded: Loaded, planned: Plan, batch: Batch) -> list[torch.Tensor]:
    """The mask of each layer, where rows are cut in some of them only; alike ones are one."""
    made: dict[tuple[bool, ...], torch.Tensor] = {}
    cuts, found = [row.cut for row in batch.rows], []
    for layer in range(len(families.layers(loaded))):
        here = in_layer(cuts, layer)
        key = tuple(bool(cut.tokens) for cut in here)
        if key not in made:
            made[key] = _mask(loaded, planned, batch, here)
        found.append(made[key])
    return found


def measure(
    loaded: Loaded,
    planned: Plan,
    readouts: Sequence[str],
    *,
    numbers: Iterable[int] | None = None,
    room: Room | None = None,
) -> Generator[tuple[Batch, dict[str, torch.Tensor]]]:
    """Run the planned passes, one after the other; a batch that does not fit is halved.

    What rows have in common is passed once (`sharing`), and a pass ends with the last module read.

    Args:
        loaded, planned: the model and the passes.
        readouts: such as `mlp/final`.
        numbers: of the batches to pass; all of them if not given.
        room: counts the batches halved.

    Yields:
        Each batch with its `States` in CPU memory, in the order of `batch.samples`.

    Raises:
        AnchorscopeError: an activation is not finite, or a whole vector is zero; one sample alone
            does not fit in memory.
    """
    pairs = parse(readouts)
    todo = range(len(planned.batches)) if numbers is None else list(numbers)
    room = room or Room()
    rows = sharing.head_rows(planned) if todo else []
    heads = cache.pass_heads(loaded.model, rows, loaded.device)

    def passed(batch: Batch) -> States:
        size = len(batch.columns) * batch.length  # tokens of a sample, padding included

        def some_of(samples: Sequence[int]) -> States:
            some = narrowed(batch, samples)
            if not batch.masked or any(row.cut.layers is not None for row in batch.rows):
                return _near(run(loaded, planned, some, read=readouts).states)
            parts = sharing.parts(planned, some, forked=forks(loaded))
            found = (_shared(loaded, planned, narrowed(some, p), pairs, heads) for p in parts)
            return _joined([_near(states) for states in found])

        return _joined(room.run(batch.samples, lambda some: len(some) * size, some_of))

    for number in todo:
        yield planned.batches[number], passed(planned.batches[number])


def _near(states: States) -> States:
    return {name: tensor.cpu() for name, tensor in states.items()}


def _joined(parts: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The tensors of several runs of samples, one behind the other."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _indices(rows: Iterable[Sample], starts: Iterable[int], positions: Sequence[str]) -> Any:
    """Read-out tokens of each row, counted from its first token passed: int64 [rows, positions]."""
    return torch.tensor(
        [
            [sample.positions[name] - start for name in positions]
            for sample, start in zip(rows, starts, strict=True)
        ]
    )


def _shared(
    loaded: Loaded,
    planned: Plan,
    batch: Batch,
    pairs: Sequence[tuple[str, str]],
    heads: cache.Layers,
) -> States:
    """The passes of one batch: rows without a cut first, then the others from where they differ."""
    sites = list(dict.fromkeys(site for site, _ in pairs))
    positions = list(dict.fromkeys(position for _, position in pairs))
    planned_steps = sharing.steps(planned, batch, forked=forks(loaded))
    first: cache.Layers = []
    found: dict[str, list[torch.Tensor]] = {}
    with recording(loaded, sites) as recorder:
        for step in planned_steps:
            samples = [planned.passed(batch.rows[number]) for number in step.rows]
            before = sharing.earlier(planned, batch, step, heads, first)
            own = cache.Cache(before, keep=step.bases is None and len(planned_steps) > 1)
            indices = _indices(samples, step.starts, positions)
            recorder.start(indices.to(loaded.device), early=True)
            with torch.inference_mode(), suppress(Finished):
                given = sharing.inputs(loaded, planned, batch, step, before)
                loaded.model.base_model(**given, past_key_values=own, use_cache=True)
            first = first or own.own
            for site, states in recorder.states().items():
                found.setdefault(site, []).append(states)
    order = torch.tensor([number for step in planned_steps for number in step.rows]).argsort()
    seen = {site: torch.cat(parts)[order.to(parts[0].device)] for site, parts in found.items()}
    return _tensors(planned, batch, pairs, positions, seen)


def forks(loaded: Loaded) -> bool:
    """Whether rows with a cut go on from the clean row: in single precision only."""
    return loaded.model.dtype in (torch.float32, torch.float64)


def inputs(loaded: Loaded, planned: Plan, batch: Batch) -> dict[str, torch.Tensor]:
    """What one pass of a whole batch is called with, nothing shared.

    `noop`, the model's own verdicts and the seal are measured so.

    Returns:
        `input_ids` and `position_ids` int64 [rows, length]; `attention_mask` [rows, 1, length,
        length] in the model's dtype, or for `noop` int64 [rows, length].
    """
    rows = [planned.passed(row).input_ids for row in batch.rows]
    given = cache.padded(rows, [0] * len(rows), batch.length, loaded.device)
    if batch.masked:
        attention = _mask(loaded, planned, batch, [row.cut for row in batch.rows])
    else:
        lengths = torch.tensor([len(ids) for ids in rows])[:, None]
        attention = (torch.arange(batch.length) < lengths).long()
    return given | {"attention_mask": attention.to(loaded.device)}


def _mask(loaded: Loaded, planned: Plan, batch: Batch, cuts: Sequence[Cut]) -> torch.Tensor:
    rows = [planned.passed(row) for row in batch.rows]
    return mask(
        [len(sample.input_ids) for sample in rows],
        cuts,
        dtype=loaded.model.dtype,
        device=loaded.device,
        first_query=[s.answer_start for s in rows] if planned.blocks == "answer" else None,
        width=batch.length,
    )


def _tensors(
    planned: Plan,
    batch: Batch,
    pairs: Sequence[tuple[str, str]],
    positions: Sequence[str],
    seen: Mapping[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """The states of a batch by condition, draw and read-out, as `measure` yields them."""
    found: dict[str, torch.Tensor] = {}
    for site, states in seen.items():
        _check(states, planned, batch, site)
        by_column = states.unflatten(0, (len(batch.columns), len(batch.samples)))
        for (name, draw), column in zip(batch.columns, by_column, strict=True):
            for number, position in enumerate(positions):
                if (site, position) in pairs:
                    found[f"{name}.{draw}/{site}.{position}"] = column[:, :, number].clone()
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

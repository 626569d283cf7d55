"""Hidden states at the read-out tokens: one pass a row, every layer at once, read by hooks.

The state at layer k depends on layers up to k only. So a pass with the block in *every* layer
leaves at each layer k exactly what a block in layers 0...k leaves: one row serves all layers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from anchorscope.models import models, sharing
from anchorscope.models.mask import mask
from anchorscope.models.passes import POSITIONS, Batch, Plan, Sample, narrowed
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.room import Room

if TYPE_CHECKING:
    import torch

TOKENWISE = "mlp"
"""The site whose module gives the same at a token whatever the other tokens are."""


class _Finished(Exception):
    """Ends a pass: nothing that the model would do now is read. Raised by a hook, after recording.

    Hooks of other makers stay in order: those on modules already run have run, and transformers
    and accelerate undo per module, not per pass.
    """


@dataclass
class _Recorder:
    """What the hooks of a pass saw: site → [rows, positions, width] of each layer in turn.

    Attributes:
        indices: read-out tokens, int64 [rows, positions]; None records nothing.
        early: whether the pass ends with the last module read, which, if it works token by token,
            is given the read-out tokens only.
    """

    indices: torch.Tensor | None = None
    early: bool = False
    seen: dict[str, list[torch.Tensor]] = field(default_factory=dict)

    def taken(self, states: torch.Tensor) -> torch.Tensor:
        """The states at the read-out tokens."""
        import torch

        assert self.indices is not None
        indices = self.indices.to(states.device)
        rows = torch.arange(len(indices), device=states.device)[:, None]
        return states[rows, indices]

    def keep(self, site: str, output: Any, *, last: bool) -> None:
        """Record the output of a module; `last` is the last one read."""
        if self.indices is None:
            return
        states = models.first_tensor(output)
        cut_down = last and self.early and site == TOKENWISE
        self.seen.setdefault(site, []).append(states if cut_down else self.taken(states))
        if last and self.early:
            raise _Finished

    def narrow(self, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The input of the last module read, at the read-out tokens."""
        if self.indices is None or not self.early:
            return None
        return (self.taken(inputs[0]), *inputs[1:])

    def states(self) -> dict[str, torch.Tensor]:
        """Site → [rows, layers, positions, width]; the recorder is empty again."""
        import torch

        found = {
            site: torch.stack([layer.to(layers[0].device) for layer in layers], dim=1)
            for site, layers in self.seen.items()
        }
        self.seen.clear()
        return found


@contextmanager
def _recording(loaded: models.Loaded, sites: Collection[str]) -> Iterator[_Recorder]:
    """Hooks that keep the outputs at `recorder.indices` only; they are removed at the end."""
    recorder = _Recorder()
    blocks = models.layers(loaded)
    final = max(sites, key=models.SITES.index)
    handles = []
    for block in blocks:
        for site in sites:
            last = block is blocks[-1] and site == final

            def keep(_: Any, __: Any, output: Any, site: str = site, last: bool = last) -> None:
                recorder.keep(site, output, last=last)

            handles.append(models.part(loaded, block, site).register_forward_hook(keep))
    if final == TOKENWISE:
        module = models.part(loaded, blocks[-1], final)
        handles.append(module.register_forward_pre_hook(lambda _, given: recorder.narrow(given)))
    try:
        yield recorder
    finally:
        for handle in handles:
            handle.remove()


def parse(readouts: Sequence[str]) -> list[tuple[str, str]]:
    """(site, position) of each read-out such as `mlp/final`.

    Raises:
        AnchorscopeError: there is no such read-out.
    """
    pairs = [(site, position) for site, _, position in (name.partition("/") for name in readouts)]
    for name, (site, position) in zip(readouts, pairs, strict=True):
        if site not in models.SITES or position not in POSITIONS:
            raise AnchorscopeError(
                f"there is no read-out {name!r}",
                "readouts",
                f"write <site>/<position>: {', '.join(models.SITES)}; {', '.join(POSITIONS)}",
                see="not-measured",
            )
    return pairs


def measure(
    loaded: models.Loaded,
    planned: Plan,
    readouts: Sequence[str],
    *,
    numbers: Iterable[int] | None = None,
    room: Room | None = None,
) -> Generator[tuple[Batch, dict[str, torch.Tensor]]]:
    """Run the planned passes, one after the other; a batch that does not fit is halved.

    Args:
        loaded: the model.
        planned: the passes.
        readouts: such as `mlp/final`.
        numbers: which batches to pass; all of them if not given.
        room: counts the batches halved.

    Yields:
        Each batch with its tensors in CPU memory, in the model's dtype, named
        `<condition>.<draw>/<site>.<position>`, [samples, layers, width], in the order of
        `batch.samples`.

    Raises:
        AnchorscopeError: an activation is not finite, or a whole vector is zero; one sample alone
            does not fit in memory.
    """
    pairs = parse(readouts)
    todo = range(len(planned.batches)) if numbers is None else list(numbers)
    room = room or Room()
    with _recording(loaded, list(dict.fromkeys(site for site, _ in pairs))) as recorder:
        passes = _Passes(loaded, planned, pairs, recorder, _heads(loaded, planned) if todo else [])
        for number in todo:
            batch = planned.batches[number]
            runs = room.run(batch.samples, _size(batch), partial(passes.of, batch))
            yield batch, _joined(runs)


@dataclass(frozen=True)
class _Passes:
    """Passes some samples of a batch.

    Attributes:
        heads: keys and values of what all prompts begin with.
    """

    loaded: models.Loaded
    planned: Plan
    pairs: Sequence[tuple[str, str]]
    recorder: _Recorder
    heads: sharing.Layers

    def of(self, batch: Batch, samples: Sequence[int]) -> dict[str, torch.Tensor]:
        """The tensors of some samples of a batch, as `measure` yields them."""
        some = narrowed(batch, samples)
        if not batch.masked:
            return self._tensors(some, _plain)
        shared = partial(_shared, heads=self.heads)
        parts = sharing.parts(self.planned, some, forked=forks(self.loaded))
        return _joined([self._tensors(narrowed(some, part), shared) for part in parts])

    def _tensors(
        self, batch: Batch, run: Callable[..., dict[str, torch.Tensor]]
    ) -> dict[str, torch.Tensor]:
        positions = list(dict.fromkeys(position for _, position in self.pairs))
        seen = run(self.loaded, self.planned, batch, positions, self.recorder)
        here = {site: states.cpu() for site, states in seen.items()}
        return _tensors(self.planned, batch, self.pairs, positions, here)


def _size(batch: Batch) -> Callable[[Sequence[int]], int]:
    """What some samples of a batch pass, in tokens, padding included."""
    return lambda some: len(some) * len(batch.columns) * batch.length


def _joined(parts: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The tensors of several runs of samples, one behind the other."""
    import torch

    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _indices(rows: Iterable[Sample], starts: Iterable[int], positions: Sequence[str]) -> Any:
    """Read-out tokens of each row, counted from its first token passed: int64 [rows, positions]."""
    import torch

    return torch.tensor(
        [
            [sample.positions[name] - start for name in positions]
            for sample, start in zip(rows, starts, strict=True)
        ]
    )


def _plain(
    loaded: models.Loaded,
    planned: Plan,
    batch: Batch,
    positions: Sequence[str],
    recorder: _Recorder,
) -> dict[str, torch.Tensor]:
    """One ordinary pass through the base model: nothing shared, nothing left out.

    Returns:
        Site → [rows, layers, positions, width].
    """
    import torch

    rows = [planned.passed(row) for row in batch.rows]
    recorder.seen.clear()
    recorder.early = False
    recorder.indices = _indices(rows, [0] * len(rows), positions).to(loaded.device)
    with torch.inference_mode():
        loaded.model.base_model(**inputs(loaded, planned, batch), use_cache=False)
    return recorder.states()


def _heads(loaded: models.Loaded, planned: Plan) -> sharing.Layers:
    """Keys and values of what all prompts begin with; empty where they share nothing."""
    import torch

    rows = sharing.head_rows(planned)
    cache = sharing.Cache(keep=True)
    if rows:
        with torch.inference_mode():
            given = sharing.head_inputs(rows, loaded.model.dtype, loaded.device)
            loaded.model.base_model(**given, past_key_values=cache, use_cache=True)
    return cache.own


def _shared(
    loaded: models.Loaded,
    planned: Plan,
    batch: Batch,
    positions: Sequence[str],
    recorder: _Recorder,
    heads: sharing.Layers,
) -> dict[str, torch.Tensor]:
    """The passes of one batch: rows without a cut first, then the others from where they differ.

    Returns:
        Site → [rows, layers, positions, width].
    """
    import torch

    planned_steps = sharing.steps(planned, batch, forked=forks(loaded))
    first: sharing.Layers = []
    found: dict[str, list[torch.Tensor]] = {}
    recorder.seen.clear()
    recorder.early = True
    for step in planned_steps:
        samples = [planned.passed(batch.rows[number]) for number in step.rows]
        before = sharing.earlier(planned, batch, step, heads, first)
        cache = sharing.Cache(before, keep=step.bases is None and len(planned_steps) > 1)
        recorder.indices = _indices(samples, step.starts, positions).to(loaded.device)
        with torch.inference_mode(), suppress(_Finished):
            given = sharing.inputs(loaded, planned, batch, step, before)
            loaded.model.base_model(**given, past_key_values=cache, use_cache=True)
        first = first or cache.own
        for site, states in recorder.states().items():
            found.setdefault(site, []).append(states)
    order = torch.tensor([number for step in planned_steps for number in step.rows]).argsort()
    return {site: torch.cat(parts)[order.to(parts[0].device)] for site, parts in found.items()}


def forks(loaded: models.Loaded) -> bool:
    """Whether rows with a cut go on from the clean row: in single precision only."""
    import torch

    return loaded.model.dtype in (torch.float32, torch.float64)


def inputs(loaded: models.Loaded, planned: Plan, batch: Batch) -> dict[str, torch.Tensor]:
    """What one pass of a whole batch would be called with, nothing shared.

    Right-padded ids, positions, and the mask. `noop`, the model's own verdicts and the seal are
    measured so.

    Returns:
        `input_ids` and `position_ids` int64 [rows, length]; `attention_mask` [rows, 1, length,
        length] in the model's dtype, or for `noop` int64 [rows, length].
    """
    import torch

    rows = [planned.passed(row) for row in batch.rows]
    lengths = [len(sample.input_ids) for sample in rows]
    ids = torch.zeros((len(rows), batch.length), dtype=torch.long)
    for number, sample in enumerate(rows):
        ids[number, : lengths[number]] = torch.tensor(sample.input_ids)
    index = torch.arange(batch.length)
    if batch.masked:
        answers_only = planned.blocks == "answer"
        attention = mask(
            lengths,
            [row.cut for row in batch.rows],
            dtype=loaded.model.dtype,
            device=loaded.device,
            first_query=[sample.answer_start for sample in rows] if answers_only else None,
            width=batch.length,
        )
    else:
        attention = (index < torch.tensor(lengths)[:, None]).long()
    return {
        "input_ids": ids.to(loaded.device),
        "position_ids": index.expand(len(rows), -1).to(loaded.device),
        "attention_mask": attention.to(loaded.device),
    }


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

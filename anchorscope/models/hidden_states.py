"""Hidden states at the read-out tokens: one pass a row, every layer at once, read by hooks.

The state at layer k depends on layers up to k only. So a pass with the block in *every* layer
leaves at each layer k exactly what a block in layers 0...k leaves: one row serves all layers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anchorscope.models import models, sharing
from anchorscope.models.mask import mask
from anchorscope.models.passes import POSITIONS, Batch, Plan, Sample, narrowed
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.room import Room, tried
from anchorscope.storage.transfer import Arriving, down, one_behind, up

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


@dataclass(frozen=True)
class _Flight:
    """A batch that the device has been given, its states on their way to CPU memory.

    Attributes:
        batch: as planned.
        parts: the runs of its samples that were passed by themselves, each with its states; none
            once they have been taken.
        halved: how often it was halved to fit in memory.
    """

    batch: Batch
    parts: list[tuple[Batch, Arriving]]
    halved: int

    @property
    def under_way(self) -> bool:
        return any(states.under_way for _, states in self.parts)


def measure(
    loaded: models.Loaded,
    planned: Plan,
    readouts: Sequence[str],
    *,
    numbers: Iterable[int] | None = None,
    room: Room | None = None,
) -> Generator[tuple[Batch, dict[str, torch.Tensor]]]:
    """Run the planned passes, one after the other; a batch that does not fit is halved.

    A GPU has been given the next batch when one is yielded, and works on it while the caller
    writes. If that fails, the batch before is yielded first.

    Args:
        loaded: the model.
        planned: the passes.
        readouts: such as `mlp/final`.
        numbers: which batches to pass; all of them if not given.
        room: counts the batches halved, each when it is yielded.

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
    with _recording(loaded, list(dict.fromkeys(site for site, _ in pairs))) as recorder:
        heads = _heads(loaded, planned) if todo else []
        passes = _Passes(loaded, planned, pairs, recorder, heads, room or Room())
        for flight in one_behind(passes.given(planned.batches[number]) for number in todo):
            yield flight.batch, passes.landed(flight)


@dataclass
class _Passes:
    """Gives the device one batch after the other, and takes the states that come back.

    Attributes:
        counted: counts the batches halved, of those that have landed.
        room: how much has been found to fit.
    """

    loaded: models.Loaded
    planned: Plan
    pairs: Sequence[tuple[str, str]]
    recorder: _Recorder
    heads: sharing.Layers
    counted: Room
    room: Room = field(default_factory=Room)

    @property
    def positions(self) -> list[str]:
        return list(dict.fromkeys(position for _, position in self.pairs))

    def given(self, batch: Batch) -> _Flight:
        """Give the device a batch, in as many parts as it takes to fit in memory."""
        before = self.room.halved
        runs = self.room.run(
            batch.samples, _size(batch), lambda some: self._given(narrowed(batch, some))
        )
        return _Flight(batch, [part for run in runs for part in run], self.room.halved - before)

    def _given(self, batch: Batch) -> list[tuple[Batch, Arriving]]:
        if not batch.masked:
            states = _plain(self.loaded, self.planned, batch, self.positions, self.recorder)
            return [(batch, down(states))]
        found = []
        for some in sharing.parts(self.planned, batch, forked=forks(self.loaded)):
            part = narrowed(batch, some)
            states = _shared(
                self.loaded, self.planned, part, self.positions, self.recorder, self.heads
            )
            found.append((part, down(states)))
        return found

    def landed(self, flight: _Flight) -> dict[str, torch.Tensor]:
        """The tensors of a batch, as `measure` yields them.

        A device may say only now that its memory had run out: then the batch is passed again.
        """
        found = tried(lambda: self._taken(flight.parts))
        flight.parts.clear()  # their memory is for the batches that follow
        self.counted.halved += flight.halved
        if found is not None:
            return found
        batch, before = flight.batch, self.room.halved
        runs = self.room.run(
            batch.samples,
            _size(batch),
            lambda some: self._taken(self._given(narrowed(batch, some))),
        )
        self.counted.halved += self.room.halved - before
        return _joined(runs)

    def _taken(self, parts: Sequence[tuple[Batch, Arriving]]) -> dict[str, torch.Tensor]:
        """The tensors of some parts, all of which have arrived, and are sound."""
        return _joined(
            [
                _tensors(self.planned, part, self.pairs, self.positions, states.wait())
                for part, states in parts
            ]
        )


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
    recorder.indices = up(_indices(rows, [0] * len(rows), positions), loaded.device)
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
        recorder.indices = up(_indices(samples, step.starts, positions), loaded.device)
        with torch.inference_mode(), suppress(_Finished):
            given = sharing.inputs(loaded, planned, batch, step, before)
            loaded.model.base_model(**given, past_key_values=cache, use_cache=True)
        first = first or cache.own
        for site, states in recorder.states().items():
            found.setdefault(site, []).append(states)
    order = torch.tensor([number for step in planned_steps for number in step.rows]).argsort()
    return {site: torch.cat(parts)[up(order, parts[0].device)] for site, parts in found.items()}


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
        "input_ids": up(ids, loaded.device),
        "position_ids": up(index.expand(len(rows), -1), loaded.device),
        "attention_mask": up(attention, loaded.device),
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

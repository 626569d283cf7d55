"""Hooks: what a pass reads, writes and weighs differently, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from anchorscope.models import families
from anchorscope.models.families import Loaded
from anchorscope.passes.batches import Sample

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

TOKENWISE = "mlp"
"""The site whose module gives the same at a token whatever the other tokens are."""


class Finished(Exception):
    """Ends a pass: nothing that the model would do now is read. Raised by a hook, after recording.

    Hooks of transformers and accelerate undo per module, not per pass: they stay in order.
    """


@dataclass
class Recorder:
    """What the hooks of a pass saw.

    Attributes:
        sites, positions: what is read.
        indices: read-out tokens, int64 [rows, positions].
        early: whether the pass ends with the last module read, which, if it works token by token,
            is given the read-out tokens only.
        seen: site → [rows, positions, width] of each layer in turn.
    """

    sites: Sequence[str]
    positions: Sequence[str]
    indices: torch.Tensor = field(init=False)
    early: bool = False
    seen: dict[str, list[torch.Tensor]] = field(default_factory=dict)

    def start(self, rows: Sequence[Sample], starts: Sequence[int], *, early: bool) -> None:
        """Forget what was seen, and read these rows from now on, each passed from its start."""
        places = zip(rows, starts, strict=True)
        self.indices = torch.tensor(
            [[row.positions[name] - start for name in self.positions] for row, start in places]
        )
        self.early, self.seen = early, {site: [] for site in self.sites}

    def taken(self, states: torch.Tensor) -> torch.Tensor:
        """The states at the read-out tokens."""
        indices = self.indices.to(states.device)
        return states[torch.arange(len(indices), device=states.device)[:, None], indices]

    def keep(self, site: str, output: Any, *, last: bool) -> None:
        """Record the output of a module; `last` is the last one read."""
        states = families.first_tensor(output)
        narrowed = last and self.early and site == TOKENWISE
        self.seen[site].append(states if narrowed else self.taken(states))
        if last and self.early:
            raise Finished

    def narrow(self, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The input of the last module read, at the read-out tokens."""
        return (self.taken(inputs[0]), *inputs[1:]) if self.early else None

    def states(self) -> dict[str, torch.Tensor]:
        """Site → [rows, layers, positions, width]."""
        return {
            site: torch.stack([layer.to(layers[0].device) for layer in layers], dim=1)
            for site, layers in self.seen.items()
        }


@contextmanager
def recording(loaded: Loaded, pairs: Sequence[tuple[str, str]]) -> Iterator[Recorder]:
    """Hooks that keep the outputs at read-outs (site, position) only."""
    sites, positions = (list(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
    recorder = Recorder(sites, positions)
    blocks = families.layers(loaded)
    final = max(sites, key=families.SITES.index)
    handles = []
    for block in blocks:
        for site in sites:
            last = block is blocks[-1] and site == final

            def keep(_: Any, __: Any, output: Any, site: str = site, last: bool = last) -> None:
                recorder.keep(site, output, last=last)

            handles.append(families.part(loaded, block, site).register_forward_hook(keep))
    if final == TOKENWISE:
        module = families.part(loaded, blocks[-1], final)
        handles.append(module.register_forward_pre_hook(lambda _, given: recorder.narrow(given)))
    with _removed(handles):
        yield recorder


@contextmanager
def _removed(handles: Sequence[RemovableHandle]) -> Iterator[None]:
    """Hooks that are removed at the end."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class Write:
    """States put in place of a module's output.

    Attributes:
        site, layer: the module.
        position: the token of each row, such as `final`.
        rows: numbers of the rows, in `batch.rows`.
        states: [rows, width].
    """

    site: str
    layer: int
    position: str
    rows: Sequence[int]
    states: torch.Tensor


@contextmanager
def writing(loaded: Loaded, writes: Sequence[Write], rows: Sequence[Sample]) -> Iterator[None]:
    """Hooks that write; a recorder made before them reads what was there, one made after sees it.

    `rows`: what is passed.
    """
    blocks, handles = families.layers(loaded), []
    for one in writes:

        def put(_: Any, __: Any, output: Any, one: Write = one) -> Any:
            states = families.first_tensor(output).clone()
            tokens = [rows[number].positions[one.position] for number in one.rows]
            states[list(one.rows), tokens] = one.states.to(states)
            return (states, *output[1:]) if isinstance(output, tuple) else states

        module = families.part(loaded, blocks[one.layer], one.site)
        handles.append(module.register_forward_hook(put))
    with _removed(handles):
        yield


@contextmanager
def masked(loaded: Loaded, masks: Sequence[torch.Tensor]) -> Iterator[None]:
    """Hooks that give each layer a mask of its own, [rows, 1, queries, keys], for the pass's."""
    handles = []
    for block, mask in zip(families.layers(loaded), masks, strict=True):

        def give(_: Any, args: Any, given: Any, mask: torch.Tensor = mask) -> Any:
            return args, {**given, "attention_mask": mask}

        attention = families.part(loaded, block, "attn")
        handles.append(attention.register_forward_pre_hook(give, with_kwargs=True))
    with _removed(handles):
        yield

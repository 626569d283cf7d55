"""Hooks: what a pass reads, writes and weighs differently, layer by layer."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from anchorscope.config.readouts import SITES
from anchorscope.models import families
from anchorscope.models.families import Loaded
from anchorscope.passes.batches import Sample

TOKENWISE = "mlp"
"""The site whose module gives the same at a token whatever the other tokens are."""


class Finished(Exception):
    """Ends a pass: nothing that the model would do now is read. Raised by a hook, after recording.

    Hooks of transformers and accelerate undo per module, not per pass: they stay in order.
    """


@dataclass
class Recorder:
    """What the hooks of a pass saw."""

    # sites, positions: what is read
    sites: Sequence[str]
    positions: Sequence[str]
    indices: torch.Tensor = field(init=False)  # read-out tokens, int64 [rows, positions]
    # site → [rows, positions, width] of each layer in turn
    seen: dict[str, list[torch.Tensor]] = field(init=False)

    def start(self, rows: Sequence[Sample], starts: Sequence[int]) -> None:
        """Forget what was seen, and read these rows from now on, each passed from its start."""
        places = zip(rows, starts, strict=True)
        self.indices = torch.tensor(
            [[row.positions[name] - start for name in self.positions] for row, start in places]
        )
        self.seen = {site: [] for site in self.sites}

    def at_readouts(self, states: torch.Tensor) -> torch.Tensor:
        """The states at the read-out tokens."""
        indices = self.indices.to(states.device)
        return states[torch.arange(len(indices), device=states.device)[:, None], indices]

    def states(self) -> dict[str, torch.Tensor]:
        """Site → [rows, layers, positions, width]."""
        return {
            site: torch.stack([layer.to(layers[0].device) for layer in layers], dim=1)
            for site, layers in self.seen.items()
        }


@contextmanager
def recording(
    loaded: Loaded, pairs: Sequence[tuple[str, str]], *, early: bool
) -> Iterator[Recorder]:
    """Hooks that keep the outputs at read-outs (site, position) only.

    `early`: whether a pass ends with the last module read, which, if it works token by token, is
    given the read-out tokens only.
    """
    recorder = Recorder(*(list(dict.fromkeys(names)) for names in zip(*pairs, strict=True)))
    blocks = families.layers(loaded)
    final = max(recorder.sites, key=SITES.index)
    with ExitStack() as hooks:
        for block, site in itertools.product(blocks, recorder.sites):
            last = early and block is blocks[-1] and site == final

            def keep(_: Any, __: Any, output: Any, site: str = site, last: bool = last) -> None:
                states, narrowed = families.first_tensor(output), last and site == TOKENWISE
                recorder.seen[site].append(states if narrowed else recorder.at_readouts(states))
                if last:
                    raise Finished

            def narrow(_: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
                return recorder.at_readouts(given[0]), *given[1:]

            module = families.part(loaded, block, site)
            hooks.callback(module.register_forward_hook(keep).remove)
            if last and site == TOKENWISE:
                hooks.callback(module.register_forward_pre_hook(narrow).remove)
        yield recorder


@dataclass(frozen=True)
class Write:
    """States put in place of a module's output."""

    # site, layer: the module
    site: str
    layer: int
    position: str  # the token of each row, such as `final`
    rows: Sequence[int]  # numbers of the rows, in `batch.rows`
    states: torch.Tensor  # [rows, width]


@contextmanager
def writing(loaded: Loaded, writes: Sequence[Write], rows: Sequence[Sample]) -> Iterator[None]:
    """Hooks that write into `rows`; a recorder made after them reads what was written."""
    with ExitStack() as hooks:
        for one in writes:

            def put(_: Any, __: Any, output: Any, one: Write = one) -> Any:
                states = families.first_tensor(output).clone()
                tokens = [rows[number].positions[one.position] for number in one.rows]
                states[list(one.rows), tokens] = one.states.to(states)
                return (states, *output[1:]) if isinstance(output, tuple) else states

            module = families.part(loaded, families.layers(loaded)[one.layer], one.site)
            hooks.callback(module.register_forward_hook(put).remove)
        yield


@contextmanager
def masked(loaded: Loaded, masks: Sequence[torch.Tensor]) -> Iterator[None]:
    """Hooks that give each layer a mask of its own, [rows, 1, queries, keys], for the pass's."""
    with ExitStack() as hooks:
        for block, mask in zip(families.layers(loaded), masks, strict=True):

            def give(_: Any, args: Any, given: Any, mask: torch.Tensor = mask) -> Any:
                return args, {**given, "attention_mask": mask}

            attention = families.part(loaded, block, "attn")
            hooks.callback(attention.register_forward_pre_hook(give, with_kwargs=True).remove)
        yield

"""Hooks: what a pass reads and masks in single modules, layer by layer."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anchorscope.config.readouts import SITES
from anchorscope.models import families
from anchorscope.models.families import Loaded
from anchorscope.passes.batches import Sample

TOKENWISE = "mlp"
"""The site whose module computes each token by itself."""

Arguments = tuple[Tensor, ...]
Output = Tensor | tuple[Tensor, ...]
"""What a module returns: a tensor, or a tuple that starts with one."""


class Finished(Exception):
    """Ends a pass early: everything that is read has been recorded.

    Raised by a hook. The hooks of transformers and accelerate are undone per module, not per pass,
    so they stay in order.
    """


@dataclass(frozen=True)
class Recorder:
    """Keeps the states at the read-out tokens of the rows being passed."""

    indices: Tensor  # of the read-out tokens among those passed, int64 [rows, positions]
    seen: dict[str, list[Tensor]]  # site → [rows, positions, width] of each layer in turn

    def at_readouts(self, states: Tensor) -> Tensor:
        """The states [rows, length, width] at the read-out tokens, [rows, positions, width]."""
        indices = self.indices.to(states.device)
        return states[torch.arange(len(indices), device=states.device)[:, None], indices]

    def states(self) -> dict[str, Tensor]:
        """Site → [rows, layers, positions, width]."""
        return {
            site: torch.stack([layer.to(layers[0].device) for layer in layers], dim=1)
            for site, layers in self.seen.items()
        }


@contextmanager
def recording(
    loaded: Loaded,
    pairs: Sequence[tuple[str, str]],
    rows: Sequence[Sample],
    *,
    first: int = 0,
    early: bool = False,
) -> Iterator[Recorder]:
    """Record the outputs at read-outs (site, position) of these rows while the context is open.

    The rows are passed once, from their token `first` on. With `early` the pass ends with the last
    module read; if that works token by token, it is given the read-out tokens only.
    """
    sites = list(dict.fromkeys(site for site, _ in pairs))
    positions = list(dict.fromkeys(position for _, position in pairs))
    indices = [[row.positions[name] - first for name in positions] for row in rows]
    recorder = Recorder(torch.tensor(indices), {site: [] for site in sites})
    blocks = families.layers(loaded)
    last_site = max(sites, key=SITES.index)
    with ExitStack() as hooks:
        for block, site in itertools.product(blocks, sites):
            ends = early and block is blocks[-1] and site == last_site
            narrows = ends and site == TOKENWISE

            def keep(
                _: nn.Module,
                __: Arguments,
                output: Output,
                site: str = site,
                ends: bool = ends,
                narrows: bool = narrows,
            ) -> None:
                states = families.first_tensor(output)
                recorder.seen[site].append(states if narrows else recorder.at_readouts(states))
                if ends:
                    raise Finished

            def narrow(_: nn.Module, arguments: Arguments) -> Arguments:
                return recorder.at_readouts(arguments[0]), *arguments[1:]

            module = families.part(loaded, block, site)
            hooks.callback(module.register_forward_hook(keep).remove)
            if narrows:
                hooks.callback(module.register_forward_pre_hook(narrow).remove)
        yield recorder


@contextmanager
def masked(loaded: Loaded, masks: Sequence[Tensor]) -> Iterator[None]:
    """Give each layer a mask of its own, [rows, 1, queries, keys], while the context is open."""
    with ExitStack() as hooks:
        for block, mask in zip(families.layers(loaded), masks, strict=True):

            def give(
                _: nn.Module, arguments: Arguments, named: Mapping[str, object], mask: Tensor = mask
            ) -> tuple[Arguments, dict[str, object]]:
                return arguments, {**named, "attention_mask": mask}

            attention = families.part(loaded, block, "attn")
            hooks.callback(attention.register_forward_pre_hook(give, with_kwargs=True).remove)
        yield

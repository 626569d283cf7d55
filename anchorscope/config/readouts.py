"""Read-outs: the site in a block and the token at which a hidden state is read.

This module lists all sites and positions. `models.families.part` finds the module of each site, and
`passes.planning.sample_of` the token of each position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from anchorscope.storage.errors import AnchorscopeError

SITES = ("attn", "mlp", "resid")
"""Output of a block's attention, of its MLP, and of the block itself, in order of computation."""
POSITIONS = ("final", "before_answer", "last_answer", "prompt_end")
"""The closing token, the token before E_A, the last token of E_A, the last token of the prompt."""
READOUTS = tuple(f"{site}/{position}" for site in SITES for position in POSITIONS)
"""All read-outs, such as `mlp/final`, in the order of tables."""


class Location(NamedTuple):
    """Site and position of a read-out, as in the columns of tables."""

    site: str
    position: str

    @classmethod
    def of(cls, readout: str) -> Location:
        """Split a read-out such as `mlp/final` into site and position."""
        site, _, position = readout.partition("/")
        return cls(site, position)


def available(readout: str, sites: Collection[str]) -> str:
    """Return the read-out that a model with these `sites` is read at: `resid` replaces a site."""
    site, position = Location.of(readout)
    return readout if site in sites else f"resid/{position}"


def not_measured(readout: str, measured: Iterable[str], where: object) -> AnchorscopeError:
    """Return the error for a read-out that is not among the `measured` ones."""
    what = f"the read-out {readout} was not measured; measured: {', '.join(measured) or 'none'}"
    do = "name one that was measured, or add this one to `readouts` and measure it"
    return AnchorscopeError(what, where, do, see="not-measured")


def before_answer(readout: str) -> str:
    """Return the read-out of the same site at the end of the prompt, before any answer."""
    return f"{Location.of(readout).site}/prompt_end"


def parse(readouts: Sequence[str]) -> list[Location]:
    """Return the site and position of each read-out such as `mlp/final`.

    Raises:
        AnchorscopeError: There is no such read-out.
    """
    if unknown := [name for name in readouts if name not in READOUTS]:
        what = f"there is no read-out {unknown[0]!r}"
        do = f"write <site>/<position>: {', '.join(SITES)}; {', '.join(POSITIONS)}"
        raise AnchorscopeError(what, "readouts", do, see="not-measured")
    return [Location.of(name) for name in readouts]

"""Read-outs: where in a block, and at which token, a hidden state is read. The one table of both.

A site needs its module in `models.families.part`, a position its token in `passes.planning.TOKEN`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anchorscope.storage.errors import AnchorscopeError

SITES = ("attn", "mlp", "resid")
"""Outputs of a block's attention, of its MLP, and of the block, in the order of computation."""
POSITIONS = ("final", "before_answer", "last_answer", "prompt_end")
"""Tokens: the closing token, the one before E_A, the last of E_A, and the last of the prompt."""
READOUTS = tuple(f"{site}/{position}" for site in SITES for position in POSITIONS)
"""Such as `mlp/final`, in the order of tables."""


class Pair(NamedTuple):
    """The two parts of a read-out, which tables hold in columns of these names."""

    site: str
    position: str

    @classmethod
    def of(cls, readout: str) -> Pair:
        """Those of a read-out such as `mlp/final`."""
        site, _, position = readout.partition("/")
        return cls(site, position)


def before_answer(readout: str) -> str:
    """The read-out of the same site at the end of the prompt, where no answer has been read."""
    return f"{Pair.of(readout).site}/prompt_end"


def parse(readouts: Sequence[str]) -> list[Pair]:
    """Site and position of each read-out such as `mlp/final`.

    Raises AnchorscopeError: there is no such read-out.
    """
    if unknown := [name for name in readouts if name not in READOUTS]:
        what = f"there is no read-out {unknown[0]!r}"
        do = f"write <site>/<position>: {', '.join(SITES)}; {', '.join(POSITIONS)}"
        raise AnchorscopeError(what, "readouts", do, see="not-measured")
    return [Pair.of(name) for name in readouts]

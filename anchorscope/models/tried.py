"""The table of what works where: a row for each family, in the docs and of the self-test."""

from collections.abc import Sequence

from anchorscope.models.families import FAMILIES

COLUMNS = ("family", "tiny model", "published checkpoint", "transformers", "read-outs")


def head() -> str:
    """The first two lines of the table, in Markdown."""
    return f"{_line(COLUMNS)}\n{_line(['---'] * len(COLUMNS))}"


def row(family: str, tiny: str, transformers: str, *, published: Sequence[str] = ()) -> str:
    """The line of a family.

    Args:
        tiny: where a tiny model of it was measured, and with what result.
        transformers: the version that it was measured with.
        published: checkpoints that were measured.
    """
    parts = FAMILIES[family]
    readouts = f"`attn` ({parts.attn}), `mlp` ({parts.mlp}), `resid` (the block)"
    return _line([f"`{family}`", tiny, ", ".join(published) or "–", transformers, readouts])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

"""The table of what works where: a row for each family, in the docs and of the self-test."""

from collections.abc import Sequence

from anchorscope.models.families import FAMILIES
from anchorscope.models.gguf_settings import ARCHITECTURES

COLUMNS = (
    "family", "tiny model", "GGUF architecture", "published checkpoint", "transformers", "read-outs"
)  # fmt: skip


def head() -> str:
    """The first two lines of the table, in Markdown."""
    return f"{_line(COLUMNS)}\n{_line(['---'] * len(COLUMNS))}"


def row(
    family: str,
    tiny: str,
    transformers: str,
    *,
    gguf: Sequence[str] = (),
    published: Sequence[str] = (),
) -> str:
    """The line of a family.

    Args:
        tiny: where a tiny model of it was measured, and with what result.
        transformers: the version that it was measured with.
        gguf: architectures of files that were compared with the model they were written from.
        published: checkpoints that were measured.
    """
    parts = FAMILIES[family]
    readouts = f"`attn` ({parts.attn}), `mlp` ({parts.mlp}), `resid` (the block)"
    found = (", ".join(names) or "–" for names in (gguf, published))
    return _line([f"`{family}`", tiny, *found, transformers, readouts])


def gguf_of(family: str) -> list[str]:
    """The architectures of GGUF whose files are of a family."""
    return [
        f"`{name}`"
        for name, one in ARCHITECTURES.items()
        if family in (one.model_type, *one.others)
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

"""Request for a figure: its cells, read-out, text and style."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anchorscope.figures.figure_style import Figure, Style, style_of

Pair = tuple[str, str]


def distinct(pairs: Sequence[Pair]) -> list[Pair]:
    """Add the key to equal labels, since the legend tells series apart by label alone."""
    labels = [label for _, label in pairs]
    return [
        (key, f"{label} [{key}]" if labels.count(label) > 1 else str(label)) for key, label in pairs
    ]


@dataclass(frozen=True)
class Request:
    """Content and style of a figure."""

    title: str  # the figure's title
    panels: Sequence[Pair]  # (model key, label) in the order of the panels
    datasets: Sequence[Pair]  # (dataset key, label) in the order of the legend
    readout: Pair = ("mlp", "final")  # (site, position)
    level: float = 0.95  # level of the intervals in the tables, for the caption
    notes: Sequence[str] = ()  # sentences that end the details
    no_answers: str = ""  # the caption's sentence on responses that were left out
    look: Style = field(default_factory=Style)

    @property
    def where(self) -> str:
        """First words of captions: the read-out."""
        return f"Read-out {'/'.join(self.readout)}"


Chart = Callable[..., Figure]
"""Function that draws a figure from tables and the keywords of `request_of`."""


def request_of(
    panels: Sequence[Pair],
    datasets: Sequence[Pair],
    style: Style | Mapping[str, object] | None = None,
    **others: Any,
) -> Request:
    """Return a `Request` with distinct labels, with `style` as its look."""
    return Request(
        panels=distinct(panels), datasets=distinct(datasets), look=style_of(style), **others
    )

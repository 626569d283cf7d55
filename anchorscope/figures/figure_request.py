"""What is asked of a figure: its cells, its read-out, its words and its look."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anchorscope.figures.figure_style import Figure, Style, style_of

Pair = tuple[str, str]


def distinct(pairs: Sequence[Pair]) -> list[Pair]:
    """Equal labels get their key added: the legend tells series apart by label alone."""
    labels = [label for _, label in pairs]
    return [
        (key, f"{label} [{key}]" if labels.count(label) > 1 else str(label)) for key, label in pairs
    ]


@dataclass(frozen=True)
class Request:
    """What a figure shows, and how it looks."""

    title: str  # the figure's title
    panels: Sequence[Pair]  # (model key, label) in the order of the panels
    datasets: Sequence[Pair]  # (dataset key, label) in the order of the legend
    readout: Pair = ("mlp", "final")  # (site, position)
    level: float = 0.95  # of the intervals in the tables, for the caption
    notes: Sequence[str] = ()  # sentences that end the details
    no_answers: str = ""  # the caption's words on responses that were left out
    look: Style = field(default_factory=Style)  # sizes and the like

    @property
    def where(self) -> str:
        """The read-out, as captions begin."""
        return f"Read-out {'/'.join(self.readout)}"


Chart = Callable[..., Figure]
"""Draws a figure of tables, and of the keywords of `request_of`."""


def request_of(
    panels: Sequence[Pair],
    datasets: Sequence[Pair],
    style: Style | Mapping[str, object] | None = None,
    **others: Any,
) -> Request:
    """A `Request` by its fields, `style` giving its look; equal labels are told apart."""
    return Request(
        panels=distinct(panels), datasets=distinct(datasets), look=style_of(style), **others
    )

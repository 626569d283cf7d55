"""What is asked of a figure: its cells, its read-out, its words and its look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Required, TypedDict, Unpack

import pandas as pd

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
    grouping: str | None = None  # which grouping; None: `per_layer`, or the only one there is
    level: float = 0.95  # of the intervals in the tables, for the caption
    notes: Sequence[str] = ()  # sentences that end the details
    no_answers: str = ""  # the caption's words on responses that were left out
    look: Style = field(default_factory=Style)  # sizes and the like


class Keywords(TypedDict, total=False):
    """The same as the keywords of a chart function: `style` gives the look, see `style_of`."""

    title: Required[str]
    panels: Required[Sequence[Pair]]
    datasets: Required[Sequence[Pair]]
    readout: Pair
    grouping: str | None
    level: float
    notes: Sequence[str]
    no_answers: str
    style: Style | Mapping[str, object] | None


class Chart(Protocol):
    """A function that draws a figure of tables, and of what else comes before the keywords."""

    def __call__(self, *tables: pd.DataFrame | str, **keywords: Unpack[Keywords]) -> Figure:
        """The figure."""


def request_of(keywords: Keywords) -> Request:
    """What the keywords of a chart function ask for; equal labels are told apart."""
    return Request(
        title=keywords["title"],
        panels=distinct(keywords["panels"]),
        datasets=distinct(keywords["datasets"]),
        readout=keywords.get("readout", Request.readout),
        grouping=keywords.get("grouping"),
        level=keywords.get("level", Request.level),
        notes=keywords.get("notes", ()),
        no_answers=keywords.get("no_answers", ""),
        look=style_of(keywords.get("style")),
    )

"""A picture beside a figure, known before anything that draws is imported."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anchorscope.figures.figure_request import Chart


@dataclass(frozen=True)
class View:
    """A picture, by what it draws."""

    title: str
    drawn_by: str  # `<module>:<function>`, the module below `anchorscope`
    tables: tuple[str, ...]  # that it draws: what stands behind the figure's name in theirs

    @property
    def chart(self) -> Chart:
        """What draws it of its tables."""
        module, _, function = self.drawn_by.partition(":")
        chart: Chart = getattr(import_module(f"anchorscope.{module}"), function)
        return chart

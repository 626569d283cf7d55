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

    title: str  # empty: the figure's own
    drawn_by: str  # `<module>:<function>`, the module below `anchorscope`
    tables: tuple[str, ...]  # that it draws: what stands behind the figure's name in theirs
    of_main_run: bool = True  # then it is built with the figure

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tables that are read for it; the record of the first says what it was made from."""
        return tuple(dict.fromkeys(("", *self.tables))) if self.of_main_run else self.tables

    @property
    def chart(self) -> Chart:
        """What draws it of its tables."""
        module, _, function = self.drawn_by.partition(":")
        chart: Chart = getattr(import_module(f"anchorscope.{module}"), function)
        return chart

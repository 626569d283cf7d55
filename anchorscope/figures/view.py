"""Record of a picture that goes with a figure. Importing this module loads no drawing library."""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anchorscope.figures.data import ChartFunction


@dataclass(frozen=True)
class View:
    """Title, chart function and tables of a picture."""

    title: str  # empty: the figure's own title
    drawn_by: str  # `<module>:<function>`, the module below `anchorscope`
    tables: tuple[str, ...]  # suffixes of the names of the tables that it draws
    of_main_run: bool = True  # whether it is built with the figure

    @property
    def inputs(self) -> tuple[str, ...]:
        """Suffixes of the tables that are read. The first table's provenance names all sources."""
        return tuple(dict.fromkeys(("", *self.tables))) if self.of_main_run else self.tables

    @property
    def chart(self) -> ChartFunction:
        """Function that draws the picture."""
        chart: ChartFunction = resolve_name(f"anchorscope.{self.drawn_by}")
        return chart

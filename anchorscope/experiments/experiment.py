"""What an experiment is: one record, from which targets, rules and pages are derived."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class Experiment:
    """An experiment that is a target of its own, served by the generic rules.

    Its folder `anchorscope/experiments/<name>/` holds three modules more:

    - `measure.measure(cell)` passes a cell's samples, see `scored.Cell`, and returns a
      row for each sample, condition, read-out and layer.
    - `table.table(scores, answers, rows, ...)` makes a cell's table from them, and
      `table.per_sample(scores, answers, rows)` what the calibration holds against planted truth.
    - `figure.chart(table, view, ...)` draws one of `views`.
    """

    name: str  # of its target and its products
    about: str  # what it does and what controls it, in a sentence or two
    views: Mapping[str, str]  # view → title of the picture
    columns: tuple[str, ...]  # of a cell's table; docs/experiments.md explains them

    def module(self, part: str) -> ModuleType:
        """`measure`, `table` or `figure` of its folder, imported when needed."""
        return importlib.import_module(f"anchorscope.experiments.{self.name}.{part}")

    def stems(self) -> dict[str, str]:
        """View → how its pictures are named behind the figure's name; the first has no suffix."""
        first = next(iter(self.views))
        return {one: self.name if one == first else f"{self.name}-{one}" for one in self.views}

"""What an experiment is: one record, from which targets, config, rules and pages are derived."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

from anchorscope.config.settings import Section
from anchorscope.passes.interventions import Intervention


@dataclass(frozen=True)
class Experiment:
    """One experiment. Its folder `anchorscope/experiments/<name>/` holds three modules more,
    unless it has rules of its own.

    - `measure.measure(cell, settings)` passes a cell's samples, see `scored.Cell`, and returns a
      row for each sample, condition, read-out and layer.
    - `table.table(scores, answers, rows, ...)` makes a cell's table from them, and
      `table.per_sample(scores, answers, rows)` what the calibration holds against planted truth.
    - `figure.chart(table, view, ...)` draws one of `views`.

    Attributes:
        name: of its target, its section of the config's `experiments`, and its products.
        label: as a title.
        about: what it does and what controls it, in a sentence or two.
        interventions: its conditions beside `clean`.
        settings: the model of its section in the config.
        views: view → title of the picture; the first is `<figure>.<name>`, the others
            `<figure>.<name>-<view>`.
        columns: column of its table → what it holds.
        own_rules: whether rules of its own make its products, part of the main run, and no target
            is named after it.
    """

    name: str
    label: str
    about: str
    interventions: tuple[Intervention, ...]
    settings: type[Section]
    views: Mapping[str, str]
    columns: Mapping[str, str]
    own_rules: bool = False

    @property
    def cell_columns(self) -> tuple[str, ...]:
        """The columns of one cell's table: without those that name the cell."""
        return tuple(name for name in self.columns if name not in ("model", "dataset"))

    def module(self, part: str) -> ModuleType:
        """`measure`, `table` or `figure` of its folder, imported when needed."""
        return importlib.import_module(f"anchorscope.experiments.{self.name}.{part}")

    def stems(self) -> dict[str, str]:
        """View → how its pictures are named behind the figure's name."""
        return {
            view: f"{self.name}-{view}" if place else self.name
            for place, view in enumerate(self.views)
        }

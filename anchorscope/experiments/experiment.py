"""The record of an experiment, from which targets, rules, settings and pages are derived."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anchorscope.config.sections import Count, Section, key
from anchorscope.figures.view import View
from anchorscope.passes.interventions import Intervention

if TYPE_CHECKING:
    import pandas as pd

    from anchorscope.experiments.measured import MeasuredRows
    from anchorscope.experiments.scored import Cell
    from anchorscope.statistics.analysis import Analysis


class SampledSettings(Section):
    """Settings of an experiment that may measure some samples only."""

    samples: Count | None = key(
        None, "Measure only this many samples per cell, drawn at random; null: all."
    )


Measure = Callable[["Cell", Any], "pd.DataFrame"]
"""The function `measure` in `measure.py` of an experiment's folder.

It passes the samples of a cell under the experiment's settings, and scores them. It returns a row
for each sample, condition, draw, read-out and layer: `measured.COLUMNS`, and columns of its own.
"""
Table = Callable[["Analysis", "MeasuredRows"], "pd.DataFrame"]
"""The functions `table` and `per_sample` in `table.py` of an experiment's folder.

Both return the rows of one read-out. `table` has the columns of the record. `per_sample` has the
columns `PER_SAMPLE`. Its values are from the headline layer, and NaN for samples that do not count.
The calibration compares these values with the planted truth.
"""
PER_SAMPLE = ("id", "arm", "measure", "value", "control")


@dataclass(frozen=True)
class Experiment:
    """An experiment that is a target of its own and uses the generic rules.

    The folder of `answer-only` is `anchorscope/experiments/answer_only/`. Its `__init__.py` holds
    the record, `EXPERIMENT`. Three modules are imported when needed: `measure.py` (see `Measure`),
    `table.py` (see `Table`) and `figure.py` (a function for each view).
    """

    name: str  # of its target, its products, its folder, and its section in the config
    about: str  # what it does and what controls it, in a sentence or two
    interventions: tuple[Intervention, ...]  # what it passes besides `clean`
    columns: Mapping[str, str]  # column of a cell's table, in order → what it holds
    views: Mapping[str, str]  # view → title of the picture
    # name of a condition → name of its control, a condition that acts on as many tokens
    controlled: Mapping[str, str] = field(default_factory=dict)
    # its section `experiments.<name>` in the config; `Section`: it has none
    settings: type[Section] = Section
    reads_attention: bool = False  # whether it reads attention weights, and their gradients
    # random draws of its controls; None: as many as the main run's control has
    draws: int | None = None
    # whether it compares question and answer; only such experiments are measured in the null cells,
    # where they must find nothing
    follows_pair: bool = False

    @property
    def package(self) -> str:
        """Package of the experiment's folder."""
        return f"anchorscope.experiments.{self.name.replace('-', '_')}"

    @property
    def controls(self) -> tuple[str, ...]:
        """Names of the controls."""
        return tuple(dict.fromkeys(self.controlled.values()))

    @property
    def measure(self) -> Measure:
        """The experiment's function `measure`, see `Measure`."""
        return self._function("measure", "measure")

    @property
    def table(self) -> Table:
        """The experiment's function `table`, see `Table`."""
        return self._function("table", "table")

    @property
    def per_sample(self) -> Table:
        """The experiment's function `per_sample`, see `Table`."""
        return self._function("table", "per_sample")

    @property
    def pictures(self) -> dict[str, View]:
        """Map ends of file names to pictures: `<name>` for the first view, else `<name>-<view>`."""
        module, found = f"{self.package.partition('.')[2]}.figure", dict[str, View]()
        for view, title in self.views.items():
            stem = f"{self.name}-{view}" if found else self.name
            found[stem] = View(title, f"{module}:{view}", (self.name,), of_main_run=False)
        return found

    def _function(self, module: str, name: str) -> Callable[..., Any]:
        """Import a function from a module of the experiment's folder."""
        return getattr(importlib.import_module(f"{self.package}.{module}"), name)

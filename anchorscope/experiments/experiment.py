"""The record of an experiment, from which targets, rules, settings and pages are derived."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anchorscope.config.sections import Count, Section, key
from anchorscope.figures.view import View


class SampledSettings(Section):
    """Settings of an experiment that may measure some samples only."""

    samples: Count | None = key(
        None, "Measure only this many samples per cell, drawn at random; null: all."
    )


@dataclass(frozen=True)
class Experiment:
    """An experiment that is a target of its own and uses the generic rules.

    The folder of `answer-only` is `anchorscope/experiments/answer_only/`. Its `__init__.py` holds
    the record, `EXPERIMENT`. Two modules are imported when needed.

    `measure.py` has the function `measure(cell, settings)`. It passes samples of a `Cell` under the
    experiment's settings, and returns `Measurements`.

    `results.py` has a function for each view, and two functions of (`Analysis`, `Arrays`), the
    measurements at one read-out. `table` returns rows with the columns of the record. `per_sample`
    returns (arm, measure) → (values, values of the control), both [n], at the headline layer, and
    NaN for samples that do not count. The calibration compares them with the planted truth.
    """

    name: str  # of its target, its products, its folder, and its section in the config
    about: str  # what it does and what controls it, in a sentence or two
    columns: Mapping[str, str]  # column of a cell's table, in order → what it holds
    views: Mapping[str, str]  # view → title of the picture
    # its section `experiments.<name>` in the config; `Section`: it has none
    settings: type[Section] = Section
    reads_attention: bool = False  # whether it reads attention weights, and their gradients
    # whether it compares question and answer; only such experiments are measured in the null cells,
    # where they must find nothing
    follows_pair: bool = False

    @property
    def package(self) -> str:
        """Package of the experiment's folder."""
        return f"anchorscope.experiments.{self.name.replace('-', '_')}"

    def module(self, name: str) -> Any:
        """Import a module of the experiment's folder."""
        return importlib.import_module(f"{self.package}.{name}")

    @property
    def pictures(self) -> dict[str, View]:
        """Map ends of file names to pictures: `<name>` for the first view, else `<name>-<view>`."""
        module, found = f"{self.package.partition('.')[2]}.results", dict[str, View]()
        for view, title in self.views.items():
            stem = f"{self.name}-{view}" if found else self.name
            found[stem] = View(title, f"{module}:{view}", (self.name,), of_main_run=False)
        return found

"""The experiments beside the main run, in the order of the report."""

from __future__ import annotations

from anchorscope.config.settings import Config, Section
from anchorscope.experiments import patching
from anchorscope.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in (patching.EXPERIMENT,)}
"""Name → record. A new experiment is a folder and its record here."""


def settings_of(config: Config, name: str) -> Section:
    """An experiment's section of the config's `experiments`, with its defaults."""
    return EXPERIMENTS[name].settings(**config.experiments.get(name, {}))


def pictures() -> dict[str, tuple[str, str]]:
    """What stands behind a figure's name in a picture's → experiment and view."""
    return {
        stem: (one.name, view) for one in EXPERIMENTS.values() for view, stem in one.stems().items()
    }

"""The experiments, in the order of the report."""

from __future__ import annotations

from anchorscope.config.settings import Config, Section
from anchorscope.experiments import interchange, knockout, patching
from anchorscope.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one for one in (knockout.EXPERIMENT, interchange.EXPERIMENT, patching.EXPERIMENT)
}
"""Name → record. A new experiment is a folder and its record here."""
TARGETS = {name: one for name, one in EXPERIMENTS.items() if not one.own_rules}
"""Those that run beside the main run: targets that the generic rules serve."""


def settings_of(config: Config, name: str) -> Section:
    """An experiment's section of the config's `experiments`, with its defaults."""
    return EXPERIMENTS[name].settings(**config.experiments.get(name, {}))


def pictures() -> dict[str, tuple[str, str]]:
    """What stands behind a figure's name in a picture's → experiment and view."""
    return {
        stem: (one.name, view) for one in TARGETS.values() for view, stem in one.stems().items()
    }

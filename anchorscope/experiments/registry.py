"""The experiments beside the main run, in the order of the report."""

from __future__ import annotations

from pydantic import ValidationError

from anchorscope.config.settings import Config, Section
from anchorscope.experiments import patching
from anchorscope.experiments.experiment import Experiment
from anchorscope.storage.errors import AnchorscopeError

EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in (patching.EXPERIMENT,)}
"""Name → record. A new experiment is a folder and its record here."""


def settings_of(config: Config, name: str) -> Section:
    """An experiment's section of the config's `experiments`, with its defaults.

    Raises:
        AnchorscopeError: a key that the experiment does not know, or a wrong value.
    """
    try:
        return EXPERIMENTS[name].settings(**config.experiments.get(name, {}))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, ("experiments", name, *first["loc"])))
        do = "docs/experiments.md lists the keys"
        what = f"{first['msg']}: {first['input']!r}"
        raise AnchorscopeError(what, where, do, see="config") from None


def check(config: Config) -> None:
    """Refuse settings of no experiment, or that an experiment does not take.

    Raises:
        AnchorscopeError: with the key.
    """
    for name in config.experiments:
        if name not in EXPERIMENTS:
            what, where = f"no experiment {name!r} takes settings", f"experiments.{name}"
            raise AnchorscopeError(
                what, where, f"use one of: {', '.join(EXPERIMENTS)}", see="config"
            )
        settings_of(config, name)


def pictures() -> dict[str, tuple[str, str]]:
    """What stands behind a figure's name in a picture's → experiment and view."""
    return {
        stem: (one.name, view) for one in EXPERIMENTS.values() for view, stem in one.stems().items()
    }

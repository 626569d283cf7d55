"""Studies: the same stages under other settings, each in a root of its own.

A run has one main study, in the results' root. `calibration` measures more of the calibration
world; each variant of `sensitivity` changes one choice that the paper leaves open. A study makes
anew what its settings change, and takes every earlier product from the main study.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from anchorscope.calibration import sensitivity
from anchorscope.config.settings import Config, Readout

STAGES = ("prompts", "answers", "activations", "scores", "delta_p")
VARIANTS = "sensitivity"
"""Folder of the variants' roots."""

FIRST_STAGE = {
    "anchors": "prompts",
    "finder": "prompts",
    "conditions": "activations",
    "knockout": "activations",
    "readouts": "activations",
    "probe": "scores",
    "bootstrap": "delta_p",
}
"""The first stage that a config key matters to."""


@dataclass(frozen=True)
class Study:
    """One study.

    Attributes:
        root: folder of its products.
        config: its settings.
        first: the first stage whose products are its own.
    """

    root: str
    config: Config
    first: str = STAGES[0]

    def owns(self, stage: str) -> bool:
        return STAGES.index(stage) >= STAGES.index(self.first)


def of(config: Config) -> dict[str, Study]:
    """Every study of a run, by its root; the main one first."""
    found = [Study(config.root, config), _calibration(config)]
    variants = sensitivity.variants(config.model_dump())
    roots = sensitivity_roots(config)
    found += [_study(config, roots[name], changed) for name, changed in variants.items()]
    return {study.root: study for study in found}


def calibration_root(config: Config) -> str:
    return f"{config.root}/calibration"


def sensitivity_roots(config: Config) -> dict[str, str]:
    """Variant → root."""
    names = sensitivity.variants(config.model_dump())
    return {name: f"{config.root}/{VARIANTS}/{name}" for name in names}


def varies(root: str) -> bool:
    """Whether a root is that of a variant, see `sensitivity_roots`."""
    return Path(root).parent.name == VARIANTS


def _calibration(config: Config) -> Study:
    chosen = config.calibration
    overrides: dict[str, Any] = {
        "conditions": {
            "random": {"draws": chosen.random_draws},
            "matched": {},
            "placebo": {},
            "replicate": {},
        },
        "readouts": list(get_args(Readout)),
        "bootstrap": {"draws": chosen.bootstrap_draws},
        "probe": {"refits": 0},
    }
    study = _study(config, calibration_root(config), overrides)
    if any(config.models[name].prompt == "few_shot" for name, _ in config.calibrated()):
        # A replicate is then a second prompt.
        return Study(study.root, study.config)
    return study


def _study(config: Config, root: str, overrides: Mapping[str, Any]) -> Study:
    merged = Config.model_validate(_merged(config.model_dump(), overrides))
    first = min((FIRST_STAGE[key] for key in overrides), key=STAGES.index)
    return Study(root, merged, first)


def _merged(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for key, value in overrides.items():
        old = found.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = _merged(old, value)
        found[key] = value
    return found

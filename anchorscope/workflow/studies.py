"""Studies: the same stages under other settings, each in a root of its own.

A run has one main study, in the results' root. `calibration` measures more of the calibration
world; each variant of `sensitivity` changes one choice that the paper leaves open. A study makes
anew what its settings change, and takes every earlier product from the main study.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from anchorscope.calibration import sensitivity
from anchorscope.config.sections import Readout
from anchorscope.config.settings import Config
from anchorscope.experiments import registry
from anchorscope.storage.errors import AnchorscopeError, nearest

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

    @property
    def partner_folds(self) -> list[Any] | None:
        """What decides the folds, where a sample's partners are of its own."""
        conditions, probe = self.config.conditions, self.config.probe
        return [probe.folds, probe.disjoint] if conditions.matched or conditions.placebo else None


@dataclass(frozen=True)
class Cell:
    """A model on a dataset in a study."""

    study: Study
    model: str
    dataset: str

    @property
    def built(self) -> bool:
        """Whether its last product is there; whether it is up to date, `snakemake -n` knows."""
        return Path(self.study.root, "delta_p", self.model, f"{self.dataset}.csv").is_file()


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


TARGETS = (
    *("all", "controls", "report", "calibration", "null-controls", "sensitivity", "reproduction"),
    *("retrain", "retrain-seeds"),
    *registry.EXPERIMENTS,
)
"""What Snakemake builds by name beside the figures."""


def cells_of(config: Config, target: str) -> list[Cell]:
    """The cells that a target measures; some of `TARGETS` measure none.

    Args:
        config: of the run.
        target: a figure's name, or one of `TARGETS`.

    Raises:
        AnchorscopeError: there is no such target, or a study of what the catalogue lacks.
    """
    main, known = Study(config.root, config), of(config)
    if target in config.figures:
        return _cells(main, config.cells(target))
    if target in ("all", "controls", "report", *registry.EXPERIMENTS):
        return _cells(main, (cell for figure in config.targets for cell in config.cells(figure)))
    if target in ("calibration", "null-controls"):
        nulls = [(null.model, null.dataset) for null in config.calibration.nulls.values()]
        chosen = config.calibrated() if target == "calibration" else []
        return _cells(known[calibration_root(config)], [*chosen, *nulls])
    if target == "sensitivity":
        variants = [known[root] for root in sensitivity_roots(config).values()]
        measured = [main, *(study for study in variants if study.owns("activations"))]
        return [cell for study in measured for cell in _cells(study, varied_cells(config))]
    if target not in TARGETS:
        do = nearest(target, [*config.figures, *TARGETS])
        raise AnchorscopeError(f"there is no target `{target}`", None, do, see="config")
    return []


def _cells(study: Study, named: Iterable[tuple[str, str]]) -> list[Cell]:
    cells = [Cell(study, model, dataset) for model, dataset in dict.fromkeys(named)]
    for cell in cells:
        config = study.config
        if cell.model not in config.models or cell.dataset not in config.datasets:
            what = f"the cell {cell.model} on {cell.dataset} is not in the catalogue"
            do = "add it, or name other models and datasets for the study in config.yaml"
            raise AnchorscopeError(what, study.root, do, see="config")
    return cells


def varied_cells(config: Config) -> list[tuple[str, str]]:
    """(model, dataset) of the cells whose open choices `sensitivity` varies."""
    chosen = config.sensitivity or config.calibration
    datasets = chosen.datasets if config.sensitivity else chosen.datasets[:1]
    return [(model, dataset) for model in chosen.models for dataset in datasets]


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

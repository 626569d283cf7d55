"""Studies: the same stages under different settings, each study with a root folder of its own.

A run has the main study, and the study `calibration` with more conditions and read-outs.
`calibration` takes prompts and answers from the main study and makes all later products itself.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchorscope.config.readouts import READOUTS
from anchorscope.config.shipped import laid_over
from anchorscope.experiments import registry
from anchorscope.experiments.registry import RunConfig
from anchorscope.storage.errors import AnchorscopeError, nearest

TARGETS = (
    "all evidence detection detectors report calibration calibration-experiments null-controls"
    " reproduction retrain retrain-seeds".split()
) + list(registry.EXPERIMENTS)
"""Targets of Snakemake in addition to the figures."""


@dataclass(frozen=True)
class Study:
    """One set of settings with its own root."""

    root: str  # the folder of its products, apart from prompts and answers
    config: RunConfig


@dataclass(frozen=True)
class StudyCell:
    """A model on a dataset in a study."""

    study: Study
    model: str
    dataset: str

    @property
    def built(self) -> bool:
        """Whether the cell's last product exists, up to date or not (see `snakemake -n`)."""
        return Path(self.study.root, "delta_p", self.model, f"{self.dataset}.csv").is_file()


def of(config: RunConfig) -> dict[str, Study]:
    """Return root → study for every study of a run, the main study first."""
    return {study.root: study for study in (Study(config.root, config), _calibration(config))}


def _calibration(config: RunConfig) -> Study:
    chosen = config.calibration
    more: dict[str, Any] = {
        "conditions": {"random": {"draws": chosen.random_draws}, "crossed": {}, "gold": {}},
        "readouts": list(READOUTS),
        "bootstrap": {"draws": chosen.bootstrap_draws},
    }
    merged = RunConfig.model_validate(laid_over(more, config.model_dump()))
    return Study(calibration_root(config), merged)


def calibration_root(config: RunConfig) -> str:
    """Return the root of the calibration study."""
    return f"{config.root}/calibration"


def null_cells(config: RunConfig) -> list[tuple[str, str]]:
    """Return (model, dataset) of the null cells, where any finding is a false positive."""
    return [(null.model, null.dataset) for null in config.calibration.nulls.values()]


def held_cells(config: RunConfig, experiment: str | None = None) -> list[tuple[str, str]]:
    """Return (model, dataset) of cells: those to compare with the planted truth, then null cells.

    For an `experiment` that does not compare question and answer, null cells are left out.
    """
    every = experiment is None or registry.EXPERIMENTS[experiment].follows_pair
    nulls = null_cells(config) if every else []
    return list(dict.fromkeys([*config.calibrated(), *nulls]))


def shown_cells(config: RunConfig) -> list[tuple[str, str]]:
    """Return (model, dataset) of every cell in the figures of `targets`, without repetition."""
    return list(dict.fromkeys(cell for figure in config.targets for cell in config.cells(figure)))


def cells_of(config: RunConfig, target: str) -> list[StudyCell]:
    """Return the cells that `target` measures. A target is a figure, or one of `TARGETS`.

    Raises:
        AnchorscopeError: There is no such target.
    """
    main, calibration = of(config).values()
    if target in config.figures:
        study, cells = main, config.cells(target)
    elif target in ("calibration", "calibration-experiments"):
        study, cells = calibration, held_cells(config)
    elif target == "null-controls":
        study, cells = calibration, null_cells(config)
    elif target in ("reproduction", "retrain", "retrain-seeds"):
        study, cells = main, []
    elif target in TARGETS:
        study, cells = main, shown_cells(config)
    else:
        raise unknown(config, target)
    return [StudyCell(study, *cell) for cell in dict.fromkeys(cells)]


def unknown(config: RunConfig, target: str) -> AnchorscopeError:
    """Return the error for an unknown target, naming the nearest one."""
    names = nearest(Path(target).name, [*config.figures, *TARGETS])
    do = f"{names} (a figure of your own needs `--configfile` with its file)"
    return AnchorscopeError(f"there is no target `{target}`", None, do, see="config")


def check_targets(config: RunConfig, workflow: Any) -> None:
    """Raise `unknown` for a target on Snakemake's command line that no rule makes."""
    from snakemake.cli import get_argument_parser

    if not (workflow.is_main_process and "snakemake" in sys.argv[0]):
        return
    arguments, _ = get_argument_parser().parse_known_args()
    for target in arguments.targets or ():
        made = workflow.is_rule(target) or any(one.is_producer(target) for one in workflow.rules)
        if not (made or Path(target).exists()):
            raise unknown(config, target)

"""Targets of Snakemake, and the cells that each of them measures."""

import sys
from pathlib import Path
from typing import Any

from anchorscope.config.settings import Config
from anchorscope.experiments import registry
from anchorscope.experiments.registry import RunConfig
from anchorscope.storage.errors import AnchorscopeError, nearest

TARGETS = "all evidence detection detectors report reproduction".split() + list(
    registry.EXPERIMENTS
)
"""Targets in addition to the figures."""
PROOF = (
    "calibration calibration-experiments null-controls null-models retrain retrain-seeds".split()
)
"""Targets of the run that compares the instrument with known truth, see validation/rules.smk."""

Cell = tuple[str, str]
"""Model and dataset."""


def is_built(config: Config, cell: Cell) -> bool:
    """Return whether a cell's last product exists, up to date or not (see `snakemake -n`)."""
    model, dataset = cell
    return Path(config.root, "delta_p", model, f"{dataset}.csv").is_file()


def shown_cells(config: RunConfig) -> list[Cell]:
    """Return (model, dataset) of every cell in the figures of `targets`, without repetition."""
    return list(dict.fromkeys(cell for figure in config.targets for cell in config.cells(figure)))


def cells_of(config: RunConfig, target: str) -> list[Cell]:
    """Return the cells that `target` measures. A target is a figure, or one of `TARGETS`.

    Raises:
        AnchorscopeError: There is no such target.
    """
    if target in config.figures:
        return list(dict.fromkeys(config.cells(target)))
    if target not in TARGETS:
        raise unknown(config, target)
    return [] if target == "reproduction" else shown_cells(config)


def unknown(config: RunConfig, target: str) -> AnchorscopeError:
    """Return the error for an unknown target, naming the nearest one or the run that has it."""
    if target in PROOF:
        what = f"the target `{target}` belongs to a run with a config of its own"
        do = f"run `make {target}`"
        return AnchorscopeError(what, "validation/calibration.yaml", do, see="truth-target")
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

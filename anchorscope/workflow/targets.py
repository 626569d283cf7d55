"""Targets of Snakemake."""

from anchorscope.experiments import registry
from anchorscope.experiments.registry import RunConfig
from anchorscope.storage.errors import AnchorscopeError

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


def shown_cells(config: RunConfig) -> list[Cell]:
    """Return (model, dataset) of every cell in the figures of `targets`, without repetition."""
    return list(dict.fromkeys(cell for figure in config.targets for cell in config.cells(figure)))


def elsewhere(target: str) -> AnchorscopeError:
    """Return the error for a target of `PROOF` in a run that does not have it."""
    what = f"the target `{target}` belongs to a run with a config of its own"
    return AnchorscopeError(
        what, "validation/calibration.yaml", f"run `make {target}`", see="truth-target"
    )

"""Registry of the experiments beside the main run, in the order of the report."""

from anchorscope.experiments import answer_only, boundary, patching, saliency, windows
from anchorscope.experiments.experiment import Experiment

RECORDS = (
    patching.EXPERIMENT,
    windows.EXPERIMENT,
    saliency.EXPERIMENT,
    answer_only.EXPERIMENT,
    boundary.EXPERIMENT,
)
"""Records of the experiments. A new experiment is a folder and its record here."""
EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in RECORDS}
"""Name → record."""

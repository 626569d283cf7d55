"""Registry of the experiments, and the config of a run with the settings of experiments."""

from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field, create_model

from anchorscope.config.sections import Mark, Section
from anchorscope.config.settings import Config
from anchorscope.experiments import answer_only, boundary, patching, saliency, windows
from anchorscope.experiments.experiment import Experiment

FOLDERS = (patching, windows, saliency, answer_only, boundary)
"""Folders of the experiments, in the order of the report."""
EXPERIMENTS: dict[str, Experiment] = {one.EXPERIMENT.name: one.EXPERIMENT for one in FOLDERS}
"""Name → record."""

if TYPE_CHECKING:
    Experiments = Section
else:
    Experiments = create_model(
        "Experiments",
        __base__=Section,
        __doc__="Settings of the experiments that have any.",
        **{
            one.name: (one.settings, Field(default_factory=one.settings, description=one.about))
            for one in EXPERIMENTS.values()
            if one.settings is not Section
        },
    )


class RunConfig(Config):
    """All settings of a run."""

    experiments: Annotated[Experiments, Mark.NOT_IN_FIGURES] = Field(default_factory=Experiments)
    """Settings of the [experiments](experiments.md)."""

    def settings_of(self, experiment: str) -> Section:
        """Return the settings of an experiment, with defaults filled in."""
        return cast(Section, getattr(self.experiments, experiment, Section()))

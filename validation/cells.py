"""Cells with known truth: calibration cells, whose pathways are planted, and null controls."""

from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from anchorscope.config.mistakes import explained
from anchorscope.config.sections import DatasetKey, Listed, ModelKey, Section, Text, key
from anchorscope.config.settings import Config
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow.targets import Cell
from validation.recipes import TrainSettings, hash_of
from validation.world import WorldSettings


class Null(Section):
    """A cell where some or all claims would be false positives."""

    model: ModelKey = Field(description="Key of the model.")
    dataset: DatasetKey = Field(description="Key of the dataset.")
    shuffled: bool = key(False, "Whether the probes are fitted to shuffled labels.")
    allows: list[Text] = Field([])
    """Claims that may hold in the cell, such as `signal`; all others would be false positives."""
    expectation: Text = Field(description="Why these claims would be false positives, in words.")

    @property
    def cell(self) -> Cell:
        """Model and dataset."""
        return self.model, self.dataset


class Cells(Section):
    """The file that `validation` of the config names, such as cells.yaml."""

    models: Listed[ModelKey] = Field(description="Keys of models trained on planted worlds.")
    datasets: Listed[DatasetKey] = Field(description="Keys of worlds with planted pathways.")
    nulls: dict[str, Null] = Field(default_factory=dict, description="Null controls, by name.")
    worlds: dict[DatasetKey, WorldSettings]
    """Invented datasets, by key. Their rows are in the files that the config names."""
    recipes: dict[str, TrainSettings] = Field(description="Recipes of the models, by key.")

    @property
    def calibrated(self) -> list[Cell]:
        """The cells to compare with the planted truth."""
        return [(model, dataset) for model in self.models for dataset in self.datasets]

    @property
    def null(self) -> list[Cell]:
        """The cells where any finding is a false positive, in the order of `nulls`."""
        return [null.cell for null in self.nulls.values()]

    @property
    def held(self) -> list[Cell]:
        """All cells: those to compare with the planted truth, then null controls."""
        return list(dict.fromkeys([*self.calibrated, *self.null]))

    @property
    def measured(self) -> list[tuple[str, str, str]]:
        """The experiment, model and dataset of all measurements of experiments.

        Experiments that do not compare question and answer are not measured in null controls.
        """
        return [
            (name, *cell)
            for name, experiment in EXPERIMENTS.items()
            for cell in (self.held if experiment.follows_pair else self.calibrated)
        ]

    @property
    def shipped(self) -> list[str]:
        """The models that took training, other seeds apart."""
        return [name for name, train in self.recipes.items() if train.steps and not train.seed]

    def recipe(self, model: str) -> str:
        """Return the hash of a model's recipe."""
        return hash_of(self.recipes[model], self.worlds)


def read(path: str | Path, config: Config) -> Cells:
    """Read a file of cells.

    Raises:
        AnchorscopeError: The file is missing or wrong, or names a model or dataset that `config`
            lacks or whose true pathways are unknown.
    """
    try:
        raw = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        known = {name: list(getattr(config, name)) for name in ("models", "datasets")}
        cells = Cells.model_validate(raw, context=known)
    except (OSError, yaml.YAMLError) as error:
        what = f"cannot read the cells with known truth: {error}"
        raise AnchorscopeError(what, path, "correct `validation`", see="config") from None
    except ValidationError as error:
        first = explained(error.errors()[0], Cells)
        where = f"{path}, key {first.key}"
        raise AnchorscopeError(first.what, where, first.do, see=first.see) from None
    _check_planted(cells, path)
    return cells


def _check_planted(cells: Cells, path: str | Path) -> None:
    """Refuse calibration cells without planted pathways."""
    learned = {name for train in cells.recipes.values() for name in train.datasets}
    unknown = [f"the model `{name}`" for name in cells.models if name not in cells.recipes]
    named = [*cells.datasets, *learned]
    unknown += [f"the dataset `{name}`" for name in named if name not in cells.worlds]
    if unknown:
        what = f"{unknown[0]} has no planted pathways"
        do = "name models of `recipes` and datasets of `worlds`"
        raise AnchorscopeError(what, path, do, see="config")

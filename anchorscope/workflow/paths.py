"""Where products lie: functions of the wildcards that the rules take as their inputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from anchorscope.config.settings import Config
from anchorscope.experiments import registry
from anchorscope.models.checkpoints import fits, parts
from anchorscope.questions.reading import local_files
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import digest
from anchorscope.workflow import studies

PICTURES = ("vl.json", "html", "svg", "pdf", "png")
TABLES = {
    "curve": ".csv",
    "contrasts": ".contrasts.csv",
    "controls": ".controls.csv",
    "interchange": ".interchange.csv",
    "strata": ".strata.csv",
    "density": ".density.csv",
}
"""Tables of a cell, and of a figure, with the ends of their names."""


class Paths:
    """Where the products of a run lie.

    Attributes:
        config: of the run.
        project: the folder of the Snakefile.
        results: what all runs share: data and models.
        root: what `limit` changes: everything else.
        studies: root → study; the calibration's root is `calibration`.
        readouts: read-outs with pictures of their own → their names there.
        views: pictures beside every figure.
    """

    def __init__(self, config: Config, project: str | Path) -> None:
        self.config, self.project = config, str(project)
        self.results, self.root = config.results, config.root
        self.resources = os.path.join(self.project, "resources")
        self.studies = studies.of(config)
        self.calibration = studies.calibration_root(config)
        self.readouts = {name: name.replace("/", "-") for name in config.answer_readouts}
        self.views = ["controls", "probes"] + (["readouts"] if len(self.readouts) > 1 else [])

    def study(self, wildcards: Any) -> Config:
        """The settings that hold under a root."""
        return self.studies[wildcards.root].config

    def home(self, wildcards: Any, stage: str) -> str:
        """The root in which a stage's product lies: the study's own, or the main one."""
        return str(wildcards.root) if self.studies[wildcards.root].owns(stage) else self.root

    def product(self, stage: str, end: str = "") -> Callable[[Any], str]:
        """The product of a stage of a cell."""
        return lambda w: f"{self.home(w, stage)}/{stage}/{w.model}/{w.dataset}{end}"

    def answers(self, wildcards: Any) -> str:
        """The answers that a model is measured on: its own, unless its entry names another's."""
        model = self.config.models[wildcards.model].answers_of or wildcards.model
        return f"{self.home(wildcards, 'answers')}/answers/{model}/{wildcards.dataset}.parquet"

    def probes(self, wildcards: Any) -> str:
        """The stored probes of a cell."""
        root = self.home(wildcards, "scores")
        return f"{root}/probes/{wildcards.model}/{wildcards.dataset}.safetensors"

    def pictures(self, stem: str) -> list[str]:
        return [f"{self.root}/figures/{stem}.{kind}" for kind in PICTURES]

    def views_of(self, figure: str) -> list[str]:
        """The pictures beside a figure: its controls, its probes, and every other read-out."""
        drawn = self.config.figures[figure].readout
        names = self.views + [view for name, view in self.readouts.items() if name != drawn]
        return [path for name in names for path in self.pictures(f"{figure}.{name}")]

    def local_rows(self, wildcards: Any) -> list[str]:
        """Files of a dataset's own rows; one that is not there is the script's to report."""
        source = self.config.local_of(wildcards.dataset)
        entry = self.config.datasets[wildcards.dataset]
        if not source or not os.path.exists(source):
            return []
        splits = {entry.split, entry.few_shot.split or entry.split}
        try:
            return sorted({str(f) for s in splits for f in local_files(Path(source), None, s)})
        except AnchorscopeError:
            return [source]

    def few_shot_file(self, wildcards: Any) -> list[str]:
        """A file of examples, from here on or from the project's folder."""
        name = self.config.datasets[wildcards.dataset].few_shot.file
        places = [name, os.path.join(self.project, name)] if name else []
        return [path for path in places if os.path.exists(path)][:1]

    def taught(self, model: str) -> dict[str, bool]:
        """The questions that a trained model learns, and whether they are those of a world."""
        train = self.config.models[model].train
        return {
            f"{self.results}/data/{name}.parquet": self.config.datasets[name].world is not None
            for name in (train.datasets if train else ())
        }

    def checkpoint(self, wildcards: Any) -> str | list[str]:
        """The checkpoint trained here, or shipped with the present recipe, or local files."""
        model = wildcards.model
        entry = self.config.models[model]
        if not entry.train:
            return [str(path) for path in parts(entry.local)] if entry.local else []
        here, shipped = f"{self.results}/models/{model}", f"{self.resources}/models/{model}"
        recipe = self.config.recipe_hash(model)
        return shipped if fits(shipped, recipe) and not fits(here, recipe) else here

    def template(self, wildcards: Any) -> list[str]:
        """The model whose chat template the prompts need, if they do."""
        chat = self.config.models[wildcards.model].prompt == "chat"
        return [f"{self.results}/models/{wildcards.model}.json"] if chat else []

    def of_figure(self, stage: str, end: str) -> Callable[[Any], list[str]]:
        """A product of every cell of a figure."""
        return lambda w: self._of(self.root, stage, self.config.cells(w.figure), end)

    def of_calibration(self, stage: str, end: str) -> list[str]:
        """A product of every cell of the calibration."""
        return self._of(self.calibration, stage, self.config.calibrated(), end)

    def of_nulls(self, name: str) -> list[str]:
        """A table of every cell that must come out empty."""
        cells = [(null.model, null.dataset) for null in self.config.calibration.nulls.values()]
        return self._of(self.calibration, "delta_p", cells, TABLES[name])

    def cells_of_experiments(self) -> list[tuple[str, str, str]]:
        """Experiment, model and dataset of every cell of the calibration, empty ones included."""
        nulls = [(null.model, null.dataset) for null in self.config.calibration.nulls.values()]
        cells = dict.fromkeys([*self.config.calibrated(), *nulls])
        return [(name, *cell) for name in registry.EXPERIMENTS for cell in cells]

    def of_experiments(self, stage: str, end: str) -> list[str]:
        """A product of each of `cells_of_experiments`."""

        def own(model: str) -> str:
            return (stage == "answers" and self.config.models[model].answers_of) or model

        return [
            f"{self.calibration}/{stage.format(experiment=name)}/{own(model)}/{dataset}{end}"
            for name, model, dataset in self.cells_of_experiments()
        ]

    def of_variants(self, name: str) -> list[str]:
        """A table of every cell of the sensitivity, in the main study and in each variant."""
        roots = [self.root, *studies.sensitivity_roots(self.config).values()]
        cells = studies.varied_cells(self.config)
        return [path for root in roots for path in self._of(root, "delta_p", cells, TABLES[name])]

    def of_targets(self, stage: str, end: str = ".parquet") -> list[str]:
        """A stage's product of every cell shown; some models read another's prompts and answers."""

        def own(model: str) -> str:
            frozen = stage in ("prompts", "answers")
            return (frozen and self.config.models[model].answers_of) or model

        cells = [cell for figure in self.config.targets for cell in self.config.cells(figure)]
        return self._of(self.root, stage, [(own(m), d) for m, d in dict.fromkeys(cells)], end)

    def _of(self, root: str, stage: str, cells: Iterable[tuple[str, str]], end: str) -> list[str]:
        return [f"{root}/{stage}/{model}/{dataset}{end}" for model, dataset in cells]

    def built(self, end: str) -> list[str]:
        """Tables of the figures that are there."""
        paths = [f"{self.root}/tables/{figure}{end}" for figure in self.config.figures]
        return [path for path in paths if os.path.exists(path)]

    def beside(self, *names: str) -> dict[str, str]:
        """Products of other targets that are there, with their content: shown, never made."""
        paths = [os.path.join(self.root, name) for name in names]
        return {path: digest([path])[:12] for path in paths if os.path.exists(path)}

    @property
    def figure_page(self) -> str:
        """The page around a figure, by its content: a path would hold the clone's place."""
        return digest(sorted(Path(self.resources, "figure").iterdir()))[:12]

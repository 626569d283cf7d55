"""Where products lie: functions of the wildcards that the rules take as their inputs."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from anchorscope.detectors.method import Need as DetectionNeed
from anchorscope.detectors.registry import named
from anchorscope.experiments import registry
from anchorscope.experiments.experiment import Need
from anchorscope.experiments.settings import RunConfig
from anchorscope.figures.figure_view import View
from anchorscope.models.loading import fits, parts
from anchorscope.questions.reading import local_files
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import digest, state_of
from anchorscope.styles import style_of
from anchorscope.workflow import studies
from anchorscope.workflow.pictures import pictures

PICTURES = ("vl.json", "html", "svg", "pdf", "png")
BESIDE = ("contrasts", "controls", "crossing", "claims")
TABLES = {"curve": ".csv"} | {name: f".{name}.csv" for name in BESIDE}
"""Tables of a cell, and of a figure, with the ends of their names."""


class Paths:
    """Where the products of a run lie; `project` is the folder of the Snakefile."""

    def __init__(self, config: RunConfig, project: str | Path) -> None:
        self.config, self.project = config, str(project)
        # Data and models, which all runs share; and all else, which `limit` changes.
        self.results, self.root = config.results, config.root
        self.resources = os.path.join(self.project, "resources")
        self.studies = studies.of(config)
        self.calibration = studies.calibration_root(config)
        self.readouts = {name: name.replace("/", "-") for name in config.answer_readouts}
        self.views = pictures(self.readouts)

    def study(self, wildcards: Any) -> RunConfig:
        """The settings that hold under a root."""
        return self.studies[wildcards.root].config

    def of_cell(self, root: str, stage: str, model: str, dataset: str, end: str = "") -> str:
        """A stage's product of a cell: in its study's root, or in the main one where the study does
        not change it; prompts and answers of the model that `answers_of` names."""
        home = root if self.studies[root].owns(stage) else self.root
        if stage in ("prompts", "answers"):
            model = self.config.models[model].answers_of or model
        return f"{home}/{stage}/{model}/{dataset}{end}"

    def of_cells(
        self, root: str, stage: str, cells: Iterable[tuple[str, str]], end: str = ""
    ) -> list[str]:
        """The same of each cell, (model, dataset)."""
        return [self.of_cell(root, stage, model, dataset, end) for model, dataset in cells]

    def product(self, stage: str, end: str = "") -> Callable[[Any], str]:
        """The same of the cell that the wildcards name."""
        return lambda w: self.of_cell(w.root, stage, w.model, w.dataset, end)

    def of_figure(self, stage: str, end: str) -> Callable[[Any], list[str]]:
        """Of every cell of a figure."""
        return lambda w: self.of_cells(self.root, stage, self.config.cells(w.figure), end)

    def of_targets(self, stage: str, end: str = ".parquet") -> list[str]:
        """Of every cell of the targets."""
        return self.of_cells(self.root, stage, studies.shown_cells(self.config), end)

    def detected(self, wildcards: Any) -> str:
        """The read-out of a cell's detector: the first measured at the closing token."""
        final = [name for name in self.study(wildcards).readouts if name.endswith("/final")]
        return final[0] if final else "mlp/final"

    def of_calibration(
        self, stage: str, end: str = "", cells: Iterable[tuple[str, str]] | None = None
    ) -> list[str]:
        """Of cells in the calibration's root; by default of those held against the truth."""
        chosen = self.config.calibrated() if cells is None else cells
        return self.of_cells(self.calibration, stage, chosen, end)

    def if_needed(
        self, need: Need, products: Callable[[Any], str | list[str]]
    ) -> Callable[[Any], str | list[str]]:
        """Products that an experiment, named by the wildcards, needs; else nothing."""
        return lambda w: products(w) if need in registry.EXPERIMENTS[w.experiment].needs else []

    def truth_of_figure(self, wildcards: Any) -> list[str]:
        """The planted truth of every cell of a figure.

        Raises AnchorscopeError: nothing is known to be true of one of its models.
        """
        for name in self.config.figures[wildcards.figure].models:
            train = self.config.models[name].train
            if train is None or train.curriculum != "planted" or not train.graded:
                what = (
                    f"the experiment `{wildcards.experiment}` needs the planted truth, and nothing "
                    f"is planted in the model `{name}`"
                )
                where = f"figure {wildcards.figure}"
                do = "name a figure of models with a `train` entry, such as `demo`"
                raise AnchorscopeError(what, where, do, see="config")
        return self.of_figure("truth", ".parquet")(wildcards)

    def experiments_held(self) -> list[tuple[str, str, str]]:
        """Experiment, model and dataset of all that `calibration-experiments` measures."""
        return [
            (name, *cell)
            for name in registry.EXPERIMENTS
            for cell in studies.held_cells(self.config, name)
        ]

    def of_experiments(self) -> list[str]:
        """The rows of each of `experiments_held`."""
        return [
            self.of_cell(self.calibration, f"experiments/{name}", model, dataset, ".parquet")
            for name, model, dataset in self.experiments_held()
        ]

    def of_model(self, stage: str, end: str) -> Callable[[Any], list[str]]:
        """A product of the model, on every dataset of the figure, that the wildcards name."""
        return lambda w: self.of_cells(
            self.root,
            stage,
            [(w.model, dataset) for dataset in self.config.figures[w.figure].datasets],
            end,
        )

    def transfers(self, wildcards: Any) -> list[str]:
        """What methods trained on one dataset are worth on others, of each model of a figure."""
        models = self.config.figures[wildcards.figure].models
        return [f"{self.root}/detection/{m}/{wildcards.figure}.transfer.csv" for m in models]

    def detection_needs(self, need: DetectionNeed) -> bool:
        """Whether some method of detection needs this.

        Raises AnchorscopeError: there is no such method.
        """
        return any(need in method.needs for method in named(self.config.detection.methods))

    def given_scores(self, wildcards: Any) -> list[str]:
        """The files of scores that are given for a cell; those that are not there, too."""
        return [
            one.file
            for one in self.config.detection.scores
            if (one.model, one.dataset) == (wildcards.model, wildcards.dataset)
        ]

    def pictures(self, stem: str) -> list[str]:
        return [f"{self.root}/figures/{stem}.{kind}" for kind in PICTURES]

    def texts(self, figure: str) -> list[str]:
        """What a paper says of a figure, and its references."""
        return [f"{self.root}/figures/{figure}.{kind}" for kind in ("methods.md", "bib")]

    def views_of(self, figure: str) -> list[str]:
        """The pictures beside a figure: its evidence, and every other read-out."""
        own = self.readouts.get(self.config.figures[figure].readout)
        main = [view for view, picture in self.views.items() if view and picture.of_main_run]
        return [p for view in main if view != own for p in self.pictures(f"{figure}.{view}")]

    def shown(self) -> list[str]:
        """Every picture and table of the figures, as far as a user asks for one by its path."""
        figures = self.config.figures
        drawn = [f"{figure}.{view}".rstrip(".") for figure in figures for view in self.views]
        tables = [f"{figure}{end}" for figure in figures for end in TABLES.values()]
        return [
            *(path for stem in drawn for path in self.pictures(stem)),
            *(f"{self.root}/tables/{table}" for table in tables),
        ]

    def picture(self, wildcards: Any) -> View:
        """The picture that the wildcards name: `view` is a dot and its view, or nothing."""
        return self.views[wildcards.view.removeprefix(".")]

    def drawn(self, wildcards: Any) -> list[str]:
        """The tables that are read for a picture."""
        ends = [f".{end}" if end else "" for end in self.picture(wildcards).inputs]
        return [f"{self.root}/tables/{wildcards.figure}{end}.csv" for end in ends]

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

    def rows_on_disk(self, wildcards: Any) -> str | None:
        """Hash the files that a dataset's rows and examples are read from, see `files.state_of`."""
        return _state_of([*self.local_rows(wildcards), *self.few_shot_file(wildcards)])

    def model_on_disk(self, wildcards: Any) -> str | None:
        """Hash the files of a local model, see `files.state_of`; of a trained one its recipe."""
        entry = self.config.models[wildcards.model]
        if entry.local:
            return _state_of(parts(entry.local))
        return self.config.recipe_hash(wildcards.model) if entry.train else None

    def scores_on_disk(self, wildcards: Any) -> str | None:
        """Hash the files of scores that are given for a cell, see `files.state_of`."""
        return _state_of(self.given_scores(wildcards))

    def few_shot_file(self, wildcards: Any) -> list[str]:
        """A file of examples, from here on or from the project's folder."""
        name = self.config.datasets[wildcards.dataset].few_shot.file
        places = [name, os.path.join(self.project, name)] if name else []
        return [path for path in places if os.path.exists(path)][:1]

    def checkpoint(self, wildcards: Any) -> str | list[str]:
        """The folder trained here, or shipped with the present recipe; or files."""
        model = wildcards.model
        entry = self.config.models[model]
        if not entry.train:
            return [str(path) for path in parts(entry.local)] if entry.local else []
        here, shipped = f"{self.results}/models/{model}", f"{self.resources}/models/{model}"
        recipe = self.config.recipe_hash(model)
        return shipped if fits(shipped, recipe) and not fits(here, recipe) else here

    def template(self, wildcards: Any) -> list[str]:
        """The model whose chat template the prompts need, if they do."""
        style = style_of(self.config.models[wildcards.model].prompt)
        return [f"{self.results}/models/{wildcards.model}.json"] if style.templated else []

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

    @property
    def words(self) -> list[str]:
        """The templates of what is said of claims and methods."""
        folder = Path(self.project, "anchorscope/report")
        return [str(folder / name) for name in ("claims.txt", "methods.txt")]

    @property
    def methods_words(self) -> str:
        """What a paper says of any figure, and the references, by their content."""
        return digest([*self.words, Path(self.resources, "report/references.bib")])[:12]


def _state_of(files: Sequence[str | Path]) -> str | None:
    """Hash files; None if there are none, or one cannot be read, which the job reports."""
    try:
        return state_of(files) if files else None
    except OSError:
        return None

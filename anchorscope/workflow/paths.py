"""Paths of products. For the inputs of rules, some methods return functions of wildcards."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from anchorscope.experiments.registry import RunConfig
from anchorscope.figures.view import View
from anchorscope.models.loading import files
from anchorscope.questions.reading import local_files
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import digest
from anchorscope.workflow import targets
from anchorscope.workflow.pictures import pictures

PICTURES = ("vl.json", "html", "svg", "pdf", "png")
BESIDE = ("contrasts", "controls", "crossing", "claims", "summary")
TABLES = {"curve": ".csv"} | {name: f".{name}.csv" for name in BESIDE}
"""Table of a cell or a figure → the end of its file name."""


class Paths:
    """The paths of a run's products."""

    def __init__(self, config: RunConfig, project: str | Path) -> None:
        """Take the settings of a run; `project` is the Snakefile's folder."""
        self.config, self.project = config, str(project)
        # `results` holds data and models, which do not depend on `limit`. `root` holds all other
        # products.
        self.results, self.root = config.results, config.root
        self.resources = os.path.join(self.project, "resources")
        self.readouts = {name: name.replace("/", "-") for name in config.answer_readouts}
        self.views = pictures(self.readouts)
        self.extra_views = [name for name, view in self.views.items() if not view.of_main_run]

    def of_cell(self, stage: str, model: str, dataset: str, end: str = "") -> str:
        """Return the path of a stage's product for one cell.

        Prompts and answers are those of the model that `answers_of` names, if it is set.
        """
        if stage in ("prompts", "answers"):
            model = self.config.answering(model)
        return f"{self.root}/{stage}/{model}/{dataset}{end}"

    def of_cells(self, stage: str, cells: Iterable[tuple[str, str]], end: str = "") -> list[str]:
        """Return the paths of a stage's product for some cells, (model, dataset)."""
        return [self.of_cell(stage, model, dataset, end) for model, dataset in cells]

    def product(self, stage: str, end: str = "") -> Callable[[Any], str]:
        """Return a function from wildcards to the path of a stage's product for their cell."""
        return lambda w: self.of_cell(stage, w.model, w.dataset, end)

    def of_figure(self, stage: str, end: str) -> Callable[[Any], list[str]]:
        """Return a function from wildcards to the paths of a product for all cells of a figure.

        If `model` is a wildcard, too, only its cells are meant.
        """

        def found(w: Any) -> list[str]:
            only = getattr(w, "model", None)
            cells = [cell for cell in self.config.cells(w.figure) if only in (None, cell[0])]
            return self.of_cells(stage, cells, end)

        return found

    def of_targets(self, stage: str, end: str = ".parquet") -> list[str]:
        """Return the paths of a product for all cells of the targets."""
        return self.of_cells(stage, targets.shown_cells(self.config), end)

    @property
    def detected(self) -> str:
        """The read-out of a cell's detector: the first one at the position `final`."""
        return next((name for name in self.config.readouts if name.endswith("/final")), "mlp/final")

    def given_scores(self, wildcards: Any) -> list[str]:
        """Return the files of scores that the user gives for a cell, whether they exist or not."""
        return [
            one.file
            for one in self.config.detection.scores
            if (one.model, one.dataset) == (wildcards.model, wildcards.dataset)
        ]

    def pictures(self, stem: str) -> list[str]:
        """Return the files of a picture, one per format."""
        return [f"{self.root}/figures/{stem}.{kind}" for kind in PICTURES]

    def views_of(self, figure: str) -> list[str]:
        """Return a figure's further picture files: evidence, `readouts` and other read-outs."""
        own = self.readouts.get(self.config.figures[figure].readout)
        main = [view for view in self.views if view and view not in self.extra_views]
        return [p for view in main if view != own for p in self.pictures(f"{figure}.{view}")]

    def picture(self, wildcards: Any) -> View:
        """Return the picture that the wildcard `view` names. An empty `view` names the figure."""
        return self.views[wildcards.view.removeprefix(".")]

    def picture_tables(self, wildcards: Any) -> list[str]:
        """Return the tables that a picture reads."""
        ends = [f".{end}" if end else "" for end in self.picture(wildcards).inputs]
        return [f"{self.root}/tables/{wildcards.figure}{end}.csv" for end in ends]

    def local_rows(self, wildcards: Any) -> list[str]:
        """Return the files of a dataset's local rows. The script reports a missing file."""
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
        """Return the digest of the files that a dataset's rows and examples are read from."""
        return _digest_of([*self.local_rows(wildcards), *self.few_shot_file(wildcards)])

    def model_on_disk(self, wildcards: Any) -> str | None:
        """Return the digest of a local model's files."""
        entry = self.config.models[wildcards.model]
        return _digest_of(files(entry.local)) if entry.local else None

    def scores_on_disk(self, wildcards: Any) -> str | None:
        """Return the digest of the files of scores that the user gives for a cell."""
        return _digest_of(self.given_scores(wildcards))

    def few_shot_file(self, wildcards: Any) -> list[str]:
        """Return the file of examples, in this folder or in the project's folder."""
        name = self.config.datasets[wildcards.dataset].few_shot.file
        places = [name, os.path.join(self.project, name)] if name else []
        return [path for path in places if os.path.exists(path)][:1]

    def checkpoint(self, wildcards: Any) -> list[str]:
        """Return the files of a local model."""
        entry = self.config.models[wildcards.model]
        return [str(path) for path in files(entry.local)] if entry.local else []

    def built(self, end: str) -> list[str]:
        """Return the figures' tables that exist."""
        paths = [f"{self.root}/tables/{figure}{end}" for figure in self.config.figures]
        return [path for path in paths if os.path.exists(path)]

    def beside(self, *names: str) -> dict[str, str]:
        """Return path → digest of the files `names` below the root. Missing files are left out."""
        paths = [os.path.join(self.root, name) for name in names]
        return {path: digest([path])[:12] for path in paths if os.path.exists(path)}

    @property
    def figure_page(self) -> str:
        """Digest of a figure's page and sentences. It does not depend on the clone's folder."""
        return digest([*sorted(Path(self.resources, "figure").iterdir()), self.words])[:12]

    @property
    def words(self) -> str:
        """Path of the file with all sentences about results."""
        return str(Path(self.project, "anchorscope/statements.txt"))

    @property
    def methods_words(self) -> str:
        """Digest of the two files behind a figure's methods text: `words` and the references."""
        return digest([self.words, Path(self.resources, "report/references.bib")])[:12]


def _digest_of(files: Sequence[str | Path]) -> str | None:
    """Hash files. Return None if there are none or one cannot be read (the job reports it)."""
    try:
        return digest(files) if files else None
    except OSError:
        return None

"""All keys of the config with their types, defaults and meanings, as in the reference page."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from anchorscope.config.readouts import before_answer
from anchorscope.config.sections import (
    Amount,
    Count,
    Dataset,
    DatasetKey,
    Figure,
    FigureKey,
    Inside,
    Listed,
    Mark,
    Model,
    ModelKey,
    Name,
    Place,
    Positive,
    ReadoutName,
    Section,
    Several,
    Share,
    Text,
    key,
    mistake,
)
from anchorscope.styles import STYLES

ASKED_PER_SAMPLE = 5
"""Questions in the pool for each sample, unless `pool_size` is set."""
BATCH_TOKENS, GPU_BATCH_TOKENS = 8192, 98_304
"""Default maximum size of a batch on a CPU and on a GPU, in tokens (rows × padded length)."""


class Plain(Section):
    """A condition without settings of its own."""


class RandomControl(Section):
    """Settings of `random`, which blocks as many other question tokens as the knockout."""

    draws: Count = key(1, "Random draws of tokens per sample.")


class Noop(Section):
    """Settings of `noop`, which blocks nothing, in another batch, to measure numerical noise."""

    samples: Count = key(64, "How many of a cell's first samples are measured.")


class Conditions(Section):
    """Passes in addition to `clean`. A condition left out, or null, is not run."""

    knockout: Plain = Field(description="Block the exact question tokens. Always run.")
    random: RandomControl | None = key(None, "Block as many other question tokens, at random.")
    rest: Plain | None = key(None, "Block every question token but the exact ones.")
    question: Plain | None = key(None, "Block the whole question.")
    noop: Noop | None = key(None, "Block nothing, in another batch, to measure numerical noise.")
    crossed: Plain | None = None
    """Swap the answers of two questions with the same relation and fold. One pass blocks nothing.
    One blocks what `knockout` blocks. If `rest` is run, a third blocks what `rest` blocks."""
    gold: Plain | None = key(None, "With `crossed`: also swap gold answers in place of wrong ones.")


def _all_conditions() -> Conditions:
    plain = {name: Plain() for name in ("knockout", "rest", "question", "crossed", "gold")}
    return Conditions(**plain, random=RandomControl(), noop=Noop())


class Generation(Section):
    """Settings for generating answers."""

    max_new_tokens: Count = key(32, "Maximum length of an answer, in tokens.")
    few_shot_examples: Amount = key(5, "Worked examples in a `few_shot` or `chat` prompt.")


class Probe(Section):
    """The logistic regressions that predict the label from the activations."""

    folds: Several = key(5, "Outer folds; see `disjoint`.")
    disjoint: Literal["subject", "subject+answer"] = "subject"
    """Properties that samples of different folds never share: subject and question, or also the
    text of the exact answer."""
    inner_folds: Several = key(
        5, "Folds inside each training fold, for choosing penalty and calibration."
    )
    grid: Listed[Positive] = Field([1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0])
    """Inverse penalties C to choose from, by the one-standard-error rule."""
    penalty: Positive = key(1.0, "Factor on the chosen penalty 1/C.")
    scoring: Literal["calibrated", "published"] = "calibrated"
    """`calibrated`: cross-validated C, fitted slope and offset. `published`: the paper's recipe
    with C = 1, no calibration and the natural prior."""
    refits: Amount = 20
    """Bootstrap draws in which the probes are refitted, so that intervals include the variance of
    fitting them; 0 holds the probes fixed."""
    prior: Literal["balanced", "natural"] = "balanced"
    """`balanced`: p assumes as many right as wrong answers. `natural`: p assumes the cell's own
    share of wrong answers."""


class Bootstrap(Section):
    """Confidence intervals."""

    draws: Count = key(1000, "Bootstrap draws, clustered by subject or question.")
    level: Inside = key(0.95, "Confidence level.")
    min_n: Count = key(20, "Lines leave out points with fewer samples.")
    min_clusters: Count = key(10, "Lines leave out points with fewer clusters.")


class ChartSettings(Section):
    """Look of the figures. No number depends on it."""

    theme: Literal["screen", "paper"] = key("screen", "Sizes for a screen or a printed page.")
    width: Count | None = key(None, "Width of the whole figure in mm; null: as its theme needs.")
    columns: Count | None = key(None, "Maximum number of panels in a row; null: 3, in `paper` 2.")
    font: Text = key("Arial, Helvetica, Liberation Sans, sans-serif", "Font family.")
    captions: bool = key(True, "Whether figures have a title and a caption.")


class GivenScores(Section):
    """Scores that another method gave to the answers of a cell."""

    model: ModelKey = Field(description="Key of the model that gave the answers.")
    dataset: DatasetKey = Field(description="Key of the dataset.")
    file: Place = Field(description="JSON Lines or CSV with `id`, `detector` and `score`.")


class Detection(Section):
    """Detectors of wrong answers that `snakemake detection` compares."""

    methods: Listed[Text] | None = key(None, "Names of [methods](detectors.md); null: all.")
    scores: list[GivenScores] = Field(default_factory=list)
    """Scores of other methods to add to the tables. A higher score means more likely wrong."""


class Config(Section):
    """All settings of a run except the experiments' settings, which `RunConfig` adds."""

    results: Annotated[Place, Mark.NO_NUMBER] = key("results", "Folder for all results.")
    data_folder: Place | None = key(None, "Folder that relative `local` paths start from.")
    limit: Count | None = None
    """Measure only this many samples per cell, from a pool made smaller in proportion; null:
    all."""
    targets: Annotated[Listed[FigureKey], Mark.NO_NUMBER] = Field(["demo"])
    """Figures that `snakemake --cores all` builds."""
    seed: Annotated[Amount, Mark.MEASURE] = key(
        0, "Seed of samples, few-shot examples, controls and folds."
    )
    sample_size: Count = 2000
    """Answers measured per cell."""
    pool_size: Count | None = None
    """Most questions asked per cell; null: five times `sample_size`. No more are asked once there
    are enough answers of each class. Rows with a `response` are all used."""
    balance: bool = True
    """Whether to measure as many right as wrong answers, at most two of one class for each of the
    other. `false` measures answers as they come."""
    max_prompt_tokens: Annotated[Count, Mark.PROMPTING, Mark.MEASURE] = 1024
    """Longer prompts are dropped and counted."""
    most_dropped: Annotated[Share, Mark.NO_NUMBER, Mark.NOT_IN_FIGURES] = 0.5
    """The run stops if all stages together lose a larger share."""
    anchors: Annotated[Literal["subject+property", "subject"], Mark.PROMPTING, Mark.MEASURE] = (
        "subject+property"
    )
    """Part of the question that the exact question tokens cover."""
    finder: Annotated[Literal["metadata", "offline"], Mark.PROMPTING, Mark.MEASURE] = "metadata"
    """Finder of the exact question tokens: `metadata` uses the dataset's subject and property where
    known; `offline` uses the question's text alone."""
    conditions: Annotated[Conditions, Mark.TRIAL, Mark.MEASURE] = Field(
        default_factory=_all_conditions
    )
    """Passes in addition to `clean`; by default all."""
    readouts: Annotated[Listed[ReadoutName], Mark.TRIAL, Mark.MEASURE] = Field(
        ["mlp/final", "mlp/prompt_end"]
    )
    """Read-outs to measure, `<site>/<position>`. The prompt's end is measured at each of their
    sites, because the claim `answer_adds` compares with it."""
    generation: Annotated[Generation, Mark.PROMPTING, Mark.TRIAL, Mark.MEASURE] = Field(
        default_factory=Generation
    )
    """Settings for generating answers."""
    no_answer: Annotated[Literal["drop", "wrong"], Mark.PROMPTING, Mark.MEASURE] = "drop"
    """Treatment of a response that is no answer (a refusal, the question or a gold answer in it
    repeated, an unfinished sentence): `drop` leaves it out and counts it by reason; `wrong`
    measures it like any other."""
    batch_tokens: Annotated[Count | None, Mark.NOT_IN_FIGURES, Mark.MEASURE] = None
    """Maximum number of tokens in a batch; by default 8,192 on a CPU and 98,304 on a GPU. A batch
    that does not fit in a GPU's memory is halved."""
    keep_activations: Annotated[bool, Mark.NO_NUMBER, Mark.NOT_IN_FIGURES] = True
    """Whether to keep activations on disk after scoring."""
    probe: Annotated[Probe, Mark.TRIAL, Mark.MEASURE] = Field(
        default_factory=Probe, description="How probes are fitted."
    )
    bootstrap: Annotated[Bootstrap, Mark.MEASURE] = Field(
        default_factory=Bootstrap, description="Confidence intervals."
    )
    chart: Annotated[ChartSettings, Mark.NO_NUMBER, Mark.NOT_IN_FIGURES] = Field(
        default_factory=ChartSettings, description="How figures look."
    )
    detection: Annotated[Detection, Mark.NOT_IN_FIGURES] = Field(
        default_factory=Detection, description="Detectors of wrong answers."
    )
    validation: Annotated[Place | None, Mark.NOT_IN_FIGURES] = None
    """File of cells with known truth. Only validation/calibration.yaml names one."""
    models: dict[Name, Model] = Field(default_factory=dict, description="Models, by key.")
    datasets: dict[Name, Dataset] = Field(default_factory=dict, description="Datasets, by key.")
    figures: dict[Name, Figure] = Field(default_factory=dict, description="Figures, by key.")

    @field_validator("results")
    @classmethod
    def _a_folder_of_its_own(cls, value: str) -> str:
        if Path(value).name in ("", "..") or set("{}*?") & set(value):
            what = f"the folder `{value}` cannot hold results"
            raise mistake(what, "name a separate folder without any of {}*?, such as `results`")
        return str(Path(value))

    @field_validator("readouts")
    @classmethod
    def _with_the_prompts_end(cls, readouts: list[str]) -> list[str]:
        return list(dict.fromkeys([*readouts, *map(before_answer, readouts)]))

    @field_validator("models", "datasets")
    @classmethod
    def _labelled(cls, entries: dict[str, Any]) -> dict[str, Any]:
        return {
            key: entry if entry.label else entry.model_copy(update={"label": key})
            for key, entry in entries.items()
        }

    @property
    def root(self) -> str:
        """Folder of the products that depend on `limit`."""
        return self.results if self.limit is None else f"{self.results}/limit-{self.limit}"

    @property
    def answer_readouts(self) -> list[str]:
        """The read-outs with a figure of their own: all except those at `prompt_end`."""
        return [name for name in self.readouts if not name.endswith("/prompt_end")]

    @property
    def prompting(self) -> dict[str, Any]:
        """The settings that determine prompts and exact answers; a detector stores them."""
        return self.model_dump(mode="json", include=self.marked(Mark.PROMPTING))

    def cells(self, figure: str) -> list[tuple[str, str]]:
        """Return (model, dataset) of each cell of a figure, in the order of panels and legend."""
        entry = self.figures[figure]
        return [(model, dataset) for model in entry.models for dataset in entry.datasets]

    def labels_of(self, cells: Sequence[tuple[str, str]]) -> dict[str, dict[str, str]]:
        """Return the display names (`label`) of the cells' models and datasets, by key."""
        return {
            "models": {name: self.models[name].label for name, _ in cells},
            "datasets": {name: self.datasets[name].label for _, name in cells},
        }

    def readouts_of(self, model: str, dataset: str) -> list[str]:
        """Return the read-outs of the figures that show a cell."""
        figures = (one for one in self.figures.values() if model in one.models)
        return sorted({one.readout for one in figures if dataset in one.datasets})

    def sample_size_of(self, dataset: str) -> int:
        """Return the number of answers measured on a dataset."""
        return self.datasets[dataset].sample_size or self.sample_size

    def pool_size_of(self, dataset: str) -> int | None:
        """Return the number of questions to take from a dataset; None for all.

        Rows with responses are all in the pool.
        """
        entry, size = self.datasets[dataset], self.sample_size_of(dataset)
        if entry.fields.response and self.balance:
            return None
        return entry.pool_size or self.pool_size or ASKED_PER_SAMPLE * size

    def asked_of(self, dataset: str) -> int | None:
        """Return the number of questions that `limit` leaves of a dataset; None for all."""
        if self.limit is None:
            return None
        size, pool = self.sample_size_of(dataset), self.pool_size_of(dataset)
        ratio = ASKED_PER_SAMPLE if pool is None else pool / size
        return math.ceil(min(self.limit, size) * ratio)

    def choice_of(self, dataset: str) -> dict[str, Any] | None:
        """Return the arguments of `pool.Choice` for a dataset; None if all answers are measured."""
        size, pool = self.sample_size_of(dataset), self.pool_size_of(dataset)
        if not (self.balance or pool != size):
            return None
        return {"size": min(self.limit or size, size), "balance": self.balance}

    @property
    def chooses(self) -> bool:
        """Whether answers are chosen on any dataset. If not, older answers stay up to date."""
        return any(map(self.choice_of, self.datasets))

    def answering(self, model: str) -> str:
        """Return the model whose prompts and answers a model reads; by default, its own."""
        return self.models[model].answers_of or model

    def shows_examples(self, dataset: str) -> bool:
        """Return whether the prompts of any model on the dataset have worked examples."""
        cells = {cell for figure in self.figures for cell in self.cells(figure)}
        models = {self.answering(model) for model, on in cells if on == dataset}
        styles = {STYLES[self.models[model].prompt] for model in models}
        return self.generation.few_shot_examples > 0 and any(s.shows_examples for s in styles)

    def named_data(self, dataset: str) -> str:
        """Return a dataset's key, with its place on the hub if it has one."""
        entry = self.datasets[dataset]
        place = entry.hub and (f"{entry.hub} at {entry.revision}" if entry.revision else entry.hub)
        return f"{dataset} ({place})" if place else dataset

    def local_of(self, dataset: str) -> str | None:
        """Return the path of a dataset's local rows, inside `data_folder` if that is given."""
        local = self.datasets[dataset].local
        return local and str(Path(self.data_folder or "", local))

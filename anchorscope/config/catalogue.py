"""Entries of the catalogues: models, datasets and figures."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from anchorscope.config.sections import (
    Amount,
    Count,
    DatasetKeys,
    HubId,
    Inside,
    ModelKey,
    ModelKeys,
    Place,
    Positive,
    Readout,
    Section,
    Several,
    Share,
    Text,
    key,
    mistake,
)

PromptStyle = Literal["plain", "few_shot", "chat"]
WorldStyle = Literal[
    "relation", "trivia", "two_hop", "search",
    "null-surname", "null-property", "null-template", "null-length", "null-lead-in", "null-closer",
    "null-additive",
]  # fmt: skip


class Resources(Section):
    """What one job of this model requests."""

    gpus: Amount = key(1, "GPUs per job; 0: CPU.")
    mem_gb: Count | None = key(None, "Main memory, in GB; null: by the sizes of model and sample.")
    gpu_mem_gb: Amount = key(24, "Memory of each GPU, in GB.")
    runtime_min: Count | None = None
    """Time limit, in minutes; null: by the sizes of model and sample."""


class TrainSettings(Section):
    """Recipe of a small model trained here."""

    architecture: Literal["llama", "qwen3"] = Field(description="Architecture.")
    datasets: DatasetKeys = Field(description="Keys of the datasets to learn.")
    curriculum: Literal["planted", "plain"] = "planted"
    """`planted`: the kinds of the calibration worlds. `plain`: facts of any dataset, each learned
    right or wrong at random."""
    layers: Count = key(8, "Layers.")
    width: Count = key(64, "Width of the residual stream.")
    heads: Count = key(4, "Attention heads.")
    kv_heads: Count = key(2, "Key and value heads.")
    mlp: Count = key(192, "Width of the MLP.")
    vocabulary: Annotated[int, Field(ge=260)] = 800
    """Tokens of the byte-level BPE tokenizer trained on the text."""
    graded: bool = True
    """Whether each answer is followed by a verdict, right or wrong (`planted`). `false` is a
    negative control."""
    steps: Amount = key(4800, "Training steps; 0 leaves the model untrained.")
    settle: Amount = 400
    """Steps of a second stage at a lower learning rate, with extra rows about unknown subjects
    (`planted`)."""
    settle_frameless: Amount = 0
    """Steps of a third stage with twice the share of `frameless` rows, which strengthens the
    default verdict."""
    batch_rows: Count = key(256, "Rows of text per step.")
    learning_rate: Positive = key(4.0e-3, "Peak learning rate.")
    warmup: Inside = key(0.2, "Share of the steps in which the learning rate rises.")
    early_verdict: Share = 0.05
    """Weight of the verdict's loss at each layer of the deeper half."""
    frameless: Share = key(0.15, "Share of rows whose question lacks its exact tokens (`planted`).")
    wrong_share: Share = key(0.5, "Share of facts learned wrong (`plain`).")
    seed: Amount = key(0, "Seed of weights, order and planted answers.")

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.width % self.heads or (self.width // self.heads) % 2:
            what = f"`width` {self.width} does not give {self.heads} `heads` of an even size"
            raise mistake(what, "change `width` or `heads`")
        if self.heads % self.kv_heads:
            what = f"{self.heads} `heads` cannot share {self.kv_heads} `kv_heads`"
            raise mistake(what, "let `kv_heads` be a divisor of `heads`")
        return self


class Model(Section):
    """Exactly one of `hub`, `local` and `train`."""

    hub: HubId | None = key(None, "Repository on the Hugging Face hub.")
    local: Place | None = key(None, "Folder saved with `save_pretrained`.")
    train: TrainSettings | None = key(None, "Recipe of a model trained here.")
    revision: Text | None = None
    """Commit, branch or tag; null: the newest, then the one in `revisions.lock.yaml`."""
    label: str = key("", "Name in figures; by default the key.")
    prompt: PromptStyle = "few_shot"
    """`plain`: the bare question. `few_shot`: worked examples first, for base models. `chat`: the
    tokenizer's chat template."""
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    """Number format of the weights."""
    answers_of: ModelKey | None = None
    """Key of a model with the same tokenizer whose answers and labels this one reads instead of
    generating."""
    gated: bool = False
    """Whether the hub requires an accepted licence and a token (`HF_TOKEN`)."""
    resources: Resources = Field(default_factory=Resources, description="What its jobs request.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        self.one_of("hub", "local", "train")
        self.only_with("hub", "revision")
        if self.train and self.prompt == "chat":
            what = "a model trained here has no chat template, so `prompt` cannot be `chat`"
            raise mistake(what, "use `plain`")
        return self


class Fields(Section):
    """Columns of a row; nested ones are dotted (`answer.value`)."""

    question: Text = Field(description="The question's text.")
    answers: Annotated[list[Text], Field(min_length=1)]
    """Gold answers: paths to a text, a list, or a JSON list."""
    id: Text | None = key(None, "A unique id; by default a hash.")
    subject: Text | None = key(None, "The entity asked about.")
    property: Text | None = key(None, "The property asked for.")
    relation: Text | None = key(None, "Name of the question's template.")
    kind: Text | None = key(None, "Kind of the sample.")
    popularity: Text | None = key(None, "How well known the subject is.")
    anchors: Text | None = None
    """Your own exact question tokens: texts in the question, or [start, end] in characters."""
    titles: Text | None = None
    """Titles of supporting pages, which help to find the exact question tokens."""
    response: Text | None = key(None, "An answer to measure instead of generating one.")
    label: Text | None = key(None, "Its label: 0 right, 1 hallucinated.")


class FewShot(Section):
    """Exactly one of `file`, `split` and `rows`."""

    file: Place | None = key(None, "YAML file of examples (`question`, `answer`).")
    split: Text | None = key(None, "Another split of the dataset.")
    rows: Literal["outside"] | None = None
    """`outside`: rows of the same split outside the sample."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        self.one_of("file", "split", "rows")
        return self


class WorldSettings(Section):
    """Invented facts with a planted pathway, or a null world of given responses."""

    style: WorldStyle
    """How its questions are worded; or a null world, named after what decides the label, which uses
    only `seed` of the keys below."""
    seed: Amount = key(0, "Seed of names, answers and kinds.")
    pathways: Literal["both", "answer"] = "both"
    """`answer`: truisms and myths only, so that the question is irrelevant."""
    scored: Count = key(60, "Facts of each scored kind (truism, myth, surprise, tempting).")
    redundant: Amount = key(60, "Redundant facts of each label.")
    neutral: Amount = key(25, "Neutral facts of each label.")
    unseen: Amount = key(40, "Facts never shown in training.")
    words_per_group: Several = key(8, "Answer words of each group and relation.")


class Dataset(Section):
    """Exactly one of `hub`, `local` and `world`."""

    hub: HubId | None = key(None, "Repository on the Hugging Face hub.")
    local: Place | None = key(None, "File or folder of rows: JSON Lines, JSON, CSV or Parquet.")
    world: WorldSettings | None = key(None, "An invented world of facts.")
    config: Text | None = key(None, "Configuration on the hub.")
    split: Text | None = key(None, "Split to sample from; required with `hub`.")
    revision: Text | None = key(None, "As for models.")
    label: str = key("", "Name in figures; by default the key.")
    fields: Fields | None = key(None, "Required with `hub` and `local`.")
    few_shot: FewShot = Field(default_factory=lambda: FewShot(rows="outside"))
    """Where worked examples come from."""
    sample_size: Count | None = key(None, "Questions sampled; null: the global `sample_size`.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        self.one_of("hub", "local", "world")
        self.only_with("hub", "config", "revision")
        self.only_with("hub or local", "split", "fields")
        if self.world is None and self.fields is None:
            raise mistake("the key `fields` is missing", "add it, with `question` and `answers`")
        if self.hub is not None and self.split is None:
            raise mistake("the key `split` is missing", "add it, for example `split: validation`")
        return self


class Figure(Section):
    """A panel per model, two curves per dataset."""

    models: ModelKeys = Field(description="Models, in the order of the panels.")
    datasets: DatasetKeys = Field(description="Datasets, in the order of the legend.")
    readout: Readout = key("mlp/final", "The read-out shown; one of `readouts`.")

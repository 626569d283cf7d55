"""Entries of the catalogues: models, datasets and figures."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from anchorscope.config.sections import (
    Amount,
    ColumnPath,
    Count,
    Inside,
    Positive,
    Readout,
    Section,
    Share,
    Text,
)

PromptStyle = Literal["plain", "few_shot", "chat"]
WorldStyle = Literal[
    "relation",
    "trivia",
    "two_hop",
    "search",
    "null-surname",
    "null-property",
    "null-template",
    "null-length",
    "null-lead-in",
    "null-closer",
    "null-additive",
]


class Resources(Section):
    """What one job of this model requests."""

    gpus: Amount = Field(1, description="GPUs per job; 0: CPU.")
    mem_gb: Count | None = Field(
        None, description="Main memory, in GB; null: by the sizes of model and sample."
    )
    gpu_mem_gb: Amount = Field(24, description="Memory of each GPU, in GB.")
    runtime_min: Count | None = Field(
        None, description="Time limit, in minutes; null: by the sizes of model and sample."
    )


class TrainSettings(Section):
    """Recipe of a small model trained here."""

    architecture: Literal["llama", "qwen3"] = Field(description="Architecture.")
    datasets: Annotated[list[str], Field(min_length=1)] = Field(
        description="Keys of the datasets to learn."
    )
    curriculum: Literal["planted", "plain"] = Field(
        "planted",
        description="`planted`: the kinds of the calibration worlds. `plain`: facts of any "
        "dataset, each learned right or wrong at random.",
    )
    layers: Count = Field(8, description="Layers.")
    width: Count = Field(64, description="Width of the residual stream.")
    heads: Count = Field(4, description="Attention heads.")
    kv_heads: Count = Field(2, description="Key and value heads.")
    mlp: Count = Field(192, description="Width of the MLP.")
    vocabulary: Annotated[int, Field(ge=260)] = Field(
        800, description="Tokens of the byte-level BPE tokenizer trained on the text."
    )
    graded: bool = Field(
        True,
        description="Whether each answer is followed by a verdict, right or wrong (`planted`). "
        "`false` is a negative control.",
    )
    steps: Amount = Field(4800, description="Training steps; 0 leaves the model untrained.")
    settle: Amount = Field(
        400,
        description="Steps of a second stage at a lower learning rate, with extra rows about "
        "unknown subjects (`planted`).",
    )
    settle_frameless: Amount = Field(
        0,
        description="Steps of a third stage with twice the share of `frameless` rows, which "
        "strengthens the default verdict.",
    )
    batch_rows: Count = Field(256, description="Rows of text per step.")
    learning_rate: Positive = Field(4.0e-3, description="Peak learning rate.")
    warmup: Inside = Field(0.2, description="Share of the steps in which the learning rate rises.")
    early_verdict: Share = Field(
        0.05, description="Weight of the verdict's loss at each layer of the deeper half."
    )
    frameless: Share = Field(
        0.15, description="Share of rows whose question lacks its exact tokens (`planted`)."
    )
    wrong_share: Share = Field(0.5, description="Share of facts learned wrong (`plain`).")
    seed: Amount = Field(0, description="Seed of weights, order and planted answers.")


class Model(Section):
    """Exactly one of `hub`, `local` and `train`."""

    hub: Text | None = Field(None, description="Repository on the Hugging Face hub.")
    local: Text | None = Field(None, description="Folder saved with `save_pretrained`.")
    train: TrainSettings | None = Field(None, description="Recipe of a model trained here.")
    revision: Text | None = Field(
        None,
        description="Commit, branch or tag; null: the newest, then the one in "
        "`revisions.lock.yaml`.",
    )
    label: str = Field("", description="Name in figures; by default the key.")
    prompt: PromptStyle = Field(
        "few_shot",
        description="`plain`: the bare question. `few_shot`: worked examples first, for base "
        "models. `chat`: the tokenizer's chat template.",
    )
    dtype: Literal["bfloat16", "float16", "float32"] = Field(
        "bfloat16", description="Number format of the weights."
    )
    answers_of: Text | None = Field(
        None,
        description="Key of a model with the same tokenizer whose answers and labels this one "
        "reads instead of generating.",
    )
    gated: bool = Field(
        False, description="Whether the hub requires an accepted licence and a token (`HF_TOKEN`)."
    )
    resources: Resources = Field(default_factory=Resources, description="What its jobs request.")


class Fields(Section):
    """Columns of a row; nested ones are dotted (`answer.value`)."""

    question: ColumnPath = Field(description="The question's text.")
    answers: Annotated[list[ColumnPath], Field(min_length=1)] = Field(
        description="Gold answers: paths to a text, a list, or a JSON list."
    )
    id: ColumnPath | None = Field(None, description="A unique id; by default a hash.")
    subject: ColumnPath | None = Field(None, description="The entity asked about.")
    property: ColumnPath | None = Field(None, description="The property asked for.")
    relation: ColumnPath | None = Field(None, description="Name of the question's template.")
    kind: ColumnPath | None = Field(None, description="Kind of the sample.")
    popularity: ColumnPath | None = Field(None, description="How well known the subject is.")
    anchors: ColumnPath | None = Field(
        None,
        description="Your own exact question tokens: texts in the question, or [start, end] in "
        "characters.",
    )
    titles: ColumnPath | None = Field(
        None,
        description="Titles of supporting pages, which help to find the exact question tokens.",
    )
    response: ColumnPath | None = Field(
        None, description="An answer to measure instead of generating one."
    )
    label: ColumnPath | None = Field(None, description="Its label: 0 right, 1 hallucinated.")


class FewShot(Section):
    """Exactly one of `file`, `split` and `rows`."""

    file: Text | None = Field(None, description="YAML file of examples (`question`, `answer`).")
    split: Text | None = Field(None, description="Another split of the dataset.")
    rows: Literal["outside"] | None = Field(
        None, description="`outside`: rows of the same split outside the sample."
    )


class WorldSettings(Section):
    """Invented facts with a planted pathway, or a null world of given responses."""

    style: WorldStyle = Field(
        description="How its questions are worded; or a null world, named after what decides the "
        "label, which uses only `seed` of the keys below."
    )
    seed: Amount = Field(0, description="Seed of names, answers and kinds.")
    pathways: Literal["both", "answer"] = Field(
        "both",
        description="`answer`: truisms and myths only, so that the question is irrelevant.",
    )
    scored: Count = Field(
        60, description="Facts of each scored kind (truism, myth, surprise, tempting)."
    )
    redundant: Amount = Field(60, description="Redundant facts of each label.")
    neutral: Amount = Field(25, description="Neutral facts of each label.")
    unseen: Amount = Field(40, description="Facts never shown in training.")
    words_per_group: Annotated[int, Field(ge=2)] = Field(
        8, description="Answer words of each group and relation."
    )


class Dataset(Section):
    """Exactly one of `hub`, `local` and `world`."""

    hub: Text | None = Field(None, description="Repository on the Hugging Face hub.")
    local: Text | None = Field(
        None, description="File or folder of rows: JSON Lines, JSON, CSV or Parquet."
    )
    world: WorldSettings | None = Field(None, description="An invented world of facts.")
    config: Text | None = Field(None, description="Configuration on the hub.")
    split: Text | None = Field(None, description="Split to sample from; required with `hub`.")
    revision: Text | None = Field(
        None,
        description="As for models.",
    )
    label: str = Field("", description="Name in figures; by default the key.")
    fields: Fields | None = Field(None, description="Required with `hub` and `local`.")
    few_shot: FewShot = Field(
        default_factory=lambda: FewShot(rows="outside"),
        description="Where worked examples come from.",
    )
    sample_size: Count | None = Field(
        None, description="Questions sampled; null: the global `sample_size`."
    )


class Figure(Section):
    """A panel per model, two curves per dataset."""

    models: Annotated[list[str], Field(min_length=1)] = Field(
        description="Models, in the order of the panels."
    )
    datasets: Annotated[list[str], Field(min_length=1)] = Field(
        description="Datasets, in the order of the legend."
    )
    readout: Readout = Field("mlp/final", description="The read-out shown; one of `readouts`.")

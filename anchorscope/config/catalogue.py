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
    """What one job that runs this model asks of a cluster."""

    gpus: Amount = Field(1, description="GPUs per job; 0 for the CPU.")
    mem_gb: Count | None = Field(
        None, description="Main memory, in GB; null: by the sizes of model and sample."
    )
    gpu_mem_gb: Amount = Field(
        24, description="Memory each GPU should have, in GB; a note to the reader, not enforced."
    )
    runtime_min: Count | None = Field(
        None, description="Time limit, in minutes; null: by the sizes of model and sample."
    )


class TrainSettings(Section):
    """Recipe of a small model, trained here on the questions of the datasets it names."""

    architecture: Literal["llama", "qwen3"] = Field(description="Architecture of the model.")
    datasets: Annotated[list[str], Field(min_length=1)] = Field(
        description="Keys of the datasets whose facts it learns."
    )
    curriculum: Literal["planted", "plain"] = Field(
        "planted",
        description="`planted`: the kinds of the calibration worlds. `plain`: facts of any "
        "dataset, each learned right or wrong as the seed says.",
    )
    layers: Count = Field(8, description="Number of layers.")
    width: Count = Field(64, description="Width of the residual stream.")
    heads: Count = Field(4, description="Attention heads.")
    kv_heads: Count = Field(2, description="Key and value heads.")
    mlp: Count = Field(192, description="Width of the MLP.")
    vocabulary: Annotated[int, Field(ge=260)] = Field(
        800, description="Tokens of the byte-level BPE tokenizer trained on the text."
    )
    graded: bool = Field(
        True,
        description="Whether each answer is followed by its verdict, right or wrong (`planted`). "
        "Without it a small model hardly represents truth, and right and wrong answers are shown "
        "alike, as a negative control.",
    )
    steps: Amount = Field(4800, description="Training steps; 0 leaves the model untrained.")
    settle: Amount = Field(
        400,
        description="Steps of a second stage with a lower learning rate and, besides, as many rows "
        "as are `frameless` about subjects that no fact names (`planted`).",
    )
    settle_frameless: Amount = Field(
        0,
        description="Steps of a third stage like the second, with twice the share of `frameless` "
        "rows: it makes surer what the model says where it cannot read the question.",
    )
    batch_rows: Count = Field(256, description="Rows of text per step.")
    learning_rate: Positive = Field(4.0e-3, description="Peak learning rate.")
    warmup: Inside = Field(0.2, description="Share of the steps in which the learning rate rises.")
    early_verdict: Share = Field(
        0.05, description="Weight of the verdict's loss at each layer of the deeper half."
    )
    frameless: Share = Field(
        0.15, description="Share of rows that show a question without its exact tokens (`planted`)."
    )
    wrong_share: Share = Field(0.5, description="Share of facts learned wrong (`plain`).")
    seed: Amount = Field(0, description="Seed of weights, order and planted answers.")


class Model(Section):
    """A model of the catalogue: exactly one of `hub`, `local` and `train`."""

    hub: Text | None = Field(None, description="Repository on the Hugging Face hub.")
    local: Text | None = Field(None, description="Folder saved with `save_pretrained`.")
    train: TrainSettings | None = Field(None, description="Recipe of a model trained here.")
    revision: Text | None = Field(
        None,
        description="Commit, branch or tag on the hub; null: the newest. What was found first is "
        "kept in `revisions.lock.yaml`.",
    )
    label: str = Field("", description="Name in figures; the key where left out.")
    prompt: PromptStyle = Field(
        "few_shot",
        description="`plain`: the bare question. `few_shot`: worked examples first, for base "
        "models. `chat`: the tokenizer's chat template, for instruct models.",
    )
    dtype: Literal["bfloat16", "float16", "float32"] = Field(
        "bfloat16", description="Number format of the weights."
    )
    answers_of: Text | None = Field(
        None,
        description="Key of a model with the same tokenizer, whose answers and labels this one "
        "reads instead of answering itself.",
    )
    gated: bool = Field(
        False, description="Whether the hub wants an accepted licence and a token (`HF_TOKEN`)."
    )
    resources: Resources = Field(
        default_factory=Resources, description="What its jobs ask of a cluster."
    )


class Fields(Section):
    """Where a row keeps what; a path into nested columns is dotted, as `answer.value`."""

    question: ColumnPath = Field(description="The question's text.")
    answers: Annotated[list[ColumnPath], Field(min_length=1)] = Field(
        description="Gold answers; each path leads to a text, a list of texts, or a JSON list."
    )
    id: ColumnPath | None = Field(None, description="A unique id; else one is made by hash.")
    subject: ColumnPath | None = Field(None, description="The entity asked about.")
    property: ColumnPath | None = Field(None, description="The property asked for.")
    relation: ColumnPath | None = Field(None, description="Name of the question's template.")
    kind: ColumnPath | None = Field(None, description="Kind of the sample.")
    popularity: ColumnPath | None = Field(None, description="How well known the subject is.")
    anchors: ColumnPath | None = Field(
        None,
        description="Exact question tokens of your own: a list of texts in the question, or of "
        "[start, end] pairs of characters.",
    )
    titles: ColumnPath | None = Field(
        None, description="Titles of supporting pages, which help to find the question's anchors."
    )
    response: ColumnPath | None = Field(
        None, description="An answer of your own, taken instead of generating one."
    )
    label: ColumnPath | None = Field(
        None, description="A label of your own: 0 right, 1 hallucinated."
    )


class FewShot(Section):
    """Where worked examples come from: exactly one of `file`, `split` and `rows`."""

    file: Text | None = Field(None, description="YAML file of examples (`question`, `answer`).")
    split: Text | None = Field(None, description="Another split of the dataset.")
    rows: Literal["outside"] | None = Field(
        None, description="`outside`: rows of the same split that were not sampled."
    )


class WorldSettings(Section):
    """An invented world: facts whose pathway is planted, or a null world of given responses."""

    style: WorldStyle = Field(
        description="How its questions are asked; or a null world, named after what decides "
        "whether a response is right, whatever the pair of question and answer: nothing below but "
        "`seed` matters to it."
    )
    seed: Amount = Field(0, description="Decides names, answers and which facts are which kind.")
    pathways: Literal["both", "answer"] = Field(
        "both",
        description="`answer`: truisms and myths only, every word always right or never; the "
        "question is then irrelevant.",
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
    """A dataset of the catalogue: exactly one of `hub`, `local` and `world`."""

    hub: Text | None = Field(None, description="Repository on the Hugging Face hub.")
    local: Text | None = Field(
        None, description="File or folder of rows: JSON Lines, JSON, CSV or Parquet."
    )
    world: WorldSettings | None = Field(None, description="An invented world of facts.")
    config: Text | None = Field(None, description="Configuration of the hub dataset.")
    split: Text | None = Field(
        None, description="Split to sample from; required with `hub`, optional with `local`."
    )
    revision: Text | None = Field(
        None,
        description="Commit, branch or tag on the hub; null: the newest. What was found first is "
        "kept in `revisions.lock.yaml`.",
    )
    label: str = Field("", description="Name in figures; the key where left out.")
    fields: Fields | None = Field(
        None, description="Where a row keeps what; required with `hub` and `local`."
    )
    few_shot: FewShot = Field(
        default_factory=lambda: FewShot(rows="outside"),
        description="Where worked examples come from.",
    )
    sample_size: Count | None = Field(
        None, description="Questions sampled; null: the `sample_size` of all datasets."
    )


class Figure(Section):
    """A figure of the catalogue: a panel per model, two curves per dataset."""

    models: Annotated[list[str], Field(min_length=1)] = Field(
        description="Keys of the models, in the order of the panels."
    )
    datasets: Annotated[list[str], Field(min_length=1)] = Field(
        description="Keys of the datasets, in the order of the legend."
    )
    readout: Readout = Field("mlp/final", description="The read-out drawn; one of `readouts`.")

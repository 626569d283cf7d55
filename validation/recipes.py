"""Recipes of the small models that the calibration and the null controls measure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from anchorscope.config.sections import (
    Amount,
    Count,
    DatasetKey,
    Inside,
    Listed,
    Positive,
    Section,
    Share,
    key,
    mistake,
)
from anchorscope.storage.files import read_json
from anchorscope.storage.identity import identity
from validation.world import WorldSettings

FILE = "recipe.json"
"""Record in the folder of a model that was made here."""
VERSION = 3
"""Increase it if new code (of worlds, curriculum or training) changes what a recipe produces."""


class TrainSettings(Section):
    """Recipe of a small model."""

    architecture: Literal["llama", "qwen3"] = Field(description="Architecture of the model.")
    datasets: Listed[DatasetKey] = Field(description="Keys of the worlds to learn.")
    curriculum: Literal["planted", "plain"] = "planted"
    """`planted`: teach facts of the calibration worlds' kinds (truism, myth, …). `plain`: teach
    the facts of a null world. A random part of them (`wrong_share`) is taught wrong."""
    layers: Count = key(8, "Number of layers.")
    width: Count = key(64, "Width of the residual stream.")
    heads: Count = key(4, "Number of attention heads.")
    kv_heads: Count = key(2, "Number of key and value heads.")
    mlp: Count = key(192, "Width of the MLP.")
    vocabulary: Annotated[int, Field(ge=260)] = key(800, "Size of the byte-level BPE vocabulary.")
    graded: bool = True
    """Whether each answer is followed by a verdict, right or wrong (`planted`). `false` is a
    negative control."""
    steps: Amount = key(4800, "Training steps; 0 leaves the model untrained.")
    settle: Amount = 400
    """Steps of a second stage at a lower learning rate, with extra rows about unknown subjects
    (`planted`)."""
    settle_frameless: Amount = 0
    """Steps of a third stage, with `frameless` doubled (`planted`). This strengthens the model's
    default: the verdict that it gives on questions that it does not know."""
    settle_bare: Amount = 0
    """Steps of a fourth stage: as the third, but a tenth of the rows are answers without a
    question, as in the experiment `answer-only` (`planted`)."""
    batch_rows: Count = key(256, "Rows of text per step.")
    learning_rate: Positive = key(4.0e-3, "Peak learning rate.")
    warmup: Inside = key(0.2, "Share of steps during which the learning rate rises.")
    early_verdict: Share = key(0.05, "Loss weight of the verdict at each layer of the deeper half.")
    frameless: Share = key(0.15, "Share of rows whose question lacks its exact tokens (`planted`).")
    wrong_share: Share = key(0.5, "Share of facts taught wrong (`plain`).")
    embedded_numbers: Annotated[float, Field(ge=0)] = 0
    """Scale of the numbers that are added to words' embeddings before training, relative to the
    embeddings' mean norm. Only for `null-familiar` and `null-type` worlds; 0: nothing is added."""
    seed: Amount = key(0, "Seed of weights, order and planted answers.")

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.width % self.heads or (self.width // self.heads) % 2:
            what = f"`width` {self.width} cannot be divided into {self.heads} `heads` of even size"
            raise mistake(what, "change `width` or `heads`")
        if self.heads % self.kv_heads:
            what = f"{self.heads} `heads` cannot share {self.kv_heads} `kv_heads`"
            raise mistake(what, "let `kv_heads` be a divisor of `heads`")
        return self


def fits(folder: str | Path, recipe: str) -> bool:
    """Return whether `folder` holds a checkpoint made by the recipe with the hash `recipe`."""
    marker = Path(folder) / FILE
    return marker.is_file() and read_json(marker).get("recipe") == recipe


def hash_of(train: TrainSettings, worlds: Mapping[str, WorldSettings]) -> str:
    """Return the hash of all settings that determine the weights of a model."""
    learned = {name: worlds[name].model_dump(mode="json") for name in train.datasets}
    recipe = train.model_dump(mode="json")
    return identity({"version": VERSION, "train": recipe, "worlds": learned})

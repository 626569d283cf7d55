"""Workloads of the benchmark: sequences after a shared prefix, and states of a shipped model.

A model has random weights, or is the model of `make first-model` if its products exist.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from anchorscope.config.sections import WorldSettings
from anchorscope.models import families, loading
from anchorscope.models.families import Loaded
from anchorscope.questions import world
from anchorscope.storage.files import read_json, read_parquet
from validation import curriculum

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ANSWER = 8
"""Tokens of an answer; the last one closes it."""
BLOCKED = 3
END_EVERY = 12
"""Distance between the token ids that end a generated answer. Answers then differ in length."""
SITE = "mlp"
READOUT = f"{SITE}/final"
RANDOM, PUBLISHED, HIDDEN = "random-weights", "first-model", "hidden"
"""Names of the workloads: passes of a random model and of a published one, and fits of probes."""
KEY, DATASET = "smollm2-135m-q4", "popqa"
"""The model and dataset of `make first-model`."""
CHECKPOINT = Path(__file__).parents[1] / "resources" / "models" / "calibration-llama"
AT_ONCE = 128


@dataclass(frozen=True)
class Shape:
    """Shape of a Llama with random weights. It has as many key and value heads as query heads."""

    layers: int = 16
    width: int = 512
    inner: int = 1408
    heads: int = 8
    vocabulary: int = 32_000


@dataclass(frozen=True)
class Workload:
    """Sequences after a shared prefix.

    Attributes:
        name: Name in the table.
        prefix: Number of tokens that all sequences begin with.
        sequences: Number of sequences. Each has `shortest` to `longest` tokens of its own.
        timed: Number of sequences that slow ways are timed on.
        new_tokens: Maximum number of tokens in a generated answer.
        results: Products of `make first-model`, None for random weights.
        shape: Shape of the random model.
    """

    name: str
    prefix: int = 150
    sequences: int = 64
    shortest: int = 40
    longest: int = 80
    timed: int = 8
    new_tokens: int = 16
    results: Path | None = None
    shape: Shape = Shape()

    @property
    def some(self) -> list[int]:
        """The sequences that slow ways are timed on, spread evenly over the numbers."""
        return [n * self.sequences // self.timed for n in range(self.timed)]

    def read(self) -> tuple[Loaded, pd.DataFrame, frozenset[int]]:
        """Return the model, the sequences as answers, and the ids that end an answer."""
        if self.results:
            return _published(self.results, self.sequences)
        ends = range(END_EVERY - 1, self.shape.vocabulary, END_EVERY)
        return llama(self.shape), answers(self), frozenset(ends)


TINY = Shape(layers=3, width=32, inner=64, heads=4, vocabulary=500)


def of_random_weights(quick: bool) -> Workload:
    """Return the workload of a random-weight model, a tiny one if `quick`."""
    work = Workload(RANDOM)
    small: dict[str, Any] = {"sequences": 8, "timed": 4, "new_tokens": 4, "shape": TINY}
    return replace(work, **small) if quick else work


def published(results: Path, quick: bool) -> Workload | None:
    """Return the workload of a published model with few-shot prompts, None if it is not there.

    Args:
        results: Folder of the products of `make first-model`.
        quick: Whether to take only a few sequences.
    """
    if not all(path.is_file() for path in _products(results)):
        return None
    work = Workload(PUBLISHED, sequences=32, timed=2, results=results)
    return replace(work, sequences=4, timed=1, new_tokens=4) if quick else work


def _products(results: Path) -> tuple[Path, Path]:
    """Return the paths of the model's record and its answers that `make first-model` writes."""
    return results / f"models/{KEY}.json", results / f"answers/{KEY}/{DATASET}.parquet"


def _published(results: Path, sequences: int) -> tuple[Loaded, pd.DataFrame, frozenset[int]]:
    """Return the model in float32, evenly spaced answers, and the ids that end an answer."""
    located, answers = _products(results)
    model = loading.load(read_json(located)["path"])
    every = read_parquet(answers)
    kept = every[every["dropped"].isna()]
    table = kept.iloc[[n * len(kept) // sequences for n in range(sequences)]].reset_index(drop=True)
    for column in ("input_ids", "eq_tokens", "question_tokens"):
        table[column] = [list(map(int, row)) for row in table[column]]
    return model, table, _ends(model)


def _ends(loaded: Loaded) -> frozenset[int]:
    """Return the ids that end a few-shot answer: line breaks, and the model's end token."""
    texts = [loaded.tokenizer.decode([number]) for number in range(len(loaded.tokenizer))]
    breaks = {number for number, text in enumerate(texts) if "\n" in text}
    return frozenset(breaks | {loaded.tokenizer.eos_token_id})


def loaded(model: PreTrainedModel, device: torch.device) -> Loaded:
    """Wrap a model without a tokenizer, for passes of token ids."""
    family, without = families.FAMILIES[model.config.model_type], None
    return Loaded(model.eval().requires_grad_(False), without, family, None, device)  # type: ignore[arg-type]


def llama(shape: Shape) -> Loaded:
    """Make a Llama with seeded random weights, float32 on the CPU."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=1024,
        initializer_range=0.45 / shape.width**0.5,  # 0.02 at width 512, the usual value
    )
    made: Any = LlamaForCausalLM(config)
    return loaded(made, torch.device("cpu"))


def answers(work: Workload) -> pd.DataFrame:
    """Return sequences as an answers table. E_Q has 3 tokens, about 20 tokens after the prefix."""
    draws = random.Random(0)

    def ids(count: int) -> list[int]:
        return [draws.randrange(5, work.shape.vocabulary) for _ in range(count)]

    shared = ids(work.prefix)
    return pd.DataFrame([_sequence(n, shared, ids, draws, work) for n in range(work.sequences)])


def _sequence(
    number: int, shared: list[int], ids: Any, draws: random.Random, work: Workload
) -> dict[str, Any]:
    length = work.prefix + draws.randint(work.shortest, work.longest)
    first = work.prefix + draws.randrange(18, 23)
    return {
        "id": str(number),
        "input_ids": shared + ids(length - work.prefix),
        "prompt_length": length - ANSWER,
        "ea_start": length - ANSWER,
        "ea_end": length - 2,
        "final": length - 1,
        "eq_tokens": list(range(first, first + BLOCKED)),
        "question_tokens": list(range(work.prefix + 4, length - ANSWER - 2)),
        "dropped": None,
    }


def hidden_states(samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return states float32 [layers, samples, width] of a shipped model, labels and folds.

    States are MLP outputs at the token that closes the answer, for distinct training lines of a
    world, in random order. The label is 1 if the answer in the line is wrong.
    """
    of_world = loading.load(CHECKPOINT)
    settings = WorldSettings(style="relation")
    facts = world.facts(settings)
    lines = {
        row.text.rpartition(" ")[0]: not row.right
        for row in curriculum.planted(facts, world.words(settings), seed=0)
    }
    draws = random.Random(0)
    chosen = draws.sample(sorted(lines), min(samples, len(lines)))
    z = np.array([lines[text] for text in chosen], dtype=np.int64)
    ids = [of_world.tokenizer(text)["input_ids"] for text in chosen]
    x = np.concatenate(
        [_read(of_world, ids[start : start + AT_ONCE]) for start in range(0, len(ids), AT_ONCE)], 1
    )
    return x, z, np.random.default_rng(0).permutation(len(z)) % 5


def _read(loaded: Loaded, ids: list[list[int]]) -> np.ndarray:
    """Read states [layers, rows, width] at each row's last token."""
    layers, places = range(len(families.layers(loaded))), [len(row) - 1 for row in ids]
    padded = torch.nn.utils.rnn.pad_sequence([*map(torch.tensor, ids)], batch_first=True)
    with reading(loaded, layers, places) as seen:
        loaded.model.base_model(padded)
    return torch.stack([*seen.values()]).numpy()


@contextmanager
def reading(
    loaded: Loaded, layers: Iterable[int], places: Sequence[int]
) -> Iterator[dict[int, torch.Tensor]]:
    """Collect MLP outputs [rows, width] by layer, at one token of each row, during passes."""
    seen: dict[int, torch.Tensor] = {}
    blocks, rows = families.layers(loaded), range(len(places))

    def keep(layer: int, _: Any, __: Any, output: torch.Tensor) -> None:
        seen[layer] = output[rows, places]

    with torch.inference_mode(), ExitStack() as hooks:
        for layer in layers:
            block = families.part(loaded, blocks[layer], SITE)
            hooks.callback(block.register_forward_hook(partial(keep, layer)).remove)
        yield seen

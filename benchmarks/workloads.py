"""Workloads of the benchmark: sequences after a shared prefix, and states of a shipped model.

A model has random weights, or is the model of `make first-model` if its products exist.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.models import families, loading
from anchorscope.models.families import Loaded
from anchorscope.storage.files import read_json, read_parquet
from validation import curriculum, world
from validation.world import WorldSettings

PREFIX, SHORTEST, LONGEST = 150, 40, 80
"""Numbers of tokens: of the shared prefix, and of the rest of a sequence."""
ANSWER = 8
"""Tokens of an answer; the last one closes it."""
BLOCKED = 3
"""Tokens of E_Q."""
END_EVERY = 12
"""Distance between the token ids that end a generated answer. Answers then differ in length."""
SITE = "mlp"
READOUT = f"{SITE}/final"
RANDOM, PUBLISHED, HIDDEN = "random-weights", "first-model", "hidden"
"""Names of the workloads: passes of a random model and of a published one, and fits of probes."""
FIRST_MODEL = Path("results/first-model")
RECORD = FIRST_MODEL / "models/smollm2-135m-q4.json"
ANSWERS = FIRST_MODEL / "answers/smollm2-135m-q4/popqa.parquet"
"""Products of `make first-model`: the model's record, and its answers to few-shot prompts."""
CHECKPOINT = Path(__file__).parents[1] / "resources" / "models" / "calibration-llama"
AT_ONCE = 128
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 16,
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_attention_heads": 8,
    "vocab_size": 32_000,
}
TINY = LLAMA | {
    "num_hidden_layers": 3,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 500,
    "initializer_range": 0.08,  # wider than the default, because there are fewer inputs
}
"""Keys of config.json of the models with random weights."""


@dataclass(frozen=True)
class Workload:
    """Sequences after a shared prefix.

    Attributes:
        name: Name in the table.
        shape: Keys of the random model's config.json, None for the model of `make first-model`.
        sequences: Number of sequences.
        timed: Number of sequences that slow ways are timed on.
        new_tokens: Maximum number of tokens in a generated answer.
    """

    name: str
    shape: Mapping[str, Any] | None
    sequences: int = 64
    timed: int = 8
    new_tokens: int = 16

    @property
    def some(self) -> list[int]:
        """The sequences that slow ways are timed on, spread evenly over the numbers."""
        return [n * self.sequences // self.timed for n in range(self.timed)]

    def read(self) -> tuple[Loaded, pd.DataFrame, frozenset[int]]:
        """Return the model, the sequences as answers, and the ids that end an answer."""
        if self.shape is None:
            return _published(self.sequences)
        vocabulary = self.shape["vocab_size"]
        model = loading.build(self.shape, "float32", torch.device("cpu"))
        ends = range(END_EVERY - 1, vocabulary, END_EVERY)
        return model, answers(self.sequences, vocabulary), frozenset(ends)


def of_random_weights(quick: bool) -> Workload:
    """Return the workload of a random-weight model, a tiny one if `quick`."""
    if quick:
        return Workload(RANDOM, TINY, sequences=8, timed=4, new_tokens=4)
    return Workload(RANDOM, LLAMA)


def published(quick: bool) -> Workload | None:
    """Return the workload of `make first-model`, a small one if `quick`. None without products."""
    if not (RECORD.is_file() and ANSWERS.is_file()):
        return None
    if quick:
        return Workload(PUBLISHED, None, sequences=4, timed=1, new_tokens=4)
    return Workload(PUBLISHED, None, sequences=32, timed=2)


def _published(sequences: int) -> tuple[Loaded, pd.DataFrame, frozenset[int]]:
    """Return the model in float32, evenly spaced answers, and the ids that end an answer."""
    model = loading.load(read_json(RECORD)["path"])
    every = read_parquet(ANSWERS)
    kept = every[every["dropped"].isna()]
    table = kept.iloc[[n * len(kept) // sequences for n in range(sequences)]].reset_index(drop=True)
    return model, table, _ends(model)


def _ends(loaded: Loaded) -> frozenset[int]:
    """Return the ids that end a few-shot answer: line breaks, and the model's end token."""
    texts = [loaded.tokenizer.decode([number]) for number in range(len(loaded.tokenizer))]
    breaks = {number for number, text in enumerate(texts) if "\n" in text}
    return frozenset(breaks | {loaded.tokenizer.eos_token_id})


def answers(sequences: int, vocabulary: int) -> pd.DataFrame:
    """Return random sequences as an answers table. All begin with the same `PREFIX` tokens.

    E_Q has `BLOCKED` tokens, about 20 tokens after the prefix.
    """
    generator = random.Random(0)

    def ids(count: int) -> list[int]:
        return generator.choices(range(5, vocabulary), k=count)

    shared, rows = ids(PREFIX), []
    for number in range(sequences):
        length = PREFIX + generator.randint(SHORTEST, LONGEST)
        first = PREFIX + generator.randrange(18, 23)
        rows.append(
            {
                "id": str(number),
                "input_ids": shared + ids(length - PREFIX),
                "prompt_length": length - ANSWER,
                "ea_start": length - ANSWER,
                "ea_end": length - 2,
                "final": length - 1,
                "eq_tokens": list(range(first, first + BLOCKED)),
                "question_tokens": list(range(PREFIX + 4, length - ANSWER - 2)),
                "dropped": None,
            }
        )
    return pd.DataFrame(rows)


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
    generator = random.Random(0)
    chosen = generator.sample(sorted(lines), min(samples, len(lines)))
    z = np.array([lines[text] for text in chosen], dtype=np.int64)
    ids = [of_world.tokenizer(text)["input_ids"] for text in chosen]
    x = np.concatenate(
        [_read(of_world, ids[start : start + AT_ONCE]) for start in range(0, len(ids), AT_ONCE)], 1
    )
    return x, z, np.random.default_rng(0).permutation(len(z)) % 5


def _read(loaded: Loaded, ids: list[list[int]]) -> np.ndarray:
    """Read states [layers, rows, width] at each row's last token."""
    layers, places = range(len(families.layers(loaded))), [len(row) - 1 for row in ids]
    with reading(loaded, layers, places) as seen:
        families.base(loaded.model)(padded(ids))
    return torch.stack([*seen.values()]).numpy()


def padded(rows: Iterable[list[int]]) -> torch.Tensor:
    """Pad ids on the right, int64 [rows, longest]."""
    return torch.nn.utils.rnn.pad_sequence([*map(torch.tensor, rows)], batch_first=True)


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

"""What the published figures cost at least, from the sizes of their models: the table of
docs/how-long.md. Arithmetic, no measurement; the formula stands on that page."""

import math
from typing import NamedTuple

from anchorscope.config.settings import BATCH_TOKENS

SAMPLES, DATASETS, ROWS, READOUTS = 2000, 4, 7, 2
ANSWER, NEW_TOKENS = 10, 32
PROMPT = {"few_shot": 145, "chat": 250}
LOADS, DISK_RATE = 2, 1e9
PROBE_SECONDS, PROBE_STATES = 60, 64 * 2000 * 5120
"""Assumed for the probes of one read-out of 64 layers × 2,000 samples × 5,120 on an H100."""


class Card(NamedTuple):
    """Nominal bf16 and float32 operations and bytes a second, and memory in GB."""

    bf16: float
    float32: float
    bandwidth: float
    memory: float


class Model(NamedTuple):
    """Parameters, layers, width and prompt."""

    parameters: float
    layers: int
    width: int
    prompt: str


CARDS = {
    "A100": Card(312e12, 19.5e12, 2.0e12, 80),
    "H100": Card(989e12, 67e12, 3.35e12, 80),
    "RTX 4090": Card(165e12, 82.6e12, 1.0e12, 24),
}
FIGURES = {
    "llama-3.2": [Model(1.24e9, 16, 2048, "few_shot"), Model(3.21e9, 28, 3072, "few_shot")],
    "llama-3": [Model(8.03e9, 32, 4096, "few_shot"), Model(70.6e9, 80, 8192, "few_shot")],
    "qwen3": [Model(8.19e9, 36, 4096, "chat"), Model(32.8e9, 64, 5120, "chat")],
    "mistral": 2 * [Model(7.25e9, 32, 4096, "few_shot")],
    "llama-instruct": [Model(3.21e9, 28, 3072, "chat"), Model(8.03e9, 32, 4096, "chat")],
    "mistral-instruct": 2 * [Model(7.25e9, 32, 4096, "chat")],
}


def cards_for(model: Model, card: Card) -> int:
    """Cards that hold the weights and 3 GB; of several, 15 % of each is kept free."""
    needed = 2 * model.parameters / 1e9 + 3
    return 1 if needed <= card.memory else math.ceil(needed / (0.85 * card.memory))


def gpu_hours(model: Model, card: Card) -> float:
    """Passes, answers, probes and loading of all datasets; every card counts as long as any."""
    cells, prompt = SAMPLES * DATASETS, PROMPT[model.prompt]
    tokens = cells * (ROWS * (prompt + ANSWER) + prompt)
    passes = 2 * model.parameters * tokens / (card.bf16 / 2)
    batches = cells * (prompt + NEW_TOKENS) / BATCH_TOKENS
    answers = batches * NEW_TOKENS * 2 * model.parameters / card.bandwidth
    states = model.layers * model.width * cells * READOUTS
    probes = PROBE_SECONDS * states / PROBE_STATES * CARDS["H100"].float32 / card.float32
    loading = LOADS * DATASETS * 2 * model.parameters / DISK_RATE
    return (cards_for(model, card) * (passes + answers + loading) + probes) / 3600


def activations_gb(model: Model) -> float:
    return SAMPLES * DATASETS * ROWS * READOUTS * model.layers * model.width * 2 / 1e9


def table() -> str:
    """A row for each figure; GPU-hours, and the cards of its largest model in brackets."""
    heads = ["figure", *CARDS, "weights, GB", "activations, GB"]
    rows = [" | ".join(heads), " | ".join(["---"] * len(heads))]
    for name, models in FIGURES.items():
        cells = [f"`{name}`"]
        for card in CARDS.values():
            hours = sum(gpu_hours(model, card) for model in models)
            cells.append(f"{hours:.1f} ({max(cards_for(model, card) for model in models)})")
        weights = sum(2 * model.parameters for model in models) / 1e9
        cells += [f"{weights:.0f}", f"{sum(map(activations_gb, models)):.0f}"]
        rows.append(" | ".join(cells))
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())

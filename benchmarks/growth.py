"""What a study must cost at least: operations, bytes and jobs, from the sizes of models alone.

    python benchmarks/growth.py [--rate 989] [--share 0.5] [--bandwidth 3.35]

Prints the tables of docs/growth.md: the published figures (twelve models, four datasets), and a
catalogue of 100 models × 50 datasets × 6 read-outs, its models being those twelve in turn. Floors:
2 operations a weight and token at a share of a GPU's nominal rate, and every weight read once a
step of generation. Nothing is measured; nothing of a CPU is carried over to a GPU.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import yaml

from anchorscope import cost, demand, sizes
from anchorscope.config import load
from anchorscope.settings import Config

PROJECT = Path(__file__).resolve().parents[1]
PUBLISHED = ("popqa", "triviaqa", "hotpotqa", "nq")
READOUTS = ["attn/final", "mlp/final", "resid/final", "attn/last_answer", "mlp/last_answer",
            "resid/last_answer"]  # fmt: skip
SCORE_BYTES_ON_DISK = 12.4
"""Of a row of scores, compressed: seen."""
STAGES = 5
JOB_SECONDS = 5.0
"""Two nested starts of Snakemake that each job of a cluster costs, on one core: seen."""
LITERAL_CONDITIONS = 2
"""Of the published protocol: clean, and knocked out up to each layer in turn."""


@dataclass(frozen=True)
class Gpu:
    """A GPU's nominal bf16 operations and bytes a second, and the share of the former assumed."""

    rate: float
    share: float
    bandwidth: float


@dataclass(frozen=True)
class Floor:
    """Of one model, or of several, on some datasets.

    Attributes:
        cells: how many.
        operations: of the measured passes, nothing shared.
        passes_h, answers_h: GPU-hours of the measured passes and of generation.
        literal_h: GPU-hours of the published protocol's passes, as it is written.
        weights, activations, scores: bytes on the disk.
        files: of activations.
    """

    cells: int = 0
    operations: float = 0.0
    passes_h: float = 0.0
    answers_h: float = 0.0
    literal_h: float = 0.0
    weights: float = 0.0
    activations: float = 0.0
    scores: float = 0.0
    files: int = 0

    def __add__(self, other: Floor) -> Floor:
        names = [field.name for field in fields(self)]
        return Floor(*(getattr(self, name) + getattr(other, name) for name in names))


def floor(config: Config, model: str, datasets: int, gpu: Gpu) -> Floor:
    """One model on so many datasets of the usual size."""
    entry, n = config.models[model], config.sample_size
    shape = sizes.of_model(entry)
    assert shape is not None
    weights = sizes.BYTES[entry.dtype] * shape.parameters
    prompt = cost.prompt_tokens(config, model)
    length = prompt + cost.ANSWER_TOKENS
    rows = cost.rows_of(config, n)
    operations = 2.0 * shape.parameters * rows * length
    literal = 2.0 * shape.parameters * n * (1 + shape.layers) * length
    steps = cost.ANSWER_TOKENS * math.ceil(n * (length + 32) / config.batch_tokens)
    asked = 2.0 * shape.parameters * n * length / (gpu.rate * gpu.share)
    passes = demand.rows(config.conditions) - 1 + demand.PROBES
    scored = n * shape.layers * len(config.readouts) * passes
    batches = math.ceil(rows * length / config.batch_tokens)
    return Floor(
        cells=datasets,
        operations=datasets * operations,
        passes_h=datasets * operations / (gpu.rate * gpu.share) / 3600,
        answers_h=datasets * (asked + steps * weights / gpu.bandwidth) / 3600,
        literal_h=datasets * literal / (gpu.rate * gpu.share) / 3600,
        weights=weights,
        activations=datasets * cost.activation_bytes(config, model, n),
        scores=datasets * SCORE_BYTES_ON_DISK * scored,
        files=datasets * batches,
    )


def line(name: str, found: Floor) -> str:
    """A row of the table."""
    values = (
        f"{found.cells:,}",
        f"{found.operations / 1e15:,.0f}",
        f"{found.passes_h:,.2f}",
        f"{found.answers_h:,.2f}",
        f"{found.literal_h:,.1f}",
        f"{found.weights / 1e9:,.0f}",
        f"{found.activations / 1e9:,.0f}",
        f"{found.scores / 1e9:,.1f}",
        f"{found.files:,}",
    )
    return f"| {name} | {' | '.join(values)} |"


HEAD = (
    "| model | cells | 10¹⁵ operations | passes, GPU-h | answers, GPU-h | literal loop, GPU-h | "
    "weights, GB | activations, GB | scores, GB | files |\n" + "| --- " + "| ---: " * 9 + "|"
)


def published(config: Config) -> list[str]:
    """The models of the published figures."""
    named = dict.fromkeys(name for f in config.figures.values() for name in f.models)
    return [name for name in named if config.models[name].hub]


def jobs(cells: int, models: int, datasets: int, shards: int) -> str:
    """How many jobs, and what starting them takes."""
    made = cells * (STAGES + (2 * shards if shards > 1 else 0)) + models + datasets
    hours = made * JOB_SECONDS / 3600
    return f"{shards} shards a cell: {made:,} jobs, {hours:,.1f} core-hours to start them"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", type=float, default=989, help="10¹² bf16 operations a second")
    parser.add_argument("--share", type=float, default=0.5, help="share of it that is reached")
    parser.add_argument("--bandwidth", type=float, default=3.35, help="10¹² bytes a second")
    chosen = parser.parse_args(arguments)
    gpu = Gpu(chosen.rate * 1e12, chosen.share, chosen.bandwidth * 1e12)
    raw = yaml.safe_load((PROJECT / "config.yaml").read_text(encoding="utf-8"))
    config, wide = load(raw), load({**raw, "readouts": READOUTS})
    names = published(config)
    found = [floor(config, name, len(PUBLISHED), gpu) for name in names]
    large = [floor(wide, names[n % len(names)], 50, gpu) for n in range(100)]
    print(HEAD)
    for name, one in zip(names, found, strict=True):
        print(line(name, one))
    print(line(f"all {len(names)}", sum(found, Floor())))
    print(line("the catalogue", sum(large, Floor())))
    for shards in (1, 4):
        print(jobs(len(names) * len(PUBLISHED), len(names), len(PUBLISHED), shards))
        print(jobs(5000, 100, 50, shards))


if __name__ == "__main__":
    main()

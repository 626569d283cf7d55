"""What a study must cost at least: operations, bytes and jobs, from the sizes of models alone.

    python benchmarks/growth.py [--rate 989] [--share 0.5] [--bandwidth 3.35] [--probes 60]

Prints the tables of docs/growth.md: the published figures (twelve models, four datasets), and a
catalogue of 100 models × 50 datasets × 6 read-outs, its models being those twelve in turn. Floors:
2 operations a weight and token at a share of a GPU's nominal rate, and every weight read once a
step of generation; probes by an assumed time. Rate, share and that time are those that
`benchmarks/bench.py --device cuda` measured where it left its gpu.json; else nothing is measured.
Nothing of a CPU is carried over to a GPU.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import yaml

from anchorscope.config.settings import Config
from anchorscope.workflow import cost, demand, sizes
from anchorscope.workflow.config import load

PROJECT = Path(__file__).resolve().parents[1]
PUBLISHED = ("popqa", "triviaqa", "hotpotqa", "nq")
READOUTS = ["attn/final", "mlp/final", "resid/final", "attn/last_answer", "mlp/last_answer",
            "resid/last_answer"]  # fmt: skip
SCORE_BYTES_ON_DISK = 12.4
"""Of a row of scores, compressed: seen."""
STAGES = 5
JOB_SECONDS = 5.0
"""Two nested starts of Snakemake that each job of a cluster costs, on one core: seen."""
MEASURED = Path("results/benchmarks/gpu.json")
NOMINAL, SHARE = 989e12, 0.5
"""bf16 operations a second of an H100, and how many of them are assumed to be reached."""
PROBED = 64 * 2000 * 5120
"""Layers × samples × width of the read-out whose probes are assumed to take `Gpu.probes`."""


@dataclass(frozen=True)
class Gpu:
    """A GPU.

    Attributes:
        rate: bf16 operations a second.
        share: how many of them the passes are assumed to reach.
        bandwidth: bytes a second.
        probes: seconds that all probes of a read-out of 64 layers × 2,000 × 5,120 are assumed to
            take; others in proportion to layers × samples × width.
    """

    rate: float
    share: float
    bandwidth: float
    probes: float = 60.0


@dataclass(frozen=True)
class Floor:
    """Of one model, or of several, on some datasets.

    Attributes:
        cells: how many.
        operations: of the measured passes, nothing shared.
        passes_h, answers_h: GPU-hours of the measured passes and of generation.
        probes_h: GPU-hours of the probes, during which a GPU is held.
        literal_h: GPU-hours of the published protocol's passes, as it is written.
        weights, activations, scores: bytes on the disk.
        files: of activations.
    """

    cells: int = 0
    operations: float = 0.0
    passes_h: float = 0.0
    answers_h: float = 0.0
    probes_h: float = 0.0
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
    probed = n * shape.layers * shape.width * len(config.readouts) / PROBED
    return Floor(
        cells=datasets,
        operations=datasets * operations,
        passes_h=datasets * operations / (gpu.rate * gpu.share) / 3600,
        answers_h=datasets * (asked + steps * weights / gpu.bandwidth) / 3600,
        probes_h=datasets * gpu.probes * probed / 3600,
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
        f"{found.probes_h:,.2f}",
        f"{found.literal_h:,.1f}",
        f"{found.weights / 1e9:,.0f}",
        f"{found.activations / 1e9:,.0f}",
        f"{found.scores / 1e9:,.1f}",
        f"{found.files:,}",
    )
    return f"| {name} | {' | '.join(values)} |"


HEAD = (
    "| model | cells | 10¹⁵ operations | passes, GPU-h | answers, GPU-h | probes, GPU-h | "
    "literal loop, GPU-h | weights, GB | activations, GB | scores, GB | files |\n"
    + "| --- "
    + "| ---: " * 10
    + "|"
)


def published(config: Config) -> list[str]:
    """The models of the published figures."""
    named = dict.fromkeys(name for f in config.figures.values() for name in f.models)
    return [name for name in named if config.models[name].hub]


def jobs(cells: int, models: int, datasets: int) -> str:
    """How many jobs, and what starting them takes."""
    made = cells * STAGES + models + datasets
    hours = made * JOB_SECONDS / 3600
    return f"{made:,} jobs, {hours:,.1f} core-hours to start them"


def measured(path: Path) -> dict[str, float]:
    """What a benchmark on a GPU found, in the terms of `Gpu`; empty if there was none.

    The rate is that of a plain matrix product, the share the smallest that a model's passes
    reached.
    """
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    known = {"rate": 1e12 * found["gemm_tflops"]}
    if shares := [model["share"] for model in found["models"]]:
        known["share"] = min(shares)
    if probed := found.get("probes"):
        known["probes"] = probed["seconds"] * PROBED / math.prod(probed["shape"])
    return known


def chosen_gpu(arguments: Sequence[str] | None) -> Gpu:
    """From the command line, else measured, else assumed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", type=float, help="10¹² bf16 operations a second")
    parser.add_argument("--share", type=float, help="share of it that is reached")
    parser.add_argument("--bandwidth", type=float, default=3.35, help="10¹² bytes a second")
    parser.add_argument("--probes", type=float, help="s for 64 layers × 2,000 × 5,120")
    parser.add_argument("--measured", type=Path, default=MEASURED, help="gpu.json of a benchmark")
    given = parser.parse_args(arguments)
    asked = {"rate": given.rate and given.rate * 1e12, "share": given.share, "probes": given.probes}
    chosen = measured(given.measured) | {name: one for name, one in asked.items() if one}
    return Gpu(bandwidth=given.bandwidth * 1e12, **({"rate": NOMINAL, "share": SHARE} | chosen))


def main(arguments: Sequence[str] | None = None) -> None:
    gpu = chosen_gpu(arguments)
    print(
        f"passes at {gpu.share:.2f} of {gpu.rate / 1e12:,.0f} · 10¹² operations a second, "
        f"{gpu.probes:.0f} s for the probes of 64 layers × 2,000 × 5,120\n"
    )
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
    print(jobs(len(names) * len(PUBLISHED), len(names), len(PUBLISHED)))
    print(jobs(5000, 100, 50))


if __name__ == "__main__":
    main()

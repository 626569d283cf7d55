"""The measured passes at real sizes on a GPU: random weights, bfloat16.

Operations a second as a share of what the card reaches in a plain bfloat16 matrix product, measured
beside it. Only the passes' own tokens are counted, not padding, so the share is of useful work.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import page
import timing
import torch
import workloads

from anchorscope import activations
from anchorscope.passes import Plan

ROUNDS = 3


@dataclass(frozen=True)
class Real:
    """The size of a published model; `batch_tokens` is the budget that it is measured with."""

    name: str
    kind: str
    layers: int
    width: int
    inner: int
    heads: int
    key_heads: int
    head_width: int
    vocabulary: int
    batch_tokens: int = 16_384


MODELS = (
    Real("Llama-3.2-1B", "llama", 16, 2048, 8192, 32, 8, 64, 128_256),
    Real("Qwen3-8B", "qwen3", 36, 4096, 12_288, 32, 8, 128, 151_936),
)
TINY = Real("tiny", "llama", 2, 32, 64, 4, 2, 8, 300, batch_tokens=512)
SEQUENCES = {"prefix": 150, "sequences": 512, "shortest": 40, "longest": 80}


def main(device: str, out: Path, *, quick: bool = False) -> None:
    """Measure, print and write `gpu.json`."""
    dtype = torch.bfloat16
    size = (256, 256, 256) if quick else (8192, 8192, 8192)
    peak = timing.gemm_rate(dtype, device, size=size)
    found = [one(real, device, dtype, peak) for real in ((TINY,) if quick else MODELS)]
    out.mkdir(parents=True, exist_ok=True)
    notes = {"machine": timing.machine(), "gemm_tflops": peak / 1e12, "models": found}
    (out / "gpu.json").write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")
    head = ("measured passes, bfloat16", "seconds", "rows/s", "operations", "share", "memory")
    rows = [
        [
            row["model"],
            f"{row['seconds']:.2f}",
            f"{row['rows'] / row['seconds']:.0f}",
            f"{row['rate'] / 1e12:.3g} T/s",
            f"{100 * row['share']:.0f} %",
            f"{row['peak_mb'] / 1e3:.1f} GB",
        ]
        for row in found
    ]
    print(f"{notes['machine']}; matrix product {peak / 1e12:.3g} T/s\n\n{page.table(head, rows)}")


def one(real: Real, device: str, dtype: torch.dtype, peak: float) -> dict[str, Any]:
    """One model: the median of some rounds after a first one that is not counted."""
    work = workloads.Workload(real.name, **SEQUENCES)  # type: ignore[arg-type]
    if real is TINY:
        work = replace(work, sequences=8)
    work = replace(work, shape=workloads.Shape(vocabulary=real.vocabulary))
    loaded = workloads.loaded(_model(real, device, dtype), torch.device(device))
    plan = activations.plan(
        workloads.answers(work),
        conditions={"knockout": {}, "random": {"draws": 1}, "question": {}},
        batch_tokens=real.batch_tokens,
    )

    def passed() -> None:
        for _ in activations.measure(loaded, plan, [workloads.READOUT]):
            pass

    taken = [timing.timed(passed, "wall")[1] for _ in range(1 + ROUNDS)][1:]
    seconds = sorted(taken, key=lambda one: one.seconds)[ROUNDS // 2].seconds
    rate = operations(real, plan) / seconds
    return {
        "model": real.name,
        "seconds": seconds,
        "rows": sum(len(batch.rows) for batch in plan.batches),
        "rate": rate,
        "share": rate / peak,
        "peak_mb": max(one.peak_mb for one in taken),
    }


def operations(real: Real, plan: Plan) -> float:
    """Of the tokens behind the shared head, padding left out, and of their attention."""
    attention = real.width * real.head_width * (2 * real.heads + 2 * real.key_heads)
    weights = real.layers * (attention + 3 * real.width * real.inner)
    keys = 4 * real.layers * real.heads * real.head_width
    total = 0.0
    for batch in plan.batches:
        for row in batch.rows:
            sample = plan.passed(row)
            start, end = plan.shared(sample), len(sample.input_ids)
            total += 2 * weights * (end - start) + keys * (end**2 - start**2) / 2
    return total


def _model(real: Real, device: str, dtype: torch.dtype) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(
        real.kind,
        vocab_size=real.vocabulary,
        hidden_size=real.width,
        intermediate_size=real.inner,
        num_hidden_layers=real.layers,
        num_attention_heads=real.heads,
        num_key_value_heads=real.key_heads,
        head_dim=real.head_width,
        max_position_embeddings=4096,
    )
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")

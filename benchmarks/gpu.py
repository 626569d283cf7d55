"""The measured passes and the probes at real sizes on a GPU: random weights, bfloat16.

Operations a second as a share of what the card reaches in a plain bfloat16 matrix product, measured
beside it. Only the passes' own tokens are counted, not padding, so the share is of useful work; of
the last layer's MLP only the read-out tokens are. `with files` is the time when every batch is also
checked and written, as a job does it.
"""

import gc
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import timing
import torch
import workloads

from anchorscope.models.families import Loaded
from anchorscope.passes import activations, planning, runner
from anchorscope.passes.batches import Plan
from anchorscope.probes import fitting

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

    @property
    def weights(self) -> int:
        """Of the layers, those that a token is multiplied with."""
        attention = self.width * self.head_width * (2 * self.heads + 2 * self.key_heads)
        return self.layers * (attention + 3 * self.width * self.inner)

    @property
    def gigabytes(self) -> float:
        """All weights in bfloat16, embedding and head included."""
        return 2 * (self.weights + 2 * self.vocabulary * self.width) / 1e9


MODELS = (
    Real("Llama-3.2-1B", "llama", 16, 2048, 8192, 32, 8, 64, 128_256),
    Real("Qwen3-8B", "qwen3", 36, 4096, 12_288, 32, 8, 128, 151_936),
    Real("Qwen3-32B", "qwen3", 64, 5120, 25_600, 64, 8, 128, 151_936),
)
TINY = Real("tiny", "llama", 2, 32, 64, 4, 2, 8, 300, batch_tokens=512)
PROBED, FEW_PROBED = (64, 2_000, 5_120), (3, 150, 16)
"""Layers, samples and width that probes are fitted to."""
SPARE = 1.1
"""A card must hold so many times the weights for a model to be tried."""
SEQUENCES = {"prefix": 150, "sequences": 512, "shortest": 40, "longest": 80}


def main(device: str, out: Path, *, quick: bool = False) -> None:
    """Measure, print and write `gpu.json`."""
    dtype = torch.bfloat16
    size = (256, 256, 256) if quick else (8192, 8192, 8192)
    peak = gemm_rate(dtype, device, size=size)
    models = [
        row for real in ((TINY,) if quick else MODELS) for row in rows_of(real, device, dtype, peak)
    ]
    probed = fitted(device, FEW_PROBED if quick else PROBED)
    out.mkdir(parents=True, exist_ok=True)
    notes = {
        "machine": timing.machine(), "gemm_tflops": peak / 1e12, "models": models, "probes": probed,
    }  # fmt: skip
    (out / "gpu.json").write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")
    print(f"{notes['machine']}; matrix product {peak / 1e12:.3g} T/s\n\n{tables(models, probed)}")


def gemm_rate(
    dtype: torch.dtype, device: str, *, size: tuple[int, int, int], seconds: float = 0.5
) -> float:
    """Operations a second of a matrix product of this size, the best of many."""
    rows, inner, columns = size
    a = torch.randn(rows, inner, dtype=dtype, device=device)
    b = torch.randn(columns, inner, dtype=dtype, device=device)
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(5):
            torch.nn.functional.linear(a, b)
        if device != "cpu":
            torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / 5)
    return 2 * rows * inner * columns / best


def tables(models: list[dict[str, Any]], probed: dict[str, Any]) -> str:
    """Two tables: the passes, and the probes."""
    head = (
        "measured passes, bfloat16", "seconds", "rows/s", "operations", "share", "memory",
        "with files",
    )  # fmt: skip
    rows = [
        [
            row["model"],
            f"{row['seconds']:.2f}",
            f"{row['rows'] / row['seconds']:.0f}",
            f"{row['rate'] / 1e12:.3g} T/s",
            f"{100 * row['share']:.0f} %",
            f"{row['peak_mb'] / 1e3:.1f} GB",
            f"{row['written_seconds']:.2f}",
        ]
        for row in models
    ]
    layers, samples, width = probed["shape"]
    of_probes = [
        [
            f"{layers} layers × {samples:,} × {width:,}",
            f"{probed['probes']:,}",
            f"{probed['seconds']:.1f}",
            f"{probed['peak_mb'] / 1e3:.1f} GB",
        ]
    ]
    more = timing.table(("probes", "fitted", "seconds", "memory"), of_probes)
    return f"{timing.table(head, rows)}\n\n{more}"


def rows_of(real: Real, device: str, dtype: torch.dtype, peak: float) -> Iterator[dict[str, Any]]:
    """What was measured of a model; or why it was not."""
    if lacking := _lacking(real, device):
        print(f"{real.name} was not measured: {lacking}")
        return
    loaded = workloads.loaded(_model(real, device, dtype), torch.device(device))
    yield one(real, loaded, peak)
    del loaded
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _lacking(real: Real, device: str) -> str:
    """What the card lacks for a model; nothing if it has the room."""
    if torch.device(device).type != "cuda":
        return ""
    free = torch.cuda.mem_get_info(torch.device(device))[0] / 1e9
    needed = SPARE * real.gigabytes
    return f"it takes {needed:.0f} GB, {free:.0f} GB are free" if free < needed else ""


def one(real: Real, loaded: Loaded, peak: float) -> dict[str, Any]:
    """One model: the median of some rounds after a first one that is not counted."""
    work = workloads.Workload(real.name, **SEQUENCES)  # type: ignore[arg-type]
    if real is TINY:
        work = replace(work, sequences=8)
    work = replace(work, shape=workloads.Shape(vocabulary=real.vocabulary))
    plan = planning.plan(
        workloads.answers(work),
        conditions={"knockout": {}, "random": {"draws": 1}, "question": {}},
        batch_tokens=real.batch_tokens,
    )

    def passed() -> None:
        for _ in runner.measure(loaded, plan, [workloads.READOUT]):
            pass

    def written() -> None:
        with tempfile.TemporaryDirectory() as folder:
            activations.write(folder, loaded, plan, [workloads.READOUT])

    taken = [timing.timed(passed, "wall")[1] for _ in range(1 + ROUNDS)][1:]
    seconds = _median(taken)
    rate = operations(real, plan) / seconds
    return {
        "model": real.name,
        "seconds": seconds,
        "written_seconds": _median([timing.timed(written, "wall")[1] for _ in range(ROUNDS)]),
        "rows": sum(len(batch.rows) for batch in plan.batches),
        "rate": rate,
        "share": rate / peak,
        "peak_mb": max(one.peak_mb for one in taken),
    }


def _median(taken: Sequence[timing.Taken]) -> float:
    return sorted(one.seconds for one in taken)[len(taken) // 2]


def operations(real: Real, plan: Plan) -> float:
    """Of the tokens behind the shared head, padding left out, and of their attention.

    The last layer's MLP runs at one read-out token of each row.
    """
    keys = 4 * real.layers * real.heads * real.head_width
    last = 3 * real.width * real.inner
    total = 0.0
    start = plan.head
    for batch in plan.batches:
        for row in batch.rows:
            end = len(plan.passed(row).input_ids)
            total += 2 * real.weights * (end - start) + keys * (end**2 - start**2) / 2
            total -= 2 * last * (end - start - 1)
    return total


class Drawn:
    """Features [layers, n, width] drawn on the device when they are asked for.

    Badly conditioned, as hidden states are: mixed from directions whose spread falls like 1/k.
    """

    def __init__(self, shape: tuple[int, int, int], z: torch.Tensor, device: str) -> None:
        self.shape, self.z, self.device = shape, z.to(device), device
        draws = torch.Generator(device).manual_seed(0)
        width = shape[2]
        turn = torch.randn(width, width, generator=draws, device=device) / width**0.5
        self.mixed = turn / torch.arange(1, width + 1, device=device)[:, None]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, layers: slice) -> torch.Tensor:
        return torch.stack([self._layer(layer) for layer in range(len(self))[layers]])

    def _layer(self, layer: int) -> torch.Tensor:
        draws = torch.Generator(self.device).manual_seed(1 + layer)
        x = torch.randn(*self.shape[1:], generator=draws, device=self.device)
        x[:, :8] += 0.3 * self.z[:, None]
        return x @ self.mixed


def fitted(device: str, shape: tuple[int, int, int]) -> dict[str, Any]:
    """The clean probes of a read-out with all folds and penalties, calibrated; the second time."""
    z = np.random.default_rng(0).integers(0, 2, shape[1])
    ids = [str(number) for number in range(shape[1])]
    settings = fitting.Settings()
    plan = fitting.design(
        pd.DataFrame({"id": ids, "question": ids, "subject": ids, "label": z}), settings
    )
    features = Drawn(shape, torch.as_tensor(z), device)
    for _ in range(2):
        _, taken = timing.timed(lambda: fitting.fit(features, plan, device=device), "wall")
    problems = len(fitting.training_rows(plan)[0]) * len(settings.penalties)
    return {
        "shape": list(shape),
        "probes": shape[0] * problems,
        "seconds": taken.seconds,
        "peak_mb": taken.peak_mb,
    }


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

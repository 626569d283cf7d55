"""Passes, generation and probes at published shapes on a GPU: random weights, bfloat16.

The passes are the same as in a run with default settings. `share` compares their operations per
second with those of a plain bfloat16 matrix product on the same GPU. Padding does not count, so
`share` covers useful work only. `written_seconds` is the time if every batch is also checked and
written, as in a job. `plain_seconds` is the time that transformers alone takes for these rows: each
pass reads all layers and computes its rows in full, and the fastest of several batch sizes counts.

For three batches, `busy` is the share of the time in which the GPU computes, and `kernels` holds
the milliseconds of the slowest kernels.

Each result is written to gpu.json as soon as it is measured.
"""

import gc
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import timing
import torch
import workloads
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch.utils.benchmark import Timer

from anchorscope.answers import generation
from anchorscope.answers.endings import Ending
from anchorscope.cli.like import SPARE
from anchorscope.config import shipped
from anchorscope.config.readouts import parse
from anchorscope.config.settings import GPU_BATCH_TOKENS, Config
from anchorscope.models import cache, families, loading
from anchorscope.models.families import Loaded
from anchorscope.passes import activations, planning, runner
from anchorscope.passes.batches import Plan, Row
from anchorscope.passes.recording import recording
from anchorscope.probes import fitting
from anchorscope.storage.files import write_json
from anchorscope.styles import CHAT

DTYPE = "bfloat16"
ROUNDS = 3


@dataclass(frozen=True)
class Real:
    """A published model.

    Attributes:
        name: Key in the catalogue, or `tiny`.
        shape: Keys of its config.json.
        batch_tokens: Maximum number of tokens in a batch.
        compared: Whether plain passes are timed as well.
        sequences: Number of sequences.
        every: Only every n-th batch is passed; n is larger for large models, so that a run takes
            minutes.
    """

    name: str
    shape: Mapping[str, Any]
    batch_tokens: int = GPU_BATCH_TOKENS
    compared: bool = False
    sequences: int = 512
    every: int = 1


EVERY = {"llama-3.2-1b": 1, "llama-3.2-3b": 2, "qwen3-8b": 2, "qwen3-32b": 4}
"""Model → `Real.every`."""
MODELS = tuple(
    Real(name, shipped.shape_of(name), compared=name == "llama-3.2-3b", every=every)
    for name, every in EVERY.items()
)
TINY = Real(
    "tiny",
    shipped.shape_of("llama-3.2-1b")
    | {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "vocab_size": 300}
    | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8},
    batch_tokens=1024,
    compared=True,
    sequences=16,
)
PROBED, FEW_PROBED = (64, 2_000, 5_120), (3, 150, 16)
"""Layers, samples and width of the states that probes are fitted to; then the same for `quick`."""
NEW_TOKENS = 32
PROBES = "probes"
PLAIN_SIZES = (32, 128, 512)
"""Numbers of rows per plain pass, of which the fastest counts."""
PROFILED, SLOWEST = 3, 20
"""Numbers of batches that are profiled, and of kernels that are kept."""
DEFAULTS = Config(models={}, datasets={}, figures={})
CONDITIONS, READOUTS = DEFAULTS.conditions.model_dump(), DEFAULTS.readouts


def main(
    device: str, out: Path, notes: dict[str, Any], *, quick: bool, models: Sequence[str]
) -> None:
    """Measure models and probes, and write `gpu.json` after each of them.

    If `models` are given, only these are measured. The name `probes` stands for the probes. The
    file also holds `notes`.
    """
    peak = gemm_rate(device, 256 if quick else 8192)
    notes |= {"gemm_tflops": peak / 1e12, "models": []}
    print(f"{notes['machine']}; matrix product {peak / 1e12:.3g} T/s", flush=True)
    for real in (TINY,) if quick else MODELS:
        if models and real.name not in models:
            continue
        if lacking := _lacking(real, device):
            print(f"{real.name} was not measured: {lacking}", flush=True)
            continue
        notes["models"].append(one(real, device, peak))
        write_json(notes, out / "gpu.json")
        gc.collect()
        torch.cuda.empty_cache()
    if not models or PROBES in models:
        notes["probes"] = fitted(device, FEW_PROBED if quick else PROBED)
        write_json(notes, out / "gpu.json")
        print(f"{PROBES}: {notes['probes']}")
    if notes["models"]:
        table = pd.DataFrame(notes["models"]).drop(columns="kernels").set_index("model")
        print(table.T.to_string(float_format="{:,.4g}".format))


def gemm_rate(device: str, size: int) -> float:
    """Return the highest rate of a product of square matrices, in operations per second."""
    matrix = torch.randn(size, size, dtype=torch.bfloat16, device=device)
    timer = Timer("matrix @ matrix.T", globals={"matrix": matrix})
    return 2 * size**3 / min(timer.blocked_autorange(min_run_time=0.5).times)


def _lacking(real: Real, device: str) -> str:
    """Return as text why a model does not fit on a GPU, or an empty text if it fits."""
    if torch.device(device).type != "cuda":
        return ""
    empty = loading.build(real.shape, DTYPE, torch.device("meta")).model
    needed = SPARE * empty.get_memory_footprint() / 1e9
    free = torch.cuda.mem_get_info(torch.device(device))[0] / 1e9
    return f"it takes {needed:.0f} GB, but only {free:.0f} GB are free" if free < needed else ""


def one(real: Real, device: str, peak: float) -> dict[str, Any]:
    """Measure one model. Times of passes are medians of `ROUNDS` rounds, after a warm-up."""
    loading.without_cudnn()  # as when a model is loaded
    loaded = loading.build(real.shape, DTYPE, torch.device(device))
    table = exchangeable(workloads.answers(real.sequences, real.shape["vocab_size"]))
    plan = planning.plan(table, conditions=CONDITIONS, batch_tokens=real.batch_tokens)
    plan = replace(plan, batches=plan.batches[:: real.every])

    def passed() -> None:
        for _ in runner.measure(loaded, plan, READOUTS):
            pass

    def written() -> None:
        with tempfile.TemporaryDirectory() as folder:
            activations.write(folder, loaded, plan, READOUTS)

    taken = [timing.timed(passed)[1] for _ in range(1 + ROUNDS)][1:]
    seconds = _median(taken)
    rows = sum(len(batch.rows) for batch in plan.batches)
    rate = operations(loaded, plan) / seconds
    return {
        "model": real.name,
        "seconds": seconds,
        "written_seconds": _median([timing.timed(written)[1] for _ in range(ROUNDS)]),
        "rows": rows,
        "rows_per_second": rows / seconds,
        "rate": rate,
        "share": rate / peak,
        **kernels(loaded, plan),
        "peak_mb": max(one.peak_mb for one in taken),
        "plain_seconds": plainly(loaded, plan) if real.compared else None,
        "tokens_per_second": generated(loaded, table),
    }


def kernels(loaded: Loaded, plan: Plan) -> dict[str, Any]:
    """Return `busy` and `kernels`, see the module's docstring. On the CPU, they are 0 and {}."""
    batches = range(min(PROFILED, len(plan.batches)))
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        _, taken = timing.timed(lambda: [*runner.measure(loaded, plan, READOUTS, numbers=batches)])
    found = {
        one.key: one.self_device_time_total / 1e3
        for one in profiled.key_averages()
        if one.device_type == DeviceType.CUDA
    }
    slowest = sorted(found, key=lambda name: -found[name])[:SLOWEST]
    busy = sum(found.values()) / 1e3 / taken.seconds
    return {"busy": busy, "kernels": {name: round(found[name], 2) for name in slowest}}


def exchangeable(table: pd.DataFrame) -> pd.DataFrame:
    """Return an answers table with partners for all samples. Half are wrong and have `gold_ids`.

    As in the datasets, questions of one relation have similar lengths.
    """
    by_length = table["prompt_length"].rank(method="first").astype(int) - 1
    names = [str(number) for number in range(len(table))]
    wrong = [place % 4 > 1 for place in by_length]
    spans = zip(table["input_ids"], table["prompt_length"], wrong, strict=True)
    golds = [ids[start:] if one else [] for ids, start, one in spans]
    return table.assign(
        question=[f"who q{name}" for name in names],
        golds=[[f"g{name}"] for name in names],
        ea_text=[f"a{name}" for name in names],
        subject=[f"s{name}" for name in names],
        relation=[f"r{place // 8}" for place in by_length],
        label=[int(one) for one in wrong],
        gold_ids=golds,
        gold_start=0,
        gold_end=[max(len(ids) - 1, 0) for ids in golds],
    )


def plainly(loaded: Loaded, plan: Plan) -> float:
    """Return the seconds that plain passes of a plan's rows take, with the best batch size."""
    rows = [row for batch in plan.batches for row in batch.rows]
    rows.sort(key=lambda row: -len(row.places))
    found = []
    for size in PLAIN_SIZES:
        try:
            _, taken = timing.timed(partial(plain_passes, loaded, rows, size))
        except torch.cuda.OutOfMemoryError:
            break
        found.append(taken.seconds)
        print(f"plain passes of {size} rows: {taken.seconds:.2f} s", flush=True)
    return min(found)


@torch.inference_mode()
def plain_passes(loaded: Loaded, rows: Sequence[Row], size: int) -> None:
    """Pass rows in full, `size` at once, and read the states of every layer."""
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        ids, places = [row.input_ids for row in some], [row.places for row in some]
        arguments = cache.padded(ids, places, len(ids[0]), loaded.device)
        with recording(loaded, parse(READOUTS), some) as seen:
            families.base(loaded.model)(**arguments, use_cache=False)
        for states in seen.values():
            torch.stack(states).cpu()


def generated(loaded: Loaded, table: pd.DataFrame) -> float:
    """Return the tokens generated per second. No answer ends early."""
    rows = table.to_dict("records")
    prompts = [row["input_ids"][: row["prompt_length"]] for row in rows]
    ending = Ending(CHAT, (0,), frozenset())
    write = partial(generation.generate, prompts, loaded, ending, max_new_tokens=NEW_TOKENS)
    write()
    found, taken = timing.timed(write)
    return sum(len(one.ids) for one in found) / taken.seconds


def _median(taken: Sequence[timing.Taken]) -> float:
    return statistics.median(one.seconds for one in taken)


def operations(loaded: Loaded, plan: Plan) -> float:
    """Count the operations of all tokens after the shared prefix, including attention.

    Padding does not count.
    """
    layers, config = families.layers(loaded), loaded.model.config
    parameters = [one for layer in layers for one in layer.parameters()]
    weights = sum(one.numel() for one in parameters if one.dim() == 2)  # norms have one dimension
    keys = 4 * len(layers) * config.num_attention_heads * config.head_dim
    total = 0.0
    start = plan.head
    for batch in plan.batches:
        for row in batch.rows:
            end = len(row.places)
            total += 2 * weights * (end - start) + keys * (end**2 - start**2) / 2
    return total


def fitted(device: str, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Time the clean probes of a read-out, with all folds and penalties, after a warm-up fit.

    Args:
        device: Device on which the probes are fitted. The states are in main memory, as in a run.
        shape: Numbers of layers and samples, and the width of the states.
    """
    layers, samples, width = shape
    z = np.random.default_rng(0).integers(0, 2, samples)
    ids = [str(number) for number in range(samples)]
    settings = fitting.ProbeSettings()
    plan = fitting.design(
        pd.DataFrame({"id": ids, "question": ids, "subject": ids, "label": z}), settings
    )
    generator = torch.Generator(device).manual_seed(0)
    # Like hidden states, these are ill-conditioned: the scale of direction k falls as 1/k.
    mixed = torch.randn(width, width, generator=generator, device=device)
    mixed /= torch.arange(1, width + 1, device=device)[:, None] * width**0.5
    x = torch.randn(*shape, generator=generator, device=device)
    x[..., :8] += 0.3 * torch.as_tensor(z, device=device)[:, None]
    states = (x @ mixed).cpu()
    del x, mixed
    for _ in range(2):
        _, taken = timing.timed(lambda: fitting.fit(states, plan, device=device))
    problems = len(fitting.training_rows(plan)[0]) * len(settings.penalties)
    return {
        "shape": list(shape),
        "probes": layers * problems,
        "seconds": taken.seconds,
        "peak_mb": taken.peak_mb,
    }

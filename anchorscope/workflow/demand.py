"""What one job asks for: main memory and time, by the sizes of its model and of its sample.

Upper estimates for slow machines: a limit that is too long costs nothing, one too short costs the
job, which comes back with more.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from anchorscope.config.settings import Conditions, Config
from anchorscope.models.stored import BLOCK_BYTES
from anchorscope.questions import null_worlds
from anchorscope.storage.room import ABREAST_BYTES

ROOM_MB = 4000
"""Python, torch and a CUDA context."""
TABLE_ROOM_MB = 1000
"""Python and pandas."""
ROOM_MIN = 15
"""Starting, reading, writing, on a busy node."""
LOAD_MB_PER_S = 100
"""Reading a checkpoint from a shared disk, copying activations on it."""
TOKENS_PER_ROW = 300
WORDINGS = 2
PASSES = {
    "knockout": 1,
    "random": 1,
    "question": 1,
    "matched": 1,
    "placebo": 1,
    "replicate": 3,
}
SWAPS = 8
"""Other questions that the stage `truth` puts an answer behind."""
GPU_FLOPS = 2e13
CPU_FLOPS = 2e10
BLOCKS = 2
"""What the probes hold of one read-out and condition: as it was read, and put in the order of the
samples; or those of two passes."""
SOLVER_BYTES = 4 << 30
"""What layers that go to a GPU together take there."""
LAYER_COPIES = 5
"""Of the layer being fitted: put in order, standardised, packed from both sides, and turned or in
float64 while that is done."""
SQUARES = 4
"""The layer's correlation matrix, its eigenvectors and what taking it apart needs."""
REFIT_LAYERS = 3
REFIT_COPIES = 2 * REFIT_LAYERS
"""Layers that refits keep of the clean pass and of the knockout."""
FITTED = 280
"""Probes a layer: five outer folds with five inner ones each, six penalties; 20 draws of five."""
FEATURE_S_PER_MB = 1.2
PROBES = 6
"""Rows of scores for a sample and layer beside those of the conditions: probes fitted otherwise."""
SCORE_BYTES = 700
"""Memory of a row of scores while it is made, joined and read: 0.5 kB was seen."""
SCORE_S = 3e-5
"""Time for a row of scores in ΔP with its 1,000 draws: 5e-6 was seen."""
REFITS = 20
"""Probes of 50 draws at three layers, as many as those of so many layers in `scores`."""
WIDER = 1.25
"""Main memory of a model's passes, in units of its weights."""


@dataclass(frozen=True)
class Size:
    """What decides a job's needs.

    Attributes:
        parameters: number of weights.
        layers, width: of the model.
        held: bytes of a weight as it is loaded, by the `dtype` of the catalogue.
        stored: bytes of a weight in the checkpoint.
    """

    parameters: float
    layers: int
    width: int
    held: float = 2
    stored: float = 2

    @property
    def weights_mb(self) -> float:
        """Memory of the weights."""
        return self.parameters * self.held / 1e6

    @property
    def loading_mb(self) -> float:
        """Memory while they are loaded: where they change their type, the file is there as well."""
        file = self.parameters * self.stored / 1e6 if self.held != self.stored else 0.0
        return WIDER * self.weights_mb + file


@dataclass(frozen=True)
class Share:
    """A job's part of a cell.

    Attributes:
        samples: in the cell.
        rows: passes per sample, see `rows`.
        readouts: how many are measured, scored or read.
    """

    samples: int
    rows: int
    readouts: int = 1


@dataclass(frozen=True)
class Demand:
    """Main memory in MB and time in minutes."""

    mem_mb: int
    runtime: int

    def unless(self, mem_gb: int | None, runtime_min: int | None) -> Demand:
        """The same, but for what a model's entry in the catalogue says itself."""
        return Demand(1000 * mem_gb if mem_gb else self.mem_mb, runtime_min or self.runtime)

    def at(
        self, attempt: int, max_runtime: int | None = None, max_mem_gb: int | None = None
    ) -> Demand:
        """What the job asks for the second or third time, within what the partition allows.

        Memory above the limit from the first is left as it is: `cluster.before_queue` refuses it.
        """
        runtime, mem_mb = self.runtime * attempt, self.mem_mb * attempt
        most = max(self.mem_mb, 1000 * max_mem_gb) if max_mem_gb else mem_mb
        return Demand(min(mem_mb, most), min(runtime, max_runtime or runtime))


def size_of(located: Path, held: float = 2) -> Size | None:
    """The size of a model by `results/models/<model>.json`; None while that is not made.

    Args:
        located: the file.
        held: see `Size`.
    """
    try:
        return _size(located, located.stat().st_mtime_ns, held)
    except FileNotFoundError:
        return None


@cache
def _size(located: Path, written_at: int, held: float) -> Size:
    """Every job of a model asks, so each version of the file is read once."""
    folder = Path(json.loads(located.read_text(encoding="utf-8"))["path"])
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = config.get("text_config", config)
    files = list(folder.glob("*.safetensors"))
    parameters = sum(map(_parameters, files))
    stored = sum(file.stat().st_size for file in files) / parameters if parameters else held
    layers, width = int(config["num_hidden_layers"]), int(config["hidden_size"])
    return Size(parameters, layers, width, held, round(stored) or held)


def _parameters(path: Path) -> int:
    """Numbers in a safetensors file, by its head; two bytes each where it has none to be read."""
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            head = json.loads(file.read(min(length, size)))
        return sum(math.prod(t["shape"]) for name, t in head.items() if name != "__metadata__")
    except (ValueError, TypeError, KeyError, AttributeError):
        return size // 2  # loading will say what is wrong with it


def guess(gpu_mem_gb: int, gpus: int) -> Size:
    """A size while nothing but the catalogue is known: the GPUs are full."""
    return Size(0.5e9 * gpu_mem_gb * gpus, 40, 4096)


def samples(config: Config, dataset: str) -> int:
    """Most samples that a cell of this dataset can have."""
    world = config.datasets[dataset].world
    most = config.sample_size_of(dataset)
    if world and world.style in null_worlds.FOLLOWS:
        most = null_worlds.SAMPLES
    elif world:
        facts = 4 * world.scored + 2 * (world.redundant + world.neutral) + world.unseen
        most = WORDINGS * facts
    return min(most, config.limit or most)


def rows(conditions: Conditions) -> int:
    """Passes per sample that the conditions take, the clean one and the generation included."""
    given = {name: value for name, value in conditions.model_dump().items() if value is not None}
    return 2 + sum(
        given[name].get("draws", count) for name, count in PASSES.items() if name in given
    )


def demand(stage: str, size: Size, share: Share, gpus: int) -> Demand:
    """What the first attempt of a job asks for.

    Args:
        stage: `answers`, `activations`, `truth` (passes through the model); `scores`, `refits`
            (probes); `delta_p` (tables).
        size: of the model.
        share: what the job does.
        gpus: of the job; 0 for the CPU.
    """
    if stage in ("scores", "refits"):
        return _probes(stage, size, share, gpus)
    if stage == "delta_p":
        scored = _score_rows(size, share)
        return Demand(TABLE_ROOM_MB + _mb(SCORE_BYTES * scored), _minutes(SCORE_S * scored))
    rows = share.rows + (SWAPS if stage == "truth" else 0)
    operations = 2 * size.parameters * TOKENS_PER_ROW * share.samples * rows
    # Read twice: held against its checksums, then loaded.
    loading = 2 * size.parameters * size.stored / 1e6 / LOAD_MB_PER_S
    seconds = loading + operations / (GPU_FLOPS if gpus else CPU_FLOPS)
    return Demand(math.ceil(ROOM_MB + size.loading_mb), _minutes(seconds))


def _probes(stage: str, size: Size, share: Share, gpus: int) -> Demand:
    """Each read-out fitted in turn, its layers read in blocks; the scores of all read-outs."""
    features = size.layers * size.width * share.samples * 4 / 1e6
    seconds = FEATURE_S_PER_MB * features * share.readouts * (1 if gpus else 2)
    room = ROOM_MB + _mb(probe_bytes(size, share.samples, gpus))
    if stage == "refits":
        layer = 4.0 * share.samples * size.width
        room += _mb(REFIT_COPIES * layer)
        return Demand(room, _minutes(seconds * (1 + REFITS / size.layers)))
    return Demand(room + _mb(SCORE_BYTES * _score_rows(size, share)), _minutes(seconds))


def probe_bytes(size: Size, samples: int, gpus: int) -> float:
    """Main memory that fitting the probes of one read-out takes at most, tables aside."""
    layer = 4.0 * samples * size.width
    square = 4.0 * size.width * min(samples, size.width)
    if gpus:  # the solver's memory is the GPU's; layers on their way there are held here
        together = max(1, SOLVER_BYTES // (2 * layer + square))
        solver = 2 * layer * min(size.layers, together)
    else:
        # Each thread holds layers of its own, all together at most this; of a few threads less.
        abreast = max(1, min(size.layers, ABREAST_BYTES // layer))
        solver = abreast * (LAYER_COPIES * layer + SQUARES * square)
    held = BLOCKS * max(BLOCK_BYTES, layer)
    # Weights of all probes, in parts and together; logits of all folds inside the training folds.
    found = FITTED * size.layers * (8.0 * size.width + 8.0 * samples / 6)
    return min(held, BLOCKS * size.layers * layer) + solver + found


def _score_rows(size: Size, share: Share) -> int:
    """Rows of a cell's scores; asking for the answer, one of `rows`, gives none."""
    return share.samples * size.layers * share.readouts * (share.rows - 1 + PROBES)


def _mb(size: float) -> int:
    return math.ceil(size / 1e6)


def _minutes(seconds: float) -> int:
    return ROOM_MIN + math.ceil(seconds / 60)

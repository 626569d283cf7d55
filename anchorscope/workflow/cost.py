"""What a target costs, before anything is downloaded: rows of passes, bytes, time.

Rules of thumb, not measurements: a row of a pass takes 2 × parameters × tokens operations, at the
rates of a slow GPU or CPU that jobs on a cluster are planned with, and so do the probes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from anchorscope.config.settings import Config
from anchorscope.models.checkpoints import fits
from anchorscope.models.planning import conditions_of
from anchorscope.storage.errors import AnchorscopeError, nearest
from anchorscope.workflow import demand, sizes, studies
from anchorscope.workflow.demand import CPU_FLOPS, FEATURE_S_PER_MB, GPU_FLOPS
from anchorscope.workflow.devices import ON_CPU, gpus_here

CELL_SECONDS = 20.0
"""Starting the stages, reading, writing, intervals: what the small models of the demo take."""
PROMPT_TOKENS = {"plain": 20, "chat": 60}
SHOT_TOKENS = 25
"""Tokens of a worked example."""
ANSWER_TOKENS = 10
TRAINED_TOKENS = 20
"""Tokens of a row of training text."""
ASSUMPTIONS = (
    f"time: 2 × parameters × tokens × rows at an assumed {GPU_FLOPS / 1e12:g} (GPU) or "
    f"{CPU_FLOPS / 1e12:g} (CPU) tera-operations a second, {FEATURE_S_PER_MB:g} s of probes for "
    f"each MB of features (a sample's numbers at all layers), {CELL_SECONDS:g} s a cell besides; "
    "one job after another, downloads not counted; bytes to download are weights, those of a "
    "dataset stand where the hub was asked about it"
)
TRAINING = ("retrain", "retrain-seeds")
TARGETS = (
    *("all", "controls", "report", "calibration", "null-controls", "sensitivity", "reproduction"),
    *TRAINING,
)
"""What Snakemake builds by name beside the figures."""


@dataclass(frozen=True)
class Work:
    """One cell of a study.

    Attributes:
        root: folder of the study's products.
        config: its settings.
        model, dataset: catalogue keys.
    """

    root: str
    config: Config
    model: str
    dataset: str

    @property
    def built(self) -> bool:
        """Whether its last product is there; whether it is up to date, `snakemake -n` knows."""
        return Path(f"{self.root}/delta_p/{self.model}/{self.dataset}.csv").is_file()


@dataclass(frozen=True)
class Cost:
    """What is left to do for a target.

    Attributes:
        target: its name.
        cells, built: how many cells it has, and how many of them are built.
        samples, rows: at most so many samples measured, and rows passed for them.
        activation_bytes: of what is not measured yet.
        largest_cell: bytes of the largest of these.
        download_bytes: weights that are not on this machine.
        seconds: see the module.
        unknown: models of unknown size, which bytes and seconds leave out.
    """

    target: str
    cells: int
    built: int
    samples: int
    rows: int
    activation_bytes: int
    largest_cell: int
    download_bytes: int
    seconds: float
    unknown: tuple[str, ...] = ()


def work_of(config: Config, target: str) -> list[Work]:
    """The cells that a target measures.

    Args:
        target: a figure's name, or one of `TARGETS`; some of these measure no cell.

    Raises:
        AnchorscopeError: there is no such target, or a study of what the catalogue lacks.
    """
    main = studies.Study(config.root, config)
    if target in config.figures:
        return _cells(main, config.cells(target))
    if target in ("all", "controls", "report"):
        cells = [cell for figure in config.targets for cell in config.cells(figure)]
        return _cells(main, dict.fromkeys(cells))
    if target in ("calibration", "null-controls"):
        study = studies.of(config)[studies.calibration_root(config)]
        chosen = config.calibration
        cells = [(null.model, null.dataset) for null in chosen.nulls.values()]
        if target == "calibration":
            cells = [(m, d) for m in chosen.models for d in chosen.datasets] + cells
        return _cells(study, dict.fromkeys(cells))
    if target == "sensitivity":
        return _sensitivity(config)
    if target in TARGETS:
        return []
    known = [*config.figures, *TARGETS]
    raise AnchorscopeError(
        f"there is no target `{target}`", None, nearest(target, known), see="config"
    )


def _cells(study: studies.Study, cells: Iterable[tuple[str, str]]) -> list[Work]:
    cells = list(cells)
    for model, dataset in cells:
        if model not in study.config.models or dataset not in study.config.datasets:
            what = f"the cell {model} on {dataset} is not in the catalogue"
            do = "add it, or name other models and datasets for the study in config.yaml"
            raise AnchorscopeError(what, study.root, do, see="config")
    return [Work(study.root, study.config, model, dataset) for model, dataset in cells]


def retrained(config: Config, target: str) -> float:
    """Time that a target takes to train models for their own sake; 0 for all but `TRAINING`."""
    needed, others = config.trained()
    if target == "retrain":
        return sum(_training(config, name) for name in needed)
    return sum(training_seconds(config, name) for name in others if target == "retrain-seeds")


def _sensitivity(config: Config) -> list[Work]:
    """The base cells and those of every variant that passes rows of its own through a model."""
    chosen = config.sensitivity
    models = chosen.models if chosen else config.calibration.models
    datasets = chosen.datasets if chosen else config.calibration.datasets[:1]
    cells = [(model, dataset) for model in models for dataset in datasets]
    found = _cells(studies.Study(config.root, config), cells)
    roots = studies.sensitivity_roots(config).values()
    for study in map(studies.of(config).__getitem__, roots):
        found += _cells(study, cells) if study.owns("activations") else []
    return found


def distinct(work: Iterable[Work]) -> list[Work]:
    """The cells without repetition."""
    return list({(one.root, one.model, one.dataset): one for one in work}.values())


def cost(target: str, work: Iterable[Work], training: float = 0.0) -> Cost:
    """What the cells of a target cost that are not built yet.

    Args:
        target: its name.
        work: its cells, see `work_of`.
        training: seconds besides, see `retrained`.
    """
    work = list(work)
    left = [one for one in work if not one.built]
    asked = [(one, samples_of(one.config, one.dataset)) for one in left]
    stored = [_stored(one, n) for one, n in asked]
    models = {one.model: one.config for one in work}
    return Cost(
        target=target,
        cells=len(work),
        built=len(work) - len(left),
        samples=sum(n for _, n in asked),
        rows=sum(rows_of(one.config, n) for one, n in asked),
        activation_bytes=sum(stored),
        largest_cell=max(stored, default=0),
        download_bytes=sum(download_bytes(config, name) for name, config in models.items()),
        seconds=sum(_seconds(one, n) for one, n in asked)
        + sum(training_seconds(config, name) for name, config in models.items())
        + training,
        unknown=tuple(n for n, c in models.items() if sizes.of_model(c.models[n]) is None),
    )


def samples_of(config: Config, dataset: str) -> int:
    """Most samples of a cell: the questions prepared, else the world's or the sample's size."""
    table = Path(config.results) / "data" / f"{dataset}.parquet"
    if not table.is_file():
        return demand.samples(config, dataset)
    import pyarrow.parquet as pq

    size = int(pq.read_metadata(table).num_rows)
    return min(size, config.limit or size)


def rows_of(config: Config, samples: int) -> int:
    """Rows passed through the model for so many samples: each condition and draw, and `noop`."""
    conditions = config.conditions.model_dump(mode="json")
    noop = config.conditions.noop
    columns = [name for name, _ in conditions_of(conditions) if name != "noop"]
    return samples * len(columns) + (min(samples, noop.samples) if noop else 0)


def activation_bytes(config: Config, model: str, samples: int) -> int:
    """Rows × read-outs × layers × width × bytes of a number; 0 for a model of unknown size."""
    entry = config.models[model]
    shape = sizes.of_model(entry)
    if shape is None:
        return 0
    numbers = rows_of(config, samples) * len(config.readouts) * shape.layers * shape.width
    return numbers * sizes.BYTES[entry.dtype]


def _stored(one: Work, samples: int) -> int:
    there = Path(f"{one.root}/activations/{one.model}/{one.dataset}/index.parquet").is_file()
    return 0 if there else activation_bytes(one.config, one.model, samples)


def download_bytes(config: Config, model: str) -> int:
    """Bytes of a hub model's weights that are not in the cache; 0 where nobody knows."""
    entry = config.models[model]
    if not entry.hub or (
        (folder := sizes.cached(entry.hub, entry.revision))
        and (sizes.weight_bytes(folder) is not None)
    ):
        return 0
    shape = sizes.of_model(entry)
    # The hub holds 16-bit weights, whatever they are read as.
    return 2 * shape.parameters if shape else 0


def prompt_tokens(config: Config, model: str) -> int:
    """Tokens of a usual prompt in the style of the model."""
    shots = config.generation.few_shot_examples * SHOT_TOKENS
    return PROMPT_TOKENS.get(config.models[model].prompt, PROMPT_TOKENS["plain"] + shots)


def _seconds(one: Work, samples: int) -> float:
    """Asking counts as one more row that is a few times as long."""
    entry = one.config.models[one.model]
    shape = sizes.of_model(entry)
    if shape is None:
        return CELL_SECONDS
    prompt = prompt_tokens(one.config, one.model)
    passed = rows_of(one.config, samples) * (prompt + ANSWER_TOKENS)
    asked = samples * (prompt + one.config.generation.max_new_tokens)
    rate = GPU_FLOPS if entry.resources.gpus and gpus_here() else CPU_FLOPS
    features = 4e-6 * shape.layers * shape.width * samples * len(one.config.readouts)
    operations = 2 * shape.parameters * (passed + asked)
    return CELL_SECONDS + operations / rate + FEATURE_S_PER_MB * features


def without_gpu(work: Iterable[Work]) -> str | None:
    """What a run on a machine without a GPU says of cells whose models ask for one.

    Args:
        work: cells that are to be asked, measured or scored.

    Returns:
        One line, with the models and the time they may take; None if none of them asks.
    """
    asking = [one for one in distinct(work) if one.config.models[one.model].resources.gpus]
    if not asking:
        return None
    order = list(asking[0].config.models)
    models = sorted({one.model for one in asking}, key=order.index)
    unknown = any(sizes.of_model(one.config.models[one.model]) is None for one in asking)
    seconds = sum(_seconds(one, samples_of(one.config, one.dataset)) for one in asking)
    named = ", ".join(models[:3]) + (f" and {len(models) - 3} more" if len(models) > 3 else "")
    return (
        f"No GPU here: {named} will run on the CPU, which may take "
        f"{'at least ' if unknown else ''}{words(seconds)}. For a GPU, run where `nvidia-smi` "
        f"finds one, or on a cluster with --profile slurm; {ON_CPU}=1 silences this."
    )


def trained(config: Config, model: str) -> Path | None:
    """The checkpoint of the present recipe, made here or shipped; None if it must be trained."""
    recipe = config.recipe_hash(model)
    places = [Path(config.results) / "models" / model, Path("resources/models") / model]
    return next((place for place in places if fits(place, recipe)), None)


def training_seconds(config: Config, model: str) -> float:
    """Time that training takes, 0 for what is trained."""
    if config.models[model].train is None or trained(config, model):
        return 0.0
    return _training(config, model)


def _training(config: Config, model: str) -> float:
    """6 × parameters × tokens operations, whether the model is trained or not."""
    entry = config.models[model]
    train, shape = entry.train, sizes.of_model(entry)
    if train is None or shape is None:
        return 0.0
    later = train.settle + train.settle_frameless
    steps = train.steps + (later if train.curriculum == "planted" else 0)
    return 6 * shape.parameters * steps * train.batch_rows * TRAINED_TOKENS / CPU_FLOPS


def words(seconds: float) -> str:
    """A duration, as roughly as it is known."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return "a minute" if seconds >= 45 else f"{seconds:.0f} seconds"


def gigabytes(count: float) -> str:
    """Bytes in words."""
    if count >= 1e9:
        return f"{count / 1e9:,.1f} GB"
    return f"{count / 1e6:,.0f} MB" if count >= 0.5e6 else f"{count / 1e3:,.0f} kB"


@dataclass(frozen=True)
class DiskRoom:
    """What activations take on the disk.

    Attributes:
        must: bytes that have to be free, or the run cannot end well.
        most: bytes that may lie there at once.
        cells: how many cells `most` counts; None for all of the run.
        unknown: models whose size is not known yet, which the bytes leave out.
    """

    must: int = 0
    most: int = 0
    cells: int | None = None
    unknown: tuple[str, ...] = ()

    def words(self, folder: str | Path) -> str:
        """What a run says before its first job."""
        bound = "at least" if self.unknown else "at most" if self.cells is None else "about"
        said = f"Activations: {bound} {gigabytes(self.most)} in {folder}"
        if self.cells is not None:
            said += (
                f" while the {self.cells} largest cells wait to be scored, each deleted then; more "
                "if scoring falls behind"
            )
        if self.unknown:
            count = len(self.unknown)
            models = "1 model" if count == 1 else f"{count} models"
            named = ", ".join(self.unknown[:3]) + (", …" if count > 3 else "")
            said += f", and those of {models} whose size is not known yet ({named})"
        return said + "."


def room_needed(work: Iterable[Work], keep: bool, at_once: int = 1) -> DiskRoom:
    """The activations that measuring some cells adds to the disk.

    Args:
        work: cells to be measured, be they built or not.
        keep: whether activations stay; else as many cells count as may be measured at once, and
            only the largest of them must fit in any case.
        at_once: how many jobs may run at a time.
    """
    work = list(work)
    added = [
        activation_bytes(one.config, one.model, samples_of(one.config, one.dataset))
        - size_on_disk(f"{one.root}/activations/{one.model}/{one.dataset}")
        for one in work
    ]
    left = sorted((size for size in added if size > 0), reverse=True)
    models = {one.model: one.config.models[one.model] for one in work}
    unknown = tuple(name for name, entry in models.items() if sizes.of_model(entry) is None)
    if keep:
        return DiskRoom(sum(left), sum(left), None, unknown)
    some = left[:at_once]
    return DiskRoom(max(left, default=0), sum(some), len(some), unknown)


def check_room(need: int, folder: str | Path) -> None:
    """Refuse to start what cannot be stored.

    Args:
        need: bytes to be written.
        folder: where; it need not be there yet.

    Raises:
        AnchorscopeError: the disk has less room.
    """
    there = existing(folder)
    free = shutil.disk_usage(there).free
    if need > free:
        raise AnchorscopeError(
            f"activations take {gigabytes(need)}, and {gigabytes(free)} are free",
            there,
            "free some, point `results` at a larger disk, set `keep_activations: false`, or "
            "look at fewer samples with `limit`",
            see="no-room",
        )


def size_on_disk(folder: str | Path) -> int:
    """Bytes of the files in a folder and below; 0 if there is none."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def existing(path: str | Path) -> Path:
    """The folder itself, or the nearest above it that exists."""
    found = Path(os.path.abspath(Path(path).expanduser()))
    return next(p for p in (found, *found.parents) if p.exists())

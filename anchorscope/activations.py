"""Activations: every condition's hidden states at the read-out tokens, in one pass a row.

The state at layer k depends on layers up to k only. So a pass with the block in *every* layer
leaves at each layer k exactly what a block in layers 0...k leaves: one row serves all layers.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from anchorscope import knockout, models
from anchorscope.errors import AnchorscopeError
from anchorscope.files import read_parquet, write_parquet
from anchorscope.provenance import Counts

if TYPE_CHECKING:
    import torch

POSITIONS = ("final", "before_answer", "last_answer")
BLOCKS = ("after", "answer")
TOO_LONG = "longer than the sliding window"
NOT_ANCHORED = "no exact question tokens"
SECONDS_BETWEEN_LOG_LINES = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sample:
    """What a pass needs of one sample; all numbers are token indices in `input_ids`."""

    id: str
    input_ids: tuple[int, ...]
    positions: Mapping[str, int]
    question_tokens: tuple[int, ...]
    eq_tokens: tuple[int, ...]
    answer_start: int


@dataclass(frozen=True)
class Row:
    """One row of a pass: a sample (by number) under one condition and draw."""

    sample: int
    condition: str
    draw: int
    cut: knockout.Cut


@dataclass(frozen=True)
class Batch:
    """One pass.

    Attributes:
        samples: numbers of its samples, longest first.
        columns: (condition, draw) pairs; `rows` holds all samples of the first, then of the next.
        rows: the rows in the order they are passed.
        length: padded length in tokens.
    """

    samples: tuple[int, ...]
    columns: tuple[tuple[str, int], ...]
    rows: tuple[Row, ...]
    length: int

    @property
    def masked(self) -> bool:
        """Whether the pass takes the additive mask; `noop` takes the model's ordinary path."""
        return self.columns != (("noop", 0),)


@dataclass(frozen=True)
class Plan:
    """All passes of a cell, fixed before the first; depends on the cell and the budget only.

    Attributes:
        samples: the samples measured, in the order of the answers.
        batches: the passes in running order, longest first, `noop` last.
        counts: samples in, kept and dropped by reason.
        blocks: `after`, or `answer` (only queries from the answer on; this leaks).
    """

    samples: tuple[Sample, ...]
    batches: tuple[Batch, ...]
    counts: Counts
    blocks: str = "after"


def plan(
    answers: pd.DataFrame,
    *,
    conditions: Mapping[str, Mapping[str, Any] | None],
    batch_tokens: int,
    window: int | None = None,
    blocks: str = "after",
    seed: int = 0,
) -> Plan:
    """Plan every pass of a cell.

    A batch holds all condition rows of its samples, so that they share one padded shape: the shape
    alone changes bfloat16 results. `noop` rows go through batches of their own.

    Args:
        answers: the answers table; rows with a `dropped` reason are counted and left out.
        conditions: condition → settings (`random`: draws; `noop`: samples). One left out, or None,
            is not run; `clean` always is.
        batch_tokens: most rows × padded length of a pass; one sample is passed whatever its size.
        window: sliding window of the model, in tokens. A tensor mask makes the model forget its
            window, so longer samples are dropped.
        blocks: which queries the block applies to, see `Plan`.
        seed: seed of the random control.

    Raises:
        AnchorscopeError: nothing left to measure, an id twice, an index outside its sample.
    """
    if blocks not in BLOCKS:
        raise ValueError(f"unknown blocks {blocks!r}, expected one of {BLOCKS}")
    samples, counts = _samples(answers, window)
    columns = _columns(conditions)
    batches = _batches(samples, range(len(samples)), columns, batch_tokens, seed)
    noop = conditions.get("noop")
    if noop is not None:
        some = range(min(len(samples), int(noop.get("samples", 64))))
        batches += _batches(samples, some, [("noop", 0)], batch_tokens, seed)
    return Plan(tuple(samples), tuple(batches), counts, blocks)


def conditions_of(settings: Mapping[str, Mapping[str, Any] | None]) -> list[tuple[str, int]]:
    """Every (condition, draw) that a cell with these settings is measured under."""
    columns = _columns(settings)
    for name in ("swap", "replicate", "noop"):
        if settings.get(name) is not None:
            columns += [(condition, 0) for condition in _partnered(name, settings)]
    return columns


def _partnered(name: str, settings: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    if name != "replicate":
        return [name]
    return [
        n
        for n, cut in knockout.REPLICATE.items()
        if cut == "clean" or settings.get(cut) is not None
    ]


def _columns(conditions: Mapping[str, Mapping[str, Any] | None]) -> list[tuple[str, int]]:
    """The (condition, draw) pairs that share a batch."""
    unknown = set(conditions) - {*knockout.CONDITIONS, "replicate"}
    if unknown:
        raise ValueError(f"unknown conditions {sorted(unknown)}")
    columns = [("clean", 0)]
    for name in knockout.BLOCKING:
        settings = conditions.get(name)
        if settings is not None:
            columns += [(name, draw) for draw in range(int(settings.get("draws", 1)))]
    return columns


def _samples(answers: pd.DataFrame, window: int | None) -> tuple[list[Sample], Counts]:
    kept: list[Sample] = []
    dropped: Counter[str] = Counter()
    for record in answers.to_dict("records"):
        reason = record.get("dropped")
        if isinstance(reason, str):
            dropped[reason] += 1
        elif not len(record["eq_tokens"]):
            dropped[NOT_ANCHORED] += 1
        elif window is not None and len(record["input_ids"]) > window:
            dropped[TOO_LONG] += 1
        else:
            kept.append(_sample(record))
    counts = Counts(len(answers), len(kept), dict(dropped))
    _check_ids(kept, counts)
    return kept, counts


def _sample(record: Mapping[Any, Any]) -> Sample:
    """One row of the answers table, its indices checked."""
    sample = Sample(
        id=str(record["id"]),
        input_ids=tuple(map(int, record["input_ids"])),
        positions={
            "final": int(record["final"]),
            "before_answer": int(record["ea_start"]) - 1,
            "last_answer": int(record["ea_end"]) - 1,
        },
        question_tokens=tuple(map(int, record["question_tokens"])),
        eq_tokens=tuple(map(int, record["eq_tokens"])),
        answer_start=int(record["prompt_length"]),
    )
    indices = [*sample.positions.values(), *sample.question_tokens, *sample.eq_tokens]
    if min(indices) < 0 or max(indices) >= len(sample.input_ids):
        raise AnchorscopeError(
            f"a token index lies outside the sample's {len(sample.input_ids)} tokens",
            f"answers, id {sample.id}",
            "delete the answers of this cell and run again",
        )
    return sample


def _check_ids(samples: Sequence[Sample], counts: Counts) -> None:
    if not samples:
        raise AnchorscopeError(
            f"no sample is left to measure: {counts.as_dict()}",
            "answers",
            "see the reasons in the provenance of the answers",
        )
    (often, times), *_ = Counter(sample.id for sample in samples).most_common(1)
    if times > 1:
        raise AnchorscopeError(
            f"the id {often} stands {times} times", "answers", "make the ids unique"
        )


def _batches(
    samples: Sequence[Sample],
    chosen: Iterable[int],
    columns: Sequence[tuple[str, int]],
    batch_tokens: int,
    seed: int,
) -> list[Batch]:
    """Batches of samples of like length. Longest first: what does not fit fails at once."""
    order = sorted(chosen, key=lambda number: (-len(samples[number].input_ids), number))
    groups: list[list[int]] = []
    for number in order:
        longest = len(samples[groups[-1][0]].input_ids) if groups else 0
        if groups and (len(groups[-1]) + 1) * len(columns) * longest <= batch_tokens:
            groups[-1].append(number)
        else:
            groups.append([number])
    return [_batch(samples, group, columns, seed) for group in groups]


def _batch(
    samples: Sequence[Sample],
    group: Sequence[int],
    columns: Sequence[tuple[str, int]],
    seed: int,
) -> Batch:
    rows = [
        Row(number, name, draw, _cut(samples[number], name, draw, seed))
        for name, draw in columns
        for number in group
    ]
    return Batch(tuple(group), tuple(columns), tuple(rows), len(samples[group[0]].input_ids))


def _cut(sample: Sample, name: str, draw: int, seed: int) -> knockout.Cut:
    return knockout.cut(
        name, sample.question_tokens, sample.eq_tokens, key=f"{seed}/{sample.id}", draw=draw
    )


@dataclass
class _Recorder:
    """What the hooks of one pass saw: site → [rows, positions, width] of each layer in turn."""

    indices: torch.Tensor | None = None
    seen: dict[str, list[torch.Tensor]] = field(default_factory=dict)


@contextmanager
def _recording(loaded: models.Loaded, sites: Iterable[str]) -> Iterator[_Recorder]:
    """Hooks that keep the outputs at `recorder.indices` only; they are removed at the end."""
    recorder = _Recorder()

    def keep(site: str, output: Any) -> None:
        states = models.first_tensor(output)
        assert recorder.indices is not None
        indices = recorder.indices.to(states.device)
        rows = indices.new_tensor(range(len(indices)))[:, None]
        recorder.seen.setdefault(site, []).append(states[rows, indices])

    handles = [
        models.part(loaded, layer, site).register_forward_hook(
            lambda module, inputs, output, site=site: keep(site, output)
        )
        for layer in models.layers(loaded)
        for site in sites
    ]
    try:
        yield recorder
    finally:
        for handle in handles:
            handle.remove()


def parse(readouts: Sequence[str]) -> list[tuple[str, str]]:
    """(site, position) of each read-out such as `mlp/final`.

    Raises:
        AnchorscopeError: there is no such read-out.
    """
    pairs = [(site, position) for site, _, position in (name.partition("/") for name in readouts)]
    for name, (site, position) in zip(readouts, pairs, strict=True):
        if site not in models.SITES or position not in POSITIONS:
            raise AnchorscopeError(
                f"there is no read-out {name!r}",
                "readouts",
                f"write <site>/<position>: {', '.join(models.SITES)}; {', '.join(POSITIONS)}",
            )
    return pairs


def measure(
    loaded: models.Loaded, planned: Plan, readouts: Sequence[str]
) -> Iterator[tuple[Batch, dict[str, torch.Tensor]]]:
    """Run the planned passes, one after the other.

    Yields:
        Each batch with its tensors in CPU memory, in the model's dtype, named
        `<condition>.<draw>/<site>.<position>`, [samples, layers, width], in the order of
        `batch.samples`.

    Raises:
        AnchorscopeError: an activation is not finite, or a whole vector is zero.
    """
    pairs = parse(readouts)
    positions = list(dict.fromkeys(position for _, position in pairs))
    sites = list(dict.fromkeys(site for site, _ in pairs))
    with _recording(loaded, sites) as recorder:
        for batch in planned.batches:
            _run(loaded, planned, batch, positions, recorder)
            yield batch, _tensors(planned, batch, pairs, positions, recorder)


def _run(
    loaded: models.Loaded,
    planned: Plan,
    batch: Batch,
    positions: Sequence[str],
    recorder: _Recorder,
) -> None:
    """One pass through the base model, without the LM head that nobody reads."""
    import torch

    rows = [planned.samples[row.sample] for row in batch.rows]
    recorder.seen.clear()
    recorder.indices = torch.tensor(
        [[sample.positions[name] for name in positions] for sample in rows], device=loaded.device
    )
    with torch.inference_mode():
        loaded.model.base_model(**inputs(loaded, planned, batch), use_cache=False)


def inputs(loaded: models.Loaded, planned: Plan, batch: Batch) -> dict[str, torch.Tensor]:
    """What the base model is called with: right-padded ids, positions, and the mask.

    Returns:
        `input_ids` and `position_ids` int64 [rows, length]; `attention_mask` [rows, 1, length,
        length] in the model's dtype, or for `noop` int64 [rows, length].
    """
    import torch

    rows = [planned.samples[row.sample] for row in batch.rows]
    lengths = [len(sample.input_ids) for sample in rows]
    ids = torch.zeros((len(rows), batch.length), dtype=torch.long)
    for number, sample in enumerate(rows):
        ids[number, : lengths[number]] = torch.tensor(sample.input_ids)
    index = torch.arange(batch.length)
    if batch.masked:
        answers_only = planned.blocks == "answer"
        mask = knockout.mask(
            lengths,
            [row.cut.tokens for row in batch.rows],
            dtype=loaded.model.dtype,
            device=loaded.device,
            first_query=[sample.answer_start for sample in rows] if answers_only else None,
            width=batch.length,
        )
    else:
        mask = (index < torch.tensor(lengths)[:, None]).long()
    return {
        "input_ids": ids.to(loaded.device),
        "position_ids": index.expand(len(rows), -1).to(loaded.device),
        "attention_mask": mask.to(loaded.device),
    }


def _tensors(
    planned: Plan,
    batch: Batch,
    pairs: Sequence[tuple[str, str]],
    positions: Sequence[str],
    recorder: _Recorder,
) -> dict[str, torch.Tensor]:
    import torch

    found: dict[str, torch.Tensor] = {}
    for site, layers in recorder.seen.items():
        states = torch.stack([layer.to(layers[0].device) for layer in layers], dim=1)
        _check(states, planned, batch, site)
        by_column = states.cpu().unflatten(0, (len(batch.columns), len(batch.samples)))
        for (name, draw), column in zip(batch.columns, by_column, strict=True):
            for number, position in enumerate(positions):
                if (site, position) in pairs:
                    found[f"{name}.{draw}/{site}.{position}"] = column[:, :, number].clone()
    recorder.seen.clear()
    return found


def _check(states: torch.Tensor, planned: Plan, batch: Batch, site: str) -> None:
    """Refuse a state [rows, layers, positions, width] that is not finite, or zero all over."""
    bad = (~states.isfinite()).any(dim=-1) | (states == 0).all(dim=-1)
    if not bool(bad.any()):
        return
    row, layer, position = (int(index) for index in bad.nonzero()[0])
    found = "zero" if bool((states[row, layer, position] == 0).all()) else "not finite"
    at = batch.rows[row]
    raise AnchorscopeError(
        f"the output of {site} is {found} at layer {layer}",
        f"sample {planned.samples[at.sample].id}, condition {at.condition}, draw {at.draw}",
        "try dtype: float32 for this model; if it stays, the checkpoint is broken",
    )


def write(
    folder: str | Path, loaded: models.Loaded, planned: Plan, readouts: Sequence[str]
) -> dict[str, Any]:
    """Measure a cell and write `batch-00000.safetensors`, ..., and `index.parquet`.

    Args:
        folder: made if it is not there; half-written if the function raises, so give a draft.
        loaded: the model.
        planned: the passes.
        readouts: such as `mlp/final`.

    Returns:
        What the passes cost: `rows` passed, `samples`, `rows_by_condition`, `rows_per_sample`
        (rows of a condition over the samples it measured), `batches`, `tokens` with and
        `padded_tokens` including padding, `device`, `dtype`, `seconds`.
    """
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    counted = _Counter(planned)
    for number, (batch, tensors) in enumerate(measure(loaded, planned, readouts)):
        save_file(tensors, folder / f"batch-{number:05d}.safetensors")
        counted.add(batch)
    write_parquet(index(planned), folder / "index.parquet")
    dtype = str(loaded.model.dtype).removeprefix("torch.")
    return counted.stats() | {"device": str(loaded.device), "dtype": dtype}


class _Counter:
    """Counts the rows passed, as they are passed, and logs how far the work is."""

    def __init__(self, planned: Plan) -> None:
        self.planned = planned
        self.rows: Counter[str] = Counter()
        self.samples: dict[str, set[int]] = {}
        self.batches = self.tokens = self.padded = 0
        self.total = sum(len(batch.rows) * batch.length for batch in planned.batches)
        self.started = self.logged = time.monotonic()

    def add(self, batch: Batch) -> None:
        for row in batch.rows:
            self.rows[row.condition] += 1
            self.samples.setdefault(row.condition, set()).add(row.sample)
            self.tokens += len(self.planned.samples[row.sample].input_ids)
        self.batches += 1
        self.padded += len(batch.rows) * batch.length
        now = time.monotonic()
        if now - self.logged >= SECONDS_BETWEEN_LOG_LINES or self.padded == self.total:
            self._log(now - self.started)
            self.logged = now

    def _log(self, seconds: float) -> None:
        done, all_samples = len(self.samples["clean"]), len(self.planned.samples)
        left = seconds / self.padded * (self.total - self.padded)
        log.info(
            "%d of %d samples, %.1f samples/s, %d:%02d left",
            *(done, all_samples, done / max(seconds, 1e-9), left // 60, left % 60),
        )

    def stats(self) -> dict[str, Any]:
        return {
            "rows": self.rows.total(),
            "samples": len(self.planned.samples),
            "rows_by_condition": dict(self.rows),
            "rows_per_sample": {
                name: rows / len(self.samples[name]) for name, rows in self.rows.items()
            },
            "batches": self.batches,
            "tokens": self.tokens,
            "padded_tokens": self.padded,
            "seconds": round(time.monotonic() - self.started, 3),
        }


def index(planned: Plan) -> pd.DataFrame:
    """Where each sample's activations lie, one row a sample in the order of the answers.

    Columns: id; batch, row; noop (whether measured there), noop_batch, noop_row (-1 if not);
    n_blocked (tokens of E_Q), n_blocked_random (mean over draws), n_blocked_question (NaN where the
    condition is not run); random_complete (every draw found as many tokens as E_Q has).
    """
    records: list[dict[str, Any]] = [
        {"id": sample.id, "batch": -1, "row": -1, "noop": False, "noop_batch": -1, "noop_row": -1}
        for sample in planned.samples
    ]
    blocked: list[dict[str, list[int]]] = [{} for _ in planned.samples]
    complete = [True] * len(planned.samples)
    for number, batch in enumerate(planned.batches):
        prefix = "" if batch.masked else "noop_"
        for place, sample in enumerate(batch.samples):
            records[sample] |= {f"{prefix}batch": number, f"{prefix}row": place}
            records[sample]["noop"] |= not batch.masked
        for row in batch.rows:
            blocked[row.sample].setdefault(row.condition, []).append(len(row.cut.tokens))
            complete[row.sample] &= row.cut.complete
    for record, counts, is_complete in zip(records, blocked, complete, strict=True):
        record["n_blocked"] = counts.get("knockout", [0])[0]
        for name in ("random", "question"):
            found = counts.get(name)
            record[f"n_blocked_{name}"] = sum(found) / len(found) if found else float("nan")
        record["random_complete"] = is_complete
    return pd.DataFrame(records)


def measured(answers: pd.DataFrame, folder: str | Path) -> pd.DataFrame:
    """The answers that were measured, with how many tokens each condition blocked in them.

    Returns:
        Rows in the order of the passes, and the columns `n_blocked_<condition>` and
        `random_complete`.

    Raises:
        AnchorscopeError: the folder was measured from other answers.
    """
    where = read_parquet(Path(folder) / "index.parquet").rename(
        columns={"n_blocked": "n_blocked_knockout"}
    )
    unknown = set(where["id"]) - set(answers["id"])
    if unknown:
        raise AnchorscopeError(
            f"{len(unknown)} measured samples have no answer, the first: {min(unknown)}",
            folder,
            "delete the cell's folder of activations and run snakemake again",
        )
    facts = [
        "id",
        *(name for name in map(str, where) if name.startswith("n_blocked_")),
        "random_complete",
    ]
    return where[facts].merge(answers, on="id", how="left", validate="one_to_one")


def read(
    folder: str | Path, readout: str, condition: str, draw: int = 0
) -> tuple[list[str], torch.Tensor]:
    """Read one read-out under one condition, file by file.

    Returns:
        The ids in the order of the answers, and float32 [layers, samples, width]. For `noop` only
        the samples that were measured so.

    Raises:
        AnchorscopeError: this was not measured, or a file is missing or broken.
    """
    folder = Path(folder)
    ((site, position),) = parse([readout])
    name = f"{condition}.{draw}/{site}.{position}"
    where = read_parquet(folder / "index.parquet")
    prefix = "noop_" if condition == "noop" else ""
    where = where[where[f"{prefix}batch"] >= 0].reset_index(drop=True)
    out: torch.Tensor | None = None
    for batch, rows in where.groupby(f"{prefix}batch"):
        states = _stored(folder / f"batch-{batch:05d}.safetensors", name)
        if out is None:
            out = states.new_empty((states.shape[1], len(where), states.shape[2])).float()
        taken = states[rows[f"{prefix}row"].to_list()]
        out[:, rows.index.to_list()] = taken.transpose(0, 1).float()
    if out is None:
        raise _not_measured(name, folder)
    return where["id"].tolist(), out


def _stored(path: Path, name: str) -> torch.Tensor:
    """One tensor of a batch file: [samples, layers, width]."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            if name not in file.keys():  # noqa: SIM118 -- a safetensors file is no mapping
                raise _not_measured(name, path)
            return file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise AnchorscopeError(
            f"the activations cannot be read ({type(error).__name__})",
            path,
            "delete the cell's folder of activations and run snakemake again",
        ) from error


def _not_measured(name: str, where: Path) -> AnchorscopeError:
    return AnchorscopeError(
        f"{name} was not measured",
        where,
        "add the read-out or the condition to config.yaml and run snakemake again",
    )

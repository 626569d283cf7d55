"""Activations: every condition's hidden states at the read-out tokens, in one pass a row.

The state at layer k depends on layers up to k only. So a pass with the block in *every* layer
leaves at each layer k exactly what a block in layers 0...k leaves: one row serves all layers.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from anchorscope import knockout, models, sharing
from anchorscope.errors import AnchorscopeError
from anchorscope.files import read_parquet, write_parquet
from anchorscope.passes import (
    BLOCKS,
    POSITIONS,
    PROMPT_OF,
    Batch,
    Plan,
    Sample,
    conditions_of,
    plan,
)
from anchorscope.progress import Pace

if TYPE_CHECKING:
    import torch

__all__ = [
    "BLOCKS", "POSITIONS", "Batch", "Plan", "Sample", "conditions_of", "index", "inputs", "measure",
    "measured", "parse", "plan", "read", "write",
]  # fmt: skip

TOKENWISE = "mlp"
"""The site whose module gives the same at a token whatever the other tokens are."""

PARTNERS = tuple(f"{name}_partner" for name in dict.fromkeys(PROMPT_OF.values()))

log = logging.getLogger(__name__)


class _Finished(Exception):
    """Ends a pass: nothing that the model would do now is read. Raised by a hook, after recording.

    Hooks of other makers stay in order: those on modules already run have run, and transformers
    and accelerate undo per module, not per pass.
    """


@dataclass
class _Recorder:
    """What the hooks of a pass saw: site → [rows, positions, width] of each layer in turn.

    Attributes:
        indices: read-out tokens, int64 [rows, positions]; None records nothing.
        early: whether the pass ends with the last module read, which, if it works token by token,
            is given the read-out tokens only.
    """

    indices: torch.Tensor | None = None
    early: bool = False
    seen: dict[str, list[torch.Tensor]] = field(default_factory=dict)

    def taken(self, states: torch.Tensor) -> torch.Tensor:
        """The states at the read-out tokens."""
        assert self.indices is not None
        indices = self.indices.to(states.device)
        rows = indices.new_tensor(range(len(indices)))[:, None]
        return states[rows, indices]

    def keep(self, site: str, output: Any, *, last: bool) -> None:
        """Record the output of a module; `last` is the last one read."""
        if self.indices is None:
            return
        states = models.first_tensor(output)
        cut_down = last and self.early and site == TOKENWISE
        self.seen.setdefault(site, []).append(states if cut_down else self.taken(states))
        if last and self.early:
            raise _Finished

    def narrow(self, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The input of the last module read, at the read-out tokens."""
        if self.indices is None or not self.early:
            return None
        return (self.taken(inputs[0]), *inputs[1:])

    def states(self) -> dict[str, torch.Tensor]:
        """Site → [rows, layers, positions, width]; the recorder is empty again."""
        import torch

        found = {
            site: torch.stack([layer.to(layers[0].device) for layer in layers], dim=1)
            for site, layers in self.seen.items()
        }
        self.seen.clear()
        return found


@contextmanager
def _recording(loaded: models.Loaded, sites: Collection[str]) -> Iterator[_Recorder]:
    """Hooks that keep the outputs at `recorder.indices` only; they are removed at the end."""
    recorder = _Recorder()
    blocks = models.layers(loaded)
    final = max(sites, key=models.SITES.index)
    handles = []
    for block in blocks:
        for site in sites:
            last = block is blocks[-1] and site == final

            def keep(_: Any, __: Any, output: Any, site: str = site, last: bool = last) -> None:
                recorder.keep(site, output, last=last)

            handles.append(models.part(loaded, block, site).register_forward_hook(keep))
    if final == TOKENWISE:
        module = models.part(loaded, blocks[-1], final)
        handles.append(module.register_forward_pre_hook(lambda _, given: recorder.narrow(given)))
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
                see="not-measured",
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
        heads = _heads(loaded, planned)
        for batch in planned.batches:
            if batch.masked:
                states = _shared(loaded, planned, batch, positions, recorder, heads)
            else:
                states = _plain(loaded, planned, batch, positions, recorder)
            yield batch, _tensors(planned, batch, pairs, positions, states)


def _indices(rows: Iterable[Sample], starts: Iterable[int], positions: Sequence[str]) -> Any:
    """Read-out tokens of each row, counted from its first token passed: int64 [rows, positions]."""
    import torch

    return torch.tensor(
        [
            [sample.positions[name] - start for name in positions]
            for sample, start in zip(rows, starts, strict=True)
        ]
    )


def _plain(
    loaded: models.Loaded,
    planned: Plan,
    batch: Batch,
    positions: Sequence[str],
    recorder: _Recorder,
) -> dict[str, torch.Tensor]:
    """One ordinary pass through the base model: nothing shared, nothing left out.

    Returns:
        Site → [rows, layers, positions, width].
    """
    import torch

    rows = [planned.passed(row) for row in batch.rows]
    recorder.seen.clear()
    recorder.early = False
    recorder.indices = _indices(rows, [0] * len(rows), positions).to(loaded.device)
    with torch.inference_mode():
        loaded.model.base_model(**inputs(loaded, planned, batch), use_cache=False)
    return recorder.states()


def _heads(loaded: models.Loaded, planned: Plan) -> sharing.Layers:
    """Keys and values of what all prompts begin with; empty where they share nothing."""
    import torch

    rows = sharing.head_rows(planned)
    cache = sharing.Cache(keep=True)
    if rows:
        with torch.inference_mode():
            given = sharing.head_inputs(rows, loaded.model.dtype, loaded.device)
            loaded.model.base_model(**given, past_key_values=cache, use_cache=True)
    return cache.own


def _shared(
    loaded: models.Loaded,
    planned: Plan,
    batch: Batch,
    positions: Sequence[str],
    recorder: _Recorder,
    heads: sharing.Layers,
) -> dict[str, torch.Tensor]:
    """The passes of one batch: rows without a cut first, then the others from where they differ.

    Returns:
        Site → [rows, layers, positions, width].
    """
    import torch

    planned_steps = sharing.steps(planned, batch, forked=forks(loaded))
    first: sharing.Layers = []
    found: dict[str, list[torch.Tensor]] = {}
    recorder.seen.clear()
    recorder.early = True
    for step in planned_steps:
        samples = [planned.passed(batch.rows[number]) for number in step.rows]
        before = sharing.earlier(planned, batch, step, heads, first)
        cache = sharing.Cache(before, keep=step.bases is None and len(planned_steps) > 1)
        recorder.indices = _indices(samples, step.starts, positions).to(loaded.device)
        with torch.inference_mode(), suppress(_Finished):
            given = sharing.inputs(loaded, planned, batch, step, before)
            loaded.model.base_model(**given, past_key_values=cache, use_cache=True)
        first = first or cache.own
        for site, states in recorder.states().items():
            found.setdefault(site, []).append(states)
    order = torch.tensor([number for step in planned_steps for number in step.rows]).argsort()
    return {site: torch.cat(parts)[order.to(parts[0].device)] for site, parts in found.items()}


def forks(loaded: models.Loaded) -> bool:
    """Whether rows with a cut go on from the clean row: in single precision only."""
    import torch

    return loaded.model.dtype in (torch.float32, torch.float64)


def inputs(loaded: models.Loaded, planned: Plan, batch: Batch) -> dict[str, torch.Tensor]:
    """What one pass of a whole batch would be called with, nothing shared.

    Right-padded ids, positions, and the mask. `noop`, the model's own verdicts and the seal are
    measured so.

    Returns:
        `input_ids` and `position_ids` int64 [rows, length]; `attention_mask` [rows, 1, length,
        length] in the model's dtype, or for `noop` int64 [rows, length].
    """
    import torch

    rows = [planned.passed(row) for row in batch.rows]
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
    seen: Mapping[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """The states of a batch by condition, draw and read-out, as `measure` yields them."""
    found: dict[str, torch.Tensor] = {}
    for site, states in seen.items():
        _check(states, planned, batch, site)
        by_column = states.cpu().unflatten(0, (len(batch.columns), len(batch.samples)))
        for (name, draw), column in zip(batch.columns, by_column, strict=True):
            for number, position in enumerate(positions):
                if (site, position) in pairs:
                    found[f"{name}.{draw}/{site}.{position}"] = column[:, :, number].clone()
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
        see="not-finite",
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
        (rows of a condition over the samples it measured), `batches`; `tokens` of all rows
        without and `padded_tokens` with padding; `passed_tokens`, what went through the model,
        padding included, after sharing; `device`, `dtype`, `seconds`.
    """
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    counted = _Counter(planned, forked=forks(loaded))
    for number, (batch, tensors) in enumerate(measure(loaded, planned, readouts)):
        save_file(tensors, folder / f"batch-{number:05d}.safetensors")
        counted.add(batch)
    write_parquet(index(planned), folder / "index.parquet")
    dtype = str(loaded.model.dtype).removeprefix("torch.")
    return counted.stats() | {"device": str(loaded.device), "dtype": dtype}


class _Counter:
    """Counts the rows passed, as they are passed, and logs how far the work is."""

    def __init__(self, planned: Plan, *, forked: bool) -> None:
        self.planned, self.forked = planned, forked
        self.rows: Counter[str] = Counter()
        self.samples: dict[str, set[int]] = {}
        self.batches = self.tokens = self.padded = 0
        heads = sharing.head_rows(planned)
        self.passed = len(heads) * max(map(len, heads), default=0)
        self.total = sum(len(batch.rows) * batch.length for batch in planned.batches)
        self.pace = Pace()

    def add(self, batch: Batch) -> None:
        for row in batch.rows:
            self.rows[row.condition] += 1
            self.samples.setdefault(row.condition, set()).add(row.sample)
            self.tokens += len(self.planned.passed(row).input_ids)
        self.batches += 1
        self.padded += len(batch.rows) * batch.length
        self.passed += sharing.tokens_passed(self.planned, batch, forked=self.forked)
        if self.pace.due(finished=self.padded == self.total):
            self._log(self.pace.seconds)

    def _log(self, seconds: float) -> None:
        done, all_samples = len(self.samples["clean"]), len(self.planned.samples)
        left = seconds / self.padded * (self.total - self.padded)
        log.info(
            "%d of %d samples, %.1f samples/s, %d:%02d left",
            *(done, all_samples, done / seconds, left // 60, left % 60),
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
            "passed_tokens": self.passed,
            "seconds": round(self.pace.seconds, 3),
        }


def index(planned: Plan) -> pd.DataFrame:
    """Where each sample's activations lie, one row a sample in the order of the answers.

    Columns: id; batch, row; noop (whether measured there), noop_batch, noop_row (-1 if not);
    n_blocked (tokens of E_Q), n_blocked_random (mean over draws), n_blocked_question (NaN where the
    condition is not run); random_complete (every draw found as many tokens as E_Q has).
    Where the condition is run: swap_partner and replicate_partner, the id of the sample whose
    prompt stood before the answer, `few-shot` for other worked examples, None where there is none.
    """
    cuts: list[dict[str, list[knockout.Cut]]] = [{} for _ in planned.samples]
    places: list[dict[str, Any]] = [
        {"batch": -1, "row": -1, "noop": False, "noop_batch": -1, "noop_row": -1} for _ in cuts
    ]
    for number, batch in enumerate(planned.batches):
        prefix = "" if batch.masked else "noop_"
        for place, sample in enumerate(batch.samples):
            places[sample] |= {f"{prefix}batch": number, f"{prefix}row": place}
            places[sample]["noop"] |= not batch.masked
        for row in batch.rows:
            cuts[row.sample].setdefault(row.condition, []).append(row.cut)
    return pd.DataFrame(
        [
            {"id": sample.id} | place | _blocked(by_condition) | _partners(sample, planned)
            for sample, place, by_condition in zip(planned.samples, places, cuts, strict=True)
        ]
    )


def _blocked(cuts: Mapping[str, Sequence[knockout.Cut]]) -> dict[str, float | bool]:
    """How many tokens each condition cut in one sample."""
    size = {name: sum(len(cut.tokens) for cut in of) / len(of) for name, of in cuts.items()}
    return {
        "n_blocked": int(size.get("knockout", 0)),
        "n_blocked_random": size.get("random", float("nan")),
        "n_blocked_question": size.get("question", float("nan")),
        "random_complete": all(cut.complete for cut in cuts.get("random", ())),
    }


def _partners(sample: Sample, planned: Plan) -> dict[str, str | None]:
    """Whose prompts one sample's answer was put behind."""
    return {
        f"{name}_partner": sample.others[name].partner if name in sample.others else None
        for name in planned.prompts
    }


def measured(answers: pd.DataFrame, folder: str | Path) -> pd.DataFrame:
    """The answers that were measured, with how many tokens each condition blocked in them.

    Returns:
        Rows in the order of the passes, and the columns `n_blocked_<condition>`,
        `random_complete`, `swap_partner` and `replicate_partner` (see `index`; None everywhere
        where the condition was not run).

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
            see="stale-product",
        )
    facts = [
        "id",
        *(name for name in map(str, where) if name.startswith("n_blocked_")),
        "random_complete",
        *PARTNERS,
    ]
    for name in PARTNERS:
        if name not in where:
            where[name] = pd.Series([None] * len(where), dtype=object)
    return where[facts].merge(answers, on="id", how="left", validate="one_to_one")


def read(
    folder: str | Path, readout: str, condition: str, draw: int = 0
) -> tuple[list[str], torch.Tensor]:
    """Read one read-out under one condition, file by file.

    Returns:
        The ids in the order of the answers, and float32 [layers, samples, width]. `noop`, `swap`
        and the `replicate-` conditions hold the samples that were measured so; none at all where
        no sample has another prompt.

    Raises:
        AnchorscopeError: this was not measured, or a file is missing or broken.
    """
    folder = Path(folder)
    ((site, position),) = parse([readout])
    name = f"{condition}.{draw}/{site}.{position}"
    prefix = "noop_" if condition == "noop" else ""
    whole = read_parquet(folder / "index.parquet")
    where = _covered(whole, condition, prefix)
    if where is None:
        raise _not_measured(name, folder)
    out: torch.Tensor | None = None
    for batch, rows in where.groupby(f"{prefix}batch"):
        states = _stored(folder / f"batch-{batch:05d}.safetensors", name)
        if out is None:
            out = states.new_empty((states.shape[1], len(where), states.shape[2])).float()
        taken = states[rows[f"{prefix}row"].to_list()]
        out[:, rows.index.to_list()] = taken.transpose(0, 1).float()
    if out is None:
        return [], read(folder, readout, "clean")[1][:, :0]
    return where["id"].tolist(), out


def _covered(where: pd.DataFrame, condition: str, prefix: str) -> pd.DataFrame | None:
    """The index's rows of the samples measured under a condition; None if it was not run."""
    if condition not in PROMPT_OF:
        found = where[where[f"{prefix}batch"] >= 0]
        return None if found.empty else found.reset_index(drop=True)
    partner = f"{PROMPT_OF[condition]}_partner"
    if partner not in where:
        return None
    return where[where[partner].notna()].reset_index(drop=True)


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
            see="unreadable-product",
        ) from error


def _not_measured(name: str, where: Path) -> AnchorscopeError:
    return AnchorscopeError(
        f"{name} was not measured",
        where,
        "add the read-out or the condition to config.yaml and run snakemake again",
        see="not-measured",
    )

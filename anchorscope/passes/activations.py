"""Activations: every condition's hidden states at the read-out tokens, as files of a cell.

Many jobs read the index only, so what loads torch is imported where it is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from anchorscope.models.families import Loaded
from anchorscope.passes import interventions
from anchorscope.storage import partial
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import check_ids, read_parquet, write_parquet
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room

if TYPE_CHECKING:
    from anchorscope.passes.batches import Plan, Sample
    from anchorscope.passes.features import Features

PROMPTS = tuple(dict.fromkeys(one.prompt for one in interventions.REGISTRY if one.prompt))
PARTNERS = (*(f"{name}_partner" for name in PROMPTS), "partner_source")


def write(
    folder: str | Path, loaded: Loaded, planned: Plan, readouts: Sequence[str]
) -> dict[str, Any]:
    """Measure a cell and write `batch-00000.safetensors`, ..., and `index.parquet`.

    Args:
        folder: made if it is not there. Batches that lie there from an earlier try are not passed
            again; so give a folder of `partial.folder_for`.
        loaded: the model.
        planned: the passes.
        readouts: such as `mlp/final`.

    Returns:
        What the passes cost: `rows` passed, `samples`, `rows_by_condition`, `rows_per_sample`
        (rows of a condition over the samples it measured), `batches`, `halved_batches` (that did
        not fit in memory); `tokens` without and `padded_tokens` with padding; `passed_tokens`, what
        went through the model after sharing; `device`, `dtype`, `seconds`.
    """
    from anchorscope.passes.runner import forks, measure

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [partial.batch(folder, number) for number in range(len(planned.batches))]
    signed = [
        partial.signature([planned.samples[at].id for at in batch.samples])
        for batch in planned.batches
    ]
    todo = [n for n, path in enumerate(paths) if not partial.finished(path, signed[n])]
    room, seconds, halved = Room(), 0.0, 0
    passes = measure(loaded, planned, readouts, numbers=todo, room=room)
    rest = {sample for number in todo for sample in planned.batches[number].samples}
    # Closed: an error while a batch is written leaves the model without hooks, too.
    with closing(passes), Progress(total=len(rest)) as progress:
        for number, (batch, tensors) in zip(todo, passes, strict=True):
            took, parted = progress.seconds - seconds, room.halved - halved
            seconds, halved = progress.seconds, room.halved
            notes = {"seconds": f"{took:.6f}", "halved": str(parted)}
            partial.save(tensors, paths[number], samples=signed[number], **notes)
            progress.update(len(rest.intersection(batch.samples)))
            rest.difference_update(batch.samples)
    write_parquet(index(planned), folder / "index.parquet")
    dtype = str(loaded.model.dtype).removeprefix("torch.")
    costs = _costs(planned, [partial.notes(path) for path in paths], forked=forks(loaded))
    return costs | {"device": loaded.device.type, "dtype": dtype}


def _costs(planned: Plan, notes: Sequence[Mapping[str, str]], *, forked: bool) -> dict[str, Any]:
    """What the passes cost, from the plan and the notes of each batch."""
    from anchorscope.passes import sharing

    rows = [row for batch in planned.batches for row in batch.rows]
    by_condition = Counter(row.condition for row in rows)
    samples = Counter(name for name, _ in {(row.condition, row.sample) for row in rows})
    heads = sharing.head_rows(planned)
    passed = (sharing.tokens_passed(planned, batch, forked=forked) for batch in planned.batches)
    return {
        "rows": len(rows),
        "samples": len(planned.samples),
        "rows_by_condition": dict(by_condition),
        "rows_per_sample": {name: number / samples[name] for name, number in by_condition.items()},
        "batches": len(planned.batches),
        "halved_batches": sum(int(note["halved"]) > 0 for note in notes),
        "tokens": sum(len(planned.passed(row).input_ids) for row in rows),
        "padded_tokens": sum(len(batch.rows) * batch.length for batch in planned.batches),
        "passed_tokens": len(heads) * max(map(len, heads), default=0) + sum(passed),
        "seconds": round(sum(float(note["seconds"]) for note in notes), 3),
    }


def index(planned: Plan) -> pd.DataFrame:
    """Where each sample's activations lie, one row a sample in the order of the answers.

    Columns: id; batch, row; noop (whether measured there), noop_batch, noop_row (-1 if not);
    n_blocked (tokens of E_Q), n_blocked_random (mean over draws), n_blocked_question (NaN where the
    condition is not run); random_complete (every draw found as many tokens as E_Q has).
    Where the condition is run: matched_partner, placebo_partner and replicate_partner, the id of
    the sample whose prompt stood before the answer, `few-shot` for other worked examples, None
    where there is none; partner_source, see `anchorscope.passes.partners.Interchange`.
    """
    cuts: list[dict[str, list[interventions.Cut]]] = [{} for _ in planned.samples]
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


def _blocked(cuts: Mapping[str, Sequence[interventions.Cut]]) -> dict[str, float | bool]:
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
    found = {
        f"{name}_partner": sample.others[name].partner if name in sample.others else None
        for name in planned.prompts
    }
    run = {*planned.prompts} & {*interventions.ARMS}
    return found | ({"partner_source": planned.partner_source} if run else {})


def measured(answers: pd.DataFrame, folder: str | Path) -> pd.DataFrame:
    """The answers that were measured, with how many tokens each condition blocked in them.

    Returns:
        Rows in the order of the passes, and the columns `n_blocked_<condition>`,
        `random_complete`, `<condition>_partner` and `partner_source` (see `index`; None everywhere
        where the condition was not run).

    Raises:
        AnchorscopeError: the folder was measured from other answers, or an id comes twice.
    """
    check_ids(answers)
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
    for name in PARTNERS:
        if name not in where:
            where[name] = pd.Series([None] * len(where), dtype=object)
    blocked = [name for name in map(str, where) if name.startswith("n_blocked_")]
    return where[["id", *blocked, "random_complete", *PARTNERS]].merge(
        answers, on="id", how="left", validate="one_to_one"
    )


def read(
    folder: str | Path, readout: str, condition: str, draw: int = 0
) -> tuple[list[str], Features]:
    """Find one read-out under one condition in the files of a cell.

    Returns:
        The ids in the order of the answers, and float32 [layers, samples, width], read when layers
        are asked for; `[:]` are all. `noop`, `matched`, `placebo` and the `replicate-` conditions
        hold the samples that were measured so; none at all where no sample has another prompt.

    Raises:
        AnchorscopeError: this was not measured, or a file is missing, broken, or not of the
            samples that the index says.
    """
    from anchorscope.passes.runner import parse
    from anchorscope.passes.stored import Rows, Stored

    folder = Path(folder)
    ((site, position),) = parse([readout])
    name = f"{condition}.{draw}/{site}.{position}"
    prefix = "noop_" if condition == "noop" else ""
    whole = read_parquet(folder / "index.parquet")
    where = _covered(whole, condition, prefix)
    if where is None:
        raise _not_measured(name, folder)
    if where.empty:
        _, clean = read(folder, readout, "clean")
        return [], clean[:0].new_empty((len(clean), 0, clean.shape[2]))
    signed = _signatures(whole, prefix)
    batches = [
        Rows(
            partial.batch(folder, cast("int", number)),
            rows[f"{prefix}row"].to_list(),
            rows.index.to_list(),
            signed[cast("int", number)],
        )
        for number, rows in where.groupby(f"{prefix}batch")
    ]
    ids = where["id"].tolist()
    try:
        return ids, Stored(name, batches, ids)
    except KeyError as error:
        raise _not_measured(name, folder) from error


def _signatures(where: pd.DataFrame, prefix: str) -> dict[int, str]:
    """Batch number → signature of all samples that the index finds in it."""
    found = where[where[f"{prefix}batch"] >= 0].sort_values(f"{prefix}row")
    by_batch = found.groupby(f"{prefix}batch")["id"]
    return {cast("int", number): partial.signature(ids.tolist()) for number, ids in by_batch}


def _covered(where: pd.DataFrame, condition: str, prefix: str) -> pd.DataFrame | None:
    """The index's rows of the samples measured under a condition; None if it was not run."""
    prompt = interventions.BY_NAME[condition].prompt
    if prompt is None:
        found = where[where[f"{prefix}batch"] >= 0]
        return None if found.empty else found.reset_index(drop=True)
    partner = f"{prompt}_partner"
    if partner not in where:
        return None
    return where[where[partner].notna()].reset_index(drop=True)


def _not_measured(name: str, where: Path) -> AnchorscopeError:
    return AnchorscopeError(
        f"{name} was not measured",
        where,
        "add the read-out or the condition to config.yaml and run snakemake again",
        see="not-measured",
    )

"""Activations: the hidden states of a cell at each read-out under each condition, as files.

Modules that load torch are imported inside functions, because many jobs read only the index.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from anchorscope.config.readouts import READOUTS, Location, available, not_measured, parse
from anchorscope.passes import interventions
from anchorscope.questions.fields import digest
from anchorscope.storage import partial
from anchorscope.storage.errors import stale
from anchorscope.storage.files import read_parquet, write_parquet
from anchorscope.storage.progress import Progress

if TYPE_CHECKING:
    from anchorscope.models.families import Loaded
    from anchorscope.passes.batches import Plan, Sample
    from anchorscope.passes.features import Features


PARTNER_COLUMNS = ("crossed_partner", "gold_partner", "frame", "partner_source")
"""Columns of the index that describe swapped answers, see `index`."""
OUTPUTS = "outputs.parquet"
"""Name of the file with token probabilities in a folder of activations."""


def write(folder: str | Path, loaded: Loaded, planned: Plan, readouts: Sequence[str]) -> None:
    """Pass all batches; write `batch-00000.safetensors`, ..., `index.parquet` and `OUTPUTS`.

    `resid` replaces a site that the model does not have, see `families.readable`.
    Batches that an earlier run finished in `folder` are not passed again, even if settings changed.
    So get `folder` from `partial.folder_for`, which returns another path for other settings.
    """
    from anchorscope.models.families import readable
    from anchorscope.passes.runner import measure

    folder, readouts = Path(folder), readable(loaded, readouts)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [partial.batch(folder, number) for number in range(len(planned.batches))]
    ids = [[planned.samples[at].id for at in batch.samples] for batch in planned.batches]
    signatures = [partial.signature(of_batch) for of_batch in ids]
    todo = [n for n, path in enumerate(paths) if not partial.finished(path, signatures[n])]
    passes = measure(loaded, planned, readouts, numbers=todo, outputs=True)
    total = sum(len(planned.batches[number].rows) for number in todo)
    # If writing a batch fails, closing the generator drops the batch that was begun ahead.
    with closing(passes), Progress(total=total, unit="rows") as progress:
        for number, (batch, tensors) in zip(todo, passes, strict=True):
            notes = {"samples": signatures[number], "ids": json.dumps(ids[number])}
            partial.save(tensors, paths[number], **notes)
            progress.update(len(batch.rows))
    write_parquet(index(planned), folder / "index.parquet")
    write_parquet(_outputs(planned, paths), folder / OUTPUTS)


def _outputs(planned: Plan, paths: Sequence[Path]) -> pd.DataFrame:
    """Return the `QUANTITIES` of answer tokens under the conditions with `reads_outputs`.

    Each row is one answer token of one sample under one condition. Tokens after E_A have no row.
    `place` is the token's index in the model's input. `exact` is True within E_A.
    """
    from anchorscope.passes.runner import QUANTITIES

    frames = []
    for batch, path in zip(planned.batches, paths, strict=True):
        for one, _ in batch.columns:
            if not one.reads_outputs:
                continue
            keys = [
                (row.passed.id, one.name, token, token > row.passed.positions["before_answer"])
                for row in batch.rows
                if row.intervention == one
                for token in row.passed.answer_tokens
            ]
            with partial.opened(path) as file:
                values = file.get_tensor(interventions.tensor_name(one.name, "outputs")).numpy()
            frame = pd.DataFrame(keys, columns=["id", "condition", "place", "exact"])
            frames.append(frame.assign(**dict(zip(QUANTITIES, values.T, strict=True))))
    return pd.concat(frames, ignore_index=True)


def outputs(folder: str | Path) -> pd.DataFrame:
    """Read the token probabilities of a cell, see `_outputs`."""
    return read_parquet(Path(folder) / OUTPUTS)


def index(planned: Plan) -> pd.DataFrame:
    """Return the index of a cell: what was measured and blocked for each sample.

    It has one row per sample, in the order of the answers, with `id` and these columns. The last
    four are there only if the condition `crossed` is run.

    - `stands_for`: number of answers that the sample stands for, see `pool.choose`.
    - `<name>`, for each condition of the role `noise`: whether the sample was measured under it.
    - `n_blocked_<name>`, for each cut and control: number of blocked tokens, mean over draws; NaN
      if the condition is not run.
    - `<name>_complete`, for each control: whether every draw blocks at least as many tokens as the
      cut that the control belongs to; False if the cut or the control is not run.
    - `crossed_partner`: id of the partner, or None if the sample's answer is not swapped.
    - `gold_partner`: id of the partner, or None if the sample's gold answer is not swapped.
    - `frame`: digest of the tokens of the sample's own prompt that are outside E_Q.
    - `partner_source`: see `partners.Crossing`.
    """
    every = (row for batch in planned.batches for row in batch.rows)
    rows = [(row.sample, row.condition, len(row.tokens)) for row in every]
    table = pd.DataFrame(rows, columns=["sample", "condition", "tokens"])
    by_condition = table.groupby(["sample", "condition"])["tokens"]
    mean, least = (
        of.unstack().reindex(columns=[*interventions.REGISTRY])
        for of in (by_condition.mean(), by_condition.min())
    )
    done = pd.DataFrame({"id": [sample.id for sample in planned.samples]})
    done["stands_for"] = done["id"].map(lambda name: planned.stands_for.get(name, 1.0))
    for one in interventions.of_role("noise"):
        done[one.name] = mean[one.name].notna()
    for one in interventions.of_role("cut", "control"):
        done[f"n_blocked_{one.name}"] = mean[one.name]
    for one, control in interventions.controlled_cuts():
        done[f"{control.name}_complete"] = least[control.name] >= mean[one.name]
    if planned.partner_source is not None:
        columns = {
            "crossed_partner": [_partner(one, interventions.CROSSED) for one in planned.samples],
            "gold_partner": [_partner(one, interventions.CROSSED_GOLD) for one in planned.samples],
            "frame": [_frame(one) for one in planned.samples],
            "partner_source": [planned.partner_source] * len(done),
        }
        done = done.join(pd.DataFrame(columns, dtype=object))
    return done


def _partner(sample: Sample, prompt: str) -> str | None:
    return sample.others[prompt].partner if prompt in sample.others else None


def _frame(sample: Sample) -> str:
    exact = set(sample.eq_tokens)
    prompt = enumerate(sample.input_ids[: sample.answer_start])
    return digest(*(str(id_) for place, id_ in prompt if place not in exact))[:16]


def readouts(folder: str | Path, wanted: Sequence[str]) -> list[str]:
    """Return the read-outs that were measured for the `wanted` ones, see `families.readable`.

    Raises:
        AnchorscopeError: One of them was not measured.
    """
    with partial.opened(partial.batch(Path(folder), 0)) as file:
        names = {*file.keys()}
    measured = [one for one in READOUTS if interventions.tensor_name("clean", one) in names]
    sites = {Location.of(one).site for one in measured}
    found = list(dict.fromkeys(available(one, sites) for one in wanted))
    for one in found:
        if one not in measured:
            raise not_measured(one, measured, folder)
    return found


def measured(answers: pd.DataFrame, folder: str | Path) -> pd.DataFrame:
    """Return the index, sorted by id, each row joined with the sample's row of `answers`.

    All later stages keep this order. The columns of conditions of the role `noise` are left out.
    `PARTNER_COLUMNS` are None if `crossed` was not run. `logprob_<condition>` is the
    log-probability of E_A or, under conditions with a gold answer, of the gold answer. It is a sum
    over tokens, and NaN if not measured.

    Raises:
        AnchorscopeError: The folder was measured from other answers.
    """
    where = _index_of(folder)
    where = where.drop(columns=[one.name for one in interventions.of_role("noise")])
    if unknown := set(where["id"]) - set(answers["id"]):
        what = f"{len(unknown)} measured samples have no answer, the first: {min(unknown)}"
        raise stale(what, folder, "the cell's folder of activations")
    if "stands_for" not in where:  # measured by an older version, which measured every answer
        where["stands_for"] = 1.0
    for name in PARTNER_COLUMNS:
        if name not in where:
            where[name] = pd.Series([None] * len(where), dtype=object)
    for condition, rows in outputs(folder).query("exact").groupby("condition"):
        sums = rows.groupby("id")["logprob"].sum()
        where[f"logprob_{condition}"] = where["id"].map(sums).astype(float)
    return where.merge(answers, on="id", how="left", validate="one_to_one")


def _index_of(folder: str | Path) -> pd.DataFrame:
    """Read the index of a cell, sorted by id."""
    return read_parquet(Path(folder) / "index.parquet").sort_values("id", ignore_index=True)


def read(
    folder: str | Path, readout: str, condition: str, draw: int = 0
) -> tuple[np.ndarray, Features]:
    """Return (rows, states) of one read-out under one condition.

    `rows`, int64 [rows], are the indices of the measured samples in the order of `measured`. States
    are float32 [layers, rows, width]. Layers are read from the files when they are used.

    Raises:
        AnchorscopeError: The read-out was not measured, or a file is missing or broken.
    """
    from anchorscope.passes.features import StoredStates

    folder = Path(folder)
    parse([readout])  # names the read-outs that exist if this is none
    name = interventions.tensor_name(condition, readout, draw)
    one, where = interventions.REGISTRY[condition], _index_of(folder)
    partner = "crossed_partner" if one.version == interventions.CROSSED else "gold_partner"
    if one.version is not None and partner in where:
        where = where[where[partner].notna()]
        if where.empty:
            _, clean = read(folder, readout, "clean")
            return where.index.to_numpy(), clean[:0].new_empty((len(clean), 0, clean.shape[2]))
    rows = where[where[one.name]] if one.own_batch else where
    return rows.index.to_numpy(), StoredStates.find(folder, name, rows["id"].tolist())

"""What scripts do around the library for a job on a model or on probes."""

from typing import Any

import numpy as np
import pandas as pd

from anchorscope.models.families import Loaded
from anchorscope.models.loading import load
from anchorscope.models.vocabulary import check_tokens
from anchorscope.passes.batches import Plan
from anchorscope.probes import bands, fitting, scores, stored
from anchorscope.probes.samples import kept
from anchorscope.storage.files import read_json, read_parquet, write_parquet, write_parquet_parts
from anchorscope.workflow.devices import best_device
from anchorscope.workflow.stage import log, use_threads


def device_of(snakemake: Any) -> str:
    """The device that a job has asked for; torch keeps to the threads of its rule."""
    use_threads(snakemake)
    return best_device(snakemake.resources.device, snakemake.resources.gpu)


def model_of(snakemake: Any, attention: str = "sdpa") -> tuple[dict[str, Any], Loaded]:
    """Where the model of a job lies, see `loading.locate`, and the model on its device."""
    located = read_json(snakemake.input.model)
    chosen = {"dtype": snakemake.params.dtype, "device": device_of(snakemake)}
    return located, load(located["path"], **chosen, attention=attention)


def plan_of(snakemake: Any, loaded: Loaded) -> Plan:
    """The passes of a cell.

    Raises AnchorscopeError: the answers are another tokenizer's, or no probe could be fitted.
    """
    chosen, path = snakemake.params, snakemake.input.answers
    answers = read_parquet(path)
    check_tokens(loaded.tokenizer, answers, path)
    # Not in `params` but for the partners: other folds need no new passes otherwise.
    probe = snakemake.config.get("probe") or {}
    return fitting.plan_passes(
        loaded,
        answers,
        path,
        conditions=chosen.conditions,
        blocks=chosen.blocks,
        batch_tokens=chosen.batch_tokens,
        probe=fitting.Settings(**{**probe, "seed": chosen.seed}),
    )


def write_scores(
    written: Any, folder: str, answers: pd.DataFrame, probe: fitting.Settings, **chosen: Any
) -> None:
    """Fit the probes of a cell, and write scores, floors, draws and probes to the paths `written`.

    `answers` are those that were measured; for `folder` and `chosen` see `scores.of_cell`. Raises
    AnchorscopeError: no folds can be cut.
    """
    from anchorscope.probes import floors  # loads scikit-learn, which other jobs can spare

    drawn = scores.drawn(answers, probe)
    fitted: dict[str, fitting.Fitted] = {}
    frames = scores.of_cell(folder, answers, probe, draws=drawn, fitted=fitted, **chosen)
    write_parquet_parts(frames, written.scores)
    drawn.write(written.draws)
    plan = fitting.design(kept(answers), probe)
    stored.write(written.probes, plan.ids, plan.fold, fitted)
    write_parquet(floors.floors(answers, probe), written.floors)


def write_no_scores(written: Any, why: str) -> None:
    """Write the same without rows, of a cell in which no folds can be cut."""
    from anchorscope.probes import floors

    log.warning("%s: no scores", why)
    write_parquet(pd.DataFrame(columns=list(scores.COLUMNS)), written.scores)
    write_parquet(pd.DataFrame(columns=list(floors.COLUMNS)), written.floors)
    bands.Draws.none().write(written.draws)
    stored.write(written.probes, [], np.array([]), {})

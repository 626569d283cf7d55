"""Set up a job's device, model and dataset, and fit a cell's probes, for several scripts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from anchorscope.storage.errors import stale
from anchorscope.storage.files import digest, read_json, write_parquet_parts
from anchorscope.workflow.devices import best_device

if TYPE_CHECKING:
    import pandas as pd

    from anchorscope.models.families import Loaded
    from anchorscope.passes.interventions import ConditionSettings
    from anchorscope.probes import fitting
    from anchorscope.questions.datasets import Prepared


def use_threads(snakemake: Any) -> None:
    """Limit torch to the rule's number of threads."""
    import torch

    torch.set_num_threads(max(1, snakemake.threads))


def device_of(snakemake: Any) -> str:
    """Return the device for a job, and limit torch to the threads of its rule."""
    use_threads(snakemake)
    return best_device(snakemake.resources.device, snakemake.resources.gpu)


def model_of(snakemake: Any, attention: str | None = None) -> tuple[dict[str, Any], Loaded]:
    """Return the record of a job's model from `loading.locate`, and the loaded model.

    If transformers warns while it loads the model, the record gets these `warnings`.

    Raises:
        AnchorscopeError: The model cannot be loaded, or its files changed after it was located.
    """
    from anchorscope.models.heard import heard
    from anchorscope.models.loading import files, load

    located = read_json(snakemake.input.model)
    chosen = {name: snakemake.params[name] for name in ("dtype", "batch_tokens")}
    chosen["parts"] = located.get("parts")
    device = device_of(snakemake)
    if located["source"] == "local" and digest(files(located["path"])) != located["revision"]:
        what = "the model's files have changed since they were located"
        raise stale(what, located["path"], snakemake.input.model)
    with heard() as warnings:
        loaded = load(located["path"], **chosen, device=device, attention=attention)
    return located | ({"warnings": warnings} if warnings else {}), loaded


def prepared(job: Any) -> Prepared:
    """Prepare the rows of a job of the rule `dataset`.

    Raises:
        AnchorscopeError: See `datasets.prepare`.
    """
    from anchorscope.questions.datasets import prepare

    chosen = job.params
    dataset = {**chosen.dataset, "local": chosen.local}
    if job.input.few_shot:
        dataset["few_shot"] = {**dataset["few_shot"], "file": job.input.few_shot[0]}
    return prepare(
        dataset, sample_size=chosen.sample_size, seed=chosen.seed, hold_back=chosen.hold_back
    )


def write_scores(
    written: Any,
    folder: str,
    answers: pd.DataFrame,
    probe: fitting.ProbeSettings,
    *,
    readouts: Sequence[str],
    conditions: ConditionSettings,
    device: str,
) -> fitting.Design:
    """Fit a cell's probes and text models, write probes and all scores, and return the folds.

    `folder` holds activations of `answers`. `written` has the paths of products, see scores.smk.

    Raises:
        AnchorscopeError: The samples cannot be divided into folds.
    """
    from anchorscope.passes.activations import read
    from anchorscope.passes.planning import conditions_of
    from anchorscope.probes import fitting, scoring, stored

    design, passes = fitting.design(answers, probe), conditions_of(conditions)
    states = partial(read, folder)
    scores, fitted = scoring.score_cell(states, answers, design, readouts, passes, device)
    scores.write(written.scores)
    write_parquet_parts(scores.tables(), written.table)
    stored.write(written.probes, stored.Stored.of(design, fitted))
    return design

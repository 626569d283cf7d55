"""Set up a job's device, model and dataset for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anchorscope.storage.files import read_json
from anchorscope.workflow.devices import best_device

if TYPE_CHECKING:
    from anchorscope.models.families import Loaded
    from anchorscope.questions.datasets import Prepared


def use_threads(snakemake: Any) -> None:
    """Limit torch to the rule's number of threads."""
    import torch

    torch.set_num_threads(max(1, snakemake.threads))


def device_of(snakemake: Any) -> str:
    """Choose the device that a job requests, and limit torch to the threads of its rule."""
    use_threads(snakemake)
    return best_device(snakemake.resources.device, snakemake.resources.gpu)


def model_of(snakemake: Any, attention: str = "sdpa") -> tuple[dict[str, Any], Loaded]:
    """Return the location of a job's model, see `loading.locate`, and the model on its device."""
    from anchorscope.models.loading import load

    located = read_json(snakemake.input.model)
    chosen = {name: snakemake.params[name] for name in ("dtype", "batch_tokens")}
    device = device_of(snakemake)
    return located, load(located["path"], **chosen, device=device, attention=attention)


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

"""What Snakemake's messages say: names as a reader knows them, and how many samples.

A message cannot call a function, labels belong in no `params`, and text in `resources` keeps jobs
of several cells from sharing a job of the cluster. So a message formats an object:
`{shown.cell:{wildcards.model}/{wildcards.dataset}/}` is `Qwen3-8B on PopQA`. The slash at the end
keeps Snakemake from taking the last letter of `nq` for its own: q is for quotes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from anchorscope.config.settings import Config
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow.resources import samples


class Said:
    """Says something of what its format names, a slash behind each key."""

    def __init__(self, say: Callable[..., str]) -> None:
        self.say = say

    def __format__(self, keys: str) -> str:
        return self.say(*keys.rstrip("/").split("/"))


class Shown:
    """What messages show of a config.

    Attributes:
        model, dataset: the label of a key.
        cell: model/dataset as `Qwen3-8B on PopQA`.
        samples: of a dataset, as `2,000 samples`: those of a cell as far as the questions are
            there, before that the most there can be.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.model = Said(lambda key: config.models[key].label or key)
        self.dataset = Said(lambda key: config.datasets[key].label or key)
        self.cell = Said(lambda model, dataset: f"{self.model:{model}} on {self.dataset:{dataset}}")
        self.samples = Said(lambda key: f"{self._samples(key):,} samples")

    def _samples(self, dataset: str) -> int:
        most = samples(self.config, dataset)
        try:
            questions = Path(self.config.results) / "data" / f"{dataset}.parquet"
            return min(most, int(provenance.counts_of(questions)["kept"]))
        except (AnchorscopeError, OSError, KeyError):
            return most

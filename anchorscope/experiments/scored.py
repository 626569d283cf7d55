"""Passes of an experiment, scored batch by batch with the cell's stored probes.

No probe is fitted and no hidden state is written. In half precision, results depend on the shape of
the batch. Every batch therefore also passes its samples clean, and effects are differences from
these clean passes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np
import pandas as pd

from anchorscope.experiments.measured import Measurements
from anchorscope.models.families import Loaded, positions
from anchorscope.passes import runner
from anchorscope.passes.batches import Sample, arrange
from anchorscope.passes.interventions import CLEAN, Intervention, tensor_name
from anchorscope.passes.planning import sample_of
from anchorscope.probes.stored import Stored
from anchorscope.statistics.samples import select_rows
from anchorscope.storage.counts import NO_PARTNER, OUTSIDE_SAMPLE, Counts
from anchorscope.storage.progress import Progress


@dataclass(frozen=True)
class Cell:
    """Model, samples and probes of a cell that an experiment measures."""

    loaded: Loaded
    answers: pd.DataFrame  # samples to measure, all or some of those in the main run
    probes: Stored  # fitted to all samples of the main run
    readouts: Sequence[str]  # such as `mlp/final`
    headlines: Mapping[str, int]  # read-out → headline layer of the main run
    seed: int = 0  # seed of partners and random choices
    draws: int = 1  # draws of controls that choose tokens at random
    prompts: pd.DataFrame = field(default_factory=pd.DataFrame)  # the main run's table of prompts
    style: str = "plain"  # prompt style, one of `styles.STYLES`

    @cached_property
    def samples(self) -> dict[str, Sample]:
        """Id → sample as passed in the main run."""
        return {one.id: one for one in map(sample_of, self.answers.to_dict("records"))}

    def sampled(self, n: int | None) -> "Cell":
        """Return the cell with `n` samples, drawn by the seed, or with all if `n` is None."""
        if n is None or n >= len(self.answers):
            return self
        drawn = self.answers.sample(n, random_state=self.seed)
        return replace(self, answers=drawn.sort_index())

    @cached_property
    def folds(self) -> dict[str, int]:
        """Id → outer fold of the stored probes."""
        return dict(zip(self.probes.ids, self.probes.fold, strict=True))

    def prompts_of_samples(self) -> pd.DataFrame:
        """Return the main run's prompts, in the order of `samples`."""
        return select_rows(self.prompts, self.samples, "prompts", "prompts")

    def score(
        self, samples: Sequence[Sample], interventions: Sequence[Intervention]
    ) -> Measurements:
        """Pass samples clean and under some interventions, and score every layer.

        Some interventions need a prompt of their own. Such an intervention is skipped for a sample
        whose prompt for it is missing or too long for the model.
        """
        measured = Measurements(self.probes.ids)
        draws = {one: self.draws if one.at_random else 1 for one in (CLEAN, *interventions)}
        plan = arrange(
            [self._within_limits(sample) for sample in samples],
            [(one, draw) for one, n in draws.items() for draw in range(n)],
            batch_tokens=self.loaded.batch_tokens,
            seed=self.seed,
        )
        total = sum(len(batch.rows) for batch in plan.batches)
        with Progress(total=total, unit="rows") as progress:
            for batch, tensors in runner.measure(self.loaded, plan, self.readouts):
                ids = [plan.samples[number].id for number in batch.samples]
                for one, readout in product(dict(batch.columns), self.readouts):
                    names = [tensor_name(one.name, readout, draw) for draw in range(draws[one])]
                    s = [
                        self.probes.logits(tensors[name].transpose(0, 1).float(), readout, ids)
                        for name in names
                    ]
                    measured.add(readout, one.name, ids, np.stack(s))
                progress.update(len(batch.rows))
        return measured

    def _within_limits(self, sample: Sample) -> Sample:
        """Drop the prompts in `sample.others` that are too long, as the main run does."""
        window, reach = self.loaded.window, positions(self.loaded.model.config)
        most = min(window or np.inf, reach or np.inf)
        fits = {name: one for name, one in sample.others.items() if len(one.input_ids) <= most}
        return replace(sample, others=fits)

    def counts(self, measured: Measurements) -> Counts:
        """Count the samples of the main run that an experiment measured, or why it did not.

        Samples to measure that were not passed lacked a partner or a control.
        """
        clean = [s for name, s in measured.arrays.items() if name.endswith("/clean")]
        kept = int((~np.isnan(clean[0][0, 0])).sum()) if clean else 0
        total, given = len(measured.ids), len(self.answers)
        dropped = {OUTSIDE_SAMPLE: total - given, NO_PARTNER: given - kept}
        return Counts(total, kept, {reason: n for reason, n in dropped.items() if n})

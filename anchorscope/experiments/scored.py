"""Passes of an experiment, scored batch by batch with the cell's stored probes.

No probe is fitted and no hidden state is written. In half precision, results depend on the shape of
the batch. Every batch therefore also passes its samples clean, and effects are differences from
these clean passes.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np
import pandas as pd
from torch import Tensor

from anchorscope.experiments.measured import COLUMNS
from anchorscope.models.families import Loaded, positions
from anchorscope.passes import runner
from anchorscope.passes.batches import Plan, Sample, arrange
from anchorscope.passes.interventions import CLEAN, Intervention, tensor_name
from anchorscope.passes.planning import sample_of
from anchorscope.probes.stored import Stored
from anchorscope.questions import prompts
from anchorscope.statistics.analysis import stacked
from anchorscope.storage.counts import NO_PARTNER, OUTSIDE_SAMPLE, Counts
from anchorscope.storage.progress import Progress


@dataclass(frozen=True)
class Cell:
    """Model, samples and probes of a cell that an experiment measures."""

    loaded: Loaded
    answers: pd.DataFrame  # samples measured in the main run
    probes: Stored  # fitted to these samples
    readouts: Sequence[str]  # such as `mlp/final`
    headlines: Mapping[str, int]  # read-out → headline layer of the main run
    seed: int = 0  # seed of partners and random choices
    draws: int = 1  # draws of controls that choose tokens at random
    prompts: pd.DataFrame | None = None  # the main run's table of prompts
    style: str = "plain"  # prompt style, one of `styles.STYLES`
    # id → reason why a sample cannot be passed, filled by an experiment's `measure`
    left_out: dict[str, str] = field(default_factory=dict)

    @cached_property
    def samples(self) -> dict[str, Sample]:
        """Id → sample as passed in the main run."""
        return {one.id: one for one in map(sample_of, self.answers.to_dict("records"))}

    def sampled(self, n: int | None) -> "Cell":
        """Return the cell with `n` of its samples, drawn by the seed, or with all if `n` is None.

        The others get a reason in `left_out`.
        """
        if n is None or n >= len(self.answers):
            return self
        drawn = self.answers.sample(n, random_state=self.seed).index
        others = self.answers.loc[~self.answers.index.isin(drawn), "id"]
        left_out = self.left_out | dict.fromkeys(others, OUTSIDE_SAMPLE)
        return replace(self, answers=self.answers.loc[drawn.sort_values()], left_out=left_out)

    @cached_property
    def folds(self) -> dict[str, int]:
        """Id → outer fold of the stored probes."""
        return dict(zip(self.probes.ids, map(int, self.probes.fold), strict=True))

    def prompts_of_samples(self) -> pd.DataFrame:
        """Return the main run's prompts, in the order of `samples`, with `prompts.COLUMNS`."""
        assert self.prompts is not None
        by_id = self.prompts.set_index("id", drop=False)
        return by_id.loc[list(self.samples), list(prompts.COLUMNS)].reset_index(drop=True)

    def score(
        self, samples: Sequence[Sample], interventions: Sequence[Intervention]
    ) -> pd.DataFrame:
        """Pass samples clean and under some interventions, and score every layer.

        Some interventions need a prompt of their own. Such an intervention is skipped for a sample
        whose prompt for it is missing or too long for the model.

        Returns:
            A row for each sample, condition, draw, read-out and layer: `measured.COLUMNS`.
            `n_tokens` counts blocked tokens only; `with_facts` can replace the whole column.
        """
        if not samples:
            return pd.DataFrame(columns=list(COLUMNS))
        drawn = [
            (one, draw)
            for one in interventions
            for draw in range(self.draws if one.at_random else 1)
        ]
        passable = [self._within_limits(sample) for sample in samples]
        plan = arrange(
            passable, [(CLEAN, 0), *drawn], batch_tokens=self.loaded.batch_tokens, seed=self.seed
        )
        frames = []
        total = sum(len(batch.rows) for batch in plan.batches)
        with Progress(total=total, unit="rows") as progress:
            for batch, tensors in runner.measure(self.loaded, plan, self.readouts):
                ids = [plan.samples[number].id for number in batch.samples]
                for (one, draw), readout in product(batch.columns, self.readouts):
                    states = tensors[tensor_name(one.name, readout, draw)]
                    scored = self._scored(states, readout, ids)
                    frames.append(scored.assign(condition=one.name, draw=draw))
                progress.update(len(batch.rows))
        rows = stacked(frames, COLUMNS).drop(columns="n_tokens", errors="ignore")
        return rows.merge(_tokens(plan), how="left")[list(COLUMNS)]

    def _scored(self, states: Tensor, readout: str, ids: Sequence[str]) -> pd.DataFrame:
        """Return a row per sample and layer, with its logit."""
        s = self.probes.logits(states.transpose(0, 1).float(), readout, ids)
        wide = pd.DataFrame(s.T, index=pd.Index(ids, name="id"))
        long = wide.melt(var_name="layer", value_name="s", ignore_index=False)
        return long.assign(readout=readout).reset_index()

    def _within_limits(self, sample: Sample) -> Sample:
        """Drop the prompts in `sample.others` that are too long, as the main run does."""
        window, reach = self.loaded.window, positions(self.loaded.model.config)
        most = min(window or np.inf, reach or np.inf)
        fits = {name: one for name, one in sample.others.items() if len(one.input_ids) <= most}
        return replace(sample, others=fits)


def _tokens(plan: Plan) -> pd.DataFrame:
    """Count the question tokens that each pass blocks. Conditions that block none have no row."""
    counted = [
        (plan.samples[row.sample].id, row.condition, row.draw, float(len(row.tokens)))
        for batch in plan.batches
        for row in batch.rows
        if row.intervention.tokens
    ]
    frame = pd.DataFrame(counted, columns=["id", "condition", "draw", "n_tokens"])
    return frame.astype({"id": object, "condition": object, "draw": np.int64, "n_tokens": float})


def with_facts(rows: pd.DataFrame, facts: pd.DataFrame) -> pd.DataFrame:
    """Add to `rows` the `facts` about each sample and condition.

    Columns of `facts` other than `id` and `condition` replace columns of `rows` of the same name.
    """
    keys = ["id", "condition"]
    replaced = [name for name in rows if name in facts and name not in keys]
    return rows.drop(columns=replaced).merge(facts, on=keys, how="left")


def counts(
    controls: Collection[str],
    answers: pd.DataFrame,
    rows: pd.DataFrame,
    left_out: Mapping[str, str],
) -> Counts:
    """Count the answers that an experiment used, and the samples of its controls.

    `left_out` is id → reason why the sample was not passed. All other samples that were not passed
    lacked a partner or a control.
    """
    passed = set(rows["id"])
    dropped = Counter(left_out.get(id_, NO_PARTNER) for id_ in answers["id"] if id_ not in passed)
    n_exact = answers.set_index("id")["eq_tokens"].map(lambda of: len({*of}))
    notes = {}
    for control in sorted({*controls} & {*rows["condition"]}):
        n_tokens = rows[rows["condition"] == control].groupby("id")["n_tokens"].min()
        few = n_tokens < n_exact.reindex(n_tokens.index)
        notes[f"{control}: measured"] = len(n_tokens)
        notes[f"{control}: fewer tokens than the exact question tokens, not counted"] = few.sum()
    kept = len(answers) - dropped.total()
    return Counts(len(answers), kept, dict(dropped), {name: int(n) for name, n in notes.items()})

"""Passes of an experiment, scored by the cell's stored probes as they come.

Nothing is fitted again and no hidden state is written. A clean row goes with every batch: in half
precision the shape of a call changes results, and so the effect is taken against the clean pass
of the same call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import stacked
from anchorscope.models.families import Loaded, positions
from anchorscope.passes.batches import Sample, arrange
from anchorscope.passes.interventions import CLEAN, Intervention
from anchorscope.passes.planning import sample_of
from anchorscope.passes.runner import measure
from anchorscope.probes.stored import Stored
from anchorscope.storage.counts import NO_PARTNER, Counts

COLUMNS = ("id", "condition", "readout", "layer", "s")


@dataclass(frozen=True)
class Cell:
    """What an experiment measures."""

    loaded: Loaded
    answers: pd.DataFrame  # the samples measured in the main run, see `activations.measured`
    probes: Stored  # fitted to them
    readouts: Sequence[str]  # such as `mlp/final`
    batch_tokens: int  # most rows × padded length of a pass
    seed: int = 0  # of partners and random choices

    @property
    def samples(self) -> dict[str, Sample]:
        """Id → sample, as it was passed."""
        return {one.id: one for one in map(sample_of, self.answers.to_dict("records"))}

    @property
    def folds(self) -> dict[str, int]:
        """Id → outer fold of the probes."""
        return dict(zip(map(str, self.probes.ids), map(int, self.probes.fold), strict=True))

    def score(
        self, samples: Sequence[Sample], interventions: Sequence[Intervention]
    ) -> pd.DataFrame:
        """Pass samples under some interventions, and clean, and score every layer: `COLUMNS`.

        A sample that has no prompt that an intervention wants, or one that the model cannot take,
        is passed without that intervention. s is the calibrated logit of its fold's probe, float64.
        """
        planned = arrange(
            [self._within(sample) for sample in samples],
            [(one, 0) for one in (CLEAN, *interventions)],
            batch_tokens=self.batch_tokens,
            seed=self.seed,
        )
        frames = []
        for batch, tensors in measure(self.loaded, planned, self.readouts):
            ids = [planned.samples[number].id for number in batch.samples]
            for name, states in tensors.items():
                drawn, _, read = name.partition("/")
                readout, condition = read.replace(".", "/"), drawn.rpartition(".")[0]
                s = self.probes.logits(states.transpose(0, 1).float(), readout, ids)
                wide = pd.DataFrame(s.T, index=pd.Index(ids, name="id"))
                long = wide.melt(var_name="layer", value_name="s", ignore_index=False)
                frames.append(long.assign(condition=condition, readout=readout).reset_index())
        return stacked(frames, COLUMNS)[list(COLUMNS)]

    def _within(self, sample: Sample) -> Sample:
        """A sample without the prompts that are too long for the model, as in the main run."""
        limits = (self.loaded.window, positions(self.loaded.model.config))
        most = min(limit or np.inf for limit in limits)
        fits = {name: one for name, one in sample.others.items() if len(one.input_ids) <= most}
        return replace(sample, others=fits)


def counts(answers: pd.DataFrame, rows: pd.DataFrame) -> Counts:
    """How many of the answers the experiment could be done with."""
    passed = rows["id"].nunique()
    left = len(answers) - passed
    return Counts(len(answers), passed, {NO_PARTNER: left} if left else {})


def apart(rows: pd.DataFrame, scores: pd.DataFrame) -> float:
    """How far the experiment's own clean scores are from the main run's at most, in logits."""
    keys = ["id", "readout", "layer"]
    clean = scores[(scores["condition"] == "clean") & (scores["probe"] == "clean")]
    both = rows[rows["condition"] == "clean"].merge(
        clean[[*keys, "s"]].astype({"readout": str}), on=keys, suffixes=("", "_main")
    )
    return float((both["s"] - both["s_main"]).abs().max()) if len(both) else 0.0


def matrices(rows: pd.DataFrame, readout: str, ids: list[str]) -> Mapping[str, np.ndarray]:
    """Condition → s, float64 [layers, n], in the order of `ids`; NaN where not measured."""
    here = rows[rows["readout"] == readout]
    wide = here.pivot(index=["condition", "layer"], columns="id", values="s").reindex(columns=ids)
    by_condition = wide.groupby(level="condition")
    return {str(name): part.to_numpy(dtype=np.float64) for name, part in by_condition}

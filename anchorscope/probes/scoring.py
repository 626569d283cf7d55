"""Out-of-fold scores of each sample by the probe of each layer, under every condition.

The clean probes score every condition. Probes of shuffled labels score only the clean pass. Hidden
states are read once, in blocks of layers.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch

from anchorscope.passes.features import Features, Selection, blocks
from anchorscope.probes import fitting, floors
from anchorscope.probes.fitting import Design, Fitted, out_of_fold
from anchorscope.statistics.intervals import auc
from anchorscope.statistics.samples import bootstrap
from anchorscope.statistics.scores import Scores
from anchorscope.storage.progress import Progress

Condition = tuple[str, int]
"""The name of a condition, and the number of its draw."""
CLEAN: Condition = ("clean", 0)
States = Callable[[str, str, int], tuple[np.ndarray, Features]]
"""(read-out, condition, draw) → (rows, states): the indices of the measured samples, int64 [rows],
and their hidden states [layers, rows, width]."""

FITTING = 50
"""Fitting the probes of a layer takes about as long as scoring the layer this many times."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scoring:
    """Fits a cell's probes and scores its conditions."""

    states: States
    design: Design
    weights: np.ndarray  # resamples that probes are refitted to, int64 [refits, n]
    readouts: Sequence[str]  # such as `mlp/final`
    conditions: Sequence[Condition]  # scored in addition to the clean pass
    device: str | torch.device = "cpu"  # where probes are fitted
    fitted: dict[str, Fitted] = field(default_factory=dict)  # filled by `run`, by read-out

    def run(self) -> Scores:
        """Fit the probes of all read-outs, and return the scores of all conditions.

        Raises:
            AnchorscopeError: A probe cannot be fitted.
        """
        design, null = self.design, self._null
        scores = Scores(design.ids, design.z, design.fold, design.stands_for, self.weights)
        if null is not None:
            scores = replace(scores, shuffled_z=null.z)
        others = [one for one in dict.fromkeys(self.conditions) if one != CLEAN]
        every = np.arange(len(design.ids))
        layers = [len(self.states(readout, *CLEAN)[1]) for readout in self.readouts]
        with Progress(total=sum(layers) * (FITTING + len(others)), unit="steps") as progress:
            for readout, n in zip(self.readouts, layers, strict=True):
                fits, s, shuffled = self._fit(readout, lambda n: progress.update(FITTING * n))
                self.fitted[readout] = fits.clean
                scores.inner_auc[readout] = self._inner_auc(fits.clean, s[0])
                scores.add(readout, CLEAN, every, s)
                if shuffled is not None:
                    scores.shuffled[readout] = shuffled.astype(np.float32)
                for condition in others:
                    rows, x = self.states(readout, *condition)
                    if len(rows):
                        parts = [self._scored(fits.part(block), block, rows) for block in blocks(x)]
                        scores.add(readout, condition, rows, np.concatenate(parts, axis=1))
                    progress.update(n)
        return scores

    @cached_property
    def _null(self) -> Design | None:
        return _shuffled_design(self.design)

    def _fit(
        self, readout: str, report: Callable[[int], object]
    ) -> tuple["_Fits", np.ndarray, np.ndarray | None]:
        """Fit a read-out's probes. After each block of layers, call `report(its size)`.

        Return the probes; their clean scores, [1 + refits, layers, n]; and the clean scores by
        probes of shuffled labels, [layers, n].
        """
        fits, clean, shuffled = [], [], []
        every = np.arange(len(self.design.ids))
        for x in blocks(self.states(readout, *CLEAN)[1]):
            fits.append(self._learn(x))
            clean.append(self._scored(fits[-1], x, every))
            if self._null is not None:
                other = fitting.fit(x, self._null, fits[-1].clean.c, device=self.device)
                shuffled.append(out_of_fold(other, x, self.design.fold))
            report(len(x))
        null = np.concatenate(shuffled) if shuffled else None
        return _joined(fits), np.concatenate(clean, axis=1), null

    def _learn(self, x: Selection) -> "_Fits":
        clean = fitting.fit(x, self.design, device=self.device)
        if not len(self.weights):
            return _Fits(clean, None)
        again = fitting.refit(x, self.design, clean.c, self.weights, device=self.device)
        return _Fits(clean, again)

    def _scored(self, fits: "_Fits", x: Selection, rows: np.ndarray) -> np.ndarray:
        """Score states `x` of the samples `rows`; return float64 [1 + refits, layers, rows]."""
        s = out_of_fold(fits.clean, x, self.design.fold[rows])[None]
        if fits.again is None:
            return s
        of_refit = self.design.of_refits(len(self.weights))[:, rows]
        return np.concatenate([s, out_of_fold(fits.again, x, of_refit).swapaxes(0, 1)])

    def _inner_auc(self, clean: Fitted, s: np.ndarray) -> np.ndarray:
        """Return the AUC of each layer outside each outer fold, float64 [layers, folds].

        It is the AUC of inner out-of-fold logits. If there are no inner folds, it is the AUC of the
        clean scores `s` [layers, n] of all samples outside the outer fold.
        """
        if self.design.inner_folds:
            return clean.inner_auc
        z = self.design.z
        return np.array([[auc(layer[rows], z[rows]) for rows in self.design.outer] for layer in s])


@dataclass(frozen=True)
class _Fits:
    """The probes of some layers of a read-out."""

    clean: Fitted
    again: Fitted | None  # fitted to each resample; None if there are none

    def part(self, block: Selection) -> "_Fits":
        """Return the probes of the layers in a block."""
        layers = [*block.layers]
        return _Fits(self.clean.part(layers), self.again and self.again.part(layers))


def _joined(parts: Sequence[_Fits]) -> _Fits:
    """Concatenate blocks of layers."""
    again = [part.again for part in parts if part.again is not None]
    clean = fitting.join([part.clean for part in parts])
    return _Fits(clean, fitting.join(again) if again else None)


def score_cell(
    states: States,
    answers: pd.DataFrame,
    design: Design,
    readouts: Sequence[str],
    conditions: Sequence[Condition],
    device: str | torch.device = "cpu",
) -> tuple[Scores, dict[str, Fitted]]:
    """Score the samples of a cell by probes and text models, as fitted and refitted.

    Args:
        states: Hidden states, see `States`.
        answers: The samples of the design, with the texts that `floors.floors` reads.
        design: The folds of the samples.
        readouts: Names such as `mlp/final`.
        conditions: Conditions to score in addition to the clean pass.
        device: Where probes are fitted.

    Returns:
        The scores, and the probes as fitted by read-out.

    Raises:
        AnchorscopeError: A probe cannot be fitted, or a score is not finite.
    """
    weights = refit_weights(answers, design)
    scoring = Scoring(states, design, weights, readouts, conditions, device)
    scores = scoring.run()
    scores.floors.update(floors.floors(answers, design, weights))
    return scores, scoring.fitted


def refit_weights(answers: pd.DataFrame, design: Design) -> np.ndarray:
    """Draw whole clusters of samples, `design.settings.refits` times, as `samples.bootstrap` does.

    Return how often each resample has each sample, int64 [refits, n]. A resample is dropped if it
    leaves only one class in a training fold. The log counts dropped resamples.
    """
    found = bootstrap(answers, design.settings.refits, design.settings.seed)
    weights = found.weights[:, found.clusters].astype(np.int64)
    usable = fitting.usable(design, weights)
    if not usable.all():
        log.warning(
            "%d of %d resamples dropped: a fold has one class", (~usable).sum(), len(usable)
        )
    return weights[usable]


def _shuffled_design(design: Design) -> Design | None:
    """Return `design` with shuffled labels, for probes of shuffled labels.

    Return None if scoring is `published` or a training fold lacks a class. The probes are not
    calibrated, since a slope would be fitted to uninformative logits. But logits are shifted to
    balanced classes. Without the shift, a fold with many wrong labels would get low scores, as few
    wrong labels are left to train on. Over all folds, scores would then rank labels in reverse.
    """
    if design.settings.scoring != "calibrated":
        return None
    z = np.random.default_rng(design.settings.seed).permutation(design.z)
    if any(len(np.unique(z[rows])) < 2 for rows in design.outer):
        log.warning("no probe is fitted to shuffled labels: they leave a fold with one class")
        return None
    settings = design.settings.model_copy(update={"prior": "balanced"})
    return replace(design, z=z, inner=np.full_like(design.inner, -1), settings=settings)

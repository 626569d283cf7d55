"""Refits: how much wider intervals are when the probes are fitted anew in every bootstrap draw.

The intervals of a curve hold its probes fixed: a draw changes who is averaged, not who was learned
from. Here both change, at a few layers and for a few draws; the ratio of the two standard
deviations is the inflation that the other intervals lack.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.models import features
from anchorscope.models.features import Features
from anchorscope.probes import fitting, headline, intervals, scores
from anchorscope.probes.samples import kept, sigmoid
from anchorscope.questions import folds
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.progress import Progress

COLUMNS = (
    "site", "position", "layer", "quantity", "estimate", "sd_fixed", "sd_refit", "inflation",
    "draws",
)  # fmt: skip
QUANTITIES = ("share", "delta_p_q", "delta_p_all", "probe_auc")
KNOCKOUT = ("knockout", 0)
PROBLEMS_AT_ONCE = 250

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Passes:
    """What was measured of a cell at the layers that are refitted, and its folds.

    Attributes:
        clean, cut: activations of the two passes, [layers, n, width].
        plan: who learns and is scored where.
        settings: of the probes.
        c: penalties that the clean probes chose, [layers, folds].
    """

    clean: torch.Tensor
    cut: torch.Tensor
    plan: fitting.Design
    settings: fitting.Settings
    c: np.ndarray

    def scored(self, fitted: fitting.Fitted) -> tuple[np.ndarray, np.ndarray]:
        """Out-of-fold scores of the two passes, float64 [layers, n]."""
        fold = self.plan.fold
        return (
            fitting.out_of_fold(fitted, self.clean, fold),
            fitting.out_of_fold(fitted, self.cut, fold),
        )


def refit(
    read: scores.Activations,
    answers: pd.DataFrame,
    readout: str,
    settings: fitting.Settings | Mapping[str, Any],
    *,
    draws: int = 50,
    layers: Sequence[int] | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> pd.DataFrame:
    """Bootstrap one read-out's quantities with the probes held fixed, and fitted anew.

    Clusters of samples are drawn as for every interval. In a refit, a sample drawn twice is
    learned from twice; folds and penalties stay those of all samples, slope, offset and shift
    are found anew, and the drawn samples are predicted out of fold.

    Args:
        read: activations, see `scores.score`; `clean` and `knockout` are read.
        answers: the samples: id, question, subject, label; rows with a `dropped` reason are left.
        readout: such as `mlp/final`.
        settings: of the probes.
        draws: bootstrap draws. One that leaves some probe a single class is not used.
        layers: which; None for those at one and two thirds of the depth and the headline layer.
        seed: of the draws.
        device: where probes are fitted.

    Returns:
        A row for each layer and quantity, with the columns `COLUMNS`: `share` of samples that
        flip under knockout (a fraction), their mean ΔP `delta_p_q` and that of all samples
        `delta_p_all` (percentage points), and the clean `probe_auc`. `estimate` is of all
        samples; `draws` counts those in which the quantity exists both ways; inflation is
        sd_refit / sd_fixed, NaN where nothing varies.

    Raises:
        AnchorscopeError: a probe cannot be fitted, no draw is usable, or there is no such layer.
    """
    if not isinstance(settings, fitting.Settings):
        settings = fitting.Settings(**settings)
    cell = scores.cell_of(answers, settings, readout)
    clean, cut = (scores.of_everyone(read, which, cell) for which in (scores.CLEAN, KNOCKOUT))
    chosen, fitted = _chosen(clean, cell, settings, layers, device)
    passes = _Passes(
        features.at(clean, chosen), features.at(cut, chosen), cell.plan, settings, fitted.c
    )
    weights = _usable(_drawn(answers, draws, seed), cell)
    fixed, refitted = _replicates(passes, fitted, weights, cell.readout, device)
    estimate = quantities(*passes.scored(fitted), cell.plan.z)
    site, _, position = readout.partition("/")
    records = [
        {"site": site, "position": position, "layer": layer, "quantity": name}
        | _spread(estimate[q, k], fixed[:, q, k], refitted[:, q, k])
        for k, layer in enumerate(chosen)
        for q, name in enumerate(QUANTITIES)
    ]
    return pd.DataFrame(records, columns=list(COLUMNS))


def _chosen(
    clean: Features,
    cell: scores.Cell,
    settings: fitting.Settings,
    layers: Sequence[int] | None,
    device: str | torch.device,
) -> tuple[list[int], fitting.Fitted]:
    """The layers, ascending, and the clean probes there."""
    depth = len(clean)
    if layers is None:
        found = scores.fit_and_score(clean, cell, settings, device=device)
        auc = np.array([intervals.auc(s, cell.plan.z) for s in found.s])
        inner = found.fitted.inner_auc
        own = headline.deepest(auc) if np.isnan(inner).any() else _headline(inner)
        chosen = sorted({depth // 3, 2 * depth // 3, own})
        return chosen, found.fitted.at(chosen)
    chosen = sorted(set(layers))
    if not chosen or chosen[0] < 0 or chosen[-1] >= depth:
        raise AnchorscopeError(
            f"there is no such layer in {list(layers)}",
            f"refits of {cell.readout}",
            f"name layers from 0 to {depth - 1}",
            see="config",
        )
    return chosen, fitting.fit(features.at(clean, chosen), cell.plan, settings, device=device)


def _headline(inner_auc: np.ndarray) -> int:
    return headline.median(headline.layer_of_fold(inner_auc))


def _drawn(answers: pd.DataFrame, draws: int, seed: int) -> np.ndarray:
    """How often each sample is drawn, int64 [draws, n]."""
    answers = kept(answers)
    subjects = answers["subject"] if "subject" in answers else [None] * len(answers)
    clusters = folds.clusters(list(answers["question"]), list(subjects))
    drawn = intervals.bootstrap(clusters, draws, seed)
    return drawn.weights[:, drawn.clusters].astype(np.int64)


def _usable(weights: np.ndarray, cell: scores.Cell) -> np.ndarray:
    """The draws in which every probe learns from both classes."""
    usable = fitting.usable(cell.plan, weights)
    if not usable.all():
        log.warning("%d of %d draws leave a fold one class only", (~usable).sum(), len(usable))
    if not usable.any():
        raise AnchorscopeError(
            f"none of {len(weights)} bootstrap draws leaves every fold both classes",
            f"refits of {cell.readout}",
            "sample more questions: one class is too rare to be learned from again and again",
            see="too-few-samples",
        )
    return weights[usable]


def _replicates(
    passes: _Passes,
    fitted: fitting.Fitted,
    weights: np.ndarray,
    readout: str,
    device: str | torch.device,
) -> tuple[np.ndarray, np.ndarray]:
    """Quantities [draws, quantities, layers], the probes held fixed and refitted."""
    at_once = max(1, PROBLEMS_AT_ONCE // len(fitting.training_rows(passes.plan)[0]))
    fixed = passes.scored(fitted)
    found = []
    with Progress(
        total=len(weights), desc=f"probes of {readout} fitted anew", unit="draws"
    ) as progress:
        for start in range(0, len(weights), at_once):
            some = weights[start : start + at_once]
            found.append(_of_draws(passes, fixed, some, device))
            progress.update(len(some))
    whole = np.concatenate(found)
    return whole[:, 0], whole[:, 1]


def _of_draws(
    passes: _Passes,
    fixed: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray,
    device: str | torch.device,
) -> np.ndarray:
    """`quantities`, float64 [draws, 2, quantities, layers]: the probes held fixed, and refitted."""
    z = passes.plan.z
    again = fitting.fit_draws(
        passes.clean, passes.plan, passes.settings, passes.c, weights, device=device
    )
    found = []
    for one, drawn in zip(again, weights, strict=True):
        rows = np.repeat(np.arange(len(z)), drawn)
        both = (fixed, passes.scored(one))
        found.append([quantities(clean[:, rows], cut[:, rows], z[rows]) for clean, cut in both])
    return np.array(found)


def quantities(clean: np.ndarray, cut: np.ndarray, z: np.ndarray) -> np.ndarray:
    """`QUANTITIES` of scores on two passes, each [layers, n].

    Returns:
        float64 [quantities, layers]; NaN where nothing flips, or z [n] is of one class.
    """
    wrong = clean > 0
    flip = (cut > 0) != wrong
    moved = sigmoid(cut) - sigmoid(clean)
    delta_p = 100 * np.where(wrong, 1, -1) * moved
    flippers = intervals.ratio(np.where(flip, delta_p, 0.0).sum(-1), flip.sum(-1))
    auc = np.array([intervals.auc(s, z) for s in clean])
    return np.stack([flip.mean(-1), flippers, delta_p.mean(-1), auc])


def _spread(estimate: float, fixed: np.ndarray, refitted: np.ndarray) -> dict[str, object]:
    """Standard deviations over the draws [draws] in which the quantity exists both ways."""
    known = ~np.isnan(fixed) & ~np.isnan(refitted)
    several = known.sum() > 1
    sd_fixed = fixed[known].std(ddof=1) if several else float("nan")
    sd_refit = refitted[known].std(ddof=1) if several else float("nan")
    return {
        "estimate": estimate,
        "sd_fixed": sd_fixed,
        "sd_refit": sd_refit,
        "inflation": sd_refit / sd_fixed if sd_fixed > 0 else float("nan"),
        "draws": int(known.sum()),
    }

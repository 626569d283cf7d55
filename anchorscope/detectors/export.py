"""Make a detector from probes: of a read-out of the main run, or of one passed again.

A detector is applied to other answers, so it needs the clean pass alone. Probes of a read-out that
the main run did not measure are fitted in the folds of the cell's stored probes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.detectors.detector import Detector, Origin, Reference, clean_states
from anchorscope.detectors.given_rows import FIELDS
from anchorscope.models.families import Loaded
from anchorscope.passes.features import Features
from anchorscope.probes import fitting
from anchorscope.probes.fitting import Design, Fitted
from anchorscope.probes.platt import prior
from anchorscope.statistics.intervals import auc
from anchorscope.statistics.samples import layer_of_fold, median_layer, stood_for
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.progress import Progress

SERVED = "resid/final"
"""The read-out whose states serving engines return: the residual stream at the closing token."""
REFERENCES = 8
"""Number of answers whose logits a detector stores, to recognise its model."""


def states_of(loaded: Loaded, answers: pd.DataFrame, readout: str) -> torch.Tensor:
    """Pass all answers, and return their clean states, float32 [layers, n, width], in order."""
    parts, order = list[torch.Tensor](), list[int]()
    with Progress(total=len(answers), unit="rows") as progress:
        for rows, found in clean_states(loaded, answers, readout):
            parts.append(found.float())
            order += rows
            progress.update(len(rows))
    return torch.cat(parts)[np.argsort(order)].transpose(0, 1)


def out_of_fold_auc(fitted: Fitted, design: Design, states: Features) -> float:
    """Return the AUC of the folds' probes at the detector's layer, each on samples it has not seen.

    The samples of `states` are in the order of the design.
    """
    layer = headline_layer(fitted)
    chosen = slice(layer, layer + 1)
    return auc(fitting.out_of_fold(fitted.part(chosen), states[chosen], design.fold)[0], design.z)


def headline_layer(fitted: Fitted) -> int:
    """Return the layer of a detector: the median of the layers that the folds chose."""
    return median_layer(layer_of_fold(fitted.inner_auc))


def export(
    fitted: Fitted, readout: str, answers: pd.DataFrame, states: Features, origin: Origin
) -> Detector:
    """Make the detector of the headline layer: the average of all folds' calibrated probes.

    The probes were fitted to `answers`. `states` are the clean states, [layers, n, width]. If the
    answers were chosen by label, the bias is shifted to the share of wrong answers in the pool.

    Raises:
        AnchorscopeError: The probes are not calibrated.
    """
    if np.isnan(fitted.inner_auc).any():
        what, do = "the probes are not calibrated", "set `probe.scoring` to `calibrated`"
        raise AnchorscopeError(what, f"read-out {readout}", do, see="detector")
    layer = headline_layer(fitted)
    slope, offset = fitted.t[layer], fitted.offset[layer]
    weights, bias = (
        array[layer].double().cpu().numpy() for array in (fitted.probes.weights, fitted.probes.bias)
    )
    z, stands_for = answers["label"].to_numpy(dtype=np.int64), stood_for(answers)
    fitted_to, pool = (np.bincount(z, each, 2) for each in (np.ones(len(z)), stands_for))
    shift = float(prior(pool[1], pool[0]) - prior(fitted_to[1], fitted_to[0]))
    detector = Detector(
        origin,
        readout,
        layer,
        weights=tuple((slope @ weights / len(slope)).tolist()),
        bias=float(np.mean(slope * bias + offset)) + shift,
        n=round(pool.sum()),
        n_wrong=round(pool[1]),
        references=(),
    )
    some = np.linspace(0, len(answers) - 1, REFERENCES).astype(int)
    logits = detector.logits(states[layer : layer + 1][0][some])
    said = answers.iloc[some][list(FIELDS)].rename(columns=FIELDS).astype(object)
    rows: list[dict[Any, Any]] = said.where(said.notna(), None).to_dict("records")
    return replace(detector, references=tuple(map(Reference, rows, logits.tolist())))

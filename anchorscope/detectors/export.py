"""Export of the mean of a cell's fold probes as one detector."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.detectors.detector import Detector, Origin, Reference
from anchorscope.passes.features import Features
from anchorscope.probes.fitting import Fitted
from anchorscope.probes.samples import layer_of_fold, median_layer
from anchorscope.storage.errors import AnchorscopeError

REFERENCES = 8
FIELDS = {"answer": "response"} | {
    name: name for name in ("question", "subject", "property", "relation")
}
"""Column of an answer → field of a row that is scored."""


def export(
    fitted: Fitted, readout: str, answers: pd.DataFrame, states: Features, origin: Origin
) -> Detector:
    """Average the calibrated logits of the probes of all outer folds at the headline layer.

    Args:
        fitted: The probes of the read-out, [layers, folds].
        readout: Read-out, such as `mlp/final`.
        answers: The answers that the probes were fitted to, n rows.
        states: Clean states of the answers, [layers, n, width].
        origin: The model and its prompt.

    Raises:
        AnchorscopeError: The probes are not calibrated.
    """
    if np.isnan(fitted.inner_auc).any():
        what, do = "the probes are not calibrated", "set `probe.scoring` to `calibrated`"
        raise AnchorscopeError(what, f"read-out {readout}", do, see="detector")
    layer = median_layer(layer_of_fold(fitted.inner_auc))
    slope, offset = fitted.t[layer], fitted.offset[layer]
    weights, bias = (
        array[layer].double().cpu().numpy() for array in (fitted.probes.weights, fitted.probes.bias)
    )
    detector = Detector(
        origin,
        readout,
        layer,
        weights=tuple((slope @ weights / len(slope)).tolist()),
        bias=float(np.mean(slope * bias + offset)),
        n=len(answers),
        n_wrong=int(answers["label"].sum()),
        references=(),
    )
    some = np.linspace(0, len(answers) - 1, REFERENCES).astype(int)
    logits = detector.logits(states[layer : layer + 1][0][some])
    said = answers.iloc[some][list(FIELDS)].rename(columns=FIELDS).astype(object)
    rows: list[dict[Any, Any]] = said.where(said.notna(), None).to_dict("records")
    return replace(detector, references=tuple(map(Reference, rows, logits.tolist())))

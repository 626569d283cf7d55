"""Probes of a read-out that the main run did not measure, such as one that serving engines return.

A detector is applied to other answers, so it needs the clean pass alone: one pass per sample. Its
probes are fitted in the folds of the cell's stored probes.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from anchorscope.models.families import Loaded
from anchorscope.passes import runner
from anchorscope.passes.batches import arrange
from anchorscope.passes.features import Features, blocks
from anchorscope.passes.interventions import on, tensor_name
from anchorscope.passes.planning import sample_of
from anchorscope.probes import fitting
from anchorscope.probes.fitting import Design, Fitted
from anchorscope.storage.progress import Progress

READOUT = "resid/final"
"""The read-out whose states serving engines return: the residual stream at the closing token."""


def states(loaded: Loaded, answers: pd.DataFrame, readout: str) -> torch.Tensor:
    """Pass all answers, and return their clean states, float32 [layers, n, width], in order."""
    samples = [sample_of(row) for row in answers.to_dict("records")]
    plan = arrange(samples, on({}), batch_tokens=loaded.batch_tokens)
    name, parts, order = tensor_name("clean", readout), list[torch.Tensor](), list[int]()
    with Progress(total=len(samples), unit="rows") as progress:
        for batch, found in runner.measure(loaded, plan, [readout]):
            parts.append(found[name].float())
            order += batch.samples
            progress.update(len(batch.samples))
    return torch.cat(parts)[np.argsort(order)].transpose(0, 1)


def fit(x: Features, design: Design, device: str | torch.device) -> Fitted:
    """Fit the probes of every layer and outer fold, a block of layers at a time."""
    return fitting.join([fitting.fit(block, design, device=device) for block in blocks(x)])

"""Probes: L2-regularised logistic regressions, all of them in one batched solve.

A problem is one probe: which rows it learns from, and how strongly it is penalised. The objective
is scikit-learn's `LogisticRegression(C=c)` on features standardised by the problem's own training
rows, where a row of weight two counts like two equal rows:

    ½‖w‖² + c · Σ over training rows of log-loss(z, w·x̂ + b),   x̂ = (x − mean) / std

L-BFGS starts its inverse Hessian at (I + c·n·ω·Gram)⁻¹, ω the mean of p(1−p), which makes
correlated features converge like independent ones; Gram is the layer's correlation matrix, taken
apart once for all problems.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from anchorscope.passes.features import Features, Part
from anchorscope.probes.lbfgs import MEMORY, minimise
from anchorscope.probes.standardising import standardise
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.room import tried

TOLERANCE = 1e-4
"""A problem is solved when a full quasi-Newton step would change no row's logit by more; of logits
beyond ±30, which are sure in float32, by more in proportion."""
MAX_ITERATIONS = 500
CPU_BYTES = 64 << 20
GPU_BYTES = 16 << 30
"""Most that the layers solved at once take: among more, all wait for the slowest. Of a GPU at most
half of all its memory, free or not: how many layers are solved at once shows in the last digits."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Probes:
    """Fitted probes, on features as they come (standardisation is folded in)."""

    weights: Tensor  # float32 [layers, problems, width]
    bias: Tensor  # float64 [layers, problems]; features with large means need its digits
    iterations: int = 0  # of the slowest problem
    unconverged: int = 0  # problems of all layers, stopped by the limit on iterations

    def take(self, problems: Tensor) -> Probes:
        """The probes numbered `problems` [layers, chosen]: at each layer its own."""
        index = problems.to(self.weights.device)
        layers = torch.arange(len(index), device=index.device)[:, None]
        return replace(self, weights=self.weights[layers, index], bias=self.bias[layers, index])

    def part(self, layers: Sequence[int] | slice, problems: slice = slice(None)) -> Probes:
        """The probes of some layers, and of those some problems."""
        return replace(
            self, weights=self.weights[layers, problems], bias=self.bias[layers, problems]
        )

    def logits_at(self, layer: int, rows: Tensor) -> Tensor:
        """Logits of z = 1 at one layer, float64 [problems, n], of features [n, width]."""
        weights = self.weights[layer].double()
        return weights @ rows.to(weights.device).double().T + self.bias[layer][:, None]

    def logits(self, x: Features) -> Tensor:
        """Logits of z = 1, float64 [layers, problems, n], of features [layers, n, width]."""
        return torch.stack([self.logits_at(k, x[k : k + 1][0]) for k in range(len(x))])


def join(parts: Sequence[Probes], dim: int = 0) -> Probes:
    """The probes of several solves one after the other: their layers (0) or problems (1)."""
    return Probes(
        torch.cat([part.weights for part in parts], dim),
        torch.cat([part.bias for part in parts], dim),
        max(part.iterations for part in parts),
        sum(part.unconverged for part in parts),
    )


def fit(
    x: Features,
    z: Tensor | np.ndarray,
    train_masks: Tensor | np.ndarray,
    c: Tensor | np.ndarray,
    *,
    device: str | torch.device = "cpu",
) -> Probes:
    """Fit every problem at every layer, on `device`, as many layers at once as fit its memory.

    Args:
        x: features, float [layers, n, width]; only the layers being solved are asked for.
        z: labels 0 or 1, [n].
        train_masks: training rows of each problem, bool, or weights of at least 0, [problems, n].
        c: inverse penalty of each problem, [problems] or [layers, problems].
        device: where to solve.

    Raises:
        AnchorscopeError: training rows of one class, a GPU on which those of one layer do not fit.
    """
    device = torch.device(device)
    masks, z, c = (torch.as_tensor(one).to(device, torch.float32) for one in (train_masks, z, c))
    c = c.expand(len(x), len(masks))
    _check(z, masks)
    layers = _layers_at_once(x.shape, len(masks), device)
    todo, parts = range(len(x)), list[Probes]()
    while todo:
        some = Part(x, todo[:layers])
        found = tried(partial(_solve, some, z, masks, c[some.layers]))
        if found is not None:
            parts.append(found)
            todo = todo[layers:]
            continue
        layers = len(some) // 2
        if not layers:
            raise AnchorscopeError(
                "the probes of one layer do not fit by themselves",
                "memory of the device",
                "free the GPU of other jobs, or set ANCHORSCOPE_CPU=1 to use the CPU",
                see="out-of-memory",
            )
        log.warning("probes of %d layers do not fit in memory: halved", len(some))
    fitted = join(parts)
    if fitted.unconverged:
        log.warning("%d probes were stopped after %d steps", fitted.unconverged, MAX_ITERATIONS)
    return fitted


@torch.inference_mode()
def _solve(x: Features, z: Tensor, masks: Tensor, c: Tensor) -> Probes:
    """The probes of some layers; arguments as those of `fit`."""
    block, centre, scale = standardise(x, z, masks, c)
    w, steps, unsolved = minimise(block, TOLERANCE, MAX_ITERATIONS)
    weights, bias = block.folded(w)
    weights /= scale[:, None]
    centred = (weights.double() @ centre.double()[..., None])[..., 0]
    return Probes(weights, bias.double() - centred, steps, unsolved)


def _layers_at_once(shape: Sequence[int], problems: int, device: torch.device) -> int:
    """How many layers fit, at least one."""
    _, n, width = shape
    state = 4 * (5 * n + (2 * MEMORY + 8) * (width + 1))  # of one problem of one layer
    layer = 4 * (2 * n * width + width * min(n, width)) + problems * state
    on_gpu = device.type != "cpu"
    budget = min(GPU_BYTES, torch.cuda.mem_get_info(device)[1] // 2) if on_gpu else CPU_BYTES
    return max(1, budget // layer)


def _check(z: Tensor, masks: Tensor) -> None:
    wrong, rows = masks @ z, masks.sum(-1)
    bad = ((wrong == 0) | (wrong == rows)).nonzero()
    if len(bad):
        raise AnchorscopeError(
            "a probe cannot be fitted: its training rows are all right or all wrong answers",
            f"problem {int(bad[0])} with {int(rows[bad[0]])} training rows",
            "sample more questions, or use fewer folds",
            see="one-class",
        )

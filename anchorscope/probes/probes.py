"""Probes: L2-regularised logistic regressions, many of them fitted together.

A problem is one probe: the rows it learns from and its penalty. The objective is that of
scikit-learn's `LogisticRegression(C=c)` on features standardised by the problem's own training
rows, where a row of weight two counts as two equal rows:

    ½‖w‖² + c · Σ over training rows of log-loss(z, w·x̂ + b),   x̂ = (x − mean) / std

L-BFGS starts its inverse Hessian at (I + c·n·ω·Gram)⁻¹, ω the mean of p(1−p), so that correlated
features converge as fast as independent ones. Gram is the layer's correlation matrix, whose
eigenvectors are computed once for all problems.
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
from anchorscope.probes.lbfgs import MEMORY, Block, minimise
from anchorscope.probes.standardising import COLUMNS, as_they_are, standardise
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.room import tried

TOLERANCE = 1e-4
"""A problem is solved when a full step would change no logit by more, see `lbfgs.minimise`."""
MAX_ITERATIONS = 500
CPU_BYTES = 64 << 20
GPU_BYTES = 16 << 30
"""Most memory of the layers solved together; if there were more, all would wait for the slowest.
Of a GPU's memory at most half, whether or not it is free: the number of layers solved together
changes the last digits, so it must not depend on other processes."""

Array = Tensor | np.ndarray

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Probes:
    """Fitted probes for features that are not standardised: the weights include that."""

    weights: Tensor  # float32 [layers, problems, width]
    bias: Tensor  # float64 [layers, problems]; features with large means need its digits
    iterations: int = 0  # of the slowest problem
    unconverged: int = 0  # problems of all layers that `MAX_ITERATIONS` stopped

    def take(self, problems: Tensor) -> Probes:
        """At each layer the probes numbered `problems[layer]`, int64 [layers, chosen]."""
        index = problems.to(self.weights.device)
        layers = torch.arange(len(index), device=index.device)[:, None]
        return replace(self, weights=self.weights[layers, index], bias=self.bias[layers, index])

    def part(self, layers: Sequence[int] | slice, problems: slice = slice(None)) -> Probes:
        """The probes of some problems at some layers."""
        here = layers, problems
        return replace(self, weights=self.weights[here], bias=self.bias[here])

    def logits_at(self, layer: int, rows: Tensor) -> Tensor:
        """Logits of z = 1 at one layer, float64 [problems, n], of features [n, width]."""
        weights = self.weights[layer].double()
        return weights @ rows.to(weights.device).double().T + self.bias[layer][:, None]

    def logits(self, x: Features) -> Tensor:
        """Logits of z = 1, float64 [layers, problems, n], of features [layers, n, width]."""
        return torch.stack([self.logits_at(k, x[k : k + 1][0]) for k in range(len(x))])


def join(parts: Sequence[Probes], dim: int = 0) -> Probes:
    """Concatenate the probes of several solves, by layers (dim 0) or problems (dim 1)."""
    return Probes(
        torch.cat([part.weights for part in parts], dim),
        torch.cat([part.bias for part in parts], dim),
        max(part.iterations for part in parts),
        sum(part.unconverged for part in parts),
    )


def fit(
    x: Features,
    z: Array,
    train_masks: Array,
    c: Array,
    *,
    scaled: bool = True,
    device: str | torch.device = "cpu",
) -> Probes:
    """Fit every problem at every layer, on `device`.

    As many layers, or problems of one layer, are solved together as fit into `CPU_BYTES` or
    `GPU_BYTES`. If memory runs out all the same, half as many are tried.

    Args:
        x: features, float [layers, n, width]; only the layers being solved are read.
        z: labels 0 or 1, [n].
        train_masks: training rows of each problem, bool, or weights of at least 0, [problems, n].
        c: inverse penalty of each problem, [problems] or [layers, problems].
        scaled: whether features are standardised. Those that are not have mean 0 over all rows, and
            are uncorrelated there.

    Raises:
        AnchorscopeError: features that are not finite, training rows of one class, a GPU on which
            a single problem does not fit.
    """
    device = torch.device(device)
    masks, z, c = (torch.as_tensor(one).to(device, torch.float32) for one in (train_masks, z, c))
    c = c.expand(len(x), len(masks))
    _check(z, masks)
    layers, problems = _at_once(x.shape, len(masks), device)
    # Of a part, layers keep their numbers in the whole, which errors name.
    whole, numbers = (x.x, x.layers) if isinstance(x, Part) else (x, range(len(x)))
    parts: list[Probes] = []
    start = 0
    while start < len(numbers):
        part = Part(whole, numbers[start : start + layers])
        penalties = c[start : start + len(part)]
        solved = tried(partial(_solve, part, z, masks, penalties, problems, scaled))
        if solved is None:
            layers, problems = _halved(len(part), min(problems, len(masks)))
            continue
        parts.append(solved)
        start += len(part)
    fitted = join(parts)
    if fitted.unconverged:
        log.warning("%d probes were stopped after %d steps", fitted.unconverged, MAX_ITERATIONS)
    return fitted


@torch.inference_mode()
def _solve(
    x: Part, z: Tensor, masks: Tensor, c: Tensor, problems_at_once: int, scaled: bool
) -> Probes:
    """The probes of some layers; arguments as those of `fit`, c [layers, problems]."""
    layers = standardise(x, masks) if scaled else as_they_are(x, masks)
    weights = z.new_empty((len(x), len(masks), x.shape[2]))
    bias, iterations, unconverged = weights.new_empty(weights.shape[:2]), 0, 0
    block = Block(
        x=layers.x,
        z=z,
        mask=masks,
        root=torch.where(masks > 0, masks.rsqrt(), 0.0),
        c=c[..., None],
        size=masks.sum(-1, keepdim=True),
        mean=layers.mean[:, layers.same],
        inv_std=layers.inv_std[:, layers.same],
        vectors=layers.vectors,
        values=layers.values[:, None],
    )
    for chosen in torch.arange(len(masks), device=z.device).split(problems_at_once):
        problems = block.take(chosen)
        w, steps, unsolved = minimise(problems, TOLERANCE, MAX_ITERATIONS)
        weights[:, chosen], bias[:, chosen] = problems.folded(w)
        iterations, unconverged = max(iterations, steps), unconverged + unsolved
    weights /= layers.scale[:, None]
    centred = (weights.double() @ layers.centre.double()[..., None])[..., 0]
    return Probes(weights, bias.double() - centred, iterations, unconverged)


def _at_once(shape: Sequence[int], problems: int, device: torch.device) -> tuple[int, int]:
    """How many layers, and how many problems of each, fit into memory; at least one of each."""
    budget, (_, n, width) = CPU_BYTES, shape
    if device.type != "cpu":
        budget = min(GPU_BYTES, torch.cuda.mem_get_info(device)[1] // 2)
    # bytes: of a problem at one layer, of a layer while it is read, and of a layer being solved
    problem = 4 * (5 * n + (2 * MEMORY + 8) * (width + 1))
    reading = 4 * n * width + 64 * n * min(width, COLUMNS)
    layer = 4 * (2 * n * width + width * min(n, width)) + problems * problem
    return max(1, (budget - reading) // layer), max(1, budget // problem)


def _halved(layers: int, problems: int) -> tuple[int, int]:
    """How many layers and problems to try after so many did not fit."""
    if layers == problems == 1:
        what = "one probe of one layer does not fit by itself"
        do = "free the GPU of other jobs, or set ANCHORSCOPE_CPU=1 and let the stage run on the CPU"
        raise AnchorscopeError(what, "memory of the device", do, see="out-of-memory")
    log.warning("%d probes of %d layers do not fit in memory: halved", problems, layers)
    return (layers // 2, problems) if layers > 1 else (1, problems // 2)


def _check(z: Tensor, masks: Tensor) -> None:
    wrong, rows = masks @ z, masks.sum(-1)
    bad = ((wrong == 0) | (wrong == rows)).nonzero()
    if len(bad):
        what = "a probe cannot be fitted: its training rows are all right or all wrong answers"
        where = f"problem {int(bad[0])} with {int(rows[bad[0]])} training rows"
        do = "sample more questions, or use fewer folds"
        raise AnchorscopeError(what, where, do, see="one-class")

"""Probes: L2-regularised logistic regressions, many of them fitted together.

A *problem* is one probe to fit, with its own training rows and penalty. The objective is that of
scikit-learn's `LogisticRegression(C=c)`, on features standardised by the problem's training rows:

    ½‖w‖² + c · Σ over training rows of log-loss(z, w·x̂ + b),   x̂ = (x − mean) / std

A row of weight two counts as two equal rows. L-BFGS starts from the inverse Hessian
(I + c·n·ω·Gram)⁻¹, with ω the mean of p(1−p) and Gram the layer's correlation matrix. So
correlated features converge as fast as independent ones.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from anchorscope.passes.features import Features, Selection, selection_of
from anchorscope.probes.lbfgs import MEMORY, Block, minimise
from anchorscope.probes.standardising import COLUMNS, as_they_are, standardise
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.room import tried

TOLERANCE = 1e-4  # a problem is solved if a full step changes no logit by more
MAX_ITERATIONS = 500
CPU_BYTES = 64 << 20
GPU_BYTES = 16 << 30
"""Maximum bytes of the layers solved together. In a larger group, more layers would wait for the
slowest. On a GPU, at most half of the total memory is used. The limit ignores how much memory is
free, because the number of layers solved together changes the last digits of results.
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Probes:
    """Fitted probes of raw features; weights and bias include the standardisation."""

    weights: Tensor  # float32 [layers, problems, width]
    bias: Tensor  # float64 [layers, problems], for features with large means
    unconverged: int = 0  # number of problems not solved within `MAX_ITERATIONS`

    def take(self, problems: Tensor) -> Probes:
        """Return the probes `problems[k]` at each layer k. `problems` is int64 [layers, chosen]."""
        index = problems.to(self.weights.device)
        layers = torch.arange(len(index), device=index.device)[:, None]
        return replace(self, weights=self.weights[layers, index], bias=self.bias[layers, index])

    def part(self, layers: Sequence[int] | slice, problems: slice = slice(None)) -> Probes:
        """Return the probes of some problems at some layers."""
        here = layers, problems
        return replace(self, weights=self.weights[here], bias=self.bias[here])

    def logits_at(self, layer: int, rows: Tensor) -> Tensor:
        """Return float64 [problems, n]: logits of z = 1 at one `layer`; `rows` are [n, width]."""
        weights = self.weights[layer].double()
        return weights @ rows.to(weights.device).double().T + self.bias[layer][:, None]

    def logits(self, x: Features) -> Tensor:
        """Return float64 [layers, problems, n]: logits of z = 1. `x` is [layers, n, width]."""
        return torch.stack([self.logits_at(k, x[k : k + 1][0]) for k in range(len(x))])


def join(parts: Sequence[Probes]) -> Probes:
    """Concatenate blocks of layers."""
    return Probes(
        torch.cat([part.weights for part in parts]),
        torch.cat([part.bias for part in parts]),
        sum(part.unconverged for part in parts),
    )


def fit(
    x: Features,
    z: Tensor | np.ndarray,
    train_masks: Tensor | np.ndarray,
    c: Tensor | np.ndarray,
    *,
    scaled: bool = True,
    device: str | torch.device = "cpu",
) -> Probes:
    """Fit a probe for every problem at every layer, as many at a time as memory allows.

    `x` is float [layers, n, width], `z` 0 or 1 [n]. `train_masks` [problems, n] mark
    or weight the training rows. The inverse penalties `c` are [problems] or [layers, problems]. If
    `scaled` is False, features are not standardised and must be uncorrelated with mean 0.

    Raises:
        AnchorscopeError: Features are not finite, training rows have one class only, or a single
            problem does not fit on the GPU.
    """
    device = torch.device(device)
    masks, z, c = (torch.as_tensor(one).to(device, torch.float32) for one in (train_masks, z, c))
    c = c.expand(len(x), len(masks))
    _check(z, masks)
    layers, problems = _at_once(x.shape, len(masks), device)
    # Layers keep their numbers, for error messages.
    whole, parts, start = selection_of(x), list[Probes](), 0
    while start < len(whole):
        part = replace(whole, layers=whole.layers[start : start + layers])
        penalties = c[start : start + len(part)]
        solved = tried(partial(_solve, part, z, masks, penalties, problems, scaled))
        if solved is None:
            layers, problems = _halved(len(part), min(problems, len(masks)))
            continue
        parts.append(solved)
        start += len(part)
    fitted = join(parts)
    if fitted.unconverged:
        log.warning("%d probes did not converge in %d steps", fitted.unconverged, MAX_ITERATIONS)
    return fitted


@torch.inference_mode()
def _solve(
    x: Selection, z: Tensor, masks: Tensor, c: Tensor, problems_at_once: int, scaled: bool
) -> Probes:
    """Solve the problems of some layers. Arguments are as in `fit`, with c [layers, problems]."""
    layers = standardise(x, masks) if scaled else as_they_are(x, masks)
    weights = z.new_empty((len(x), len(masks), x.shape[2]))
    bias, unconverged = weights.new_empty(weights.shape[:2]), 0
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
        w, unsolved = minimise(problems, TOLERANCE, MAX_ITERATIONS)
        weights[:, chosen], bias[:, chosen] = problems.folded(w)
        unconverged += unsolved
    weights /= layers.scale[:, None]
    centred = (weights.double() @ layers.centre.double()[..., None])[..., 0]
    return Probes(weights, bias.double() - centred, unconverged)


def _at_once(shape: Sequence[int], problems: int, device: torch.device) -> tuple[int, int]:
    """Return how many layers, and how many problems per layer, fit into memory; at least 1."""
    budget, (_, n, width) = CPU_BYTES, shape
    if device.type != "cpu":
        budget = min(GPU_BYTES, torch.cuda.mem_get_info(device)[1] // 2)
    # Bytes of a problem at one layer, of a layer while it is read, and of a layer being solved.
    problem = 4 * (5 * n + (2 * MEMORY + 8) * (width + 1))
    reading = 4 * n * width + 64 * n * min(width, COLUMNS)
    layer = 4 * (2 * n * width + width * min(n, width)) + problems * problem
    return max(1, (budget - reading) // layer), max(1, budget // problem)


def _halved(layers: int, problems: int) -> tuple[int, int]:
    """Return half as many layers or, if there is only one layer, half as many problems."""
    if layers == problems == 1:
        what = "a single probe of one layer does not fit in memory"
        do = "free the GPU of other jobs, or set ANCHORSCOPE_CPU=1 and let the stage run on the CPU"
        raise AnchorscopeError(what, "memory of the device", do, see="out-of-memory")
    log.warning("%d probes × %d layers do not fit in memory: trying half", problems, layers)
    return (layers // 2, problems) if layers > 1 else (1, problems // 2)


def _check(z: Tensor, masks: Tensor) -> None:
    wrong, rows = masks @ z, masks.sum(-1)
    bad = ((wrong == 0) | (wrong == rows)).nonzero()
    if len(bad):
        what = "a probe cannot be fitted: its training rows are all right or all wrong answers"
        where = f"probe {int(bad[0])} of each layer, {int(rows[bad[0]])} training rows"
        do = "sample more questions, or use fewer folds"
        raise AnchorscopeError(what, where, do, see="one-class")

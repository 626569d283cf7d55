"""Probes: L2-regularised logistic regressions, all of them in one batched solve.

A problem is one probe: which rows it learns from, and how strongly it is penalised. The objective
is scikit-learn's `LogisticRegression(C=c)` on features standardised by the problem's own training
rows, where a row of weight two counts like two equal rows:

    ½‖w‖² + c · Σ over training rows of log-loss(z, w·x̂ + b),   x̂ = (x − mean) / std

L-BFGS starts its inverse Hessian at (I + c·n·ω·Gram)⁻¹, ω the mean of p(1−p), which makes
correlated features converge like independent ones; Gram is the layer's correlation matrix, taken
apart once for all problems, or the identity where it is close to that and problems are few.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from anchorscope.passes.features import Features, Part
from anchorscope.probes.lbfgs import MEMORY, Block, minimise
from anchorscope.probes.standardising import COLUMNS, Standardised, standardise
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

Array = Tensor | np.ndarray

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
        some = layers, problems
        return replace(self, weights=self.weights[some], bias=self.bias[some])

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
    x: Features, z: Array, train_masks: Array, c: Array, *, device: str | torch.device = "cpu"
) -> Probes:
    """Fit every problem at every layer, on `device`.

    As many layers, or problems of one layer, are solved at once as fit into `CPU_BYTES` or
    `GPU_BYTES`. What does not fit after all is halved.

    Args:
        x: features, float [layers, n, width]; only the layers being solved are asked for.
        z: labels 0 or 1, [n].
        train_masks: training rows of each problem, bool, or weights of at least 0, [problems, n].
        c: inverse penalty of each problem, [problems] or [layers, problems].

    Raises:
        AnchorscopeError: features that are not finite, training rows of one class, a GPU on which
            a single problem does not fit.
    """
    device = torch.device(device)
    masks, z, c = (torch.as_tensor(one).to(device, torch.float32) for one in (train_masks, z, c))
    c = c.expand(len(x), len(masks))
    _check(z, masks)
    layers, problems = _at_once(x.shape, len(masks), device)
    whole, todo = (x.x, x.layers) if isinstance(x, Part) else (x, range(len(x)))
    parts: list[Probes] = []
    while todo:
        some = Part(whole, todo[:layers])
        here = c[len(x) - len(todo) :][: len(some)]
        found = tried(partial(_solve, some, z, masks, here, problems))
        if found is None:
            layers, problems = _halved(len(some), min(problems, len(masks)))
            continue
        parts.append(found)
        todo = todo[layers:]
    fitted = join(parts)
    if fitted.unconverged:
        log.warning("%d probes were stopped after %d steps", fitted.unconverged, MAX_ITERATIONS)
    return fitted


@torch.inference_mode()
def _solve(x: Part, z: Tensor, masks: Tensor, c: Tensor, at_once: int) -> Probes:
    """The probes of some layers, so many problems at once; arguments as those of `fit`."""
    layers = standardise(x, masks)
    weights = z.new_empty((len(x), len(masks), x.shape[2]))
    bias, iterations, unconverged = weights.new_empty(weights.shape[:2]), 0, 0
    for here, block in _blocks(layers, z, masks, c):
        for some in torch.arange(len(masks), device=z.device).split(at_once):
            problems = block.take(some)
            w, steps, unsolved = minimise(problems, TOLERANCE, MAX_ITERATIONS)
            weights[here[:, None], some], bias[here[:, None], some] = problems.folded(w)
            iterations, unconverged = max(iterations, steps), unconverged + unsolved
    weights /= layers.scale[:, None]
    centred = (weights.double() @ layers.centre.double()[..., None])[..., 0]
    return Probes(weights, bias.double() - centred, iterations, unconverged)


def _blocks(
    layers: Standardised, z: Tensor, masks: Tensor, c: Tensor
) -> Iterator[tuple[Tensor, Block]]:
    """Layers that are solved together, those with eigenvectors and those without."""
    ranks = [len(values) for _, values in layers.eigen]
    for rank in sorted({*ranks}):
        some = [layer for layer, found in enumerate(ranks) if found == rank]
        here = torch.tensor(some, device=z.device)
        vectors, values = zip(*(layers.eigen[layer] for layer in some), strict=True)
        block = Block(
            x=layers.x if len(some) == len(ranks) else layers.x[here],
            z=z,
            mask=masks,
            root=torch.where(masks > 0, masks.rsqrt(), 0.0),
            c=c[here][..., None],
            size=masks.sum(-1, keepdim=True),
            mean=layers.mean[here][:, layers.same],
            inv_std=layers.inv_std[here][:, layers.same],
            vectors=torch.stack(vectors),
            values=torch.stack(values)[:, None],
        )
        yield here, block


def _at_once(shape: Sequence[int], problems: int, device: torch.device) -> tuple[int, int]:
    """How many layers, and how many problems of each, fit; at least one of either."""
    budget, (_, n, width) = CPU_BYTES, shape
    if device.type != "cpu":
        budget = min(GPU_BYTES, torch.cuda.mem_get_info(device)[1] // 2)
    state = 4 * (5 * n + (2 * MEMORY + 8) * (width + 1))  # of one problem of one layer
    read = 4 * n * width + 64 * n * min(width, COLUMNS)  # of one layer while it is read
    layer = 4 * (2 * n * width + width * min(n, width)) + problems * state
    return max(1, (budget - read) // layer), max(1, budget // state)


def _halved(layers: int, problems: int) -> tuple[int, int]:
    """Half of the layers that did not fit; of a single layer half of the problems."""
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

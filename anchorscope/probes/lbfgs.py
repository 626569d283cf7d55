"""L-BFGS over many penalised logistic regressions at once, on features that they share.

The objective is that of `anchorscope.probes.probes`; what is fitted stands there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import torch
from torch import Tensor

MEMORY = 10
SURE = 30.0
SLOPE_KEPT = 0.3
SEARCH_STEPS = 10
WORTH_DROPPING = 0.8
"""Share of problems still open below which the solved ones are left out."""


@dataclass(frozen=True)
class Block:
    """Some layers and the problems still being solved there."""

    x: Tensor  # features [layers, n, width], standardised over all rows
    z: Tensor  # [n]
    mask: Tensor  # weights of training rows, 0 for the others, [problems, n]
    c: Tensor  # penalty, [layers, problems, 1]
    mean: Tensor  # of the training rows, in units of x; [layers, problems, width]
    inv_std: Tensor
    vectors: Tensor  # of the correlation matrix, [layers, width, rank]
    values: Tensor  # [layers, 1, rank]

    def take(self, layers: Tensor | slice, problems: Tensor) -> Block:
        """Some of the problems, at some of the layers."""
        return replace(
            self,
            x=self.x[layers],
            mask=self.mask[problems],
            c=self.c[layers][:, problems],
            mean=self.mean[layers][:, problems],
            inv_std=self.inv_std[layers][:, problems],
            vectors=self.vectors[layers],
            values=self.values[layers],
        )

    def folded(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and bias on `x` of weights [..., width + 1] on x̂, the bias last."""
        weights = w[..., :-1] * self.inv_std
        return weights, w[..., -1] - (weights * self.mean).sum(-1)

    def logits(self, w: Tensor) -> Tensor:
        weights, bias = self.folded(w)
        return (weights @ self.x.mT).add_(bias[..., None])

    def residuals(self, logits: Tensor) -> Tensor:
        """Weight · (p − z), 0 outside the training rows."""
        return logits.sigmoid().sub_(self.z).mul_(self.mask)

    def gradient(self, w: Tensor, residuals: Tensor) -> Tensor:
        total = residuals.sum(-1, keepdim=True)
        slope = (residuals @ self.x).addcmul_(total, self.mean, value=-1).mul_(self.inv_std)
        gradient = torch.cat([slope, total], dim=-1).mul_(self.c)
        gradient[..., :-1] += w[..., :-1]
        return gradient

    def curvature(self, logits: Tensor) -> Tensor:
        """c · Σ weight · p(1−p), [layers, problems, 1]."""
        p = logits.sigmoid()
        total = (p * (1 - p)).mul_(self.mask).sum(-1, keepdim=True)
        return torch.maximum(total, 1e-4 * self.mask.sum(-1, keepdim=True)).mul_(self.c)

    def precondition(self, g: Tensor, curvature: Tensor) -> Tensor:
        """(I + curvature · correlation)⁻¹ g; the bias is orthogonal to centred features."""
        head, shrink = g[..., :-1], curvature * self.values
        inside = (head @ self.vectors) * (shrink / (1 + shrink))
        return torch.cat([head - inside @ self.vectors.mT, g[..., -1:] / curvature], dim=-1)


def minimise(block: Block, tolerance: float, max_iterations: int) -> tuple[Tensor, int, int]:
    """Weights [layers, problems, width + 1] on x̂ with the bias last, steps, problems unsolved.

    A problem that is solved stays where it is while others go on: what it comes to does not depend
    on the layers beside it, but for rounding, which may let it stop a step sooner or later.
    """
    w = block.mean.new_zeros((*block.mean.shape[:2], block.mean.shape[2] + 1))
    solution = w.clone()
    layers, problems = (torch.arange(size, device=w.device) for size in w.shape[:2])
    logits = w.new_zeros((*w.shape[:2], len(block.z)))
    gradient = block.gradient(w, block.residuals(logits))
    past = _Past()
    done = torch.zeros_like(logits[..., 0], dtype=torch.bool)
    for step in range(max_iterations + 1):
        direction = past.direction(block, gradient, block.curvature(logits))
        ahead = block.logits(direction)
        change = ahead / logits.abs().clamp_(min=SURE)
        done |= change.abs_().amax(-1) < tolerance / SURE
        if step == max_iterations or bool(done.all()):
            break
        for value in (direction, ahead):
            value.masked_fill_(done[..., None], 0.0)
        slope = (gradient * direction).sum(-1)
        length, residuals = _line_search(block, w, direction, logits, ahead, slope)
        move = length[..., None] * direction
        logits.addcmul_(length[..., None], ahead)
        w = w + move
        before, gradient = gradient, block.gradient(w, residuals)
        past.add(move, gradient - before)
        some_layers, some = ((~done).any(axis).nonzero()[:, 0] for axis in (1, 0))
        if len(some_layers) * len(some) < WORTH_DROPPING * done.numel():
            solution[layers[:, None], problems] = w
            layers, problems = layers[some_layers], problems[some]
            here = some_layers[:, None], some
            block = block.take(slice(None) if len(some_layers) == len(done) else some_layers, some)
            past.keep(here)
            w, logits, gradient, done = (value[here] for value in (w, logits, gradient, done))
    solution[layers[:, None], problems] = w
    return solution, step, int((~done).sum())


class _Past(deque[tuple[Tensor, Tensor, Tensor]]):
    """The last steps s, changes of the gradient y, and 1 / (s · y), the newest last."""

    def __init__(self) -> None:
        super().__init__(maxlen=MEMORY)

    def add(self, s: Tensor, y: Tensor) -> None:
        """One that rounding has eaten tells nothing, nor does that of a solved problem."""
        product = (s * y).sum(-1, keepdim=True)
        tells = product > 1e-7 * _norm(s) * _norm(y)
        self.append((s, y, torch.where(tells, 1 / product, 0.0)))

    def keep(self, here: tuple[Tensor, Tensor]) -> None:
        """Only some of the problems."""
        for k, (s, y, inverse) in enumerate(self):
            self[k] = s[here], y[here], inverse[here]

    def direction(self, block: Block, gradient: Tensor, curvature: Tensor) -> Tensor:
        """Downhill: −H g, by the two-loop recursion (Nocedal & Wright, algorithm 7.4)."""
        rest, shares = gradient, []
        for s, y, inverse in reversed(self):
            shares.append(inverse * (s * rest).sum(-1, keepdim=True))
            rest = torch.addcmul(rest, shares[-1], y, value=-1)
        found = block.precondition(rest, curvature)
        for (s, y, inverse), share in zip(self, reversed(shares), strict=True):
            found.addcmul_(share - inverse * (y * found).sum(-1, keepdim=True), s)
        return found.neg_()


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def _line_search(
    block: Block, w: Tensor, direction: Tensor, logits: Tensor, ahead: Tensor, start: Tensor
) -> tuple[Tensor, Tensor]:
    """Step lengths [layers, problems] and the residuals there; `start` is the slope at 0.

    Logits are linear in the step and the objective is convex: all it takes is the root of a rising
    slope, by secants, without the features. Accepted at 0.3 of the slope.
    """
    head, step = direction[..., :-1], torch.ones_like(start)
    fixed, rising = (w[..., :-1] * head).sum(-1), head.square().sum(-1)
    for attempt in range(SEARCH_STEPS):
        residuals = block.residuals(torch.addcmul(logits, step[..., None], ahead))
        slope = fixed + step * rising + block.c[..., 0] * (residuals * ahead).sum(-1)
        settled = slope.abs() <= SLOPE_KEPT * start.abs()
        if attempt == SEARCH_STEPS - 1 or bool(settled.all()):
            break
        secant = step * (start / (start - slope)).clamp_(0.1, 3.0)
        step = torch.where(settled, step, secant)
    return step, residuals

"""L-BFGS: minimises many penalised logistic regressions at once, on features that they share.

All layers and problems take their steps together, as batched tensors. The objective, and what a
problem is, stand in `anchorscope.probes.probes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

MEMORY = 10
"""Steps that each problem remembers."""
SURE = 30.0
"""Size of a logit from which on a change counts in proportion to it."""
SLOPE_KEPT = 0.3
"""Share of the slope at the start that a step length may leave."""
SEARCH_STEPS = 10
"""Step lengths that are tried at most."""
WORTH_DROPPING = 0.8
"""Share of problems still open below which the solved ones are left out."""


@dataclass(frozen=True)
class Block:
    """Some layers and the problems still being solved there."""

    x: Tensor  # features [layers, n, width], standardised over all rows
    z: Tensor  # [n]
    mask: Tensor  # weights of training rows, 0 for the others, [problems, n]
    root: Tensor  # mask^-½, 0 where the mask is 0
    c: Tensor  # penalty, [layers, problems, 1]
    size: Tensor  # sum of weights, [problems, 1]
    mean: Tensor  # of the training rows, in units of x; [layers, problems, width]
    inv_std: Tensor  # 1 / std of the training rows, 0 where it is 0; like `mean`
    vectors: Tensor  # of the correlation matrix, [layers, width, rank]; rank 0: it is the identity
    values: Tensor  # [layers, 1, rank]

    def take(self, problems: Tensor, layers: Tensor | slice = slice(None)) -> Block:
        """Some of the problems, at some of the layers."""
        return replace(
            self,
            x=self.x[layers],
            mask=self.mask[problems],
            root=self.root[problems],
            c=self.c[layers][:, problems],
            size=self.size[problems],
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
        """Logits [layers, problems, n] of weights [layers, problems, width + 1] on x̂."""
        weights, bias = self.folded(w)
        return (weights @ self.x.mT).add_(bias[..., None])

    def residuals(self, logits: Tensor) -> Tensor:
        """Weight · (p − z), 0 outside the training rows; overwrites `logits`."""
        return logits.sigmoid_().sub_(self.z).mul_(self.mask)

    def gradient(self, w: Tensor, residuals: Tensor) -> Tensor:
        """Of the objective at weights w, [layers, problems, width + 1]; see `residuals`."""
        total = residuals.sum(-1, keepdim=True)
        slope = (residuals @ self.x).addcmul_(total, self.mean, value=-1).mul_(self.inv_std)
        gradient = torch.cat([slope, total], dim=-1).mul_(self.c)
        gradient[..., :-1] += w[..., :-1]
        return gradient

    def curvature(self, residuals: Tensor) -> Tensor:
        """c · Σ weight · p(1−p), [layers, problems, 1]; |p − z| is p or 1 − p."""
        first = residuals.abs().sum(-1, keepdim=True)
        second = _norm(residuals * self.root).square_()
        return torch.maximum(first - second, 1e-4 * self.size).mul_(self.c)

    def precondition(self, g: Tensor, curvature: Tensor) -> Tensor:
        """(I + curvature · correlation)⁻¹ g; the bias is orthogonal to centred features."""
        head = g[..., :-1]
        if not self.values.numel():
            solved = g / (1 + curvature)
            solved[..., -1:] = g[..., -1:] / curvature
            return solved
        shrink = curvature * self.values
        inside = (head @ self.vectors) * (shrink / (1 + shrink))
        return torch.cat([head - inside @ self.vectors.mT, g[..., -1:] / curvature], dim=-1)


def minimise(block: Block, tolerance: float, max_iterations: int) -> tuple[Tensor, int, int]:
    """Minimise the objective of every problem at every layer, from weights 0.

    A problem is solved when a full quasi-Newton step would change none of its logits by more than
    `tolerance`. It then stays where it is while others go on, so that its solution does not depend
    on the layers beside it, but for rounding, which may let it stop a step sooner or later.

    Returns:
        The weights on x̂ with the bias last, [layers, problems, width + 1]; how many steps were
        taken, at most `max_iterations`; how many problems were not solved by then.
    """
    w = block.mean.new_zeros((*block.mean.shape[:2], block.mean.shape[2] + 1))
    solution = w.clone()
    layers, problems = (torch.arange(size, device=w.device) for size in w.shape[:2])
    logits = w.new_zeros((*w.shape[:2], len(block.z)))
    residuals = block.residuals(logits.clone())
    gradient = block.gradient(w, residuals)
    past = _Past(w)
    done = torch.zeros_like(logits[..., 0], dtype=torch.bool)
    for step in range(max_iterations + 1):
        direction = past.direction(block, gradient, block.curvature(residuals))
        ahead = block.logits(direction)
        change = ahead / logits.abs().clamp_(min=SURE)
        done |= change.abs_().amax(-1) < tolerance / SURE
        if step == max_iterations or bool(done.all()):
            break
        length, residuals = _line_search(block, w, direction, logits, ahead, gradient, done)
        length = torch.where(done, 0.0, length)[..., None]
        move = length * direction
        logits.addcmul_(length, ahead)
        w = w + move
        before, gradient = gradient, block.gradient(w, residuals)
        past.add(move, gradient - before)
        some_layers, some = ((~done).any(axis).nonzero()[:, 0] for axis in (1, 0))
        if len(some_layers) * len(some) < WORTH_DROPPING * done.numel():
            solution[layers[:, None], problems] = w
            layers, problems = layers[some_layers], problems[some]
            here = some_layers[:, None], some
            block = block.take(some, some_layers if len(some_layers) < len(done) else slice(None))
            past.keep(here)
            w, logits, gradient, residuals, done = (
                value[here] for value in (w, logits, gradient, residuals, done)
            )
    solution[layers[:, None], problems] = w
    return solution, step, int((~done).sum())


class _Past:
    """The last `MEMORY` steps of each problem, from which L-BFGS estimates the curvature.

    A new step takes the place of the oldest.

    Attributes:
        s: the steps, [layers, problems, MEMORY, width + 1]; 0 where there is none yet.
        y: by how much the gradient changed in each, like `s`.
        product: s · y of each, [layers, problems, MEMORY, 1].
        inverse: of the upper triangle of s yᵀ, with the steps in the order in which they came,
            whatever their places, [layers, problems, MEMORY, MEMORY]; 0 in row and column of a step
            that tells nothing.
    """

    def __init__(self, w: Tensor) -> None:
        layers, problems, width = w.shape
        self.s = w.new_zeros((layers, problems, MEMORY, width))
        self.y = torch.zeros_like(self.s)
        self.product = self.s[..., :1].clone()
        self.inverse = self.s.new_zeros((layers, problems, MEMORY, MEMORY))
        self.steps = 0

    def keep(self, here: tuple[Tensor, Tensor]) -> None:
        """Forget all but some layers and problems."""
        self.s, self.y = self.s[here], self.y[here]
        self.product, self.inverse = self.product[here], self.inverse[here]

    def add(self, s: Tensor, y: Tensor) -> None:
        """Remember a step and the change of the gradient, [layers, problems, width + 1] each.

        A step lost in rounding tells nothing, nor does that of a solved problem.
        """
        place = self.steps % MEMORY
        product = (s * y).sum(-1, keepdim=True)
        corner = torch.where(product > 1e-7 * _norm(s) * _norm(y), 1 / product, 0.0)
        self.inverse[:, :, place] = 0
        self.inverse[..., place] = 0
        column = (self.inverse @ _times(self.s, y))[..., 0]
        column[..., place] = -1
        self.inverse[..., place] = column.mul_(-corner)
        self.s[:, :, place], self.y[:, :, place], self.product[:, :, place] = s, y, product
        self.steps += 1

    def direction(self, block: Block, gradient: Tensor, curvature: Tensor) -> Tensor:
        """−H g of all problems, [layers, problems, width + 1]: the quasi-Newton step.

        H is the estimate of the inverse Hessian, g the gradient. This is the two-loop recursion
        (Nocedal & Wright, 2006, algorithm 7.4) with its loops written as triangular systems. With r
        the upper triangle of s yᵀ, whose inverse is kept: r a = s g, then
        rᵀ b = diag(r) a − y H₀ (g − yᵀ a), and H g = H₀ (g − yᵀ a) + sᵀ b.
        """
        if not self.steps:
            return -block.precondition(gradient, curvature)
        a = self.inverse @ _times(self.s, gradient)
        rest = gradient - (a.mT @ self.y)[..., 0, :]
        start = block.precondition(rest, curvature)
        b = self.inverse.mT @ (self.product * a - _times(self.y, start))
        return -(start + (b.mT @ self.s)[..., 0, :])


def _times(steps: Tensor, one: Tensor) -> Tensor:
    """`steps @ one[..., None]`, several times as fast: that asks for a product a problem."""
    return (steps * one[..., None, :]).sum(-1, keepdim=True)


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def _line_search(
    block: Block,
    w: Tensor,
    direction: Tensor,
    logits: Tensor,
    ahead: Tensor,
    gradient: Tensor,
    done: Tensor,
) -> tuple[Tensor, Tensor]:
    """Find step lengths at which the objective has stopped falling.

    Logits are linear in the step and the objective is convex, so its slope along the direction
    rises with the step. Safeguarded secants find its root, without reading the features; a length
    is accepted where at most `SLOPE_KEPT` of the slope is left.

    Args:
        ahead: by how much a step of length 1 changes the logits.
        done: problems that are solved, bool [layers, problems]; any length is accepted for them.

    Returns:
        Step lengths, [layers, problems], and the residuals there, [layers, problems, n].
    """
    start = (gradient * direction).sum(-1)
    head = direction[..., :-1]
    fixed, rising = (w[..., :-1] * head).sum(-1), head.square().sum(-1)
    enough = torch.where(done, torch.inf, SLOPE_KEPT * start.abs())
    low, high = torch.zeros_like(start), torch.full_like(start, torch.inf)
    step, low_slope, high_slope = low + 1, start, low
    for attempt in range(SEARCH_STEPS):
        residuals = block.residuals(torch.addcmul(logits, step[..., None], ahead))
        there = (residuals * ahead).sum(-1)
        slope = torch.addcmul(fixed, step, rising).addcmul_(block.c[..., 0], there)
        settled = slope.abs() <= enough
        if attempt == SEARCH_STEPS - 1 or bool(settled.all()):
            break
        before = slope < 0
        low, low_slope = torch.where(before, step, low), torch.where(before, slope, low_slope)
        high, high_slope = torch.where(before, high, step), torch.where(before, high_slope, slope)
        span = high - low
        root = low + span * low_slope / (low_slope - high_slope)
        inside = torch.minimum(torch.maximum(root, low + 0.1 * span), high - 0.1 * span)
        moved = torch.where(torch.isfinite(high), inside, 3 * low)
        step = torch.where(settled, step, moved)
    return step, residuals

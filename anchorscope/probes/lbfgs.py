"""L-BFGS for many penalised logistic regressions (*problems*) with shared features: see `probes`.

All problems of all layers take a step together. Each has its own search direction and step length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

MEMORY = 10  # past steps from which L-BFGS estimates the curvature
SURE = 30.0  # tolerance is relative to logits beyond this, which are certain in float32
SLOPE_KEPT = 0.3  # a step is accepted if at most this share of the slope along it remains
SEARCH_STEPS = 10  # step lengths tried in one line search
WORTH_DROPPING = 0.8  # solved problems leave the tensors if a smaller share is unsolved


@dataclass(frozen=True)
class Block:
    """Problems that are solved together, each of them at every layer of the block.

    x̂ are the features standardised by a problem's own training rows: (x − mean) · inv_std.
    """

    x: Tensor  # features [layers, n, width], standardised over all rows
    z: Tensor  # labels 0 or 1, [n]
    mask: Tensor  # weights of the training rows, 0 for the others, [problems, n]
    root: Tensor  # mask^-½, 0 where the mask is 0, [problems, n]
    c: Tensor  # inverse penalties, [layers, problems, 1]
    size: Tensor  # sum of the weights, [problems, 1]
    mean: Tensor  # of the training rows, in units of x, [layers, problems, width]
    inv_std: Tensor  # 1 / standard deviation of the training rows, [layers, problems, width]
    # Eigenvectors [layers, width, rank] and eigenvalues [layers, 1, rank] of the correlation
    # matrix. With rank 0, features are uncorrelated, and `values` [layers, 1, width] holds their
    # variances.
    vectors: Tensor
    values: Tensor

    def take(self, problems: Tensor, layers: Tensor | slice = slice(None)) -> Block:
        """Return the block with some of the problems at some of the layers."""
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
        """Return (weights [..., width], bias [...]) for `x`, given `w` for x̂ with bias last."""
        weights = w[..., :-1] * self.inv_std
        return weights, w[..., -1] - (weights * self.mean).sum(-1)

    def logits(self, w: Tensor) -> Tensor:
        """Return the logits of all rows, [layers, problems, n]; linear in `w`."""
        weights, bias = self.folded(w)
        return (weights @ self.x.mT).add_(bias[..., None])

    def residuals(self, logits: Tensor) -> Tensor:
        """Return weight · (p − z), which is 0 outside the training rows. Overwrites `logits`."""
        return logits.sigmoid_().sub_(self.z).mul_(self.mask)

    def gradient(self, w: Tensor, residuals: Tensor) -> Tensor:
        """Return the objective's gradient with respect to `w`, [layers, problems, width + 1]."""
        total = residuals.sum(-1, keepdim=True)
        slope = (residuals @ self.x).addcmul_(total, self.mean, value=-1).mul_(self.inv_std)
        gradient = torch.cat([slope, total], dim=-1).mul_(self.c)
        gradient[..., :-1] += w[..., :-1]
        return gradient

    def curvature(self, residuals: Tensor) -> Tensor:
        """Return c · Σ weight · p(1−p), [layers, problems, 1]; p(1−p) = |p − z| − |p − z|²."""
        first = residuals.abs().sum(-1, keepdim=True)
        second = _norm(residuals * self.root).square_()
        return torch.maximum(first - second, 1e-4 * self.size).mul_(self.c)

    def precondition(self, g: Tensor, curvature: Tensor) -> Tensor:
        """Return (I + curvature · correlation)⁻¹ g, a first guess of H⁻¹ g with H the Hessian."""
        head, shrink = g[..., :-1], curvature * self.values
        if not self.vectors.numel():
            return torch.cat([head / (1 + shrink), g[..., -1:] / curvature], dim=-1)
        inside = (head @ self.vectors) * (shrink / (1 + shrink))
        return torch.cat([head - inside @ self.vectors.mT, g[..., -1:] / curvature], dim=-1)


def minimise(block: Block, tolerance: float, max_iterations: int) -> tuple[Tensor, int]:
    """Solve all problems of a block.

    A problem is solved when the next full step would change none of its logits by more than
    `tolerance`. Beyond ±`SURE`, the tolerance grows in proportion to the logit. Weights of solved
    problems stay unchanged, so problems affect each other only through rounding.

    Returns:
        (w, unsolved): the weights for x̂, [layers, problems, width + 1], with the bias last, and
        the number of problems that are still unsolved after `max_iterations`.
    """
    w = block.mean.new_zeros((*block.mean.shape[:2], block.mean.shape[2] + 1))
    solution = w.clone()
    # Indices in `solution` of the layers and problems that the tensors below still hold.
    layers, problems = (torch.arange(size, device=w.device) for size in w.shape[:2])
    logits = w.new_zeros((*w.shape[:2], len(block.z)))
    residuals = block.residuals(logits.clone())
    gradient = block.gradient(w, residuals)
    past = _Past(w)
    solved = torch.zeros_like(logits[..., 0], dtype=torch.bool)
    for step in range(max_iterations + 1):
        direction = past.direction(block, gradient, block.curvature(residuals))
        logit_change = block.logits(direction)
        relative_change = logit_change / logits.abs().clamp_(min=SURE)
        solved |= relative_change.abs_().amax(-1) < tolerance / SURE
        if step == max_iterations or bool(solved.all()):
            break
        length, residuals = _line_search(
            block, w, direction, logits, logit_change, gradient, solved
        )
        length = torch.where(solved, 0.0, length)[..., None]
        move = length * direction
        logits.addcmul_(length, logit_change)
        w = w + move
        previous, gradient = gradient, block.gradient(w, residuals)
        past.add(move, gradient - previous)
        open_layers = (~solved).any(dim=1).nonzero()[:, 0]
        open_problems = (~solved).any(dim=0).nonzero()[:, 0]
        if len(open_layers) * len(open_problems) < WORTH_DROPPING * solved.numel():
            solution[layers[:, None], problems] = w
            layers, problems = layers[open_layers], problems[open_problems]
            every_layer = len(open_layers) == len(solved)
            # A slice does not copy `x`, an index would.
            block = block.take(open_problems, slice(None) if every_layer else open_layers)
            here = open_layers[:, None], open_problems
            past.keep(here)
            w, logits, solved = w[here], logits[here], solved[here]
            gradient, residuals = gradient[here], residuals[here]
    solution[layers[:, None], problems] = w
    return solution, int((~solved).sum())


class _Past:
    """The last `MEMORY` steps of every problem, from which L-BFGS estimates the curvature.

    `s` are the steps and `y` the changes of the gradient, [layers, problems, MEMORY, width + 1].
    Both start as 0. A new step replaces the oldest. `product` is s · y of each step. R is the upper
    triangle of s yᵀ, with steps in chronological order. `inverse` is R⁻¹, but ordered like `s`.
    In `inverse`, the row and the column of an ignored step are 0.
    """

    def __init__(self, w: Tensor) -> None:
        layers, problems, width = w.shape
        self.s = w.new_zeros((layers, problems, MEMORY, width))
        self.y = torch.zeros_like(self.s)
        self.product = self.s[..., :1].clone()
        self.inverse = self.s.new_zeros((layers, problems, MEMORY, MEMORY))
        self.steps = 0

    def keep(self, here: tuple[Tensor, Tensor]) -> None:
        """Keep the steps of these layers and problems only."""
        self.s, self.y = self.s[here], self.y[here]
        self.product, self.inverse = self.product[here], self.inverse[here]

    def add(self, s: Tensor, y: Tensor) -> None:
        """Add a step of every problem. Ignore a step that is 0, or whose s · y is rounded away."""
        place = self.steps % MEMORY
        product = (s * y).sum(-1, keepdim=True)
        corner = torch.where(product > 1e-7 * _norm(s) * _norm(y), 1 / product, 0.0)
        # R gains a column: s · y for the s of every step and the new y. So R⁻¹ gains 1 / product in
        # its corner and, above it, the column −R⁻¹ s y / product.
        self.inverse[:, :, place] = 0
        self.inverse[..., place] = 0
        column = (self.inverse @ _times(self.s, y))[..., 0]
        column[..., place] = -1
        self.inverse[..., place] = column.mul_(-corner)
        self.s[:, :, place], self.y[:, :, place], self.product[:, :, place] = s, y, product
        self.steps += 1

    def direction(self, block: Block, gradient: Tensor, curvature: Tensor) -> Tensor:
        """Return the search direction −H g of every problem, with H the estimated inverse Hessian.

        This is the two-loop recursion (Nocedal & Wright, algorithm 7.4) with its loops written as
        triangular systems: R a = s g, then Rᵀ b = diag(R) a − y H₀ (g − yᵀ a), and
        H g = H₀ (g − yᵀ a) + sᵀ b. H₀ is `Block.precondition`.
        """
        if not self.steps:
            return -block.precondition(gradient, curvature)
        a = self.inverse @ _times(self.s, gradient)
        rest = gradient - (a.mT @ self.y)[..., 0, :]
        start = block.precondition(rest, curvature)
        b = self.inverse.mT @ (self.product * a - _times(self.y, start))
        return -(start + (b.mT @ self.s)[..., 0, :])


def _times(steps: Tensor, vector: Tensor) -> Tensor:
    """Return `steps @ vector[..., None]`. Written as a sum, it is several times faster."""
    return (steps * vector[..., None, :]).sum(-1, keepdim=True)


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def _line_search(
    block: Block,
    w: Tensor,
    direction: Tensor,
    logits: Tensor,
    logit_change: Tensor,
    gradient: Tensor,
    solved: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return step lengths [layers, problems], and the residuals after these steps.

    The objective is convex, so its slope along the direction rises. Secants inside a bracket find
    the slope's root. Logits are linear in the step length, so the features are not needed.
    """
    start = (gradient * direction).sum(-1)
    weights = direction[..., :-1]
    # Slope of the penalty at step length t: fixed + t · rising.
    fixed, rising = (w[..., :-1] * weights).sum(-1), weights.square().sum(-1)
    enough = torch.where(solved, torch.inf, SLOPE_KEPT * start.abs())
    low, high = torch.zeros_like(start), torch.full_like(start, torch.inf)
    step, low_slope, high_slope = low + 1, start, low
    for attempt in range(SEARCH_STEPS):
        residuals = block.residuals(torch.addcmul(logits, step[..., None], logit_change))
        loss_slope = (residuals * logit_change).sum(-1)
        slope = torch.addcmul(fixed, step, rising).addcmul_(block.c[..., 0], loss_slope)
        settled = slope.abs() <= enough
        if attempt == SEARCH_STEPS - 1 or bool(settled.all()):
            break
        before = slope < 0
        low, low_slope = torch.where(before, step, low), torch.where(before, slope, low_slope)
        high, high_slope = torch.where(before, high, step), torch.where(before, high_slope, slope)
        span = high - low
        root = low + span * low_slope / (low_slope - high_slope)
        inside = torch.minimum(torch.maximum(root, low + 0.1 * span), high - 0.1 * span)
        # There is no bracket until the slope changes sign: go three times as far.
        following = torch.where(torch.isfinite(high), inside, 3 * low)
        step = torch.where(settled, step, following)
    return step, residuals

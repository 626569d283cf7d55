"""L-BFGS over many penalised logistic regressions at once, on features that they share.

The objective is that of `anchorscope.probes`; what is fitted stands there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from anchorscope.matmul import Matrices

MEMORY = 10
SURE = 30.0
SLOPE_KEPT = 0.3
SEARCH_STEPS = 10


@dataclass(frozen=True)
class Block:
    """Some layers and the problems still being solved there.

    Attributes:
        x: features [layers, n, width], standardised over all rows.
        z: [n].
        mask: weights of training rows, 0 for the others, [problems, n].
        root: mask^-½, 0 where the mask is 0; None if all weights are 0 or 1.
        c: penalty, [layers, problems, 1].
        size: sum of weights, [problems, 1].
        mean, inv_std: of the training rows, in units of `x`; [layers, problems, width].
        vectors, values: eigenvectors [layers, width, rank] and eigenvalues [layers, 1, rank] of
            the correlation matrix; of rank 0 where it is taken for the identity.
    """

    x: Matrices
    z: Tensor
    mask: Tensor
    root: Tensor | None
    c: Tensor
    size: Tensor
    mean: Tensor
    inv_std: Tensor
    vectors: Tensor
    values: Tensor

    def take(self, keep: Tensor) -> Block:
        return replace(
            self,
            mask=self.mask[keep],
            root=None if self.root is None else self.root[keep],
            c=self.c[:, keep],
            size=self.size[keep],
            mean=self.mean[:, keep],
            inv_std=self.inv_std[:, keep],
        )

    def folded(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and bias on `x` of weights [..., width + 1] on x̂, the bias last."""
        weights = w[..., :-1] * self.inv_std
        return weights, w[..., -1] - (weights * self.mean).sum(-1)

    def logits(self, w: Tensor) -> Tensor:
        weights, bias = self.folded(w)
        return self.x.logits(weights).add_(bias[..., None])

    def residuals(self, logits: Tensor) -> Tensor:
        """Weight · (p − z), 0 outside the training rows; overwrites `logits`."""
        return logits.sigmoid_().sub_(self.z).mul_(self.mask)

    def gradient(self, w: Tensor, residuals: Tensor) -> Tensor:
        total = residuals.sum(-1, keepdim=True)
        slope = self.x.sums(residuals).addcmul_(total, self.mean, value=-1).mul_(self.inv_std)
        gradient = torch.cat([slope, total], dim=-1).mul_(self.c)
        gradient[..., :-1] += w[..., :-1]
        return gradient

    def curvature(self, residuals: Tensor) -> Tensor:
        """c · Σ weight · p(1−p), [layers, problems, 1]; |p − z| is p or 1 − p."""
        first = residuals.abs().sum(-1, keepdim=True)
        halves = residuals if self.root is None else residuals * self.root
        second = torch.linalg.vector_norm(halves, 2, dim=-1, keepdim=True).square_()
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


@dataclass
class _Search:
    """A bracket [low, high] of the step at which the slope along the direction vanishes."""

    step: Tensor
    low: Tensor
    low_slope: Tensor
    high: Tensor
    high_slope: Tensor

    @classmethod
    def begun(cls, slope: Tensor) -> _Search:
        """At a whole step, nothing known but the slope where it starts."""
        zero = torch.zeros_like(slope)
        return cls(zero + 1, zero, slope, zero + torch.inf, zero)

    def narrow(self, slope: Tensor, settled: Tensor) -> None:
        """Move every step that is not settled to the secant's root, safeguarded."""
        before = slope < 0
        self.low = torch.where(before, self.step, self.low)
        self.low_slope = torch.where(before, slope, self.low_slope)
        self.high = torch.where(before, self.high, self.step)
        self.high_slope = torch.where(before, self.high_slope, slope)
        span = self.high - self.low
        root = self.low + span * self.low_slope / (self.low_slope - self.high_slope)
        inside = torch.minimum(torch.maximum(root, self.low + 0.1 * span), self.high - 0.1 * span)
        moved = torch.where(torch.isfinite(self.high), inside, 3 * self.low)
        self.step = torch.where(settled, self.step, moved)


def minimise(block: Block, tolerance: float, max_iterations: int) -> tuple[Tensor, int, int]:
    """Weights [layers, problems, width + 1] on x̂ with the bias last, steps, problems unsolved.

    A problem that is solved stays where it is while others go on: what it comes to does not depend
    on the layers beside it, but for rounding.
    """
    w = block.mean.new_zeros((*block.mean.shape[:2], block.mean.shape[2] + 1))
    solution, places = w.clone(), torch.arange(w.shape[1], device=w.device)
    logits = w.new_zeros((*w.shape[:2], len(block.z)))
    residuals = block.residuals(logits.clone())
    gradient = block.gradient(w, residuals)
    past = _Past.none(w)
    done = torch.zeros_like(logits[..., 0], dtype=torch.bool)
    for step in range(max_iterations + 1):
        curvature = block.curvature(residuals)
        direction = past.direction(block, gradient, curvature)
        ahead = block.logits(direction)
        change = ahead / logits.abs().clamp_(min=SURE)
        done |= change.abs_().amax(-1) < tolerance / SURE
        finished = done.all(0)
        open_problems = len(finished) - int(finished.sum())
        if open_problems == 0 or step == max_iterations:
            break
        if open_problems < 0.8 * len(finished):
            solution[:, places[finished]] = w[:, finished]
            keep = ~finished
            block, past = block.take(keep), past.take(keep)
            places, done = places[keep], done[:, keep]
            w, logits, gradient = w[:, keep], logits[:, keep], gradient[:, keep]
            direction, ahead = direction[:, keep], ahead[:, keep]
        length, residuals = _line_search(block, w, direction, logits, ahead, gradient, done)
        length = torch.where(done, 0.0, length)[..., None]
        move = length * direction
        logits.addcmul_(length, ahead)
        w = w + move
        before, gradient = gradient, block.gradient(w, residuals)
        past = past.add(move, gradient - before)
    solution[:, places] = w
    return solution, step, int((~done).sum())


@dataclass(frozen=True)
class _Past:
    """The last steps, from which L-BFGS knows the curvature.

    Attributes:
        s: steps, [layers, problems, steps, width + 1], the newest last.
        y: what the gradient changed by at each.
        product: s · y of each, [layers, problems, steps, 1].
        inverse: of the upper triangle of s yᵀ, [layers, problems, steps, steps]; 0 in row and
            column of a step that tells nothing.
    """

    s: Tensor
    y: Tensor
    product: Tensor
    inverse: Tensor

    @classmethod
    def none(cls, w: Tensor) -> _Past:
        """Before the first step, of weights such as `w`."""
        empty = w.new_zeros((*w.shape[:2], 0, w.shape[2]))
        return cls(empty, empty, empty[..., :1], w.new_zeros((*w.shape[:2], 0, 0)))

    def take(self, keep: Tensor) -> _Past:
        """The past of some problems."""
        return _Past(self.s[:, keep], self.y[:, keep], self.product[:, keep], self.inverse[:, keep])

    def add(self, s: Tensor, y: Tensor) -> _Past:
        """With one step more, and the oldest forgotten beyond `MEMORY`.

        A step whose curvature rounding has eaten tells nothing, nor does that of a problem which
        is solved.
        """
        kept = slice(int(self.s.shape[2] == MEMORY), None)
        before, inverse = self.s[:, :, kept], self.inverse[:, :, kept, kept]
        product = (s * y).sum(-1)[..., None, None]
        usable = product > 1e-7 * (_norm(s) * _norm(y))[..., None]
        corner = torch.where(usable, 1 / product, 0.0)
        column = torch.cat([-corner * (inverse @ _times(before, y)), corner], dim=2)
        return _Past(
            torch.cat([before, s[..., None, :]], dim=2),
            torch.cat([self.y[:, :, kept], y[..., None, :]], dim=2),
            torch.cat([self.product[:, :, kept], product], dim=2),
            torch.cat([torch.nn.functional.pad(inverse, (0, 0, 0, 1)), column], dim=3),
        )

    def direction(self, block: Block, gradient: Tensor, curvature: Tensor) -> Tensor:
        """Downhill: −H g of all problems.

        The two-loop recursion (Nocedal & Wright, algorithm 7.4) with its loops written as
        triangular systems, r the upper triangle of s yᵀ, whose inverse is kept: r a = s g, then
        rᵀ b = diag(r) a − y H₀ (g − yᵀ a), and H g = H₀ (g − yᵀ a) + sᵀ b.
        """
        if not self.s.shape[2]:
            return -block.precondition(gradient, curvature)
        a = self.inverse @ _times(self.s, gradient)
        rest = gradient - (a.mT @ self.y)[..., 0, :]
        start = block.precondition(rest, curvature)
        b = self.inverse.mT @ (self.product * a - _times(self.y, start))
        return -(start + (b.mT @ self.s)[..., 0, :])


def _times(steps: Tensor, one: Tensor) -> Tensor:
    """Products [layers, problems, steps, 1] of steps with a vector of each problem.

    Several times as fast as `steps @ one[..., None]`, which asks for a product a problem.
    """
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
    """Step lengths [layers, problems] and the residuals there.

    Logits are linear in the step and the objective is convex: all it takes is the root of a rising
    slope, and no further look at the features. Accepted once the slope is down to 0.3 of itself.
    """
    start = (gradient * direction).sum(-1)
    head = direction[..., :-1]
    fixed, rising = (w[..., :-1] * head).sum(-1), head.square().sum(-1)
    enough = torch.where(done, torch.inf, SLOPE_KEPT * start.abs())
    search = _Search.begun(start)
    for attempt in range(SEARCH_STEPS):
        step = search.step
        residuals = block.residuals(torch.addcmul(logits, step[..., None], ahead))
        there = (residuals * ahead).sum(-1)
        slope = torch.addcmul(fixed, step, rising).addcmul_(block.c[..., 0], there)
        settled = slope.abs() <= enough
        if attempt == SEARCH_STEPS - 1 or bool(settled.all()):
            break
        search.narrow(slope, settled)
    return step, residuals

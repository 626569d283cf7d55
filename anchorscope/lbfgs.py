"""L-BFGS over many penalised logistic regressions at once, on features that they share.

The objective is that of `anchorscope.probes`; what is fitted stands there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

MEMORY = 10
SURE = 30.0
SLOPE_KEPT = 0.3
SEARCH_STEPS = 10


@dataclass(frozen=True)
class Block:
    """Some layers and the problems still being solved there.

    Attributes:
        x: [layers, n, width], standardised over all rows.
        z: [n].
        mask: weights of training rows, 0 for the others, [problems, n].
        root: mask^-½, 0 where the mask is 0; None if all weights are 0 or 1.
        c: penalty, [layers, problems, 1].
        size: sum of weights, [problems, 1].
        mean, inv_std: of the training rows, in units of `x`; [layers, problems, width].
        vectors, values: eigenvectors [layers, width, rank] and eigenvalues [layers, 1, rank] of
            the correlation matrix; of rank 0 where it is taken for the identity.
    """

    x: Tensor
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
        return torch.baddbmm(bias[..., None], weights, self.x.mT)

    def residuals(self, logits: Tensor) -> Tensor:
        """Weight · (p − z), 0 outside the training rows; overwrites `logits`."""
        return logits.sigmoid_().sub_(self.z).mul_(self.mask)

    def gradient(self, w: Tensor, residuals: Tensor) -> Tensor:
        total = residuals.sum(-1, keepdim=True)
        slope = (residuals @ self.x - total * self.mean) * self.inv_std
        gradient = self.c * torch.cat([slope, total], dim=-1)
        gradient[..., :-1] += w[..., :-1]
        return gradient

    def curvature(self, residuals: Tensor) -> Tensor:
        """c · Σ weight · p(1−p), [layers, problems, 1]; |p − z| is p or 1 − p."""
        first = residuals.abs().sum(-1, keepdim=True)
        halves = residuals if self.root is None else residuals * self.root
        second = torch.linalg.vector_norm(halves, 2, dim=-1, keepdim=True) ** 2
        return self.c * torch.clamp(first - second, min=1e-4 * self.size)

    def precondition(self, g: Tensor, curvature: Tensor) -> Tensor:
        """(I + curvature · correlation)⁻¹ g; the bias is orthogonal to centred features."""
        head = g[..., :-1]
        if not self.values.numel():
            return torch.cat([head / (1 + curvature), g[..., -1:] / curvature], dim=-1)
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
    logits = block.logits(w)
    residuals = block.residuals(logits.clone())
    gradient = block.gradient(w, residuals)
    past = _Past.none(w)
    done = torch.zeros_like(logits[..., 0], dtype=torch.bool)
    for step in range(max_iterations + 1):
        curvature = block.curvature(residuals)
        direction = past.direction(block, gradient, curvature)
        ahead = block.logits(direction)
        change = ahead / logits.abs().clamp_(min=SURE)
        done = done | (change.abs_().amax(-1) < tolerance / SURE)
        finished = done.all(0)
        open_problems = int((~finished).sum())
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
        r: upper triangle of s yᵀ, [layers, problems, steps, steps].
    """

    s: Tensor
    y: Tensor
    r: Tensor

    @classmethod
    def none(cls, w: Tensor) -> _Past:
        """Before the first step, of weights such as `w`."""
        empty = w.new_zeros((*w.shape[:2], 0, w.shape[2]))
        return cls(empty, empty, w.new_zeros((*w.shape[:2], 0, 0)))

    def take(self, keep: Tensor) -> _Past:
        """The past of some problems."""
        return _Past(self.s[:, keep], self.y[:, keep], self.r[:, keep])

    def add(self, s: Tensor, y: Tensor) -> _Past:
        """With one step more, and the oldest forgotten beyond `MEMORY`.

        A step whose curvature rounding has eaten is kept as zeros, which change nothing.
        """
        product = (s * y).sum(-1, keepdim=True)
        usable = product > 1e-7 * _norm(s) * _norm(y)
        s, y = torch.where(usable, s, 0.0)[..., None, :], torch.where(usable, y, 0.0)[..., None, :]
        kept = slice(1, None) if self.s.shape[2] == MEMORY else slice(None)
        steps = torch.cat([self.s[:, :, kept], s], dim=2)
        corner = torch.where(usable, product, 1.0)[..., None]
        column = torch.cat([steps[:, :, :-1] @ y.mT, corner], dim=2)
        r = torch.nn.functional.pad(self.r[:, :, kept, kept], (0, 0, 0, 1))
        changes = torch.cat([self.y[:, :, kept], y], dim=2)
        return _Past(steps, changes, torch.cat([r, column], dim=3))

    def direction(self, block: Block, gradient: Tensor, curvature: Tensor) -> Tensor:
        """Downhill: −H g of all problems.

        The two-loop recursion (Nocedal & Wright, algorithm 7.4) with its loops written as
        triangular systems, r from its columns and diagonal: r a = s g, then
        rᵀ b = diag(r) a − y H₀ (g − yᵀ a), and H g = H₀ (g − yᵀ a) + sᵀ b.
        """
        if not self.s.shape[2]:
            return -block.precondition(gradient, curvature)
        solve = torch.linalg.solve_triangular
        a = solve(self.r, self.s @ gradient[..., None], upper=True)
        rest = gradient - (a.mT @ self.y)[..., 0, :]
        start = block.precondition(rest, curvature)
        diagonal = self.r.diagonal(dim1=-2, dim2=-1)[..., None]
        b = solve(self.r.mT, diagonal * a - self.y @ start[..., None], upper=False)
        return -(start + (b.mT @ self.s)[..., 0, :])


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
    zero = torch.zeros_like(start)
    search = _Search(zero + 1, zero, start, zero + torch.inf, zero)
    for attempt in range(SEARCH_STEPS):
        step = search.step
        residuals = block.residuals(torch.addcmul(logits, step[..., None], ahead))
        slope = fixed + step * rising + block.c[..., 0] * (residuals * ahead).sum(-1)
        settled = done | (slope.abs() <= SLOPE_KEPT * start.abs())
        if attempt == SEARCH_STEPS - 1 or bool(settled.all()):
            break
        search.narrow(slope, settled)
    return step, residuals

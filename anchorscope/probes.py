"""Probes: L2-regularised logistic regressions, all of them in one batched solve.

A problem is one probe: which rows it learns from, and how strongly it is penalised. All problems
of a layer share that layer's features, which are read once. The objective is scikit-learn's
`LogisticRegression(C=c)` on features standardised by the problem's own training rows, where a row
of weight two counts like two equal rows:

    ½‖w‖² + c · Σ over training rows of log-loss(z, w·x̂ + b),   x̂ = (x − mean) / std

The solver is L-BFGS over all problems at once. Its inverse Hessian starts at
(I + c·n·ω·Gram)⁻¹, ω the mean of p(1−p), which makes correlated features converge like
independent ones; Gram is the layer's correlation matrix, taken apart once for all problems, or the
identity where it is close to that and problems are few.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from anchorscope.errors import AnchorscopeError
from anchorscope.progress import Progress

MEMORY = 10
TOLERANCE = 1e-4
MAX_ITERATIONS = 500
BUDGET_BYTES = 4 << 30
STATE_BYTES = 16 << 20
"""What the problems solved at once may take on a CPU: more would not stay in its cache, and memory
would grow with the samples."""
FEW = 16
"""At most so many problems a layer cost less than taking its correlation matrix apart."""
MILD = 2.0
"""Mean square eigenvalue of a correlation matrix up to which it may be taken for the identity."""
ROWS_AT_ONCE = 1024
"""Rows whose statistics are taken at once."""
CONSTANT = 1e-12
CANCELLED = 1e-3
SURE = 30.0
SLOPE_KEPT = 0.3
SEARCH_STEPS = 10

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Probes:
    """Fitted probes, on features as they come (standardisation is folded in).

    Attributes:
        weights: float32 [layers, problems, width].
        bias: float32 [layers, problems].
        centre: float32 [layers, width], taken off the features first: large means would
            cost the logits their last digits.
        iterations: of the slowest problem.
        unconverged: number of problems, over all layers, stopped by the limit on iterations.
    """

    weights: Tensor
    bias: Tensor
    centre: Tensor
    iterations: int
    unconverged: int

    def take(self, problems: Tensor) -> Probes:
        """The probes numbered `problems`, int64 [layers, chosen]: at each layer its own."""
        index = problems.to(self.weights.device)
        wide = index[..., None].expand(-1, -1, self.weights.shape[2])
        return replace(self, weights=self.weights.gather(1, wide), bias=self.bias.gather(1, index))

    def logits(self, x: Features) -> Tensor:
        """Logits of z = 1, float32 [layers, problems, n], of features [layers, n, width]."""
        device = self.weights.device
        layers = (x[layer : layer + 1][0] for layer in range(len(x)))
        parts = zip(layers, self.weights, self.bias, self.centre, strict=True)
        return torch.stack(
            [w @ (rows.to(device).float() - mid).T + b[:, None] for rows, w, b, mid in parts]
        )


def part(
    fitted: Probes, layers: Sequence[int] | None = None, *, problems: slice = slice(None)
) -> Probes:
    """The probes of some layers (None: all), and of those some problems."""
    index = slice(None) if layers is None else list(layers)
    return replace(
        fitted,
        weights=fitted.weights[index, problems],
        bias=fitted.bias[index, problems],
        centre=fitted.centre[index],
    )


@dataclass(frozen=True)
class _Block:
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

    def take(self, keep: Tensor) -> _Block:
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
        first = torch.linalg.vector_norm(residuals, 1, dim=-1, keepdim=True)
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


class Features(Protocol):
    """Features [layers, n, width]: a tensor, or what reads some layers when they are asked for."""

    @property
    def shape(self) -> Sequence[int]:
        """Layers, rows and width."""

    def __len__(self) -> int: ...

    def __getitem__(self, layers: slice, /) -> Tensor: ...


@dataclass(frozen=True)
class Reordered:
    """Features whose rows come in another order.

    Attributes:
        x: the features, [layers, n, width].
        order: which of their rows come, int64 [n].
    """

    x: Features
    order: Tensor

    @property
    def shape(self) -> Sequence[int]:
        return (len(self.x), len(self.order), self.x.shape[2])

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, layers: slice) -> Tensor:
        return self.x[layers][:, self.order]


def at(x: Features, layers: Sequence[int]) -> Tensor:
    """The features of some layers, [len(layers), n, width]."""
    return torch.cat([x[layer : layer + 1] for layer in layers])


def fit(
    x: Features,
    z: Tensor,
    train_masks: Tensor,
    c: Tensor,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
    device: str | torch.device = "cpu",
    budget_bytes: int = BUDGET_BYTES,
) -> Probes:
    """Fit every problem at every layer.

    Args:
        x: features, float [layers, n, width]; only the layers being solved are asked for.
        z: labels 0 or 1, [n].
        train_masks: training rows of each problem, bool, or weights of at least 0, [problems, n].
            A weight of two is the row twice, in mean and spread too.
        c: inverse penalty of each problem, [problems] or [layers, problems].
        tolerance: a problem is solved when a full quasi-Newton step would change no row's logit
            by more; of logits beyond ±30, which are sure in float32, by more in proportion.
        max_iterations: most steps; problems beyond are counted in `Probes.unconverged`.
        device: where to solve.
        budget_bytes: layers are solved in blocks that fit, and where one does not, its problems
            are. On a CPU layers are solved one by one, since one layer's features stay in the
            cache and several do not, and problems in blocks of `STATE_BYTES`.

    Returns:
        The probes, on `device`.

    Raises:
        AnchorscopeError: features that are not finite, training rows of one class.
        ValueError: a weight below 0.
    """
    device = torch.device(device)
    masks = train_masks.to(device, torch.float32)
    z, c = z.to(device, torch.float32), c.to(device, torch.float32).expand(len(x), len(masks))
    _check(z, masks)
    n, width = x.shape[1:]
    on_cpu = device.type == "cpu"
    budget = min(budget_bytes, STATE_BYTES) if on_cpu else budget_bytes
    at_once = 1 if on_cpu else _layers_at_once(n, width, len(masks), budget)
    together = _problems_at_once(n, width, budget)
    parts, iterations, unconverged = [], 0, 0
    with Progress(desc=f"probes of {len(x)} layers", total=n) as progress:
        for start in range(0, len(x), at_once):
            layers = x[start : start + at_once]
            _check_finite(layers, start)
            penalties = c[start : start + at_once]
            some = _solve_layers(
                layers.to(device), z, masks, penalties, tolerance, max_iterations, together
            )
            parts.append(some)
            iterations = max(iterations, some.iterations)
            unconverged += some.unconverged
            progress.update(n * len(layers) / len(x))
    if unconverged:
        log.warning("%d probes were stopped after %d steps", unconverged, max_iterations)
    weights, bias, centre = (
        torch.cat([getattr(part, name) for part in parts]) for name in ("weights", "bias", "centre")
    )
    return Probes(weights, bias, centre, iterations, unconverged)


def _check_finite(x: Tensor, first: int) -> None:
    """Refuse layers, the first of that number, with features that are not finite."""
    # A sum is finite if its terms are, in float64, and makes no copy to look at.
    finite = torch.isfinite(x.sum(dim=(1, 2), dtype=torch.float64))
    if not bool(finite.all()):
        layer = first + int((~finite).nonzero()[0])
        raise AnchorscopeError(
            "activations are not finite, no probe can be fitted",
            f"layer {layer}",
            "measure them again, with dtype: float32 for this model",
            see="not-finite",
        )


def _check(z: Tensor, masks: Tensor) -> None:
    if bool((masks < 0).any()):
        raise ValueError("a training row cannot weigh less than nothing")
    wrong, rows = masks @ z, masks.sum(-1)
    bad = ((wrong == 0) | (wrong == rows)).nonzero()
    if len(bad):
        raise AnchorscopeError(
            "a probe cannot be fitted: its training rows are all right or all wrong answers",
            f"problem {int(bad[0])} with {int(rows[bad[0]])} training rows",
            "sample more questions, or use fewer folds",
            see="one-class",
        )


def _layers_at_once(n: int, width: int, problems: int, budget_bytes: int) -> int:
    states = problems * _state_bytes(n, width)
    doubles = 8 * 4 * min(n, ROWS_AT_ONCE) * width
    return max(1, budget_bytes // (4 * (2 * n * width + width * min(n, width)) + doubles + states))


def _problems_at_once(n: int, width: int, budget_bytes: int) -> int:
    return max(1, budget_bytes // _state_bytes(n, width))


def _state_bytes(n: int, width: int) -> int:
    """What the solver keeps of one problem of one layer."""
    return 4 * (5 * n + (2 * MEMORY + 8) * (width + 1))


def _solve_layers(
    x: Tensor,
    z: Tensor,
    masks: Tensor,
    c: Tensor,
    tolerance: float,
    max_iterations: int,
    together: int,
) -> Probes:
    """Solve every problem at some layers, `together` at once."""
    block, centre, scale = _standardised(x, z, masks, c)
    found, iterations, unconverged = [], 0, 0
    for problems in torch.arange(len(masks), device=x.device).split(together):
        some = block.take(problems)
        w, steps, unsolved = _minimise(some, tolerance, max_iterations)
        found.append(some.folded(w))
        iterations, unconverged = max(iterations, steps), unconverged + unsolved
    weights, bias = (torch.cat(part, dim=1) for part in zip(*found, strict=True))
    return Probes(weights / scale[:, None], bias, centre, iterations, unconverged)


def _standardised(x: Tensor, z: Tensor, masks: Tensor, c: Tensor) -> tuple[_Block, Tensor, Tensor]:
    """The block, and the centre and scale [layers, width] that its features were given.

    A feature that is constant gets weight 0 by way of an infinite std: that is what the penalty
    would make of it.
    """
    centre, scale = _centre_and_scale(x)
    features = (x.float() - centre[:, None]).div_(scale[:, None])
    different, problem = torch.unique(masks, dim=0, return_inverse=True)
    mean, variance = _mean_and_variance(features, different)
    inv_std = torch.where(variance > CONSTANT, variance.clamp(min=CONSTANT).rsqrt(), 0.0)
    mild = len(masks) <= FEW and _spread(features) <= MILD
    layers, _, width = x.shape
    none = features.new_zeros((layers, width, 0)), features.new_zeros((layers, 0))
    vectors, values = none if mild else _eigen(features)
    weighted = bool(((masks != 0) & (masks != 1)).any())
    block = _Block(
        x=features,
        z=z,
        mask=masks,
        root=torch.where(masks > 0, masks.rsqrt(), 0.0) if weighted else None,
        c=c[..., None],
        size=masks.sum(-1, keepdim=True),
        mean=mean.float()[:, problem],
        inv_std=inv_std.float()[:, problem],
        vectors=vectors,
        values=values[:, None],
    )
    return block, centre, scale


def _mean_and_variance(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Of standardised features [layers, n, width] by weights [problems, n]; float64.

    A float32 matrix product serves nearly all features; those of which it leaves too few digits,
    since the rows' spread is small beside their mean, are taken again in float64.
    """
    share = (weights.double() / weights.double().sum(-1, keepdim=True)).to(x.dtype)
    mean = x.new_zeros((len(x), len(share), x.shape[2]), dtype=torch.float64)
    square = torch.zeros_like(mean)
    for rows in _rows_at_once(x):
        mean += share[:, rows] @ x[:, rows]
        square += share[:, rows] @ x[:, rows].square()
    variance = square - mean.square()
    if x.dtype == torch.float32:
        few_digits = (variance < CANCELLED * square).flatten(0, 1).any(0).nonzero()[:, 0]
        if len(few_digits):
            exact = _mean_and_variance(x[..., few_digits].double(), weights)
            mean[..., few_digits], variance[..., few_digits] = exact
    return mean, variance


def _centre_and_scale(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation, 1 where it is 0, of all rows: float32 [layers, width]."""
    n = x.shape[1]
    total = torch.stack([x[:, rows].sum(1, dtype=torch.float64) for rows in _rows_at_once(x)])
    centre = total.sum(0) / n
    centre = centre.float()
    squares = [
        (x[:, rows].float() - centre[:, None]).square_().sum(1, dtype=torch.float64)
        for rows in _rows_at_once(x)
    ]
    std = (torch.stack(squares).sum(0) / n).sqrt()
    return centre, torch.where(std > 0, std, 1.0).float()


def _rows_at_once(x: Tensor) -> list[slice]:
    n = x.shape[1]
    return [slice(start, start + ROWS_AT_ONCE) for start in range(0, n, ROWS_AT_ONCE)]


def _spread(x: Tensor) -> float:
    """Mean square eigenvalue of xᵀx / n, at least 1, of the worst layer; by random directions."""
    draws = torch.Generator(x.device).manual_seed(0)
    signs = torch.randint(0, 2, (4, x.shape[2]), generator=draws, device=x.device) * 2.0 - 1
    seen = (signs @ x.mT) @ x / x.shape[1]
    return float(seen.square().mean(dim=(1, 2)).max())


def _eigen(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvectors [layers, width, rank] and eigenvalues [layers, rank] of xᵀx / n.

    By way of the smaller of xᵀx and xxᵀ. Directions that hardly vary are left to the identity.
    """
    n, width = x.shape[1:]
    if width <= n:
        values, vectors = torch.linalg.eigh(x.mT @ x / n)
        return vectors, values.clamp(min=0)
    values, rows = torch.linalg.eigh(x @ x.mT / n)
    there = values > 1e-5 * values[:, -1:].clamp(min=1e-30)
    values = torch.where(there, values, 1.0)
    vectors = x.mT @ rows / (n * values).sqrt()[:, None]
    return vectors * there[:, None], values * there


def _minimise(block: _Block, tolerance: float, max_iterations: int) -> tuple[Tensor, int, int]:
    """Weights [layers, problems, width + 1] on x̂ with the bias last, steps, problems unsolved."""
    w = block.mean.new_zeros((*block.mean.shape[:2], block.mean.shape[2] + 1))
    solution, places = w.clone(), torch.arange(w.shape[1], device=w.device)
    logits = block.logits(w)
    residuals = block.residuals(logits.clone())
    gradient = block.gradient(w, residuals)
    past = _Past.none(w)
    for step in range(max_iterations + 1):
        curvature = block.curvature(residuals)
        direction = past.direction(block, gradient, curvature)
        ahead = block.logits(direction)
        change = ahead / logits.abs().clamp_(min=SURE)
        done = torch.linalg.vector_norm(change, torch.inf, dim=-1) < tolerance / SURE
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
        move = length[..., None] * direction
        logits.addcmul_(length[..., None], ahead)
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

    def direction(self, block: _Block, gradient: Tensor, curvature: Tensor) -> Tensor:
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
    block: _Block,
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

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
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from anchorscope import matmul, solving
from anchorscope.errors import AnchorscopeError
from anchorscope.lbfgs import Block, minimise
from anchorscope.matmul import Matrices
from anchorscope.progress import Progress
from anchorscope.room import tried

TOLERANCE = 1e-4
MAX_ITERATIONS = 500
FEW = 16
"""At most so many problems a layer cost less than taking its correlation matrix apart."""
MILD = 2.0
"""Mean square eigenvalue of a correlation matrix up to which it may be taken for the identity."""
CONSTANT = 1e-12
CANCELLED = 1e-3
ROUNDED = 1e-5
"""Spread of a feature beside its mean that may be nothing but the mean's rounding."""
FAR = 8.0
"""Standard deviations from which on a row has no say in where its feature is centred; of few rows
less, since one of n is never √n away."""

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

    @property
    def layers_at_once(self) -> int:
        """How many layers are held at once."""
        return getattr(self.x, "layers_at_once", len(self.x))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, layers: slice) -> Tensor:
        return self.x[layers][:, self.order]


@dataclass(frozen=True)
class Part:
    """Some layers of features, one after another.

    Attributes:
        x: the features, [layers, n, width].
        layers: which of them.
    """

    x: Features
    layers: range

    @property
    def shape(self) -> Sequence[int]:
        return (len(self.layers), *self.x.shape[1:])

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, layers: slice) -> Tensor:
        some = self.layers[layers]
        return self.x[some.start : some.stop]


@dataclass(frozen=True)
class _InTurn:
    """Features that one thread reads at a time: they may hold what was read last."""

    x: Features
    reading: threading.Lock = field(default_factory=threading.Lock)

    @property
    def shape(self) -> Sequence[int]:
        return self.x.shape

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, layers: slice) -> Tensor:
        with self.reading:
            return self.x[layers]


def blocks(x: Features) -> Iterator[Part]:
    """All layers, as many at a time as the features hold at once (`layers_at_once`; else all).

    Who does all that a block needs before the next makes the features be read once.
    """
    every = range(len(x))
    at_once = getattr(x, "layers_at_once", len(x))
    for start in range(0, len(x), max(1, at_once)):
        yield Part(x, every[start : start + at_once])


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
    budget_bytes: int | None = None,
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
            are; all threads together hold no more of them. None: what `anchorscope.solving` says
            of the device. A block for which memory runs out all the same is halved.

    Returns:
        The probes, on `device`.

    Raises:
        AnchorscopeError: features that are not finite, training rows of one class, a GPU on which
            a single problem does not fit.
        ValueError: a weight below 0.
    """
    device = torch.device(device)
    masks = train_masks.to(device, torch.float32)
    z, c = z.to(device, torch.float32), c.to(device, torch.float32).expand(len(x), len(masks))
    _check(z, masks)
    block = solving.that_fit(x.shape, len(masks), device, budget_bytes)
    first = x.layers.start if isinstance(x, Part) else 0
    solver = _Solver(_InTurn(x), z, masks, c, tolerance, max_iterations, block, first)
    workers = solving.workers(x.shape, block.layers, device, budget_bytes)
    spans = solving.blocks(len(x), block.layers, workers)
    found: list[Probes | None] = []
    with Progress(total=len(masks) * len(x), unit="probes") as progress:
        for some in solving.abreast(solver.whole, spans, workers):
            found.append(some)
            progress.update(len(masks) * len(some.weights) if some else 0)
        parts = []
        for layers, some in zip(spans, found, strict=True):
            parts.append(some or solver.in_parts(layers))
            progress.update(0 if some else len(masks) * len(layers))
    solved = joined(parts)
    if solved.unconverged:
        log.warning("%d probes were stopped after %d steps", solved.unconverged, max_iterations)
    return solved


@dataclass
class _Solver:
    """Solves every problem, some layers at a time.

    Attributes:
        x, z, masks, c, tolerance, max_iterations: see `fit`; `z`, `masks` and `c` on the device.
        block: what is solved at once.
        first: number of the first layer, by which an error names it.
        short: whether a block did not fit in memory.
    """

    x: _InTurn
    z: Tensor
    masks: Tensor
    c: Tensor
    tolerance: float
    max_iterations: int
    block: solving.Sizes
    first: int
    short: bool = False

    def whole(self, layers: range) -> Probes | None:
        """The probes of a block of layers; None if it, or one before, did not fit.

        Raises:
            AnchorscopeError: see `fit`.
        """
        found = None if self.short else self._tried(layers, self.block.problems)
        self.short |= found is None
        return found

    def in_parts(self, layers: range) -> Probes:
        """The same of a block that did not fit beside others: alone, or in halves of halves.

        Raises:
            AnchorscopeError: see `fit`.
        """
        parts = list[Probes]()
        while layers:
            some = self._tried(layers[: self.block.layers], self.block.problems)
            if some is None:
                together = min(self.block.layers, len(layers))
                problems = min(len(self.masks), self.block.problems)
                self.block = solving.smaller(together, problems)
                continue
            parts.append(some)
            layers = layers[len(some.weights) :]
        return joined(parts)

    def _tried(self, layers: range, together: int) -> Probes | None:
        return tried(partial(self._solve, Part(self.x, layers), together))

    def _solve(self, x: Part, together: int) -> Probes:
        return _solve_layers(
            x,
            self.z,
            self.masks,
            self.c[x.layers.start : x.layers.stop],
            self.tolerance,
            self.max_iterations,
            first=self.first + x.layers.start,
            together=together,
        )


def joined(parts: Sequence[Probes]) -> Probes:
    """The probes of several blocks of layers, one after the other."""
    weights, bias, centre = (
        torch.cat([getattr(part, name) for part in parts]) for name in ("weights", "bias", "centre")
    )
    iterations = max(part.iterations for part in parts)
    return Probes(weights, bias, centre, iterations, sum(part.unconverged for part in parts))


def _check_finite(centre: Tensor, layer: int) -> None:
    """Refuse a layer with features that are not finite: then a mean is not."""
    if not bool(torch.isfinite(centre).all()):
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


@torch.inference_mode()
def _solve_layers(
    x: Features,
    z: Tensor,
    masks: Tensor,
    c: Tensor,
    tolerance: float,
    max_iterations: int,
    first: int,
    together: int,
) -> Probes:
    """Solve every problem at some layers, the first of that number, `together` at once, where `z`
    lies."""
    different, same = torch.unique(masks, dim=0, return_inverse=True)
    layers, matrices, eigen = _standardised(x, z, different, first, few=len(masks) <= FEW)
    weights = z.new_empty((len(x), len(masks), x.shape[2]))
    bias, iterations, unconverged = z.new_empty(weights.shape[:2]), 0, 0
    for block, here in _blocks(layers, matrices, eigen, z, masks, same, c):
        for problems in torch.arange(len(masks), device=z.device).split(together):
            some = block.take(problems)
            w, steps, unsolved = minimise(some, tolerance, max_iterations)
            weights[here[:, None], problems], bias[here[:, None], problems] = some.folded(w)
            iterations, unconverged = max(iterations, steps), unconverged + unsolved
    return Probes(weights / layers.scale[:, None], bias, layers.centre, iterations, unconverged)


class _Layers(NamedTuple):
    """By what layers were standardised, and what is then left for each problem to do.

    Attributes:
        centre, scale: [layers, width].
        mean, inv_std: of the rows of problems that learn from the same, [layers, some, width].
    """

    centre: Tensor
    scale: Tensor
    mean: Tensor
    inv_std: Tensor


def _standardised(
    features: Features, z: Tensor, masks: Tensor, first: int, *, few: bool
) -> tuple[_Layers, Matrices, list[tuple[Tensor, Tensor]]]:
    """The features of all layers, standardised, and the correlations of each taken apart.

    One layer is read after the other, and standardised in memory that they share. Few probes of a
    layer that is nearly uncorrelated do with eigenvectors of rank 0. `masks` are without repeats.
    """
    layers, n, width = features.shape
    room, matrices = z.new_empty((n, width)), matmul.empty(features.shape, z.device)
    found, eigen = [], []
    for layer in range(layers):
        rows = features[layer : layer + 1][0].to(z.device)
        by = _standardise(rows, room, first + layer)
        matrices.add(room)
        found.append((*by, *_mean_and_inv_std(room, masks)))
        mild = few and _spread(room) <= MILD
        eigen.append((room.new_empty((width, 0)), room.new_empty(0)) if mild else _eigen(room))
    return _Layers(*map(torch.stack, zip(*found, strict=True))), matrices, eigen


def _blocks(
    layers: _Layers,
    matrices: Matrices,
    eigen: Sequence[tuple[Tensor, Tensor]],
    z: Tensor,
    masks: Tensor,
    same: Tensor,
    c: Tensor,
) -> Iterator[tuple[Block, Tensor]]:
    """Layers that are solved together, those with eigenvectors and those without; their numbers.

    `same` says which of the means and spreads of `layers` is each problem's.
    """
    weighted = bool(((masks != 0) & (masks != 1)).any())
    ranks = [len(values) for _, values in eigen]
    for rank in sorted({*ranks}):
        some = [layer for layer, found in enumerate(ranks) if found == rank]
        here = torch.tensor(some, device=z.device)
        vectors, values = map(torch.stack, zip(*(eigen[layer] for layer in some), strict=True))
        block = Block(
            x=matrices.at(here),
            z=z,
            mask=masks,
            root=torch.where(masks > 0, masks.rsqrt(), 0.0) if weighted else None,
            c=c[here][..., None],
            size=masks.sum(-1, keepdim=True),
            mean=layers.mean[here][:, same],
            inv_std=layers.inv_std[here][:, same],
            vectors=vectors,
            values=values[:, None],
        )
        yield block, here


def _standardise(rows: Tensor, out: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """Write a layer's features [n, width] to `out`, less their centre and by their scale, [width].

    A row far off draws the mean away from all others, and leaves few digits to tell them apart:
    features that have one are centred by their other rows alone. A constant feature is its own
    centre, to the last bit.
    """
    n = len(rows)
    total = torch.stack([rows[some].float().sum(0) for some in _rows_at_once(rows)])
    centre = (total.double().sum(0) / n).float()
    _check_finite(centre, layer)
    squares, most = torch.zeros_like(centre), torch.zeros_like(centre)
    for some in _rows_at_once(rows):
        square = torch.sub(rows[some], centre, out=out[some]).square()
        squares += square.sum(0)
        most = torch.maximum(most, square.amax(0))
    scale = (squares / n).sqrt()
    flat = ((scale > 0) & (scale <= ROUNDED * centre.abs())).nonzero()[:, 0]
    flat = flat[(rows[:, flat] == rows[0, flat]).all(0)]
    centre[flat], out[:, flat], scale[flat] = rows[0, flat].float(), 0.0, 0.0
    scale = torch.where(scale > 0, scale, 1.0)
    limit = min(FAR, math.sqrt(n) / 2) * scale
    far = (most > limit.square()).nonzero()[:, 0]
    if len(far):
        few = out[:, far]
        near = few.abs() <= limit[far]
        centre[far] += (few * near).sum(0) / near.sum(0).clamp(min=1)
        out[:, far] = rows[:, far].float() - centre[far]
    out.div_(scale)
    return centre, scale


def _mean_and_inv_std(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Of standardised features [n, width] by weights [problems, n]; float32 [problems, width].

    A feature that is constant gets weight 0 by way of an infinite std: that is what the penalty
    would make of it.
    """
    mean, variance = _mean_and_variance(x, weights)
    inv_std = torch.where(variance > CONSTANT, variance.clamp(min=CONSTANT).rsqrt(), 0.0)
    return mean.float(), inv_std.float()


def _mean_and_variance(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Of standardised features [n, width] by weights [problems, n]; float64 [problems, width].

    A float32 matrix product serves nearly all features; those of which it leaves too few digits,
    since the rows' spread is small beside their mean, are taken again in float64.
    """
    share = (weights.double() / weights.double().sum(-1, keepdim=True)).to(x.dtype)
    mean = x.new_zeros((len(share), x.shape[1]), dtype=torch.float64)
    square = torch.zeros_like(mean)
    for rows in _rows_at_once(x):
        mean += share[:, rows] @ x[rows]
        square += share[:, rows] @ x[rows].square()
    variance = square - mean.square()
    if x.dtype == torch.float32:
        few_digits = (variance < CANCELLED * square).any(0).nonzero()[:, 0]
        if len(few_digits):
            exact = _mean_and_variance(x[:, few_digits].double(), weights)
            mean[:, few_digits], variance[:, few_digits] = exact
    return mean, variance


def _rows_at_once(x: Tensor) -> list[slice]:
    starts = range(0, len(x), solving.ROWS_AT_ONCE)
    return [slice(start, start + starts.step) for start in starts]


def _spread(x: Tensor) -> float:
    """Mean square eigenvalue of xᵀx / n, at least 1; by random directions."""
    draws = torch.Generator(x.device).manual_seed(0)
    signs = torch.randint(0, 2, (4, x.shape[1]), generator=draws, device=x.device) * 2.0 - 1
    seen = (signs @ x.T) @ x / len(x)
    return float(seen.square().mean())


def _eigen(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvectors [width, rank] and eigenvalues [rank] of xᵀx / n, x [n, width].

    By way of the smaller of xᵀx and xxᵀ. Directions that hardly vary are left to the identity.
    """
    n, width = x.shape
    if width <= n:
        values, vectors = torch.linalg.eigh(x.T @ x / n)
        return vectors, values.clamp(min=0)
    values, rows = torch.linalg.eigh(x @ x.T / n)
    there = values > 1e-5 * values[-1:].clamp(min=1e-30)
    values = torch.where(there, values, 1.0)
    vectors = x.T @ rows / (n * values).sqrt()
    return vectors * there, values * there

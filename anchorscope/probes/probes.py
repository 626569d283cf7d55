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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from anchorscope.models.features import Features, InTurn, Part
from anchorscope.probes import solving
from anchorscope.probes.lbfgs import Block, minimise
from anchorscope.probes.standardising import Standardised, standardised
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import tried

TOLERANCE = 1e-4
MAX_ITERATIONS = 500

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
            are; all threads together hold no more of them. None: what `solving` says
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
    solver = _Solver(InTurn(x), z, masks, c, tolerance, max_iterations, block, first)
    workers = solving.workers(x.shape, block.layers, device, budget_bytes)
    spans = solving.spans(len(x), block.layers, workers)
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

    x: InTurn
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

    @torch.inference_mode()
    def _solve(self, x: Part, together: int) -> Probes:
        """Solve every problem at some layers, `together` at once."""
        layers = standardised(x, self.masks, self.first + x.layers.start)
        weights = self.z.new_empty((len(x), len(self.masks), x.shape[2]))
        bias, iterations, unconverged = weights.new_empty(weights.shape[:2]), 0, 0
        for here, block in self._blocks(layers, self.c[x.layers.start : x.layers.stop]):
            for some in torch.arange(len(self.masks), device=weights.device).split(together):
                problems = block.take(some)
                w, steps, unsolved = minimise(problems, self.tolerance, self.max_iterations)
                weights[here[:, None], some], bias[here[:, None], some] = problems.folded(w)
                iterations, unconverged = max(iterations, steps), unconverged + unsolved
        return Probes(weights / layers.scale[:, None], bias, layers.centre, iterations, unconverged)

    def _blocks(self, layers: Standardised, c: Tensor) -> Iterator[tuple[Tensor, Block]]:
        """Layers that are solved together, those with eigenvectors and those without."""
        weighted = bool(((self.masks != 0) & (self.masks != 1)).any())
        ranks = [len(values) for _, values in layers.eigen]
        for rank in sorted({*ranks}):
            some = [layer for layer, found in enumerate(ranks) if found == rank]
            here = torch.tensor(some, device=self.z.device)
            eigen = zip(*(layers.eigen[layer] for layer in some), strict=True)
            vectors, values = map(torch.stack, eigen)
            block = Block(
                x=layers.x.at(here),
                z=self.z,
                mask=self.masks,
                root=torch.where(self.masks > 0, self.masks.rsqrt(), 0.0) if weighted else None,
                c=c[here][..., None],
                size=self.masks.sum(-1, keepdim=True),
                mean=layers.mean[here][:, layers.same],
                inv_std=layers.inv_std[here][:, layers.same],
                vectors=vectors,
                values=values[:, None],
            )
            yield here, block


def joined(parts: Sequence[Probes]) -> Probes:
    """The probes of several blocks of layers, one after the other."""
    weights, bias, centre = (
        torch.cat([getattr(part, name) for part in parts]) for name in ("weights", "bias", "centre")
    )
    iterations = max(part.iterations for part in parts)
    return Probes(weights, bias, centre, iterations, sum(part.unconverged for part in parts))


def abreast(parts: Sequence[Probes]) -> Probes:
    """The probes of several solves of the same layers, one solve's problems after another's."""
    weights, bias = (
        torch.cat([getattr(part, name) for part in parts], dim=1) for name in ("weights", "bias")
    )
    return replace(parts[0], weights=weights, bias=bias)


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

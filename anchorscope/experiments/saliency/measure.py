"""Saliency: attention weights times the gradient of the probe's logit, batch by batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import softplus

from anchorscope.config.readouts import Location
from anchorscope.experiments.measured import COLUMNS
from anchorscope.experiments.saliency import RANDOM, SALIENCY, Saliency
from anchorscope.experiments.scored import Cell
from anchorscope.models.families import not_finite
from anchorscope.passes import runner
from anchorscope.passes.batches import Batch, Plan, Sample, arrange, narrowed
from anchorscope.passes.interventions import CLEAN, cut, tensor_name
from anchorscope.statistics.analysis import stacked
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room

GRAPH = 8
"""Batches are this many times smaller than in other passes, because gradients need memory."""
BEHIND_ANSWER = ("last_answer", "final")
"""Positions that can read the answer. Flow to the answer cannot affect earlier positions."""


@dataclass(frozen=True)
class Sources:
    """The question tokens from which a flow is measured: E_Q, or one draw of random tokens."""

    condition: str
    draw: int
    tokens: Sequence[Sequence[int]]  # token indices of each sample


def measure(cell: Cell, settings: Saliency) -> pd.DataFrame:
    """Measure the flow from E_Q and from random tokens, in each layer up to the headline layer.

    The model must use eager attention. Every batch has one forward pass, and one backward pass per
    read-out. Read-outs at positions before the answer are left out. A batch that does not fit in
    memory is halved. Batching affects nothing but rounding.

    Returns:
        The rows of `clean` at every layer, and the rows of each source up to the headline layer.
        Columns: `measured.COLUMNS`, `flow` (to the exact answer tokens), and `loss` (it sets the
        unit of `flow`).

    Raises:
        AnchorscopeError: A gradient is not finite, or a pass fails as in `runner.measure`.
    """
    readouts = [one for one in cell.readouts if Location.of(one).position in BEHIND_ANSWER]
    headlines = {readout: cell.headlines[readout] for readout in readouts}
    samples = [*cell.samples.values()]
    tokens = max(1, cell.loaded.batch_tokens // GRAPH)
    plan = arrange(samples, [(CLEAN, 0)], batch_tokens=tokens, seed=cell.seed)
    room = Room()
    frames: list[pd.DataFrame] = []
    with Progress(total=len(samples)) as progress:
        for batch in plan.batches:
            work = partial(_passed, cell, settings, plan, batch, headlines)
            frames += chain(*room.run(batch.samples, batch.tokens, work))
            progress.update(len(batch.samples))
    return stacked(frames, COLUMNS).assign(loss=settings.loss)


def _passed(
    cell: Cell,
    settings: Saliency,
    plan: Plan,
    batch: Batch,
    headlines: Mapping[str, int],
    numbers: Sequence[int],
) -> list[pd.DataFrame]:
    """Pass the samples `numbers` (indices in `plan`) of a batch once, and return their rows."""
    samples = [plan.samples[number] for number in numbers]
    found, attentions = runner.run(cell.loaded, narrowed(batch, numbers), cell.readouts)
    sources = _sources(cell, samples)
    frames = []
    for readout, layer in headlines.items():
        states = found[tensor_name("clean", readout)]
        s = cell.probes.logits(
            states.detach().transpose(0, 1).float(), readout, [one.id for one in samples]
        )
        loss = _loss(cell, settings, readout, layer, states[:, layer], samples)
        slopes = torch.autograd.grad(
            loss,
            attentions[: layer + 1],
            retain_graph=True,
            # in parallel blocks, the MLP does not read its block's attention: that gradient is 0
            materialize_grads=True,
            allow_unused=True,
        )
        place = batch.length, Location.of(readout).position
        pairs = [_pairs(one, sources, number, *place) for number, one in enumerate(samples)]
        flows = _flows(attentions, slopes, torch.stack(pairs).to(loss.device))
        frames += _rows(samples, readout, s, sources, flows)
    return frames


def _sources(cell: Cell, samples: Sequence[Sample]) -> list[Sources]:
    """Return E_Q, and the draws of random tokens that `random` blocks in the main run."""
    drawn = [(SALIENCY, 0), *((RANDOM, draw) for draw in range(cell.draws))]
    found = []
    for one, draw in drawn:
        key = f"{draw}/{cell.seed}"
        tokens = [cut(one, of.question_tokens, of.eq_tokens, f"{key}/{of.id}") for of in samples]
        found.append(Sources(one.name, draw, tokens))
    return found


def _loss(
    cell: Cell,
    settings: Saliency,
    readout: str,
    layer: int,
    states: Tensor,
    samples: Sequence[Sample],
) -> Tensor:
    """Return the loss to differentiate, summed over samples; `states` are [samples, width]."""
    ids = [one.id for one in samples]
    s = cell.probes.logits_at(layer, states, readout, ids)
    if settings.loss == "logit":
        return s.sum()
    z = cell.answers.set_index("id")["label"][ids].to_numpy()
    return softplus(torch.as_tensor(1 - 2 * z).to(s) * s).sum()


def _pairs(
    sample: Sample, sources: Sequence[Sources], number: int, length: int, position: str
) -> Tensor:
    """Return float32 [sources, length, length]: the weight of each token pair (target, source).

    A target is an exact answer token outside E_Q, later than the source token, and at or before
    the read-out's token. The weights of a source add up to 1. If it has no target, they are NaN.
    """
    is_target = torch.zeros(length, dtype=torch.bool)
    is_target[sample.positions["before_answer"] + 1 : sample.positions["last_answer"] + 1] = True
    is_target[sample.positions[position] + 1 :] = False
    is_target[list(sample.eq_tokens)] = False
    is_source = torch.zeros(len(sources), length, dtype=torch.bool)
    for place, one in enumerate(sources):
        is_source[place, list(one.tokens[number])] = True
    later = torch.ones(length, length).tril(-1).bool()
    pairs = (is_source[:, None] & is_target[:, None] & later).float()
    return pairs / pairs.sum((-1, -2), keepdim=True)


def _flows(attentions: Sequence[Tensor], slopes: Sequence[Tensor], pairs: Tensor) -> np.ndarray:
    """Return the mean saliency over `pairs` at layers with gradients, [layers, samples, sources].

    Attention weights and gradients are [samples, heads, length, length] for each layer.
    """
    flows = []
    for attention, slope in zip(attentions, slopes, strict=False):
        if not bool(slope.isfinite().all()):
            raise not_finite("a gradient of the attention is not finite", "saliency")
        product = attention.detach().float() * slope.float()
        weights = pairs.to(product.device)
        flows.append(torch.einsum("nqk,nsqk->ns", product.sum(1).abs(), weights).cpu())
    return torch.stack(flows).numpy()


def _rows(
    samples: Sequence[Sample],
    readout: str,
    s: np.ndarray,
    sources: Sequence[Sources],
    flows: np.ndarray,
) -> list[pd.DataFrame]:
    """Return the rows of `clean` and of each source; `s` are scores [layers, samples]."""
    ids = [one.id for one in samples]

    def rows(condition: str, draw: int, layers: int) -> pd.DataFrame:
        frame = pd.DataFrame({"id": np.tile(np.array(ids, dtype=object), layers)})
        frame = frame.assign(condition=condition, draw=draw, readout=readout)
        return frame.assign(layer=np.repeat(np.arange(layers), len(ids)), s=s[:layers].ravel())

    depth = len(flows)
    frames = [rows("clean", 0, len(s)).assign(n_tokens=np.nan)]
    for place, one in enumerate(sources):
        frame = rows(one.condition, one.draw, depth)
        frame["n_tokens"] = np.tile([float(len(tokens)) for tokens in one.tokens], depth)
        frames.append(frame.assign(flow=flows[:, :, place].ravel()))
    return frames

"""Saliency: attention weights times the gradient of the probe's logit, batch by batch."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from anchorscope.config.readouts import Location
from anchorscope.experiments.measured import Measurements
from anchorscope.experiments.saliency import RANDOM, SALIENCY, Saliency
from anchorscope.experiments.scored import Cell
from anchorscope.models.families import not_finite
from anchorscope.passes import runner
from anchorscope.passes.batches import Batch, Plan, Sample, arrange, narrowed
from anchorscope.passes.interventions import CLEAN, cut, tensor_name
from anchorscope.storage.progress import Progress
from anchorscope.storage.room import Room

GRAPH = 8
"""Batches are this many times smaller than in other passes, because gradients need memory."""
BEHIND_ANSWER = ("last_answer", "final")
"""Positions that can read the answer. Flow to the answer cannot affect earlier positions."""


def measure(cell: Cell, settings: Saliency) -> Measurements:
    """Measure the flow from E_Q and from random tokens, in each layer up to the headline layer.

    The model must use eager attention. Every batch has one forward pass, and one backward pass per
    read-out. Read-outs at positions before the answer are left out. A batch that does not fit in
    memory is halved. Batching affects nothing but rounding.

    Returns:
        The scores of `clean` at every layer; under `SALIENCY` and `RANDOM`, the flow to the exact
        answer tokens at each layer up to the headline layer. The fact `cross_entropy` says whether
        the cross-entropy was differentiated, which sets the unit of the flow.

    Raises:
        AnchorscopeError: A gradient is not finite, or a pass fails as in `runner.measure`.
    """
    headlines = {
        readout: cell.headlines[readout]
        for readout in cell.readouts
        if Location.of(readout).position in BEHIND_ANSWER
    }
    samples = [*cell.samples.values()]
    tokens = max(1, cell.loaded.batch_tokens // GRAPH)
    plan = arrange(samples, [(CLEAN, 0)], batch_tokens=tokens, seed=cell.seed)
    room, measured = Room(), Measurements(cell.probes.ids)
    measured.arrays["cross_entropy"] = np.array(settings.loss == "probe")
    with Progress(total=len(samples)) as progress:
        for batch in plan.batches:
            work = partial(_passed, cell, settings, plan, batch, headlines)
            for ids, found in room.run(batch.samples, batch.tokens, work):
                for (readout, condition), values in found.items():
                    measured.add(readout, condition, ids, values)
            progress.update(len(batch.samples))
    return measured


def _passed(
    cell: Cell,
    settings: Saliency,
    plan: Plan,
    batch: Batch,
    headlines: Mapping[str, int],
    numbers: Sequence[int],
) -> tuple[list[str], dict[tuple[str, str], np.ndarray]]:
    """Pass the samples `numbers` (indices in `plan`) of a batch once.

    Return their ids, and (read-out, condition) → values [draws, layers, samples].
    """
    samples = [plan.samples[number] for number in numbers]
    ids, found = [one.id for one in samples], dict[tuple[str, str], np.ndarray]()
    sources = [_sources(cell, one) for one in samples]
    states_of, attentions = runner.run(cell.loaded, narrowed(batch, numbers), cell.readouts)
    for readout, layer in headlines.items():
        states = states_of[tensor_name("clean", readout)]
        s = cell.probes.logits(states.detach().transpose(0, 1).float(), readout, ids)
        logits = cell.probes.logits_at(layer, states[:, layer], readout, ids)
        loss = _loss(cell, settings, logits, ids)
        slopes = torch.autograd.grad(
            loss,
            attentions[: layer + 1],
            retain_graph=True,
            # in parallel blocks, the MLP does not read its block's attention: that gradient is 0
            materialize_grads=True,
            allow_unused=True,
        )
        place = batch.length, Location.of(readout).position
        pairs = [_pairs(*one, *place) for one in zip(samples, sources, strict=True)]
        flows = _flows(attentions, slopes, torch.stack(pairs).to(loss.device))
        found[readout, "clean"] = s[None]
        found[readout, SALIENCY.name], found[readout, RANDOM.name] = flows[:1], flows[1:]
    return ids, found


def _sources(cell: Cell, sample: Sample) -> list[tuple[int, ...]]:
    """Return E_Q, and the draws of random tokens that `random` blocks in the main run."""
    drawn = [(SALIENCY, 0), *((RANDOM, draw) for draw in range(cell.draws))]
    return [
        cut(one, sample.question_tokens, sample.eq_tokens, f"{draw}/{cell.seed}/{sample.id}")
        for one, draw in drawn
    ]


def _loss(cell: Cell, settings: Saliency, s: Tensor, ids: list[str]) -> Tensor:
    """Return the loss to differentiate, summed over samples; `s` are their logits."""
    if settings.loss == "logit":
        return s.sum()
    z = cell.answers.set_index("id")["label"][ids].to_numpy()
    return softplus(torch.as_tensor(1 - 2 * z).to(s) * s).sum()


def _pairs(sample: Sample, sources: Sequence[Sequence[int]], length: int, position: str) -> Tensor:
    """Return float32 [sources, length, length]: the weight of each token pair (target, source).

    A target is an exact answer token outside E_Q, later than the source token, and at or before
    the read-out's token. The weights of a source add up to 1. If it has no target, they are NaN.
    """
    is_target = torch.zeros(length, dtype=torch.bool)
    is_target[sample.positions["before_answer"] + 1 : sample.positions["last_answer"] + 1] = True
    is_target[sample.positions[position] + 1 :] = False
    is_target[list(sample.eq_tokens)] = False
    is_source = torch.zeros(len(sources), length, dtype=torch.bool)
    for place, tokens in enumerate(sources):
        is_source[place, list(tokens)] = True
    later = torch.ones(length, length).tril(-1).bool()
    pairs = (is_source[:, None] & is_target[:, None] & later).float()
    return pairs / pairs.sum((-1, -2), keepdim=True)


def _flows(attentions: Sequence[Tensor], slopes: Sequence[Tensor], pairs: Tensor) -> np.ndarray:
    """Return the mean saliency over `pairs` at layers with gradients, [sources, layers, samples].

    Attention weights and gradients are [samples, heads, length, length] for each layer.
    """
    flows = []
    for attention, slope in zip(attentions, slopes, strict=False):
        if not bool(slope.isfinite().all()):
            raise not_finite("a gradient of the attention is not finite", "saliency")
        product = attention.detach().float() * slope.float()
        weights = pairs.to(product.device)
        flows.append(torch.einsum("nqk,nsqk->sn", product.sum(1).abs(), weights).cpu())
    return torch.stack(flows, dim=1).numpy()

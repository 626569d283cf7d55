"""The runner: passes rows through the model and reads all layers in one pass.

The state at layer k depends on layers 0…k only. So one pass that blocks tokens in *every* layer
gives, at each layer k, exactly the state of a pass that blocks them in layers 0…k only. Such a pass
needs no mask: it leaves the blocked tokens out, see `Row.places`.
"""

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from anchorscope.config.readouts import Location, parse
from anchorscope.models import cache, families
from anchorscope.models.families import Loaded, not_finite
from anchorscope.models.hooks import mask, masked
from anchorscope.passes.batches import Batch, Drawn, Plan, by_length, narrowed
from anchorscope.passes.interventions import tensor_name
from anchorscope.passes.recording import recording
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.room import Room

States = dict[str, torch.Tensor]
"""`<condition>.<draw>/<site>.<position>` → [samples, layers, width], in the model's dtype.

`<condition>.<draw>/outputs` → float32 [tokens, 3]: `QUANTITIES` of each answer's tokens up to the
end of E_A, one sample after the other.
"""
QUANTITIES = ("logprob", "logit", "entropy")
"""A token's log-probability, its logit, and the entropy (in nats) of the distribution over all
tokens. All three come from predicting this token from those before it, at temperature 1."""
Waiting = Callable[[], States]
"""Function that waits until a batch is passed, checks its states, and returns them."""
FLAWS = ("", "zero", "not finite")
"""Flaws of a vector of states. The first entry stands for no flaw."""
AHEAD = {"cuda": 1}
"""Type of device → how many later batches to begin before waiting for a batch; 0 if not listed."""
LOGITS_AT_ONCE = 2**25
"""Maximum number of logits in memory at a time, 128 MiB in float32."""


def run(loaded: Loaded, batch: Batch, read: Sequence[str]) -> tuple[States, Sequence[torch.Tensor]]:
    """Pass all rows of a batch in one call, without a cache, to compute gradients.

    Return (states, attention): the states at the read-outs `read`, and the attention weights
    [rows, heads, queries, keys] of each layer. They share one autograd graph. The model must have
    eager attention.

    Raises:
        AnchorscopeError: An activation is not finite, or a whole vector is zero.
    """
    arguments = inputs(loaded, batch) | {"output_attentions": True}
    embeddings = loaded.model.get_input_embeddings()(arguments.pop("input_ids"))
    arguments["inputs_embeds"] = embeddings.detach().requires_grad_()
    with torch.enable_grad():
        by_site, out = _pass_batch(loaded, batch, parse(read), arguments)
    _check({site: _flaws(states) for site, states in by_site.items()}, batch)
    return _by_name(batch, parse(read), by_site), out.attentions


def measure(
    loaded: Loaded,
    planned: Plan,
    readouts: Sequence[str],
    *,
    numbers: Iterable[int] | None = None,
    room: Room | None = None,
    outputs: bool = False,
) -> Generator[tuple[Batch, States]]:
    """Yield (batch, states) for each planned batch. The states are in CPU memory.

    The states follow the order of `batch.samples`. A batch that does not fit in memory is halved.
    The common beginning of all prompts is passed only once. All rows of a sample except `noop` are
    in one call: in half precision, the call's shape can change results more than a condition does.
    A GPU passes a batch while the states of the one before it are checked and used.

    `numbers` lists the batches to pass, by default all. `room` remembers what did not fit in
    memory. With `outputs`, add the `QUANTITIES` under conditions with `reads_outputs`.

    Raises:
        AnchorscopeError: An activation is not finite, a whole vector is zero, or one sample alone
            does not fit in memory.
    """
    locations, room = parse(readouts), room or Room()
    todo = range(len(planned.batches)) if numbers is None else list(numbers)
    head = head_of(loaded, planned) if todo else []

    def begin(batch: Batch, samples: Sequence[int]) -> list[Waiting]:
        """Begin to pass some samples of a batch. On a CPU, split them if that is faster."""
        chosen = narrowed(batch, samples)
        divided = by_length(chosen) if loaded.device.type == "cpu" else [chosen]
        return [_begin(loaded, part, locations, head, outputs) for part in divided]

    begun: deque[tuple[Batch, list[Waiting]]] = deque()
    for number in todo:
        batch = planned.batches[number]
        try:
            parts = room.run(batch.samples, batch.tokens, partial(begin, batch))
        except Exception:
            yield from itertools.starmap(_ended, begun)  # they were passed before this one failed
            raise
        begun.append((batch, list(itertools.chain(*parts))))
        if len(begun) > AHEAD.get(loaded.device.type, 0):
            yield _ended(*begun.popleft())
    yield from itertools.starmap(_ended, begun)


def head_of(loaded: Loaded, planned: Plan) -> cache.Layers:
    """Return the keys and values of the common beginning of all prompts, see `Plan.head`."""
    ids = planned.samples[0].input_ids[: planned.head]
    return cache.pass_head(loaded, ids)


def _ended(batch: Batch, parts: Sequence[Waiting]) -> tuple[Batch, States]:
    """Wait for the parts of a batch, and return the batch with its states."""
    states = [wait() for wait in parts]
    if len(states) == 1:
        return batch, states[0]
    return batch, {name: torch.cat([part[name] for part in states]) for name in states[0]}


@torch.inference_mode()
def _begin(
    loaded: Loaded, batch: Batch, locations: Sequence[Location], head: cache.Layers, outputs: bool
) -> Waiting:
    """Begin to pass one batch, without waiting for a GPU. `head` is as `head_of` returns it."""
    by_site, out = _pass_batch(loaded, batch, locations, inputs(loaded, batch, head), head)
    states = _by_name(batch, locations, by_site)
    if outputs:
        states |= _outputs(loaded, batch, out.last_hidden_state, head)
    flaws = {site: _flaws(of_site) for site, of_site in by_site.items()}
    devices = {one.device for one in states.values() if one.is_cuda}
    states, flaws = (
        {name: one.contiguous().to("cpu", non_blocking=one.is_cuda) for name, one in some.items()}
        for some in (states, flaws)
    )
    copied = [torch.cuda.current_stream(device).record_event() for device in devices]

    def wait() -> States:
        for event in copied:
            event.synchronize()
        _check(flaws, batch)
        _check_outputs(states, batch)
        return states

    return wait


def _pass_batch(
    loaded: Loaded,
    batch: Batch,
    locations: Sequence[Location],
    arguments: Mapping[str, Any],
    head: cache.Layers | None = None,
) -> tuple[dict[str, torch.Tensor], Any]:
    """Pass one batch through the base model.

    Return (states, the model's output). `states`: site → [rows, layers, positions, width].
    """
    first = in_cache(head)
    recorded = recording(loaded, locations, batch.rows, first=first)
    with recorded as seen, _masked_by_layer(loaded, batch, first):
        out = families.base(loaded.model)(**arguments)
    by_site = {
        site: torch.stack([layer.to(layers[0].device) for layer in layers], dim=1)
        for site, layers in seen.items()
    }
    return by_site, out


def _outputs(loaded: Loaded, batch: Batch, last: torch.Tensor, head: cache.Layers) -> States:
    """Return `QUANTITIES` under conditions with `reads_outputs`. `last` is the LM head's input."""
    found, first = {}, in_cache(head)
    for one, draw in batch.columns:
        if not one.reads_outputs:
            continue
        tokens = [
            # each token is predicted from the state of the token before it
            (number, token - 1 - first, batch.rows[number].passed.input_ids[token])
            for number, token in _read_tokens(batch, (one, draw))
        ]
        rows, before, ids = families.moved(torch.tensor(tokens), last.device).unbind(1)
        name = tensor_name(one.name, "outputs", draw)
        found[name] = probabilities(loaded, last[rows, before], ids)
    return found


def _read_tokens(batch: Batch, drawn: Drawn) -> list[tuple[int, int]]:
    """Return (row, token) of each answer token under one condition, both as indices."""
    return [
        (number, token)
        for number, row in enumerate(batch.rows)
        if (row.intervention, row.draw) == drawn
        for token in row.passed.answer_tokens
    ]


def in_cache(head: cache.Layers | None) -> int:
    """Return the number of tokens of the cached `head`, which are not passed again."""
    return head[0][0].shape[2] if head else 0


def inputs(loaded: Loaded, batch: Batch, head: cache.Layers | None = None) -> dict[str, Any]:
    """Return the arguments of one call of the model: `cache.padded`, and the cached `head`."""
    ids, places = zip(*((row.input_ids, row.places) for row in batch.rows), strict=True)
    arguments: dict[str, Any] = cache.padded(
        ids, places, batch.length, loaded.device, in_cache(head)
    )
    arguments["use_cache"] = bool(head)
    if head:
        arguments["past_key_values"] = cache.after(head)
    return arguments


@contextmanager
def _masked_by_layer(loaded: Loaded, batch: Batch, first: int) -> Iterator[None]:
    """If an intervention acts in some layers only, give each layer a mask of its own."""
    layers = range(len(families.layers(loaded)))
    cuts = [tuple(row.masked_in(layer) for row in batch.rows) for layer in layers]
    if not any(itertools.chain(*cuts)):
        yield
        return
    if not loaded.attends:
        what = "tokens cannot be blocked in some layers only: some layers are recurrent"
        do = "leave out experiments that block tokens in a window of layers"
        raise AnchorscopeError(what, type(loaded.model).__name__, do, see="unknown-parts")
    # layers with the same cuts share a mask
    masks = {
        one: families.moved(mask(one, batch.length, loaded.model.dtype, first), loaded.device)
        for one in set(cuts)
    }
    with masked(loaded, [masks[one] for one in cuts]):
        yield


def _by_name(
    batch: Batch, locations: Sequence[Location], by_site: Mapping[str, torch.Tensor]
) -> States:
    """Arrange the states `by_site` (see `_pass_batch`) by condition, draw and read-out."""
    positions = list(dict.fromkeys(position for _, position in locations))
    # Rows are all samples under the first column, then under the next.
    shape = len(batch.columns), len(batch.samples)
    columns = {site: states.unflatten(0, shape) for site, states in by_site.items()}
    return {
        tensor_name(one.name, f"{site}/{position}", draw): columns[site][
            number, :, :, positions.index(position)
        ]
        for number, (one, draw) in enumerate(batch.columns)
        for site, position in locations
    }


def _flaws(states: torch.Tensor) -> torch.Tensor:
    """Return int8 [rows, layers, positions] for states [..., width]: a `FLAWS` index per vector."""
    zero = (states == 0).all(dim=-1).to(torch.int8)
    return torch.where(states.isfinite().all(dim=-1), zero, FLAWS.index("not finite"))


def _check(flaws: Mapping[str, torch.Tensor], batch: Batch) -> None:
    """Refuse a batch if a vector of states is not finite or all zero. `flaws`: site → `_flaws`."""
    for site, of_site in flaws.items():
        for number, layer, position in of_site.nonzero()[:1].tolist():
            flaw = FLAWS[int(of_site[number, layer, position])]
            what = f"the output of {site} is {flaw} at layer {layer}"
            raise not_finite(what, str(batch.rows[number]))


def _check_outputs(states: States, batch: Batch) -> None:
    """Refuse a batch if a token's log-probability is not finite."""
    for one, draw in batch.columns:
        of_tokens = states.get(tensor_name(one.name, "outputs", draw))
        if of_tokens is not None and not bool(of_tokens.isfinite().all()):
            token = int((~of_tokens.isfinite()).nonzero()[0, 0])
            row = batch.rows[_read_tokens(batch, (one, draw))[token][0]]
            raise not_finite("a token's log-probability is not finite", str(row))


def probabilities(loaded: Loaded, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return float32 [n, 3] on the model's device: the `QUANTITIES` of each of the n `tokens`.

    Token i is predicted from state i of `states` [n, width], taken after the final norm.
    """
    parts = []
    for logits, written in logits_of(loaded, states, tokens):
        log_p = logits.log_softmax(dim=-1)
        index = written.to(logits.device)[:, None]
        entropy = torch.special.entr(log_p.exp()).sum(dim=-1)
        of_token = log_p.gather(-1, index)[:, 0], logits.gather(-1, index)[:, 0]
        parts.append(torch.stack([*of_token, entropy], dim=1))
    return torch.cat(parts)


@torch.inference_mode()
def logits_of(
    loaded: Loaded, states: torch.Tensor, beside: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield (float32 logits [part, vocabulary], part of `beside`); both inputs are split alike."""
    size = max(1, LOGITS_AT_ONCE // families.embedded(loaded.model))
    for some, given in zip(states.split(size), beside.split(size), strict=True):
        yield families.logits(loaded.model, some), given

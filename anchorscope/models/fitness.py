"""Show on a short text that a loaded model can be measured, before any sample is passed."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch

from anchorscope.models import cache, families
from anchorscope.models.families import Loaded
from anchorscope.storage.errors import AnchorscopeError

LENGTH, CHANGED = 24, 8
"""Tokens of the text, and how many of them at its end are changed."""
BLOCKED = (5, 6, 11)
EXACT, OF_EFFECT = 1e-4, 0.25
"""Largest difference in float32; in half precision, relative to the effect of the deletion. See
`_distance`."""

States = dict[str, torch.Tensor]
"""Site → float32 [layers, tokens, width]."""


def check(loaded: Loaded, where: object) -> float | None:
    """Refuse a model in which a state depends on later tokens, or deletion is not the knockout.

    Keys and values of a text's beginning, and the LM head, must be usable by themselves.

    Return the largest difference between deletion and mask, relative to the largest state; None if
    some layers are recurrent, so that no mask can block tokens.

    Raises:
        AnchorscopeError: A test fails. The error says which.
    """
    ids = torch.arange(LENGTH) * 7 % (families.embedded(loaded.model) - 1)
    clean = states(loaded, ids, range(LENGTH))
    width = clean["resid"].shape[-1]
    for site, of_site in clean.items():
        if of_site.shape[-1] != width:
            what = f"`{site}` has the width {of_site.shape[-1]}, the residual stream {width}"
            raise _unfit(what, where)
    left = [place for place in range(LENGTH) if place not in BLOCKED]
    deleted = states(loaded, ids, left)
    is_exact = loaded.model.dtype == torch.float32
    effect = _distance(loaded, deleted, _cut(clean, left))
    most = EXACT if is_exact else OF_EFFECT * effect
    before = slice(LENGTH - CHANGED)
    other = torch.cat([ids[before], ids[-CHANGED:] + 1])
    changed = _cut(states(loaded, other, range(LENGTH)), before)
    if (off := _distance(loaded, changed, _cut(clean, before))) > most:
        raise _unfit(f"its states change by {off:.0e} when later tokens change", where)
    if (off := _distance(loaded, *_logits(loaded, ids))) > most:
        raise _unfit(f"its logits differ by {off:.0e} from those of its LM head", where)
    if not loaded.attends:
        return None
    later = _cut(clean, slice(CHANGED, None))
    # The call has another shape, so rounding can send tokens to other experts.
    reused = EXACT if is_exact else effect
    if (off := _distance(loaded, _after_cache(loaded, ids, where), later)) > reused:
        raise _unfit(f"its states change by {off:.0e} if keys and values are reused", where)
    blocked = _cut(states(loaded, ids, range(LENGTH), masked=True), left)
    if (off := _distance(loaded, deleted, blocked)) > most:
        what = f"deleting tokens and blocking attention to them differ by {off:.0e}"
        raise _unfit(what, where)
    return off


@torch.inference_mode()
def _logits(loaded: Loaded, ids: torch.Tensor) -> tuple[States, States]:
    """Return the logits that `families.logits` computes, and those of the whole model."""
    call: Any = loaded.model
    arguments = cache.padded([ids.tolist()], [range(LENGTH)], LENGTH, loaded.device)
    expected = call(**arguments, use_cache=False).logits[0].float().cpu()
    last = families.base(loaded.model)(**arguments, use_cache=False).last_hidden_state[0]
    return {"": families.logits(loaded.model, last).cpu()}, {"": expected}


def _after_cache(loaded: Loaded, ids: torch.Tensor, where: object) -> States:
    """Return the states of the later tokens if the text's beginning is read from a cache."""
    try:
        return states(loaded, ids, range(LENGTH), first=CHANGED)
    except Exception as error:  # each family has a cache of its own
        what = f"its keys and values cannot be reused ({type(error).__name__}: {error})"
        raise _unfit(what, where) from error


def mask(
    cuts: Sequence[Sequence[int]], length: int, dtype: torch.dtype, first: int = 0
) -> torch.Tensor:
    """Return the additive causal mask [rows, 1, length − first, length] that blocks some tokens.

    `cuts` holds the indices of each row's blocked tokens. They can attend to each other, but no
    other token can attend to them. Every token can attend to itself: a token whose keys are all
    hidden would attend to all of them equally. Hidden entries are `finfo(dtype).min`, all others
    are 0. Tokens before `first` are keys but not queries.
    """
    is_cut = torch.zeros(len(cuts), length, dtype=torch.bool)
    for row, tokens in enumerate(cuts):
        is_cut[row, list(tokens)] = True
    key = torch.arange(length)
    query = key[first:, None]
    hidden = is_cut[:, None] & ~is_cut[:, first:, None] | (key > query)
    additive = torch.zeros(hidden.shape, dtype=dtype)
    return additive.masked_fill_(hidden & (key != query), torch.finfo(dtype).min)[:, None]


@torch.inference_mode()
def states(
    loaded: Loaded,
    ids: torch.Tensor,
    places: Sequence[int],
    *,
    masked: bool = False,
    first: int = 0,
) -> States:
    """Pass the tokens of a text at some `places`, the `first` tokens in a pass of their own.

    If `masked`, block attention to `BLOCKED`.
    """
    seen: dict[str, list[torch.Tensor]] = {site: [] for site in families.sites(loaded)}

    def keep(site: str) -> Any:
        return lambda _, __, output: seen[site].append(families.first_tensor(output).float().cpu())

    chosen = [ids[list(places)].tolist()]
    arguments: dict[str, Any] = cache.padded(
        chosen, [list(places)], len(places), loaded.device, first
    )
    arguments["use_cache"] = first > 0
    if first:
        arguments["past_key_values"] = cache.after(cache.pass_head(loaded, chosen[0][:first]))
    if masked:
        arguments["attention_mask"] = mask([BLOCKED], LENGTH, loaded.model.dtype).to(loaded.device)
    with ExitStack() as hooks:
        for block in families.layers(loaded):
            for site in seen:
                handle = families.part(loaded, block, site).register_forward_hook(keep(site))
                hooks.callback(handle.remove)
        families.base(loaded.model)(**arguments)
    n = len(places) - first  # some modules flatten rows and tokens
    return {site: torch.stack([one.reshape(n, -1) for one in of]) for site, of in seen.items()}


def _cut(found: States, tokens: Any) -> States:
    return {site: of_site[:, tokens] for site, of_site in found.items()}


def _distance(loaded: Loaded, one: States, other: States) -> float:
    """Return the largest difference, relative to the largest state of its site.

    In half precision, where rounding can send a token to another expert, return the norm of all
    differences, relative to the norm of all states of the site.
    """
    pairs = [(one[site] - other[site], other[site]) for site in one]
    if loaded.model.dtype == torch.float32:
        return max(float(off.abs().max() / of.abs().max()) for off, of in pairs)
    return max(float(off.norm() / of.norm()) for off, of in pairs)


def _unfit(what: str, where: object) -> AnchorscopeError:
    do = "choose another model; if this one should fit, report it with its config.json"
    return AnchorscopeError(what, where, do, see="unknown-family")

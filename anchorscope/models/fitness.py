"""Test on a short text that a loaded model can be measured, before any sample is passed."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from anchorscope.models import cache, families
from anchorscope.models.families import Loaded
from anchorscope.models.hooks import mask, reading
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
    off = 0.0
    for what, off, most in _tests(loaded, where):
        if off > most:
            raise _unfit(what.format(off=f"{off:.0e}"), where)
    return off if loaded.attends else None


def _tests(loaded: Loaded, where: object) -> Iterator[tuple[str, float, float]]:
    """Yield each test: what its failure means, the difference found, and the largest allowed."""
    ids = torch.arange(LENGTH) * 7 % (families.embedded(loaded.model) - 1)
    clean = states(loaded, ids, range(LENGTH))
    _check_widths(clean, where)
    left = [place for place in range(LENGTH) if place not in BLOCKED]
    deleted = states(loaded, ids, left)
    effect = _distance(loaded, deleted, _at(clean, left))
    is_exact = loaded.model.dtype == torch.float32
    most = EXACT if is_exact else OF_EFFECT * effect
    before, after = slice(LENGTH - CHANGED), slice(CHANGED, None)
    changed = states(loaded, torch.cat([ids[before], ids[-CHANGED:] + 1]), range(LENGTH))
    off = _distance(loaded, _at(changed, before), _at(clean, before))
    yield "its states change by {off} when later tokens change", off, most
    off = _distance(loaded, *_logits(loaded, ids))
    yield "its logits differ by {off} from those of its LM head", off, most
    if not loaded.attends:
        return
    off = _distance(loaded, _after_cache(loaded, ids, where), _at(clean, after))
    # The call has another shape, so rounding can send tokens to other experts.
    reused = EXACT if is_exact else effect
    yield "its states change by {off} if keys and values are reused", off, reused
    blocked = states(loaded, ids, range(LENGTH), masked=True)
    off = _distance(loaded, deleted, _at(blocked, left))
    yield "deleting tokens and blocking attention to them differ by {off}", off, most


def _check_widths(clean: States, where: object) -> None:
    """Refuse a model with a site that is not as wide as the residual stream."""
    width = clean["resid"].shape[-1]
    for site, of_site in clean.items():
        if of_site.shape[-1] != width:
            what = f"`{site}` has the width {of_site.shape[-1]}, the residual stream {width}"
            raise _unfit(what, where)


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
    chosen = ids[list(places)].tolist()
    arguments: dict[str, Any] = cache.padded([chosen], [places], len(chosen), loaded.device, first)
    if first:
        arguments["past_key_values"] = cache.after(cache.pass_head(loaded, chosen[:first]))
    if masked:
        blocked = mask([BLOCKED], LENGTH, loaded.model.dtype)
        arguments["attention_mask"] = families.moved(blocked, loaded.device)
    seen: dict[str, list[torch.Tensor]] = {site: [] for site in families.sites(loaded)}

    def keep(site: str, of_layer: torch.Tensor) -> None:
        seen[site].append(of_layer[0].float().cpu())

    with reading(loaded, list(seen), 1, keep):
        families.base(loaded.model)(**arguments, use_cache=first > 0)
    return {site: torch.stack(of_site) for site, of_site in seen.items()}


def _at(found: States, tokens: Any) -> States:
    """Return the states at some tokens: a slice, or a list of indices."""
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
    """Return the error for a model that fails a test."""
    do = "choose another model; if this one should fit, report it with its config.json"
    return AnchorscopeError(what, where, do, see="unknown-family")

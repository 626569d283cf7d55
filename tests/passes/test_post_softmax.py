"""Ablation: attention zeroed after the softmax, and why the instrument does not do that.

A knockout sets scores to −∞ before the softmax, so that the other tokens share the weight that the
cut ones had: every query still takes a mean of values. Zeroing weights after the softmax takes that
weight away. A query that gave much of its attention to E_Q is then left with a shrunken sum, a
vector that attention never produces, and the more it looked at E_Q, the more it shrinks: its
effect mixes what E_Q said with how much was taken out. That is why it exists here only, in an eager
reference, and is no setting of the tool. Renormalised afterwards, it is the knockout again.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from conftest import CORPUS

from anchorscope.models import loading
from anchorscope.passes.interventions import Cut
from anchorscope.passes.mask import mask

LENGTH, HEADS, WIDTH = 9, 2, 8
BLOCKED = [2, 3, 5]


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, additive: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and weights, [heads, queries, ...], of scores with a mask added before the softmax."""
    weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + additive).softmax(-1)
    return weights @ v, weights


def zeroed(weights: torch.Tensor, additive: torch.Tensor) -> torch.Tensor:
    """The same weights, those that the mask closes taken out after the softmax."""
    return weights * (additive == 0)


@pytest.fixture
def states() -> tuple[torch.Tensor, ...]:
    """Queries, keys and values of random tokens, float64 [heads, tokens, width]."""
    torch.manual_seed(0)
    return tuple(torch.randn(3, HEADS, LENGTH, WIDTH, dtype=torch.float64))


@pytest.fixture
def masks() -> tuple[torch.Tensor, torch.Tensor]:
    """Additive masks of one row, nothing cut and E_Q cut, [tokens, tokens]."""
    made = (mask([LENGTH], [Cut(tuple(cut))], dtype=torch.float64) for cut in ([], BLOCKED))
    nothing, cut = (one[0, 0] for one in made)
    return nothing, cut


def test_it_shrinks_every_query_by_what_it_gave_to_the_cut_tokens(states, masks) -> None:
    nothing, cut = masks
    _, clean = attention(*states, nothing)
    knocked_out, weights = attention(*states, cut)
    after = zeroed(clean, cut)
    left = after.sum(-1, keepdim=True)
    torch.testing.assert_close(after / left, weights)
    torch.testing.assert_close(after @ states[2], left * knocked_out)


def test_in_a_model_the_two_part_after_what_is_cut_and_nowhere_before(
    checkpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = loading.load(checkpoint("llama", "metaspace"))
    loaded.model.set_attn_implementation("eager")
    ids = torch.tensor([loaded.tokenizer(CORPUS[0])["input_ids"]])
    length = ids.shape[1]
    clean = mask([length], [Cut(())], dtype=torch.float32)
    cut = mask([length], [Cut((4, 5))], dtype=torch.float32)

    def states(additive: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return loaded.model.base_model(ids, attention_mask=additive).last_hidden_state[0]

    knocked_out = states(cut)
    softmax = torch.nn.functional.softmax
    sums = []

    def softmax_then_zero(scores: torch.Tensor, dim: int, dtype: Any = None) -> torch.Tensor:
        weights = zeroed(softmax(scores, dim=dim, dtype=dtype), cut)
        sums.append(weights.sum(-1))
        return weights

    monkeypatch.setattr(torch.nn.functional, "softmax", softmax_then_zero)
    shrunken = states(clean)
    assert len(sums) == loaded.model.config.num_hidden_layers
    assert all((one[..., 6:] < 0.999).any() for one in sums)
    torch.testing.assert_close(shrunken[:6], knocked_out[:6])
    assert (shrunken - knocked_out)[6:].abs().amax(-1).min() > 1e-4

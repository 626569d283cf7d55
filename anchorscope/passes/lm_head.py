"""Probabilities of single tokens, from the states that predict them.

The LM head reads only these states, some at a time. With a large vocabulary, the logits of a whole
batch take more memory than its states.
"""

from collections.abc import Iterator

import torch

from anchorscope.models import families
from anchorscope.models.families import Loaded

QUANTITIES = ("logprob", "logit", "entropy")
"""Log-probability and logit of a token given all before it, and the entropy of its distribution,
in nats, before any temperature."""
LOGITS_AT_ONCE = 2**25
"""Maximum number of logits held at once, 128 MiB in float32."""


def probabilities(loaded: Loaded, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the `QUANTITIES` of tokens, float32 [n, 3] in CPU memory.

    Args:
        loaded: The model.
        states: States behind the final norm, as the base model returns them, [n, width].
        tokens: Ids of the tokens that they predict, [n].
    """
    parts = [torch.zeros((0, len(QUANTITIES)))]
    for logits, written in logits_of(loaded, states, tokens):
        log_p = logits.log_softmax(dim=-1)
        index = written.to(logits.device)[:, None]
        entropy = torch.special.entr(log_p.exp()).sum(dim=-1)
        of_token = log_p.gather(-1, index)[:, 0], logits.gather(-1, index)[:, 0]
        parts.append(torch.stack([*of_token, entropy], dim=1).cpu())
    return torch.cat(parts)


@torch.inference_mode()
def logits_of(
    loaded: Loaded, states: torch.Tensor, beside: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the logits of states [n, width] in parts, float32 [some, vocabulary], with `beside`."""
    rows = families.embedded(loaded.model)
    size = max(1, LOGITS_AT_ONCE // rows)
    for some, given in zip(states.split(size), beside.split(size), strict=True):
        yield families.logits(loaded.model, some), given

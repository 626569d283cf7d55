"""The LM head: what it says of single tokens, from the states that predict them.

It reads these states alone, some at a time: with a large vocabulary, the logits of a whole batch
take more memory than its states.
"""

from collections.abc import Iterator

import torch

from anchorscope.models import families
from anchorscope.models.families import Loaded

QUANTITIES = ("logprob", "logit", "entropy")
"""Of a token, given all before it: its log-probability, its logit, and the entropy of the
distribution that it was taken from. In nats, before any temperature."""
LOGITS_AT_ONCE = 2**25
"""Most logits that are held at once, 128 MiB in float32."""


def probabilities(loaded: Loaded, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """`QUANTITIES` of tokens [n] predicted from states [n, width], float32 [n, 3] in CPU memory.

    The states are those behind the final norm, as the base model returns them.
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
    """Logits of states [n, width] in parts, float32 [some, vocabulary], with rows of `beside`."""
    rows = families.embedded(loaded.model)
    size = max(1, LOGITS_AT_ONCE // rows)
    for some, given in zip(states.split(size), beside.split(size), strict=True):
        yield families.logits(loaded.model, some), given

"""Interventions: what a pass does to a sample, as data.

One record says all of a condition. The passes, the mask, the index of the activations, tables,
labels and pictures read the registry; no other module lists conditions.
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Settings = Mapping[str, Mapping[str, Any] | None]
"""The config's section `conditions`: a setting left out, or None, is off."""


@dataclass(frozen=True)
class Intervention:
    """One condition."""

    # name, label, when: in tables; in a legend; and what completes `ΔP when ...`
    name: str
    label: str
    when: str
    settings: tuple[str, ...] = ()  # keys of the config's `conditions`, all of which must be on
    tokens: str | None = None  # which question tokens it acts on, a key of `TOKENS`; None for none
    # what attention to these is multiplied by before the softmax renormalises it, an additive
    # log-weight on the scores; 0 cuts it
    weight: float = 0.0
    # first layer that it acts in, and the one after the last; None for all
    layers: tuple[int, int] | None = None
    # the prompt that the answer stands behind, a key of `Sample.others`, if not its own
    prompt: str | None = None
    control: str | None = None  # name of the condition that it is compared with
    # passed in a batch of its own, on the model's ordinary path without our mask
    own_batch: bool = False

    @property
    def partial(self) -> bool:
        """Whether only some of the samples are measured so."""
        return self.own_batch or self.prompt is not None

    def acts_in(self, layer: int) -> bool:
        """Whether it cuts, or weighs, in this layer."""
        return self.layers is None or self.layers[0] <= layer < self.layers[1]


EXACT, AS_MANY = "the exact question tokens", "as many random question tokens"
REGISTRY = (
    Intervention("clean", "nothing cut", "nothing is cut"),
    Intervention("knockout", "exact question tokens cut", f"attention to {EXACT} is cut",
                 ("knockout",), "exact", control="random"),
    Intervention("random", "as many random question tokens cut", f"attention to {AS_MANY} is cut",
                 ("random",), "random"),
    Intervention("question", "every question token cut", "attention to every question token is cut",
                 ("question",), "question", control="random"),
    Intervention("matched", "same answer, matched question",
                 "the same answer stands behind a matched question",
                 ("matched",), prompt="matched", control="placebo"),
    Intervention("placebo", "same answer, placebo question",
                 "the same answer stands behind a placebo question",
                 ("placebo",), prompt="placebo"),
    Intervention("replicate-clean", "nothing cut, second prompt",
                 "the same answer stands behind a second prompt",
                 ("replicate",), prompt="replicate"),
    Intervention("replicate-knockout", "exact question tokens cut, second prompt",
                 f"attention to {EXACT} of a second prompt is cut",
                 ("replicate", "knockout"), "exact", prompt="replicate",
                 control="replicate-random"),
    Intervention("replicate-random", "as many random question tokens cut, second prompt",
                 f"attention to {AS_MANY} of a second prompt is cut",
                 ("replicate", "random"), "random", prompt="replicate"),
    Intervention("noop", "nothing cut (noise)", "nothing is cut",
                 ("noop",), control="random", own_batch=True),
)  # fmt: skip
"""What the main run can measure, in the order of tables and passes."""

CLEAN = REGISTRY[0]
BY_NAME = {one.name: one for one in REGISTRY}
REPLICATE = {one.name: one for one in REGISTRY if one.prompt == "replicate"}
"""The conditions behind a second prompt for the same question."""
ARMS = tuple(one.name for one in REGISTRY if one.prompt and one.name not in REPLICATE)
"""The conditions of the interchange: nothing cut, the same answer behind another question."""


def on(settings: Settings) -> list[tuple[Intervention, int]]:
    """The interventions that a config's `conditions` turn on, each with its draws in turn.

    Raises ValueError: there is no such setting.
    """
    known = {name for one in REGISTRY for name in one.settings}
    if unknown := {*settings} - known:
        raise ValueError(f"unknown conditions {sorted(unknown)}, expected some of {sorted(known)}")
    return [
        (one, draw)
        for one in REGISTRY
        if all(settings.get(name) is not None for name in one.settings)
        for draw in range(int((settings.get(one.name) or {}).get("draws", 1)))
    ]


def uncut(one: Intervention) -> Intervention | None:
    """The intervention behind the same prompt that cuts nothing; passes of both begin alike."""
    if one.tokens is None:
        return None
    alike = (other for other in REGISTRY if other.prompt == one.prompt and other.tokens is None)
    return next((other for other in alike if not other.own_batch), None)


def cut(
    one: Intervention, question_tokens: Sequence[int], eq_tokens: Sequence[int], key: str
) -> tuple[int, ...]:
    """The tokens that an intervention acts on in one sample, all indices in the model's input.

    The random placement depends on `key`: number of the draw, seed and sample id.
    """
    return tuple(TOKENS[one.tokens](question_tokens, eq_tokens, key)) if one.tokens else ()


def random_tokens(question_tokens: Sequence[int], eq_tokens: Sequence[int], key: str) -> list[int]:
    """As many question tokens outside E_Q as E_Q has, in runs of E_Q's lengths, at random places.

    The longest run is placed first, apart from the others where there is room. One that fits
    nowhere fills the longest free stretch, and what is left of it is placed likewise; where the
    question has too few tokens, all are taken. In rising order.
    """
    draws = seeded(key)
    free = set(question_tokens) - set(eq_tokens)
    chosen: set[int] = set()
    for run in sorted((len(run) for run in runs(eq_tokens)), reverse=True):
        left = run
        while left and free:
            placed = _place(left, free, chosen, draws)
            free -= placed
            chosen |= placed
            left -= len(placed)
    return sorted(chosen)


def seeded(key: str) -> random.Random:
    """Draws that a key decides, the same on any machine: `hash` differs between runs of Python."""
    return random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big"))


def runs(tokens: Sequence[int]) -> list[list[int]]:
    """The maximal runs of consecutive indices, first to last."""
    found: list[list[int]] = []
    for token in sorted(set(tokens)):
        if found and found[-1][-1] == token - 1:
            found[-1].append(token)
        else:
            found.append([token])
    return found


def _place(length: int, free: set[int], taken: set[int], draws: random.Random) -> set[int]:
    """A random place for a run of this length, or the whole of a longest free stretch."""
    stretches = runs(sorted(free))
    fitting = [first for run in stretches for first in run[: max(0, len(run) - length + 1)]]
    apart = [first for first in fitting if not {first - 1, first + length} & taken]
    if fitting:
        first = draws.choice(apart or fitting)
        return set(range(first, first + length))
    longest = max(map(len, stretches))
    return set(draws.choice([run for run in stretches if len(run) == longest]))


TOKENS: dict[str, Callable[[Sequence[int], Sequence[int], str], list[int]]] = {
    "exact": lambda question, exact, key: sorted(set(exact)),
    "question": lambda question, exact, key: sorted(set(question)),
    "random": random_tokens,
}
"""Name → the tokens, from the question's tokens, E_Q and a key."""

"""Interventions: what each condition changes in the pass of a sample, as data.

One record describes one condition. Its role and its control decide how the condition is passed,
masked, indexed, scored, contrasted, tabulated and drawn. No other module lists conditions.
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Settings = Mapping[str, Mapping[str, int] | None]
"""The config's section `conditions`. A condition that is missing or None is off."""
Role = Literal["clean", "cut", "control", "arm", "gold", "noise"]
"""Relation of a condition to the others:

- `clean`: nothing is changed.
- `cut`: attention to some of the question's tokens is blocked.
- `control`: attention to other tokens is blocked, to compare with the `cut` that it controls.
- `arm`: the answer follows another question, and nothing is blocked.
- `gold`: a gold answer replaces the model's own wrong answer.
- `noise`: nothing is changed, in a batch of its own; it shows numerical noise.
"""


@dataclass(frozen=True)
class Intervention:
    """One condition: what it changes, and what it is compared with."""

    # name in tables, label in legends, and the clause that completes `ΔP when ...`
    name: str
    label: str
    when: str
    role: Role
    settings: tuple[str, ...] = ()  # keys of the config's `conditions`, all of which must be on
    tokens: str | None = None  # question tokens that it blocks, a key of `TOKENS`, or None
    # first layer in which it blocks, and the layer after the last one; None for all layers
    layers: tuple[int, int] | None = None
    # version of the sample that is passed, a key of `Sample.others`; None for the sample itself;
    # `planning` makes the versions `CROSSED`, `GOLD` and `CROSSED_GOLD`
    prompt: str | None = None
    # the condition that this one is compared with; for a cut after the partner's question, it is
    # the condition that has the same question and blocks nothing
    compared_with: str = "clean"
    # the control of this cut, which blocks the same number of other tokens
    controlled_by: str | None = None
    # this condition's counterpart after the partner's question, see `arms`
    behind_partner: str | None = None
    # another cut's control; flips count only in samples for which that control is complete
    counted_with: str | None = None
    # whether it is passed in batches of its own
    own_batch: bool = False

    @property
    def blocks(self) -> str:
        """Name of the tokens that a cut blocks, such as `every question token`."""
        return self.label.replace(" blocked", "")

    @property
    def partial(self) -> bool:
        """Whether only some samples are measured under this condition."""
        return self.own_batch or self.prompt is not None

    @property
    def reads_outputs(self) -> bool:
        """Whether the main run keeps the probabilities of the answer's tokens."""
        return self.role in ("clean", "arm", "gold")

    @property
    def drawn(self) -> bool:
        """Whether the blocked tokens are random, and differ between draws."""
        return self.tokens == "random"

    def acts_in(self, layer: int) -> bool:
        """Return whether the condition blocks its tokens in this layer."""
        return self.layers is None or self.layers[0] <= layer < self.layers[1]


def seeded(key: str) -> random.Random:
    """Return a generator seeded by a key, the same on any machine (unlike `hash`)."""
    return random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big"))


def runs(tokens: Sequence[int]) -> list[list[int]]:
    """Return the runs of consecutive indices, first to last: [1, 3, 4] → [[1], [3, 4]]."""
    stretches: list[list[int]] = []
    for token in sorted(set(tokens)):
        if stretches and stretches[-1][-1] == token - 1:
            stretches[-1].append(token)
        else:
            stretches.append([token])
    return stretches


def random_tokens(question_tokens: Sequence[int], eq_tokens: Sequence[int], key: str) -> list[int]:
    """Choose question tokens outside E_Q, as many as E_Q has and in runs of the same lengths.

    The longest runs are placed first. If there is room, runs do not touch. A run longer than every
    free stretch is split: one part fills the longest stretch, and the other part is placed next.
    If too few tokens are outside E_Q, all of them are chosen.
    """
    draws = seeded(key)
    free = set(question_tokens) - set(eq_tokens)
    chosen: set[int] = set()
    for left in sorted((len(run) for run in runs(eq_tokens)), reverse=True):
        while left and free:
            placed = _place(left, free, chosen, draws)
            free -= placed
            chosen |= placed
            left -= len(placed)
    return sorted(chosen)


def _place(length: int, free: set[int], taken: set[int], draws: random.Random) -> set[int]:
    """Choose a random run of `length` free tokens. If there is none, choose one of the longest."""
    stretches = runs(sorted(free))
    fitting = [first for run in stretches for first in run[: max(0, len(run) - length + 1)]]
    separate = [first for first in fitting if not {first - 1, first + length} & taken]
    if fitting:
        first = draws.choice(separate or fitting)
        return set(range(first, first + length))
    longest = max(map(len, stretches))
    return set(draws.choice([run for run in stretches if len(run) == longest]))


TOKENS: dict[str, Callable[[Sequence[int], Sequence[int], str], list[int]]] = {
    "exact": lambda question, exact, key: sorted(set(exact)),
    "question": lambda question, exact, key: sorted(set(question)),
    "rest": lambda question, exact, key: sorted(set(question) - set(exact)),
    "random": random_tokens,
}
"""Name → function of (question tokens, E_Q, key) that returns the tokens to block.
`random` returns as many tokens as E_Q has, so it is a control for `exact` only."""

CROSSED, GOLD, CROSSED_GOLD = "crossed", "gold", "crossed-gold"
"""Keys of `Sample.others`. In this order, they stand for the model's answer after the partner's
question, a gold answer after the sample's own question, and one after the partner's question."""
EXACT, REST = "the exact question tokens", "all other question tokens"
RECORDS = (
    Intervention("clean", "nothing blocked", "nothing is blocked", "clean",
                 behind_partner="crossed"),
    Intervention("knockout", "exact question tokens blocked",
                 f"attention to {EXACT} is blocked", "cut",
                 ("knockout",), "exact", controlled_by="random",
                 behind_partner="crossed-knockout"),
    Intervention("random", "as many random tokens as exact ones blocked",
                 "attention to as many random question tokens as exact ones is blocked", "control",
                 ("random",), "random"),
    Intervention("rest", "all other question tokens blocked",
                 f"attention to {REST} is blocked", "cut",
                 ("rest",), "rest", behind_partner="crossed-rest"),
    Intervention("question", "every question token blocked",
                 "attention to every question token is blocked", "cut",
                 ("question",), "question", counted_with="random"),
    Intervention("crossed", "nothing blocked, partner's question",
                 "the answers of two questions are swapped",
                 "arm", ("crossed",), prompt=CROSSED),
    Intervention("crossed-knockout", "exact question tokens blocked, partner's question",
                 f"attention to {EXACT} of the partner's question is blocked",
                 "cut", ("crossed", "knockout"), "exact", prompt=CROSSED, compared_with="crossed"),
    Intervention("crossed-rest", "all other question tokens blocked, partner's question",
                 f"attention to {REST} of the partner's question is blocked",
                 "cut", ("crossed", "rest"), "rest", prompt=CROSSED, compared_with="crossed"),
    Intervention("gold", "gold answer", "the gold answer stands in the answer's place",
                 "gold", ("crossed", "gold"), prompt=GOLD,
                 behind_partner="crossed-gold"),
    Intervention("crossed-gold", "gold answer, partner's question",
                 "the gold answers of two questions are swapped",
                 "gold", ("crossed", "gold"), prompt=CROSSED_GOLD, compared_with="gold"),
    Intervention("noop", "nothing blocked (noise)", "the batch changes and nothing is blocked",
                 "noise", ("noop",), counted_with="random", own_batch=True),
)  # fmt: skip
REGISTRY = {one.name: one for one in RECORDS}
"""Conditions that the main run can measure, by name, in the order of tables and passes.
`tests/passes/test_interventions.py` checks each record."""
CLEAN = REGISTRY["clean"]


def of_role(*roles: Role) -> list[Intervention]:
    """Return the registered conditions of some roles, in the registry's order."""
    return [one for one in REGISTRY.values() if one.role in roles]


def controlled_cuts() -> list[tuple[Intervention, Intervention]]:
    """Return every cut that has a control, together with this control."""
    return [(one, REGISTRY[one.controlled_by]) for one in of_role("cut") if one.controlled_by]


def arms() -> dict[str, tuple[Intervention, Intervention]]:
    """Map names to (condition, its version after the partner's question), e.g. (clean, crossed)."""
    crossed = [one for one in REGISTRY.values() if one.behind_partner]
    return {one.name: (one, REGISTRY[str(one.behind_partner)]) for one in crossed}


def blocked_arms() -> list[str]:
    """Return the keys of `arms()` whose conditions block question tokens, in registry order."""
    return [name for name, (own, _) in arms().items() if own.role == "cut"]


def pairing_control(condition: str) -> Intervention | None:
    """Return the control, if any, that must be complete if a flip under `condition` is to count."""
    one = REGISTRY[condition]
    name = one.name if one.role == "control" else one.controlled_by or one.counted_with
    return REGISTRY[name] if name else None


def on(settings: Settings) -> list[tuple[Intervention, int]]:
    """Return (intervention, draw) for every draw of every condition that the settings turn on."""
    return [
        (one, draw)
        for one in REGISTRY.values()
        if all(settings.get(name) is not None for name in one.settings)
        for draw in range(int((settings.get(one.name) or {}).get("draws", 1)))
    ]


def cut(
    one: Intervention, question_tokens: Sequence[int], eq_tokens: Sequence[int], key: str
) -> tuple[int, ...]:
    """Return the tokens that an intervention blocks. `key` seeds the random choice, if any."""
    return tuple(TOKENS[one.tokens](question_tokens, eq_tokens, key)) if one.tokens else ()


def tensor_name(condition: str, what: str, draw: int = 0) -> str:
    """Return the name of a tensor of a batch; `what` is a read-out, or `outputs`."""
    return f"{condition}.{draw}/{what.replace('/', '.')}"

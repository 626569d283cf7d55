"""Interventions: what each condition changes in the pass of a sample, as data.

One record describes one condition by three coordinates: the tokens that are blocked, the question
and the answer. They decide how the condition is passed, indexed, scored, contrasted, tabulated and
drawn. No other module lists conditions.
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

ConditionSettings = Mapping[str, Mapping[str, int] | None]
"""The config's section `conditions`. A condition that is missing or None is off."""
Role = Literal["clean", "cut", "control", "arm", "gold", "noise"]
"""Role of a condition:

- `clean`: nothing is changed.
- `cut`: some of the question's tokens are blocked.
- `control`: as many random tokens are blocked, to compare with a `cut`.
- `arm`: the answer follows another question, and nothing is blocked.
- `gold`: a gold answer replaces the model's own wrong answer, and nothing is blocked.
- `noise`: nothing is changed, in a batch of its own; it shows numerical noise.
"""
OWN = "own"


@dataclass(frozen=True)
class Intervention:
    """One condition: which tokens it blocks, which question is asked, and which answer is given.

    What it is compared with and controlled by follows from these three coordinates.
    """

    # name in tables, label in legends, and the clause that completes `ΔP when ...`; conditions of
    # experiments have only a name
    name: str
    label: str = ""
    when: str = ""
    settings: tuple[str, ...] = ()  # keys of the config's `conditions`, all of which must be on
    tokens: str | None = None  # question tokens that it blocks, a key of `TOKENS`, or None
    # `own`, `crossed` (the partner's), or another version of the question that an experiment makes
    question: str = OWN
    answer: str = OWN  # `own` or `gold`
    # first layer in which it blocks, and the layer after the last one; None for all layers
    layers: tuple[int, int] | None = None
    # another cut's control; flips count only in samples for which that control is complete
    counted_with: str | None = None
    # whether it is passed in batches of its own
    own_batch: bool = False

    @property
    def role(self) -> Role:
        """The role, which follows from the three coordinates."""
        if self.own_batch:
            return "noise"
        if self.tokens:
            return "control" if self.at_random else "cut"
        if self.answer != OWN:
            return "gold"
        return "clean" if self.question == OWN else "arm"

    @property
    def version(self) -> str | None:
        """Version of the sample that is passed, a key of `Sample.others`; None for the sample."""
        return "-".join(one for one in (self.question, self.answer) if one != OWN) or None

    @property
    def compared_with(self) -> str:
        """Name of the condition that this one is compared with.

        A cut is compared with the same question and answer without a cut; a swapped answer with
        this answer after its own question; all else with the clean pass.
        """
        if self.tokens:
            return _named(None, self.question, self.answer) or "clean"
        return _named(None, OWN, self.answer if self.question == CROSSED else OWN) or "clean"

    @property
    def controlled_by(self) -> str | None:
        """Name of the control, which blocks as many other tokens; None if there is none."""
        control = CONTROLS.get(str(self.tokens))
        return _named(control, self.question, self.answer) if control else None

    @property
    def behind_partner(self) -> str | None:
        """Name of the condition's counterpart after the partner's question, see `arms`."""
        here = self.question == OWN and not self.own_batch
        return _named(self.tokens, CROSSED, self.answer) if here else None

    @property
    def blocks(self) -> str:
        """Name of the tokens that a cut blocks, such as `every question token`."""
        return self.label.replace(" blocked", "")

    @property
    def reads_outputs(self) -> bool:
        """Whether the main run keeps the probabilities of the answer's tokens."""
        return self.role in ("clean", "arm", "gold")

    @property
    def at_random(self) -> bool:
        """Whether the blocked tokens are random, and differ between draws."""
        return self.tokens in CONTROLS.values()

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
    generator = seeded(key)
    free = set(question_tokens) - set(eq_tokens)
    chosen: set[int] = set()
    for left in sorted((len(run) for run in runs(eq_tokens)), reverse=True):
        while left and free:
            placed = _place(left, free, chosen, generator)
            free -= placed
            chosen |= placed
            left -= len(placed)
    return sorted(chosen)


def _place(length: int, free: set[int], taken: set[int], generator: random.Random) -> set[int]:
    """Choose a random run of `length` free tokens. If there is none, choose one of the longest."""
    stretches = runs(sorted(free))
    fitting = [first for run in stretches for first in run[: max(0, len(run) - length + 1)]]
    separate = [first for first in fitting if not {first - 1, first + length} & taken]
    if fitting:
        first = generator.choice(separate or fitting)
        return set(range(first, first + length))
    longest = max(map(len, stretches))
    return set(generator.choice([run for run in stretches if len(run) == longest]))


TOKENS: dict[str, Callable[[Sequence[int], Sequence[int], str], list[int]]] = {
    "exact": lambda question, exact, key: sorted(set(exact)),
    "question": lambda question, exact, key: sorted(set(question)),
    "rest": lambda question, exact, key: sorted(set(question) - set(exact)),
    "random": random_tokens,
}
"""Name → function of (question tokens, E_Q, key) that returns the tokens to block.
`random` returns as many tokens as E_Q has, so it is a control for `exact` only."""

CONTROLS = {"exact": "random"}
"""Key of `TOKENS` → key of its control."""

CROSSED, GOLD, CROSSED_GOLD = "crossed", "gold", "crossed-gold"
"""Keys of `Sample.others`. In this order, they stand for the model's answer after the partner's
question, a gold answer after the sample's own question, and one after the partner's question."""
EXACT, REST = "the exact question tokens", "all other question tokens"
RECORDS = (
    Intervention("clean", "nothing blocked", "nothing is blocked"),
    Intervention("knockout", "exact question tokens blocked",
                 f"attention to {EXACT} is blocked",
                 ("knockout",), "exact"),
    Intervention("random", "as many random tokens as exact ones blocked",
                 "attention to as many random question tokens as exact ones is blocked",
                 ("random",), "random"),
    Intervention("rest", "all other question tokens blocked",
                 f"attention to {REST} is blocked",
                 ("rest",), "rest"),
    Intervention("question", "every question token blocked",
                 "attention to every question token is blocked",
                 ("question",), "question", counted_with="random"),
    Intervention("crossed", "nothing blocked, partner's question",
                 "the answers of two questions are swapped",
                 ("crossed",), None, CROSSED),
    Intervention("crossed-knockout", "exact question tokens blocked, partner's question",
                 f"attention to {EXACT} of the partner's question is blocked",
                 ("crossed", "knockout"), "exact", CROSSED),
    Intervention("crossed-rest", "all other question tokens blocked, partner's question",
                 f"attention to {REST} of the partner's question is blocked",
                 ("crossed", "rest"), "rest", CROSSED),
    Intervention("gold", "gold answer", "the gold answer stands in the answer's place",
                 ("crossed", "gold"), None, OWN, GOLD),
    Intervention("crossed-gold", "gold answer, partner's question",
                 "the gold answers of two questions are swapped",
                 ("crossed", "gold"), None, CROSSED, GOLD),
    Intervention("noop", "nothing blocked (noise)", "the batch changes and nothing is blocked",
                 ("noop",), counted_with="random", own_batch=True),
)  # fmt: skip
REGISTRY = {one.name: one for one in RECORDS}
"""Conditions that the main run can measure, by name, in the order of tables and passes.
`tests/passes/test_interventions.py` checks each record."""
CLEAN = REGISTRY["clean"]


def _named(tokens: str | None, question: str, answer: str) -> str | None:
    """Return the name of the registered condition with these coordinates; None if none has them."""
    for one in REGISTRY.values():
        if (one.tokens, one.question, one.answer) == (tokens, question, answer):
            return one.name
    return None


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


def on(settings: ConditionSettings) -> list[tuple[Intervention, int]]:
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

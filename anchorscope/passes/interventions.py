"""Interventions: what a pass does to a sample, as data.

One record says all of a condition. The passes, the mask, the index of the activations, scores,
contrasts, tables, labels and pictures follow from the registry: from a record's role and from the
condition that it names as its control. No other module lists conditions.
"""

import hashlib
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Settings = Mapping[str, Mapping[str, int] | None]
"""The config's section `conditions`: a setting left out, or None, is off."""
Role = Literal["clean", "cut", "control", "arm", "replicate", "noise"]
"""What a condition is to the others:

- `clean`: nothing is done; every effect is a difference to it.
- `cut`: attention to some of the question's tokens is cut, or weighed.
- `control`: the same of other tokens, for the one `cut` that names it as its control.
- `arm`: the answer stands behind another question.
- `replicate`: another condition again, behind a second prompt for the same question.
- `noise`: nothing is done, in a batch of its own; shows what moves by itself.
"""
PROMPTS = ("crossed", "replicate")
"""The prompts, beside a sample's own, that `planning` finds."""


@dataclass(frozen=True)
class Intervention:
    """One condition."""

    # name, label, when: in tables; in a legend; and what completes `ΔP when ...`
    name: str
    label: str
    when: str
    role: Role
    settings: tuple[str, ...] = ()  # keys of the config's `conditions`, all of which must be on
    tokens: str | None = None  # which question tokens it acts on, a key of `TOKENS`; None for none
    # what attention to these is multiplied by before the softmax renormalises it, an additive
    # log-weight on the scores; 0 cuts it
    weight: float = 0.0
    # first layer that it acts in, and the one after the last; None for all
    layers: tuple[int, int] | None = None
    # the prompt that the answer stands behind, one of `PROMPTS`, if not its own
    prompt: str | None = None
    # the condition that does as much to something else: contrasts are against it
    control: str | None = None
    # the condition drawn beside it where it has no control: it acts on more tokens, or on none
    beside: str | None = None
    # passed in a batch of its own, on the model's ordinary path without our mask
    own_batch: bool = False

    @property
    def partial(self) -> bool:
        """Whether only some of the samples are measured so."""
        return self.own_batch or self.prompt is not None

    @property
    def companion(self) -> str | None:
        """The condition drawn beside it: its control, if it has one."""
        return self.control or self.beside

    @property
    def replicates(self) -> str | None:
        """The condition that a replicate does again; None for the other roles."""
        return self.name.removeprefix(f"{self.prompt}-") if self.role == "replicate" else None

    def acts_in(self, layer: int) -> bool:
        """Whether it cuts, or weighs, in this layer."""
        return self.layers is None or self.layers[0] <= layer < self.layers[1]


def seeded(key: str) -> random.Random:
    """Draws that a key decides, the same on any machine: `hash` differs between runs of Python."""
    return random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big"))


def runs(tokens: Sequence[int]) -> list[list[int]]:
    """The maximal runs of consecutive indices, first to last."""
    stretches: list[list[int]] = []
    for token in sorted(set(tokens)):
        if stretches and stretches[-1][-1] == token - 1:
            stretches[-1].append(token)
        else:
            stretches.append([token])
    return stretches


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


def _place(length: int, free: set[int], taken: set[int], draws: random.Random) -> set[int]:
    """A random place for a run of this length, or the whole of a longest free stretch."""
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
    "random": random_tokens,
}
"""Name → the tokens, from the question's tokens, E_Q and a key that decides random choices. A
control is given the tokens of the condition that it controls in place of E_Q."""

REGISTRY: dict[str, Intervention] = {}
"""What the main run can measure, by name, in the order of tables and passes; see `register`."""


def register(*conditions: Intervention) -> None:
    """Add conditions to `REGISTRY`; what belongs together, such as a control, is added together.

    Raises ValueError, and adds nothing: a record makes no sense; the message says what it lacks.
    """
    together = dict(REGISTRY)
    for one in conditions:
        if one.name in together:
            raise ValueError(f"condition `{one.name}`: there is one of this name already")
        together[one.name] = one
    for one in conditions:
        if problem := _problem(one, together):
            raise ValueError(f"condition `{one.name}`, role {one.role}: {problem}")
    REGISTRY.update((one.name, one) for one in conditions)


def _problem(one: Intervention, records: Mapping[str, Intervention]) -> str | None:
    """What is wrong with a record, beside all `records` by name; None if it makes sense."""
    return (
        _misnamed(one, records)
        or _lacks(one)
        or _misfits(one)
        or _unlike_its_control(one, records)
        or _alone_beside(one, records)
        or _unlike_its_role(one, records)
    )


def _misnamed(one: Intervention, records: Mapping[str, Intervention]) -> str | None:
    """A name that is none."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.name):
        return "its `name` is to be of lower-case letters, digits and single `-`"
    for field, names in (
        ("tokens", TOKENS),
        ("prompt", PROMPTS),
        ("control", records),
        ("beside", records),
    ):
        name = getattr(one, field)
        if name is not None and name not in names:
            return f"there is no `{field}` {name!r} among {', '.join(names)}"
    return None


def _lacks(one: Intervention) -> str | None:
    """A field that its role needs."""
    needed: dict[Role, tuple[str, ...]] = {
        "clean": (),
        "cut": ("settings", "tokens"),
        "control": ("settings", "tokens"),
        "arm": ("settings", "prompt"),
        "replicate": ("settings", "prompt"),
        "noise": ("settings", "own_batch"),
    }
    if one.role not in needed:
        return f"it lacks a role: one of {', '.join(needed)}"
    missing = [field for field in ("label", "when", *needed[one.role]) if not getattr(one, field)]
    return f"it lacks `{missing[0]}`" if missing else None


def _misfits(one: Intervention) -> str | None:
    """A field that its role cannot have."""
    allowed: dict[str, tuple[Role, ...]] = {
        "tokens": ("cut", "control", "replicate"),
        "prompt": ("arm", "replicate"),
        "control": ("cut", "arm", "replicate"),
        "beside": ("cut", "noise"),
        "own_batch": ("noise",),
    }
    for field, roles in allowed.items():
        if getattr(one, field) and one.role not in roles:
            return f"`{field}` is for the roles {', '.join(roles)}"
    return None


def _unlike_its_control(one: Intervention, records: Mapping[str, Intervention]) -> str | None:
    """A control that does not do what the condition does."""
    if one.control is None:
        return None
    control = records[one.control]
    wanted = {"cut": "control"}.get(one.role, one.role)
    if control.role != wanted or control.name == one.name:
        return f"its `control` {control.name} has the role {control.role}, and needs {wanted}"
    users = [other.name for other in records.values() if other.control == control.name]
    if len(users) > 1:
        return f"{control.name} is the `control` of {users[0]} already"
    for field in ("weight", "layers"):
        if getattr(control, field) != getattr(one, field):
            return f"its `control` {control.name} differs in `{field}`"
    return None


def _alone_beside(one: Intervention, records: Mapping[str, Intervention]) -> str | None:
    """A companion with which no samples are paired."""
    if one.beside is None:
        return None
    companion = records[one.beside]
    if companion.role == "control" or (companion.role == "cut" and companion.control):
        return None
    return f"`beside` is to be a control, or a cut that has one, and {companion.name} is neither"


def _unlike_its_role(one: Intervention, records: Mapping[str, Intervention]) -> str | None:
    """What the other conditions lack for it to have its role."""
    if (
        one.role == "clean"
        and len([other for other in records.values() if other.role == "clean"]) > 1
    ):
        return "there is a clean pass already"
    if one.role == "control" and all(other.control != one.name for other in records.values()):
        return "no cut names it as its `control`"
    if one.role == "replicate":
        again = records.get(one.replicates or "")
        if again is None or again.tokens != one.tokens:
            return f"its name must be `{one.prompt}-` and a condition that cuts the same tokens"
        behind = [other for other in records.values() if other.prompt == one.prompt]
        if all(other.tokens for other in behind):
            return f"no condition passes the prompt {one.prompt} with nothing cut"
    return None


EXACT, AS_MANY = "the exact question tokens", "as many random question tokens"
register(
    Intervention("clean", "nothing cut", "nothing is cut", "clean"),
    Intervention("knockout", "exact question tokens cut", f"attention to {EXACT} is cut", "cut",
                 ("knockout",), "exact", control="random"),
    Intervention("random", "as many random question tokens cut", f"attention to {AS_MANY} is cut",
                 "control", ("random",), "random"),
    Intervention("question", "every question token cut", "attention to every question token is cut",
                 "cut", ("question",), "question", beside="random"),
    Intervention("crossed", "nothing cut, another question",
                 "two answers are exchanged between their questions",
                 "arm", ("crossed",), prompt="crossed"),
    Intervention("replicate-clean", "nothing cut, second prompt",
                 "the same answer stands behind a second prompt",
                 "replicate", ("replicate",), prompt="replicate"),
    Intervention("replicate-knockout", "exact question tokens cut, second prompt",
                 f"attention to {EXACT} of a second prompt is cut",
                 "replicate", ("replicate", "knockout"), "exact", prompt="replicate",
                 control="replicate-random"),
    Intervention("replicate-random", "as many random question tokens cut, second prompt",
                 f"attention to {AS_MANY} of a second prompt is cut",
                 "replicate", ("replicate", "random"), "random", prompt="replicate"),
    Intervention("noop", "nothing cut (noise)", "nothing is cut",
                 "noise", ("noop",), beside="random", own_batch=True),
)  # fmt: skip
CLEAN = REGISTRY["clean"]


def of_role(*roles: Role) -> list[Intervention]:
    """The registered conditions of some roles, in the registry's order."""
    return [one for one in REGISTRY.values() if one.role in roles]


def arms() -> tuple[str, ...]:
    """The conditions in which the answer stands behind another question."""
    return tuple(one.name for one in of_role("arm"))


def prompts() -> tuple[str, ...]:
    """The prompts that some condition puts the answer behind, each once."""
    return tuple(dict.fromkeys(one.prompt for one in REGISTRY.values() if one.prompt))


def controlled_cuts() -> list[tuple[Intervention, Intervention]]:
    """Every cut that has a control, and that control."""
    return [(one, REGISTRY[one.control]) for one in of_role("cut") if one.control]


def in_contrasts() -> tuple[str, ...]:
    """The cuts that have a control, and the controls, in the registry's order."""
    names = {one.name for pair in controlled_cuts() for one in pair}
    return tuple(name for name in REGISTRY if name in names)


def controlled(control: Intervention) -> Intervention | None:
    """The registered condition whose control this is."""
    users = (one for one in REGISTRY.values() if one.control == control.name)
    return next(users, None)


def pairing_control(condition: str) -> Intervention | None:
    """The control whose completeness decides which samples of a condition are counted in pairs.

    A condition's own control, a control itself, or that of the condition it is drawn beside; None
    for the other roles.
    """
    one = REGISTRY[condition]
    if one.role == "control":
        return one
    if one.role not in ("cut", "noise") or one.companion is None:
        return None
    return pairing_control(one.companion)


def on(settings: Settings) -> list[tuple[Intervention, int]]:
    """The interventions that a config's `conditions` turn on, each with its draws in turn.

    Raises ValueError: there is no such setting.
    """
    names = {name for one in REGISTRY.values() for name in one.settings}
    if unknown := {*settings} - names:
        raise ValueError(f"unknown conditions {sorted(unknown)}, expected some of {sorted(names)}")
    return [
        (one, draw)
        for one in REGISTRY.values()
        if all(settings.get(name) is not None for name in one.settings)
        for draw in range(int((settings.get(one.name) or {}).get("draws", 1)))
    ]


def uncut(one: Intervention) -> Intervention | None:
    """The intervention behind the same prompt that cuts nothing; passes of both begin alike."""
    if one.tokens is None:
        return None
    others = (other for other in REGISTRY.values() if other.prompt == one.prompt)
    return next((other for other in others if not (other.tokens or other.own_batch)), None)


def cut(
    one: Intervention, question_tokens: Sequence[int], eq_tokens: Sequence[int], key: str
) -> tuple[int, ...]:
    """The tokens that an intervention acts on in one sample, all indices in the model's input.

    The random placement depends on `key`: number of the draw, seed and sample id.
    """
    if one.tokens is None:
        return ()
    condition = controlled(one)
    if condition is not None:  # a control acts on as many tokens as the condition, elsewhere
        eq_tokens = cut(condition, question_tokens, eq_tokens, key)
    return tuple(TOKENS[one.tokens](question_tokens, eq_tokens, key))

"""Simulated scores of swapped pairs: probes that do not read truth, and some that do.

A world is a function of a random generator and the numbers of right and of wrong pairs. The roles
of answers are `right`, `wrong` (own answers) and `gold` (the golds of the wrong pairs). A world
returns scores `<role>` and log-probabilities `logp_<role>`, [4, n] in the order of
`crossing.terms`, and ids [2, n] of subjects (`subjects_right`, `subjects_wrong`) and texts
(`answers_right`, `answers_wrong`, `golds`). Some worlds also return features of the four texts for
the text imitator, `features_<role>` [4, n, features].

Questions of a pair are alike. Answers come from 300 texts, some of which are frequent. Right
answers score highest, then golds. This is the worst case, because multiplying scores favours golds.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

Rng = np.random.Generator
Values = dict[str, np.ndarray]
World = Callable[[Rng, int, int], Values]
ROLES = ("right", "wrong", "gold")
ALIKE, TEXTS, NOISE = 0.8, 300, 0.4
QUESTION, ANSWER = [0, 1, 0, 1], [0, 0, 1, 1]
"""Index of the pair's sample that gives each row of `crossing.terms` its question, or answer."""
HOME = np.array([1.0, 0.0, 0.0, 1.0])[:, None]
"""1 in the rows of `crossing.terms` where an answer follows its own question, else 0."""
MEANS = {"right": 1.0, "wrong": -0.5, "gold": 0.5}


class Scene:
    """Questions, answers and log-probabilities, from which a world makes scores."""

    def __init__(self, random: Rng, n_right: int, n_wrong: int) -> None:
        """Draw the effects of questions and answers, and log-probabilities."""
        self.random = random
        self.n = {"right": n_right, "wrong": n_wrong, "gold": n_wrong}
        self.question = self.by_question()
        self.texts, self.answer = {}, {}
        for role, n in self.n.items():
            self.texts[role], effect = answers(random, n)
            self.answer[role] = MEANS[role] + effect
        self.log_p = self.likelihood({"right": 3.0, "wrong": 3.0, "gold": 3.0})
        self.features: Values = {}

    def by_question(self) -> Values:
        """Draw an effect of each question, [2, n] by role."""
        wrong = alike(self.random, self.n["wrong"])
        return {"right": alike(self.random, self.n["right"]), "wrong": wrong, "gold": wrong}

    def likelihood(self, lift: dict[str, float]) -> Values:
        """Draw log-probabilities. An answer after its own question gains `lift` on average."""
        found: Values = {}
        for role, n in self.n.items():
            parts = four(*self.random.normal(size=(2, 2, n)))
            own = lift[role] + 1.7 * self.random.normal(size=(4, n))
            found[role] = -9 + parts + self.random.normal(size=(4, n)) + HOME * own
        return found

    def sums(self, role: str, shift: float = 0.0) -> np.ndarray:
        """Return sums of question and answer, [4, n]."""
        return shift + four(self.question[role], self.answer[role])

    def world(self, scores: Callable[[str], np.ndarray]) -> Values:
        """Return the arrays of a world. `scores` gives a role's scores without noise."""
        found: Values = {}
        for role in ROLES:
            values = scores(role)
            found[role] = values + NOISE * self.random.normal(size=values.shape)
            found[f"logp_{role}"] = self.log_p[role]
            if self.features:
                found[f"features_{role}"] = self.features[role]
        n, split = self.n["right"] + self.n["wrong"], self.n["right"]
        subjects = self.random.integers(0, 3 * n, size=(2, n))  # some of them in two pairs
        found |= {"subjects_right": subjects[:, :split], "subjects_wrong": subjects[:, split:]}
        names = {"right": "answers_right", "wrong": "answers_wrong", "gold": "golds"}
        return found | {names[role]: texts for role, texts in self.texts.items()}


def alike(random: Rng, n: int, correlation: float = ALIKE, size: int = 2) -> np.ndarray:
    """Draw standard normal effects [size, n] with a `correlation` inside each of n pairs."""
    shared, own = random.normal(size=n), random.normal(size=(size, n))
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own


def answers(random: Rng, n: int, texts: int = TEXTS) -> tuple[np.ndarray, np.ndarray]:
    """Draw texts and their effects, [2, n] each. With `TEXTS` texts, some are frequent."""
    common = 1 / np.arange(1, texts + 1) ** (0.7 if texts == TEXTS else 0)
    drawn = random.choice(texts, size=(2, n), p=common / common.sum())
    own = random.normal(size=(2, n))
    return drawn, 0.8 * random.normal(size=texts)[drawn] + 0.6 * own


def four(question: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Return sums [4, n] of question and answer effects, [2, n] each."""
    return question[QUESTION] + answer[ANSWER]


def additive(
    random: Rng,
    *n: int,
    lost: float = 0.0,
    to: float = -2.0,
    prior: bool = False,
    mislabelled: float = 0.0,
    home: Mapping[str, float] | None = None,
) -> Values:
    """Simulate sums of question and answer, which shrink as in `shrunk`.

    `prior` adds half the log-odds of right to wrong to all scores, like a natural prior. A share of
    the answers is `mislabelled`. `home` maps a role to what an answer gains after its own question.
    """
    scene = Scene(random, *n)
    shift = np.log(n[0] / n[1]) / 2 if prior else 0.0
    if mislabelled:
        for role, moved in {"right": -1.5, "wrong": 1.5, "gold": -1.0}.items():
            scene.answer[role] += moved * (random.random(scene.n[role]) < mislabelled)
    gained = home or dict.fromkeys(ROLES, 0.0)
    return scene.world(lambda role: shrunk(scene.sums(role, shift), lost, to) + gained[role] * HOME)


def shrunk(values: np.ndarray, lost: float, to: float = -2.0) -> np.ndarray:
    """Move scores of answers after other questions a share `lost` of the way towards `to`."""
    return values + (1 - HOME) * lost * (to - values)


def gain(random: Rng, *n: int) -> Values:
    """Simulate products m(q)·h(y). m and h rise together, above all for right answers and golds."""
    scene = Scene(random, *n)
    effect = scene.by_question()
    tied = {"right": 0.6, "wrong": 0.2, "gold": 0.5}

    def scores(role: str) -> np.ndarray:
        answer = scene.answer[role] - 1 + tied[role] * effect[role]
        return np.exp(0.4 * effect[role])[QUESTION] * answer[ANSWER]

    return scene.world(scores)


def likelihood(
    random: Rng, *n: int, lift: dict[str, float], slope: float, error: float = 0.0
) -> Values:
    """Simulate scores that rise with the log-probability. The claim sees it with noise `error`."""
    scene = Scene(random, *n)
    true = scene.likelihood(lift)
    scene.log_p = {role: one + error * random.normal(size=one.shape) for role, one in true.items()}
    return scene.world(lambda role: scene.sums(role) + slope * true[role])


def kinds(random: Rng, *n: int) -> Values:
    """Simulate scores that are higher if the answer is of the kind that the question asks for."""
    scene = Scene(random, *n)
    fits, asked = Values(), Values()
    for role in ROLES:
        ask = random.integers(0, 3, size=(2, scene.n[role]))
        ask[1] = np.where(random.random(scene.n[role]) < 0.8, ask[0], ask[1])
        asked[role] = asked["wrong"] if role == "gold" else ask
        any_kind = random.integers(0, 3, size=ask.shape)
        share = 0.7 if role == "wrong" else 0.95
        kind = np.where(random.random(ask.shape) < share, asked[role], any_kind)
        both = four(3 * asked[role], kind)
        fits[role] = (both // 3 == both % 3).astype(float)
        scene.features[role] = (both[..., None] == np.arange(9)).astype(float)
    return scene.world(lambda role: scene.sums(role) + fits[role])


def saturation(random: Rng, *n: int, home: float) -> Values:
    """Simulate squeezed scores, where the effects of a question and its answer are correlated."""
    scene = Scene(random, *n)
    tied = {"right": 0.5, "wrong": 0.1, "gold": 0.4}

    def scores(role: str) -> np.ndarray:
        question = 1.2 * scene.question[role]
        inside = four(question, scene.answer[role] + tied[role] * question) + home * HOME
        return 2 * np.tanh(inside / 2)

    return scene.world(scores)


def overlap(random: Rng, *n: int, steep: bool, coarse: bool = False) -> Values:
    """Simulate scores that read the overlap of question and answer, which is largest for golds.

    If `steep`, the overlap enters as a smooth step. If `coarse`, the imitator's feature is noisy.
    """
    scene = Scene(random, *n)
    shared: Values = {}
    for role, more in {"right": 0.12, "wrong": 0.08, "gold": 0.14}.items():
        size = (4, scene.n[role])
        parts = four(*(0.15 + 0.05 * random.normal(size=(2, 2, scene.n[role]))))
        home = more * HOME * (random.random(size) < 0.6)
        shared[role] = np.clip(parts + home + 0.08 * random.normal(size=size), 0, 1)
        seen = shared[role] + coarse * 0.1 * random.normal(size=size)
        idle = random.normal(size=(*size, 30))
        scene.features[role] = np.concatenate([seen[..., None], idle], axis=-1)

    def scores(role: str) -> np.ndarray:
        read = 3 / (1 + np.exp(-25 * (shared[role] - 0.45))) if steep else 3 * shared[role]
        return scene.sums(role) + read

    return scene.world(scores)


def lucky_answers(random: Rng, *n: int) -> Values:
    """Simulate pair terms that depend on the text of the answer, not on its label."""
    scene = Scene(random, *n)

    def scores(role: str) -> np.ndarray:
        own = 0.3 + 0.5 * random.normal(size=TEXTS)[scene.texts[role]]
        return scene.sums(role) + HOME * own[ANSWER]

    return scene.world(scores)


def truth(random: Rng, *n: int, size: float, known: float = 1.0, lost: float = 0.0) -> Values:
    """Simulate pair terms. Right and gold ones gain `size` on average, in a share `known` only."""
    scene = Scene(random, *n)

    def scores(role: str) -> np.ndarray:
        told = (random.random(scene.n[role]) < known) * (role != "wrong") / known
        return shrunk(scene.sums(role), lost) + 0.2 * HOME + 2 * size * told * HOME

    return scene.world(scores)


SURER = {"right": 4.0, "wrong": 3.0, "gold": 2.0}
GOLDS_LIKELIER = {"right": 4.0, "wrong": 2.0, "gold": 3.0}
NULL: dict[str, World] = {
    "sums": additive,
    **{
        f"shrinks to 0 by {lost}": partial(additive, lost=lost, to=0.0)
        for lost in (0.1, 0.3, 0.5, 0.9)
    },
    **{
        f"shrinks to a blank by {lost}, {name} prior": partial(additive, lost=lost, prior=prior)
        for lost in (0.1, 0.2, 0.3)
        for name, prior in (("balanced", False), ("natural", True))
    },
    "gain": gain,
    "likelihood, right answers surer": partial(likelihood, lift=SURER, slope=0.2),
    "likelihood, read steeply": partial(likelihood, lift=SURER, slope=0.5),
    "answers of unlike kind": kinds,
    "saturation": partial(saturation, home=0.0),
    "saturation, own answers higher": partial(saturation, home=0.6),
    "a tenth of labels wrong": partial(additive, lost=0.2, mislabelled=0.1),
    "overlap": partial(overlap, steep=False),
    "overlap, read as a step": partial(overlap, steep=True),
    "overlap, seen with noise": partial(overlap, steep=True, coarse=True),
    "answers with pair terms of their own": lucky_answers,
}
"""Worlds without truth."""
UNTELLABLE: dict[str, World] = {
    "likelihood measured with noise": partial(
        likelihood, lift=GOLDS_LIKELIER, slope=0.2, error=1.5
    ),
    "compatibility goes with truth": partial(
        additive, home={"right": 0.6, "wrong": 0.2, "gold": 0.6}
    ),
}
"""Worlds that a claim of truth may take for truth."""
TRUE: dict[str, World] = {
    "truth of .2": partial(truth, size=0.2),
    "truth of .35": partial(truth, size=0.35),
    "truth of .35, half of the golds known": partial(truth, size=0.35, known=0.5),
    "truth of .35 in a score that shrinks by .2": partial(truth, size=0.35, lost=0.2),
}
"""Worlds with truth."""
GIVEN: dict[str, World] = {
    "truth of .35, given answers": lambda *of: truth(*of, size=0.35) | {"given": np.array(True)}
}
"""A world whose answers are not the model's own."""

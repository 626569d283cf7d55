"""Simulated scores of crossed pairs: probes that do not read truth, and some that do.

A world is a function of (random generator, right pairs, wrong pairs). It returns, for `right`,
`wrong` (own answers) and `gold` (the golds of the wrong pairs), in the order of `crossing.terms`,
scores `<role>` [4, n] and `logp_<role>` [4, n], ids of `subjects_right`, `subjects_wrong`, and of
the texts `answers_right`, `answers_wrong`, `golds`, [2, n] each; where overlap plays a part, also
features of the four texts, `features_<role>` [4, n, features].

Questions of a pair are alike (correlation .8). Answers come from a few hundred texts, some of them
often. Right answers score highest, then golds, then own wrong answers: the worst case, in which
whatever multiplies scores favours golds.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

Values = dict[str, np.ndarray]
World = Callable[[np.random.Generator, int, int], Values]
ROLES = ("right", "wrong", "gold")
ALIKE, TEXTS, NOISE = 0.8, 300, 0.4
HOME = np.array([1.0, 0.0, 0.0, 1.0])[:, None]
"""Which of the four are an answer behind its own question."""
MEANS = {"right": 1.0, "wrong": -0.5, "gold": 0.5}


class Scene:
    """Questions, answers and log-probabilities, from which a world makes scores."""

    def __init__(self, random: np.random.Generator, n_right: int, n_wrong: int) -> None:
        self.random = random
        self.n = {"right": n_right, "wrong": n_wrong, "gold": n_wrong}
        self.question = self.by_question()
        self.texts, self.answer = {}, {}
        for role in ROLES:
            common = 1 / np.arange(1, TEXTS + 1) ** 0.7
            texts = random.choice(TEXTS, size=(2, self.n[role]), p=common / common.sum())
            own = random.normal(size=texts.shape)
            self.answer[role] = MEANS[role] + 0.8 * random.normal(size=TEXTS)[texts] + 0.6 * own
            self.texts[role] = texts
        self.log_p = self.likelihood({"right": 3.0, "wrong": 3.0, "gold": 3.0})
        self.features: Values = {}

    def by_question(self) -> Values:
        """Standard normal effects [2, n] of a role's questions, alike in a pair."""

        def drawn(n: int) -> np.ndarray:
            shared, own = self.random.normal(size=n), self.random.normal(size=(2, n))
            return np.sqrt(ALIKE) * shared + np.sqrt(1 - ALIKE) * own

        wrong = drawn(self.n["wrong"])
        return {"right": drawn(self.n["right"]), "wrong": wrong, "gold": wrong}

    def likelihood(self, lift: dict[str, float]) -> Values:
        """Sums of log p: of question, answer and noise, with a lift behind the own question."""

        def drawn(role: str) -> np.ndarray:
            n = self.n[role]
            parts = four(*self.random.normal(size=(2, 2, n)))
            own = lift[role] + 1.7 * self.random.normal(size=(4, n))
            return -9 + parts + self.random.normal(size=(4, n)) + HOME * own

        return {role: drawn(role) for role in ROLES}

    def sums(self, role: str, shift: float = 0.0) -> np.ndarray:
        """Of question and answer, [4, n]."""
        return shift + four(self.question[role], self.answer[role])

    def world(self, scores: Callable[[str], np.ndarray]) -> Values:
        """What a probe scores, with noise."""
        found: Values = {}
        for role in ROLES:
            values = scores(role)
            found[role] = values + NOISE * self.random.normal(size=values.shape)
            found[f"logp_{role}"] = self.log_p[role]
            if self.features:
                found[f"features_{role}"] = self.features[role]
        n, split = sum(self.n.values()) - self.n["gold"], self.n["right"]
        subjects = self.random.integers(0, 3 * n, size=(2, n))  # some of them in two pairs
        found |= {"subjects_right": subjects[:, :split], "subjects_wrong": subjects[:, split:]}
        names = {"right": "answers_right", "wrong": "answers_wrong", "gold": "golds"}
        return found | {names[role]: texts for role, texts in self.texts.items()}


def four(question: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Sums of question and answer effects, [2, n] each: [4, n]."""
    return np.stack([question[i] + answer[j] for j in (0, 1) for i in (0, 1)])


def sums(random: np.random.Generator, *n: int) -> Values:
    """The score adds up question and answer: no claim holds."""
    scene = Scene(random, *n)
    return scene.world(scene.sums)


def shrinkage(random: np.random.Generator, *n: int, lost: float, to: float, prior: bool) -> Values:
    """Behind a strange question a score loses a share of its distance to a blank score.

    `prior`: half the log-odds of right to wrong is in all scores, as with a natural prior.
    """
    scene = Scene(random, *n)
    shift = np.log(n[0] / n[1]) / 2 if prior else 0.0

    def scores(role: str) -> np.ndarray:
        values = scene.sums(role, shift)
        return values + (1 - HOME) * lost * (to - values)

    return scene.world(scores)


def gain(random: np.random.Generator, *n: int) -> Values:
    """The score is m(q)·h(y); a question with a large gain has a sure answer, golds above all."""
    scene = Scene(random, *n)
    effect = scene.by_question()
    tied = {"right": 0.6, "wrong": 0.2, "gold": 0.5}

    def scores(role: str) -> np.ndarray:
        answer = scene.answer[role] - 1 + tied[role] * effect[role]
        m = np.exp(0.4 * effect[role])
        return np.stack([m[i] * answer[j] for j in (0, 1) for i in (0, 1)])

    return scene.world(scores)


def likelihood(
    random: np.random.Generator, *n: int, lift: dict[str, float], slope: float, error: float = 0.0
) -> Values:
    """The score rises with the log-probability, which is known with an error of this size."""
    scene = Scene(random, *n)
    true = scene.likelihood(lift)
    scene.log_p = {
        role: values + error * random.normal(size=values.shape) for role, values in true.items()
    }
    return scene.world(lambda role: scene.sums(role) + slope * true[role])


def kinds(random: np.random.Generator, *n: int) -> Values:
    """An answer of the kind that the question asks for scores higher: golds are, .7 of own wrong.

    A fifth of the pairs ask for two kinds. The texts tell the kinds.
    """
    scene = Scene(random, *n)
    fits: Values = {}
    asked: Values = {}
    for role in ROLES:
        ask = random.integers(0, 3, size=(2, scene.n[role]))
        ask[1] = np.where(random.random(scene.n[role]) < 0.8, ask[0], ask[1])
        asked[role] = asked["wrong"] if role == "gold" else ask
        any_kind = random.integers(0, 3, size=ask.shape)
        share = 0.7 if role == "wrong" else 0.95
        kind = np.where(random.random(ask.shape) < share, asked[role], any_kind)
        both = np.stack([3 * asked[role][i] + kind[j] for j in (0, 1) for i in (0, 1)])
        fits[role] = (both // 3 == both % 3).astype(float)
        scene.features[role] = (both[..., None] == np.arange(9)).astype(float)
    return scene.world(lambda role: scene.sums(role) + fits[role])


def saturation(random: np.random.Generator, *n: int, home: float) -> Values:
    """Large scores are squeezed; a question's and its answer's effects go together.

    `home`: before the squeeze, every answer gains so much behind its own question.
    """
    scene = Scene(random, *n)
    tied = {"right": 0.5, "wrong": 0.1, "gold": 0.4}

    def scores(role: str) -> np.ndarray:
        question = 1.2 * scene.question[role]
        inside = four(question, scene.answer[role] + tied[role] * question) + home * HOME
        return 2 * np.tanh(inside / 2)

    return scene.world(scores)


def labels(random: np.random.Generator, *n: int) -> Values:
    """A tenth of the labels is wrong, of right, wrong and gold answers, in a score that shrinks."""
    scene = Scene(random, *n)
    for role, moved in {"right": -1.5, "wrong": 1.5, "gold": -1.0}.items():
        scene.answer[role] += moved * (random.random(scene.n[role]) < 0.1)

    def scores(role: str) -> np.ndarray:
        values = scene.sums(role)
        return values + 0.2 * (1 - HOME) * (-2 - values)

    return scene.world(scores)


def overlap(random: np.random.Generator, *n: int, steep: bool, coarse: bool = False) -> Values:
    """The score reads how question and answer overlap, golds' the most; beside 30 idle features.

    `steep`: a step, which is not linear in the imitator's feature. `coarse`: that one is noisy.
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


def lucky_answers(random: np.random.Generator, *n: int) -> Values:
    """Each answer has a pair term of its own behind its questions, whatever its label."""
    scene = Scene(random, *n)

    def scores(role: str) -> np.ndarray:
        own = 0.3 + 0.5 * random.normal(size=TEXTS)[scene.texts[role]]
        return scene.sums(role) + HOME * np.stack([own[0], own[0], own[1], own[1]])

    return scene.world(scores)


def compatible(random: np.random.Generator, *n: int) -> Values:
    """The score reads whether an answer goes with its question, which true ones do more often."""
    scene = Scene(random, *n)
    goes = {"right": 0.6, "wrong": 0.2, "gold": 0.6}
    return scene.world(lambda role: scene.sums(role) + goes[role] * HOME)


def truth(
    random: np.random.Generator, *n: int, size: float, known: float = 1.0, lost: float = 0.0
) -> Values:
    """P of golds is larger by `size` than that of own wrong answers, `known` of the golds' only.

    Those that are known have size / known more. A score may also shrink.
    """
    scene = Scene(random, *n)

    def scores(role: str) -> np.ndarray:
        values = scene.sums(role)
        values = values + lost * (1 - HOME) * (-2 - values) + 0.2 * HOME
        told = (random.random(scene.n[role]) < known) * (role != "wrong") / known
        return values + 2 * size * told * HOME

    return scene.world(scores)


SURER = {"right": 4.0, "wrong": 3.0, "gold": 2.0}
GOLDS_LIKELIER = {"right": 4.0, "wrong": 2.0, "gold": 3.0}
NULL: dict[str, World] = {
    "sums": sums,
    **{
        f"shrinks to 0 by {lost}": partial(shrinkage, lost=lost, to=0.0, prior=False)
        for lost in (0.1, 0.3, 0.5, 0.9)
    },
    **{
        f"shrinks to a blank by {lost}, {name} prior": partial(
            shrinkage, lost=lost, to=-2.0, prior=prior
        )
        for lost in (0.1, 0.2, 0.3)
        for name, prior in (("balanced", False), ("natural", True))
    },
    "gain": gain,
    "likelihood, right answers surer": partial(likelihood, lift=SURER, slope=0.2),
    "likelihood, read steeply": partial(likelihood, lift=SURER, slope=0.5),
    "answers of unlike kind": kinds,
    "saturation": partial(saturation, home=0.0),
    "saturation, own answers higher": partial(saturation, home=0.6),
    "a tenth of labels wrong": labels,
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
    "golds likelier than own answers": partial(likelihood, lift=GOLDS_LIKELIER, slope=0.2),
    "compatibility goes with truth": compatible,
}
"""Worlds that a claim of truth may take for truth."""
TRUE: dict[str, World] = {
    "truth of .2": partial(truth, size=0.2),
    "truth of .35": partial(truth, size=0.35),
    "truth of .35, half of the golds known": partial(truth, size=0.35, known=0.5),
    "truth of .35 in a score that shrinks by .2": partial(truth, size=0.35, lost=0.2),
}
"""Worlds with truth."""

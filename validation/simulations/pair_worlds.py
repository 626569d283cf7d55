"""Simulated scores of swapped pairs, which compare question and answer or do not.

A world is a function of a random generator and the numbers of right and of wrong pairs. For each
side (`right`, `wrong`), it returns scores `<side>` [4, n] in the order of `claims.estimates`, ids
`subjects_<side>` and `answers_<side>` [2, n], and `fold_<side>` [n]; some worlds return features of
the four texts for the text imitator, `features_<side>` [4, n, features].

Questions of a pair are alike. Answers go with their questions: effects are correlated (`tied`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from anchorscope.statistics import intervals, samples

Rng = np.random.Generator
Values = dict[str, np.ndarray]
World = Callable[[Rng, int, int], Values]
SIDES = ("right", "wrong")
ALIKE, TEXTS, FOLDS = 0.8, 300, 5
LAYERS, LAYERS_ALIKE = 28, 0.9
QUESTION, ANSWER = [0, 1, 0, 1], [0, 0, 1, 1]
"""Index of the pair's sample that gives each of the four scores its question, or answer."""
HOME = np.array([1.0, 0.0, 0.0, 1.0])[:, None]
"""1 where an answer follows its own question, else 0."""
MEANS = {"right": 1.0, "wrong": -0.5}


@dataclass(frozen=True)
class Scale:
    """Standard deviations of effects, and the size of pair terms, in logits."""

    question: float = 1.0
    answer: float = 1.0
    noise: float = 0.4
    pair: float = 1.0


LARGE = Scale()
SMALL = Scale(question=1.68, answer=0.45, noise=0.42, pair=0.22)
"""Terms as in a small model: sd .53, .32 and .21 of question, answer and pair terms, P of .22."""
SCALES = {"P 1": LARGE, "P .22": SMALL}
Inside = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Effects of questions and answers, [4, n] each → scores without noise."""


def alike(random: Rng, n: int, correlation: float = ALIKE, size: int = 2) -> np.ndarray:
    """Draw standard normal effects [size, n] with a `correlation` inside each of n pairs."""
    shared, own = random.normal(size=n), random.normal(size=(size, n))
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own


def answers(random: Rng, n: int, texts: int = TEXTS) -> tuple[np.ndarray, np.ndarray]:
    """Draw texts and their effects (variance 1), [2, n] each; some texts are frequent."""
    common = 1 / np.arange(1, texts + 1) ** (0.7 if texts == TEXTS else 0)
    drawn = random.choice(texts, size=(2, n), p=common / common.sum())
    return drawn, 0.8 * random.normal(size=texts)[drawn] + 0.6 * random.normal(size=(2, n))


def four(question: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Return sums [4, n] of question and answer effects, [2, n] each."""
    return question[QUESTION] + answer[ANSWER]


@dataclass(frozen=True)
class Pairs:
    """A world whose scores are a function of question and answer, noise, and a gain at home."""

    scale: Scale = LARGE
    inside: Inside = np.add  # of the effects of question and answer
    tied: float = 0.5  # correlation of the effects of a question and of its own answer
    # draws the noise of scores [4, n], in units of `scale.noise`; `home` is `HOME`
    noise: Callable[[Rng, np.ndarray, int], np.ndarray] = lambda random, home, n: random.normal(
        size=(4, n)
    )
    home: Mapping[str, float] | None = None  # side → mean pair term, in units of `scale.pair`
    fades: float = 0.0  # mean share of a score that is lost after another question
    texts: int = TEXTS
    extra: Callable[[Rng, int], tuple[np.ndarray, np.ndarray | None]] | None = None
    """Draws a further part of the scores [4, n], and features for the text imitator or None."""

    def __call__(self, random: Rng, *n: int) -> Values:
        """Simulate right and wrong pairs."""
        found: Values = {}
        for side, size in zip(SIDES, n, strict=True):
            found |= self.side(random, side, size)
        return found

    def side(self, random: Rng, side: str, n: int) -> Values:
        """Simulate the pairs of one side."""
        scale, question = self.scale, alike(random, n)
        texts, own = answers(random, n, self.texts)
        answer = self.tied * question + np.sqrt(1 - self.tied**2) * own
        effects = scale.question * question[QUESTION], scale.answer * answer[ANSWER] + MEANS[side]
        scores = self.inside(*effects)
        features = None
        if self.extra:
            more, features = self.extra(random, n)
            scores = scores + more
        if self.home:
            size = self.home[side] * scale.pair * random.gamma(4, 0.25, size=n)
            scores = scores + 2 * size * HOME
        if self.fades:
            scores = scores * (1 - (1 - HOME) * random.uniform(0, 2 * self.fades, n))
        found = {
            side: scores + scale.noise * self.noise(random, HOME, n),
            f"subjects_{side}": random.integers(0, 6 * n, size=(2, n)),
            f"answers_{side}": texts,
            f"fold_{side}": random.integers(0, FOLDS, n),
        }
        return found | ({} if features is None else {f"features_{side}": features})


def spread(values: np.ndarray) -> np.ndarray:
    """Return values in units of their standard deviation."""
    return values / values.std()


def bent(curve: Callable[[np.ndarray], np.ndarray]) -> Inside:
    """Return an increasing curve of the sum, stretched to the spread of the sum."""

    def inside(question: np.ndarray, answer: np.ndarray) -> np.ndarray:
        whole = question + answer
        return whole.std() * spread(curve((whole - whole.mean()) / whole.std()))

    return inside


def curve_of_each_answer(question: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Return increasing curves of the question, whose slope and bend depend on the answer."""
    return answer + np.exp(answer) * np.tanh(question * np.exp(-answer))


def gain(question: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Return answers multiplied by a positive factor of the question."""
    return np.exp(0.4 * question) * answer


def turned(question: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Return answers multiplied by a factor of the question that changes its sign."""
    return answer + 0.5 * question * answer


def skewed(random: Rng, home: np.ndarray, n: int) -> np.ndarray:
    """Draw noise that is heavy and skewed after other questions."""
    heavy = random.exponential(size=(4, n)) ** 2
    return np.where(home > 0, random.normal(size=(4, n)), (heavy - 2) / 2)


def spikes(random: Rng, home: np.ndarray, n: int) -> np.ndarray:
    """Draw noise with rare spikes upwards at home."""
    return random.normal(size=(4, n)) + 6 * home * (random.random((4, n)) < 0.15)


def uneven(random: Rng, home: np.ndarray, n: int) -> np.ndarray:
    """Draw noise that is three times as large in a third of the pairs, and heavy-tailed."""
    return np.where(random.random(n) < 0.3, 3, 1) * random.standard_t(3, size=(4, n)) / 2


def louder_away(random: Rng, home: np.ndarray, n: int) -> np.ndarray:
    """Draw noise that is twice as large after other questions."""
    return (2 - home) * random.normal(size=(4, n))


def overlap(
    random: Rng, n: int, *, steep: bool, seen: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a part that reads the overlap of question and answer, which is largest at home.

    If `steep`, it enters as a smooth step. The imitator's feature has the noise `seen`.
    """
    parts = four(*(0.15 + 0.05 * random.normal(size=(2, 2, n))))
    more = 0.1 * HOME * (random.random((4, n)) < 0.6)
    shared = np.clip(parts + more + 0.08 * random.normal(size=(4, n)), 0, 1)
    read = 3 / (1 + np.exp(-25 * (shared - 0.45))) if steep else 3 * shared
    told = shared + seen * random.normal(size=(4, n))
    return read, np.concatenate([told[..., None], random.normal(size=(4, n, 30))], axis=-1)


def kinds(random: Rng, n: int, *, hidden: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
    """Draw a part that is higher if the answer is of the kind asked for, mostly so at home."""
    asked = random.integers(0, 3, size=(2, n))
    asked[1] = np.where(random.random(n) < 0.8, asked[0], asked[1])
    kind = np.where(random.random((2, n)) < 0.9, asked, random.integers(0, 3, size=(2, n)))
    both = four(3 * asked, kind)
    seen = (both[..., None] == np.arange(9)).astype(float)
    return (both // 3 == both % 3).astype(float), None if hidden else seen


def at_chosen_layer(random: Rng, *n: int) -> Values:
    """Return sums at many layers. Pairs are scored at the layer that their fold chose."""
    world = Pairs()(random, *n)
    scores = {}
    for side, size in zip(SIDES, n, strict=True):
        parts = [alike(random, size, LAYERS_ALIKE, LAYERS) for _ in range(8)]
        question, answer, noise = np.split(np.stack(parts), [2, 4])
        scores[side] = world[side][:, None] + 0.5 * four(question, answer) + 0.4 * noise
    own = np.concatenate([scores[side][place] for side in SIDES for place in (0, 3)], axis=-1)
    fold = np.concatenate([np.tile(world[f"fold_{side}"], 2) for side in SIDES])
    wrong = np.repeat([0, 1], [2 * size for size in n])
    outside = [fold != number for number in range(FOLDS)]
    auc = np.array([[intervals.auc(-s[some], wrong[some]) for some in outside] for s in own])
    layer = samples.layer_of_fold(auc)
    for side in SIDES:
        places = world[f"fold_{side}"]
        world[side] = scores[side][:, layer[places], np.arange(len(places))]
    return world


CURVES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "squeezed": np.tanh,
    "steep above": np.exp,
    "cut below": lambda x: np.maximum(x, 0),
    "a step": lambda x: np.tanh(6 * x),
    "steep at both ends": lambda x: x**3,
}
SUMS = {
    "sums": Pairs(),
    **{f"bent sum, {name}": Pairs(inside=bent(curve)) for name, curve in CURVES.items()},
    **{
        f"bent sum, {name}, answers go with questions": Pairs(inside=bent(curve), tied=0.9)
        for name, curve in CURVES.items()
    },
    "another curve for each answer": Pairs(inside=curve_of_each_answer),
    "positive factor": Pairs(inside=gain),
    "factor that changes sign": Pairs(inside=turned),
    "overlap": Pairs(extra=partial(overlap, steep=False)),
    "kinds of answers": Pairs(extra=kinds),
    "fourteen answers": Pairs(texts=14),
}
"""Worlds without comparison beyond text, known when the threshold of the claim was chosen."""
NEW = {
    "the larger of the two": Pairs(inside=np.maximum, tied=0.8),
    "the smaller of the two": Pairs(inside=np.minimum, tied=0.8),
    "product of two chances": Pairs(
        inside=lambda q, y: -np.log(np.expm1(np.logaddexp(0, -q) + np.logaddexp(0, -y)) + 1e-9),
        tied=0.8,
    ),
    "rounded to halves": Pairs(inside=lambda q, y: np.round(2 * (q + y)) / 2, tied=0.8),
    "clipped at both ends": Pairs(inside=lambda q, y: np.clip(q + y, -0.5, 1.0), tied=0.8),
    "questions matter for good answers only": Pairs(
        inside=lambda q, y: y + q * (y > np.median(y)), tied=0.8
    ),
    "uneven, heavy-tailed noise": Pairs(noise=uneven, tied=0.8),
    "noise twice as large away from home": Pairs(noise=louder_away, tied=0.8),
    "squeezed, noise twice as large away from home": Pairs(
        inside=bent(np.tanh), noise=louder_away, tied=0.8
    ),
}
"""Worlds without comparison, designed after the threshold was chosen."""
UNTELLABLE = {
    "fades by .2 after strange questions": Pairs(fades=0.2),
    "fades by .4 after strange questions": Pairs(fades=0.4),
    "hidden kinds of answers": Pairs(extra=partial(kinds, hidden=True)),
    "overlap, read as a step": Pairs(extra=partial(overlap, steep=True)),
    "overlap, seen with noise": Pairs(extra=partial(overlap, steep=True, seen=0.1)),
    "spikes at home": Pairs(noise=spikes),
    "heavy skewed noise away from home": Pairs(noise=skewed),
}
"""Worlds that a claim of comparison may take for comparison."""
COMPARES = {
    f"P of {pair}": Pairs(SMALL, home={"right": pair / 0.22, "wrong": pair / 0.22})
    for pair in (0.1, 0.22, 0.35)
}
REVERSED = {"wrong answers lower, P of -0.35": Pairs(SMALL, home={"right": 1.6, "wrong": -1.6})}


def at_scale(worlds: Mapping[str, Pairs], scale: Scale) -> dict[str, World]:
    """Return the worlds with other standard deviations."""
    return {name: replace(world, scale=scale) for name, world in worlds.items()}

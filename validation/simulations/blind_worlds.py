"""Simulated scores meant to fool the claim `truth`, by an author who had not seen its rule.

A world draws tables [subjects, answers] of scores and log-probabilities, and reads its pairs off
them. So the same question with the same answer always has the same score. In comments, P is the
mean pair term of the model's own wrong answers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from validation.simulations.claim_worlds import ANSWER, QUESTION, Rng, Values, World

N_GENERIC = 30  # answers 0..29 are generic: they fit all questions of a family
FAMILY = 10  # number of subjects in a family; the subjects of a pair share a family
MAX_SPECIFIC = 400


@dataclass(frozen=True)
class Cast:
    """Subjects with their gold answers and the model's own answers, and the pairs."""

    gold: np.ndarray  # [subjects]
    own: np.ndarray  # [subjects]
    popularity: np.ndarray  # of each answer, in log-probability, [answers]
    right: np.ndarray  # subjects of pairs answered right, [2, n_right]
    wrong: np.ndarray  # subjects of pairs answered wrong, [2, n_wrong]
    fold: np.ndarray | None = None  # [subjects]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of subjects and of answers."""
        return len(self.gold), len(self.popularity)

    @property
    def known(self) -> np.ndarray:
        """Whether the model's answer is right, bool [subjects]."""
        return self.own == self.gold

    def at(self, answers: np.ndarray, value: float | np.ndarray) -> np.ndarray:
        """Return a table with `value` at each subject's entry of `answers`, and 0 elsewhere."""
        table = np.zeros(self.shape)
        table[np.arange(len(answers)), answers] = value
        return table

    def cells(self, table: np.ndarray, suffix: str = "", prefix: str = "") -> Values:
        """Read the pairs of each role off a table, in the order of `crossing.terms`, [4, n]."""
        right, wrong = self.right, self.wrong
        roles = {"right": (right, self.own), "wrong": (wrong, self.own), "gold": (wrong, self.gold)}
        return {
            f"{prefix}{role}{suffix}": table[pairs[QUESTION], answers[pairs[ANSWER]]]
            for role, (pairs, answers) in roles.items()
        }

    def ids(self) -> Values:
        """Return the ids of the pairs' subjects and answers, [2, n] each."""
        return {
            "subjects_right": self.right,
            "subjects_wrong": self.wrong,
            "answers_right": self.own[self.right],
            "answers_wrong": self.own[self.wrong],
            "golds": self.gold[self.wrong],
        }


def draw_pairs(
    rng: Rng, a: np.ndarray, b: np.ndarray, n: int, gold: np.ndarray, own: np.ndarray
) -> np.ndarray:
    """Draw `n` of the pairs (a, b) whose questions share no answer, in random order, [2, n]."""
    fits = (own[a] != own[b]) & (gold[a] != gold[b]) & (own[a] != gold[b]) & (own[b] != gold[a])
    picked = rng.choice(np.flatnonzero(fits), n, replace=False)
    pairs = np.stack([a[picked], b[picked]])
    return np.where(rng.random(n) < 0.5, pairs, pairs[::-1])


def draw_cast(rng: Rng, n_right: int, n_wrong: int, *, generic: float = 1.0, hubs: int = 0) -> Cast:
    """Draw subjects and their answers.

    `generic` is the share of own wrong answers that are generic. `hubs` is the number of specific
    answers, 0 for the default number.
    """
    m_right, m_wrong = (FAMILY * int(np.ceil(1.5 * n / FAMILY) + 2) for n in (n_right, n_wrong))
    m = m_right + m_wrong
    n_specific = hubs or min(MAX_SPECIFIC, max(30, m // 3))
    common = 4.0 + rng.normal(0, 0.5, N_GENERIC)
    rare = np.sort(rng.normal(-0.5, 1, n_specific))[::-1]  # known answers first
    known = np.arange(m) < m_right
    rank = n_specific * rng.random(m) ** np.where(known, 1.5, 0.8)
    gold = N_GENERIC + rank.astype(int)
    by_default = known & (rng.random(m) < 0.2)  # here, a generic answer is right
    gold[by_default] = rng.integers(0, N_GENERIC, by_default.sum())
    shift = rng.integers(1, n_specific, m)
    other = N_GENERIC + (gold - N_GENERIC + shift) % n_specific
    default = rng.integers(0, N_GENERIC, m)
    own = np.where(known, gold, np.where(rng.random(m) < generic, default, other))
    i, j = np.triu_indices(FAMILY, 1)
    pairs = []
    for start, stop, n in ((0, m_right, n_right), (m_right, m, n_wrong)):
        first = np.arange(start, stop, FAMILY)[:, None]
        pairs.append(draw_pairs(rng, (first + i).ravel(), (first + j).ravel(), n, gold, own))
    return Cast(gold, own, np.concatenate([common, rare]), *pairs)


def question_effect(rng: Rng, cast: Cast) -> np.ndarray:
    """Draw question effects [subjects, 1] of variance 1. Subjects of a family share .8 of it."""
    m = len(cast.gold)
    family = np.repeat(rng.normal(size=m // FAMILY), FAMILY)
    return (np.sqrt(0.8) * family + np.sqrt(0.2) * rng.normal(size=m))[:, None]


def draw_likelihood(
    rng: Rng, cast: Cast, *, own: float = 0.0, gold: float = 3.0, fit: float = 0.0
) -> np.ndarray:
    """Draw log-probabilities from the question's ease, the answer's popularity, `fit` and bonuses.

    The model's answer is at least as likely as the gold answer.
    """
    z = -7 + 0.8 * question_effect(rng, cast) + cast.popularity + fit
    z = z + rng.normal(0, 0.8, cast.shape)
    z += cast.at(cast.own, np.where(cast.known, 5.0, own)) + cast.at(cast.gold, ~cast.known * gold)
    rows = np.arange(len(cast.own))
    z[rows, cast.own] = np.maximum(z[rows, cast.own], z[rows, cast.gold])
    return -np.logaddexp(0, -z)


def draw_scores(rng: Rng, cast: Cast, signal: np.ndarray) -> np.ndarray:
    """Add to `signal` effects of questions and answers, and noise whose size varies by answer."""
    answer = rng.normal(0, 0.5, cast.shape[1])
    noise = rng.uniform(0.3, 0.6, cast.shape[1]) * rng.normal(size=cast.shape)
    return signal + 0.8 * question_effect(rng, cast) + answer + noise


@dataclass(frozen=True)
class Blind:
    """A world whose score is a signal with effects of question and answer, and noise."""

    slope: float = 0.0  # of the log-probability in the signal
    extra: Callable[[Rng, Cast, np.ndarray], np.ndarray] | None = None
    """Further part of the signal, given the log-probabilities, [subjects, answers]."""
    trait: Callable[[Rng, Cast], np.ndarray] | None = None
    """Property of question and answer, [subjects, answers]."""
    read: float = 0.0  # weight of the trait in the signal
    likelier: float = 0.0  # weight of the trait in the log-probability
    truth: float = 0.0  # gain in the mean pair term of right answers and golds
    truth_share: float = 1.0  # share of the wrongly answered subjects that have this gain
    own: float = 0.0  # bonus of own wrong answers in the log-probability
    gold: float = 3.0  # bonus of golds in the log-probability
    error: float = 0.0  # noise of the log-probability that the claim knows, not of the signal
    generic: float = 1.0  # see `draw_cast`
    hubs: int = 0  # see `draw_cast`

    def __call__(self, rng: Rng, n_right: int, n_wrong: int) -> Values:
        """Simulate right and wrong pairs."""
        cast = draw_cast(rng, n_right, n_wrong, generic=self.generic, hubs=self.hubs)
        trait = self.trait(rng, cast) if self.trait else np.zeros(1)
        fit = self.likelier * trait
        logp = known_logp = draw_likelihood(rng, cast, own=self.own, gold=self.gold, fit=fit)
        if self.error:
            known_logp = np.minimum(logp + rng.normal(0, self.error, cast.shape), -0.01)
        signal = self.slope * logp + self.read * trait
        if self.extra:
            signal = signal + self.extra(rng, cast, logp)
        if self.truth:
            share, m = self.truth_share, len(cast.gold)
            has = cast.known | (rng.random(m) < share) if share < 1 else np.ones(m)
            signal = signal + cast.at(cast.gold, has * 2 * self.truth / share)
        score = draw_scores(rng, cast, signal)
        return cast.cells(score) | cast.cells(known_logp, prefix="logp_") | cast.ids()


def ceiling(rng: Rng, cast: Cast, logp: np.ndarray) -> np.ndarray:
    """Return a saturating function of the log-probabilities."""
    return 2 * np.tanh((logp + 6) / 3)


def per_token(rng: Rng, cast: Cast, logp: np.ndarray) -> np.ndarray:
    """Return log-probabilities per token. Generic answers are long."""
    is_generic = np.arange(cast.shape[1]) < N_GENERIC
    length = np.where(is_generic, rng.integers(3, 7, cast.shape[1]), 1)
    return 0.5 * logp / (length + rng.integers(0, 2, cast.shape[1]))


def louder(rng: Rng, cast: Cast, logp: np.ndarray) -> np.ndarray:
    """Return log-probabilities with a gain that grows with the answer's rarity."""
    gain = 0.32 * np.exp(-0.25 * cast.popularity + rng.normal(0, 0.2, cast.shape[1]))
    return gain * (logp + 5)


def doubt(rng: Rng, cast: Cast, logp: np.ndarray) -> np.ndarray:
    """Return a score for the model's own answers only, set by its confidence in each."""
    own_logp = logp[np.arange(len(cast.own)), cast.own]
    surety = own_logp + 2 + 1.5 * cast.known + rng.normal(0, 1, len(own_logp))
    return cast.at(cast.own, 2.2 * np.tanh(surety - 1.1))


def quirks(rng: Rng, cast: Cast, logp: np.ndarray) -> np.ndarray:
    """Return noise for each gold with each answer, shared by the subjects with this gold."""
    return rng.normal(0, 0.7, (cast.shape[1], cast.shape[1]))[cast.gold]


def same_kind(rng: Rng, cast: Cast) -> np.ndarray:
    """Return 1 if an answer is of the kind that the question asks for (as golds are), else 0."""
    kind = rng.integers(0, 5, cast.shape[1])
    return 1.0 * (kind[cast.gold][:, None] == kind)


def own_answers_scored_low(rng: Rng, n_right: int, n_wrong: int) -> Values:
    """Simulate pairs. Of the wrong ones, keep a third: those of lowest pair term in a second probe.

    The score reads the log-probability. P is above 0, although the selection lowers it.
    """
    world = Blind(slope=0.32, own=4.0, gold=3.5)(rng, n_right, 3 * n_wrong)
    seen = np.array([1, -1, -1, 1]) @ world["wrong"] / 4 + rng.normal(0, 0.1, 3 * n_wrong)
    kept = np.sort(np.argsort(seen)[:n_wrong])
    return {name: x if name.endswith("right") else x[:, kept] for name, x in world.items()}


CLEAN: dict[str, World] = {
    # Own answers are near the ceiling. Golds are on the slope, and equally specific. P > 0.
    "likelihood_under_a_ceiling": Blind(extra=ceiling, own=3.2, gold=2.5),
    # Generic own answers are long, golds short. Over all tokens, they are equally specific. P > 0.
    "likelihood_per_token": Blind(extra=per_token, own=4.0),
    # The gain grows with rarity, for own answers and for golds. P > 0.
    "likelihood_louder_for_rare_answers": Blind(extra=louder, own=2.5, generic=0.8),
    # The noise has mean 0, so regressions see too small a slope. P is about 0.
    "likelihood_of_another_wording": Blind(slope=0.3, error=1.2),
    # Golds never bear the mark of doubt. P < 0.
    "doubt_about_the_own_guess": Blind(slope=0.22, extra=doubt, own=1.5, generic=0.7),
    # Quirks have mean 0. There are 8 golds, so pairs depend strongly on one another. P is about 0.
    "quirks_of_a_few_shared_golds": Blind(slope=0.3, extra=quirks, hubs=8),
    "likelihood_where_own_answers_scored_low": own_answers_scored_low,
}
"""Worlds without truth."""
BORDERLINE: dict[str, World] = {
    # Own wrong answers, all generic, are of the right kind only by chance. P is about 0.
    "kind_of_the_answer": Blind(slope=0.2, trait=same_kind, read=0.9, likelier=1.0, gold=1.0)
}
"""A world that has truth by one definition and not by another."""
TRUTH: dict[str, World] = {
    # Own wrong answers are likelier than golds, and at least as specific to the question. P > 0.
    "truth_small_at_equal_likelihood": Blind(slope=0.2, truth=0.2, own=2.9, gold=2.5, generic=0.7),
    # By the log-probability, own wrong answers are likelier and more specific. P > 0.
    "truth_against_likelihood": Blind(slope=0.12, truth=0.35, own=3.0, gold=1.5, generic=0.6),
    # Log-probabilities favour own answers equally after both questions of a pair. P is about 0.
    "truth_of_some_subjects_without_likelihood": Blind(
        slope=0.2, truth=0.35, truth_share=0.6, gold=0.0
    ),
}
"""Worlds in which right answers gain beyond the log-probability."""

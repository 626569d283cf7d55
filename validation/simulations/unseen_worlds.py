"""Simulated worlds like `blind_worlds`, by another author who had not seen the rules of claims.

They also have scores with the exact question tokens (E_Q) blocked, as in `passage_worlds`. Each
fold's probe has a gain and a threshold of its own. Log-probabilities rise with the fit of an answer
to its question, with its popularity and with the question's ease.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from validation.simulations.blind_worlds import Cast, draw_pairs
from validation.simulations.claim_worlds import Rng, Values, World

N_KINDS = 4  # kinds of question: pairs are made inside a kind, and inside a fold
N_FOLDS = 5
N_ANSWERS = 25  # of each kind
SPARE = 60  # number of subjects beyond the number of pairs

Scores = tuple[np.ndarray, np.ndarray]
"""Scores, clean and with E_Q blocked, [subjects, answers] each."""


def draw_popularity(rng: Rng) -> np.ndarray:
    """Draw the log-popularity of answers, whose frequency in a kind is about rank^-.6."""
    one = -0.6 * np.log(np.arange(1, N_ANSWERS + 1))
    return np.tile(one - one.mean(), N_KINDS) + rng.normal(0, 0.2, N_KINDS * N_ANSWERS)


def draw_answers(rng: Rng, kind: np.ndarray, popularity: np.ndarray) -> np.ndarray:
    """Draw an answer of each subject's kind, popular ones more often."""
    noisy = popularity.reshape(N_KINDS, N_ANSWERS)[kind] + rng.gumbel(size=(len(kind), N_ANSWERS))
    return kind * N_ANSWERS + noisy.argmax(1)


def groups(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the kind and the fold of each of `m` subjects, dealt out in turn."""
    number = np.arange(m)
    return number % N_KINDS, number // N_KINDS % N_FOLDS


def cast_of(rng: Rng, of: Sequence[np.ndarray], among: Sequence[tuple[np.ndarray, int]]) -> Cast:
    """Draw the pairs of a cast. `of` has golds, own answers and popularity.

    `among` lists (subjects, number of pairs to draw). Subjects of a pair share kind and fold.
    """
    (gold, own, popularity), pairs = of, []
    kind, fold = groups(len(gold))
    group = kind * N_FOLDS + fold
    for subjects, n in among:
        i, j = (subjects[some] for some in np.triu_indices(len(subjects), 1))
        together = group[i] == group[j]
        pairs.append(draw_pairs(rng, i[together], j[together], n, gold, own))
    return Cast(gold, own, popularity, *pairs, fold)


def draw_cast(rng: Rng, n_right: int, n_wrong: int) -> Cast:
    """Draw subjects and their answers."""
    m_right = n_right + SPARE
    kind, _ = groups(m_right + n_wrong + SPARE)
    popularity = draw_popularity(rng)
    gold, own = (draw_answers(rng, kind, popularity) for _ in range(2))
    start = kind * N_ANSWERS
    own = np.where(own == gold, start + (own - start + 1) % N_ANSWERS, own)
    own[:m_right] = gold[:m_right]
    right, wrong = np.split(np.arange(len(gold)), [m_right])
    return cast_of(rng, (gold, own, popularity), [(right, n_right), (wrong, n_wrong)])


def draw_fit(rng: Rng, cast: Cast) -> np.ndarray:
    """Draw how well each answer fits each question, as the model sees it."""
    fit = cast.at(cast.own, np.where(cast.known, 6.0, 5.0)) + cast.at(cast.gold, ~cast.known * 4.0)
    return fit + rng.normal(0, 0.8, cast.shape)


def question_effect(rng: Rng, cast: Cast) -> np.ndarray:
    """Draw a standard normal effect of each question, [subjects, 1]."""
    return rng.normal(size=(len(cast.gold), 1))


def draw_noises(rng: Rng, cast: Cast, size: float, kept: float = 0.8) -> Scores:
    """Draw the noise of clean and of blocked scores, whose correlation is `kept`."""
    plain, fresh = size * rng.normal(size=(2, *cast.shape))
    return plain, kept * plain + np.sqrt(1 - kept**2) * fresh


def deal(rng: Rng, cast: Cast, scores: Scores, fit: np.ndarray) -> Values:
    """Return the arrays of a world. `fit` includes the popularity."""
    logp = -np.logaddexp(0, 5 - fit - 0.5 * question_effect(rng, cast))
    gain, threshold = 1 + 0.06 * rng.normal(size=N_FOLDS), 0.2 * rng.normal(size=N_FOLDS)
    at = cast.fold[:, None]
    clean, blocked = (gain[at] * one + threshold[at] for one in scores)
    world = cast.cells(clean) | cast.cells(blocked, "_blocked") | cast.cells(logp, prefix="logp_")
    for side, pairs in (("right", cast.right), ("wrong", cast.wrong)):
        world |= {f"fold_{side}": cast.fold[pairs[0]], f"frames_{side}": pairs}
    del world["gold_blocked"]
    return world | cast.ids()


def unseen(scores: Callable[[Rng, Cast, np.ndarray], Scores]) -> World:
    """Return a world whose scores come from a cast and the fit of its answers."""

    def world(rng: Rng, n_right: int, n_wrong: int) -> Values:
        cast = draw_cast(rng, n_right, n_wrong)
        fit = draw_fit(rng, cast)
        return deal(rng, cast, scores(rng, cast, fit), fit + cast.popularity)

    return world


def doubt_lifted(rng: Rng, cast: Cast, fit: np.ndarray) -> Scores:
    """Return a saturating curve of doubt, answer and fit. Only the doubt passes through E_Q."""
    doubt = 1.3 + 0.4 * question_effect(rng, cast)
    inner = 0.5 * fit + rng.normal(0, 0.4, cast.shape[1])
    noise, noise_blocked = draw_noises(rng, cast, 0.3)
    return 2 * np.tanh(inner - doubt) + noise, 2 * np.tanh(inner) + noise_blocked


def long_names(rng: Rng, cast: Cast, fit: np.ndarray) -> Scores:
    """Return scores that weigh the fit more, and lose more by blocking, after long names."""
    tokens = rng.integers(1, 7, (len(cast.gold), 1))
    rare = tokens / 3.5
    answer = rng.normal(0, 0.6, cast.shape[1])
    noise, noise_blocked = draw_noises(rng, cast, 0.35)
    signal = 0.25 * rare * fit + (2 - rare) * answer + 0.6 * question_effect(rng, cast)
    return signal + noise, (1 - 0.12 * tokens) * signal + noise_blocked


def damaged_attention(rng: Rng, cast: Cast, fit: np.ndarray) -> Scores:
    """Return scores whose parts lose two fifths by blocking, except one part of the answer."""
    local, carried = rng.normal(0, [[0.5], [0.35]], (2, cast.shape[1]))
    noise, noise_blocked = draw_noises(rng, cast, 0.35)
    by_attention = 0.25 * fit + carried + 0.6 * question_effect(rng, cast)
    return by_attention + local + noise, 0.6 * by_attention + local + noise_blocked


def sums(
    rng: Rng,
    cast: Cast,
    fit: np.ndarray,
    *,
    answer: float,
    gains: tuple[float, float],
    louder: float = 1.0,
    asked: float = 1.0,
    noise: float = 0.35,
    kept: float = 0.8,
) -> Scores:
    """Return sums of fit, answer, question and noise. `gains` weigh the fit, clean and blocked.

    Blocking multiplies the answer's part by `louder`, and the question's by `asked`.
    """
    of_answer = rng.normal(0, answer, cast.shape[1])
    of_question = 0.6 * question_effect(rng, cast)
    plain, blocked = draw_noises(rng, cast, noise, kept)
    return (
        gains[0] * fit + of_answer + of_question + plain,
        gains[1] * fit + louder * of_answer + asked * of_question + blocked,
    )


def own_answers_said_by_luck(rng: Rng, n_right: int, n_wrong: int) -> Values:
    """Simulate scores that read how plausible an answer is under any wording.

    The model gives the likeliest answer in one wording. There, likelihood overstates how plausible
    own answers are, but understates golds of wrong ones. Blocking takes a fifth of the signal.
    """
    kind, _ = groups(8 * max(n_right, n_wrong) + 600)
    popularity = draw_popularity(rng)
    gold = draw_answers(rng, kind, popularity)
    known, subject = rng.random(len(gold)) < 0.4, np.arange(len(gold))
    plausible = popularity + rng.normal(0, 1.3, (len(gold), len(popularity)))
    plausible[subject, gold] += np.where(known, 4.5, 0.8)
    likely = plausible + rng.normal(0, 1.3, plausible.shape)
    of_kind = np.arange(len(popularity)) // N_ANSWERS == kind[:, None]
    own = np.where(of_kind, likely, -np.inf).argmax(1)
    sides = ((own == gold, n_right), (own != gold, n_wrong))
    among = [(subject[side][: n + SPARE], n) for side, n in sides]
    cast = cast_of(rng, (gold, own, popularity), among)
    answer = rng.normal(0, 0.5, cast.shape[1])
    noise, noise_blocked = draw_noises(rng, cast, 0.35)
    signal = 0.35 * plausible + answer + 0.6 * question_effect(rng, cast)
    return deal(rng, cast, (signal + noise, 0.8 * signal + noise_blocked), likely)


NO_TRUTH: dict[str, World] = {
    "doubt lifted towards a ceiling": unseen(doubt_lifted),
    "long names are damaged more": unseen(long_names),
    "damage to all that attention carries": unseen(damaged_attention),
    # A model that does not see the subject falls back on what it knows of answers in general.
    "answers louder without the subject": unseen(
        partial(sums, answer=0.5, gains=(0.25, 0.25), louder=1.5, asked=0.5)
    ),
    "own answers said by luck": own_answers_said_by_luck,
}
"""Question and answer interact, and nothing of the interaction passes through E_Q. Golds fit less
than own answers, so `truth` is false."""
HALF: dict[str, World] = {
    # The answer's part hardly varies between answers, and noise with and without blocking has a
    # correlation of only .5. So this part can look as damaged as the comparison.
    "loss beside a faint answer part": unseen(
        partial(sums, answer=0.1, gains=(0.2, 0.1), noise=0.45, kept=0.5)
    )
}
"""No truth; half of the comparison passes through E_Q."""

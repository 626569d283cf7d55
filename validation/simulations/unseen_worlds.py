"""Simulated worlds against the claims about swapped answers, written without sight of the rules.

Each world draws tables subjects x answers (scores, scores with E_Q blocked, log-probabilities) and
reads its pairs off them, so that the same question with the same answer always has the same score.
Worlds are as in `claim_worlds` and `passage_worlds`.
"""

from dataclasses import dataclass

import numpy as np

from validation.simulations.claim_worlds import Values, World

N_KINDS = 4  # kinds of question: pairs are made inside a kind, and inside a fold
N_FOLDS = 5
N_ANSWERS = 25  # of each kind
SPARE = 60  # subjects more than pairs


@dataclass(frozen=True)
class Cast:
    """Who is asked, what is right (`gold`), what the model says (`own`), and which pairs."""

    fold: np.ndarray  # [subjects]
    gold: np.ndarray  # [subjects]
    own: np.ndarray  # [subjects]
    right: np.ndarray  # [2, n_right] subjects
    wrong: np.ndarray  # [2, n_wrong] subjects

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.gold), N_KINDS * N_ANSWERS

    def at(self, answers: np.ndarray, value: float | np.ndarray) -> np.ndarray:
        """A table with `value` where a subject meets its own entry of `answers`, else 0."""
        table = np.zeros(self.shape)
        table[np.arange(len(answers)), answers] = value
        return table


def draw_popularity(rng: np.random.Generator) -> np.ndarray:
    """Log-popularity of each answer: those of a kind are drawn about as often as 1 / rank^.6."""
    one = -0.6 * np.log(np.arange(1, N_ANSWERS + 1))
    return np.tile(one - one.mean(), N_KINDS) + rng.normal(0, 0.2, N_KINDS * N_ANSWERS)


def draw_answers(rng: np.random.Generator, kind: np.ndarray, popularity: np.ndarray) -> np.ndarray:
    """An answer of the kind for each subject, popular ones more often."""
    noisy = popularity.reshape(N_KINDS, N_ANSWERS)[kind] + rng.gumbel(size=(len(kind), N_ANSWERS))
    return kind * N_ANSWERS + noisy.argmax(1)


def draw_pairs(
    rng: np.random.Generator,
    among: np.ndarray,
    n: int,
    group: np.ndarray,
    gold: np.ndarray,
    own: np.ndarray,
) -> np.ndarray:
    """`n` different pairs of one group each, without an answer that both questions would share."""
    i, j = np.triu_indices(len(among), 1)
    a, b = among[i], among[j]
    fits = (group[a] == group[b]) & (own[a] != own[b]) & (gold[a] != gold[b])
    fits &= (own[a] != gold[b]) & (own[b] != gold[a])
    picked = rng.choice(np.flatnonzero(fits), n, replace=False)
    pairs = np.stack([a[picked], b[picked]])
    return np.where(rng.random(n) < 0.5, pairs, pairs[::-1])


def draw_groups(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Kinds and folds of `m` subjects, in turn."""
    number = np.arange(m)
    return number % N_KINDS, number // N_KINDS % N_FOLDS


def draw_cast(rng: np.random.Generator, n_right: int, n_wrong: int) -> tuple[Cast, np.ndarray]:
    """Subjects with their answers, and the popularity of each answer."""
    m_right, m_wrong = n_right + SPARE, n_wrong + SPARE
    kind, fold = draw_groups(m_right + m_wrong)
    popularity = draw_popularity(rng)
    gold, own = (draw_answers(rng, kind, popularity) for _ in range(2))
    start = kind * N_ANSWERS
    own = np.where(own == gold, start + (own - start + 1) % N_ANSWERS, own)
    known = np.arange(len(gold)) < m_right
    own = np.where(known, gold, own)
    group = kind * N_FOLDS + fold
    right = draw_pairs(rng, np.flatnonzero(known), n_right, group, gold, own)
    wrong = draw_pairs(rng, np.flatnonzero(~known), n_wrong, group, gold, own)
    return Cast(fold, gold, own, right, wrong), popularity


def draw_fit(rng: np.random.Generator, cast: Cast) -> np.ndarray:
    """How well each answer fits each question to the model: right answers 6 above others, own
    wrong ones 5, the golds of these 4.
    """
    known = cast.own == cast.gold
    fit = cast.at(cast.own, np.where(known, 6.0, 5.0)) + cast.at(cast.gold, ~known * 4.0)
    return fit + rng.normal(0, 0.8, cast.shape)


def question_effect(rng: np.random.Generator, cast: Cast) -> np.ndarray:
    """Unit-variance effect of each question."""
    return rng.normal(size=(len(cast.gold), 1))


def logp_of(rng: np.random.Generator, cast: Cast, fit: np.ndarray) -> np.ndarray:
    """Log-probabilities from `fit` (which holds the popularity) and the ease of the question."""
    return -np.logaddexp(0, 5 - fit - 0.5 * question_effect(rng, cast))


def draw_noises(
    rng: np.random.Generator, cast: Cast, size: float, kept: float = 0.8
) -> tuple[np.ndarray, np.ndarray]:
    """What the score adds to each question with each answer, and what it adds with E_Q blocked:
    `kept` is the correlation of the two.
    """
    plain, fresh = size * rng.normal(size=(2, *cast.shape))
    return plain, kept * plain + np.sqrt(1 - kept**2) * fresh


def deal(
    rng: np.random.Generator, cast: Cast, score: np.ndarray, blocked: np.ndarray, logp: np.ndarray
) -> Values:
    """The arrays of a world, read off its tables by probes of which each fold has its own gain
    and threshold.
    """
    gain, threshold = 1 + 0.06 * rng.normal(size=N_FOLDS), 0.2 * rng.normal(size=N_FOLDS)

    def cells(table: np.ndarray, pairs: np.ndarray, answers: np.ndarray) -> np.ndarray:
        return table[pairs[[0, 1, 0, 1]], answers[pairs[[0, 0, 1, 1]]]]

    world: Values = {}
    parts = {"right": (cast.right, cast.own), "wrong": (cast.wrong, cast.own)}
    parts["gold"] = (cast.wrong, cast.gold)
    for name, (pairs, answers) in parts.items():
        fold = cast.fold[pairs[0]]
        world[name] = gain[fold] * cells(score, pairs, answers) + threshold[fold]
        world[f"logp_{name}"] = cells(logp, pairs, answers)
        if name != "gold":
            with_block = gain[fold] * cells(blocked, pairs, answers) + threshold[fold]
            world[f"{name}_blocked"] = with_block
            world |= {f"fold_{name}": fold, f"subjects_{name}": pairs, f"frames_{name}": pairs}
            world[f"answers_{name}"] = answers[pairs]
    return world | {"golds": cast.gold[cast.wrong]}


def doubt_lifted_towards_a_ceiling(rng: np.random.Generator, n_right: int, n_wrong: int) -> Values:
    """Nothing of the comparison passes through E_Q: what passes is how obscure the subject is, a
    doubt which lowers all answers alike. The score is a saturating curve of doubt, answer and
    fit; without the doubt all answers move up to its ceiling, where answers that fit gain
    nothing any more and others come onto the slope. Interaction and own_answer hold; truth, of
    golds which fit less than own answers, does not; through_eq does not.
    """
    cast, popularity = draw_cast(rng, n_right, n_wrong)
    fit = draw_fit(rng, cast)
    doubt = 1.3 + 0.4 * question_effect(rng, cast)
    answer = rng.normal(0, 0.4, cast.shape[1])
    noise, noise_blocked = draw_noises(rng, cast, 0.3)
    inner = 0.5 * fit + answer
    score = 2 * np.tanh(inner - doubt) + noise
    blocked = 2 * np.tanh(inner) + noise_blocked
    return deal(rng, cast, score, blocked, logp_of(rng, cast, fit + popularity))


def long_names_are_damaged_more(rng: np.random.Generator, n_right: int, n_wrong: int) -> Values:
    """Nothing of the comparison passes through E_Q: to block tokens damages all parts of a score
    alike, the more, the more tokens are blocked. Behind the long names of rare subjects, whose
    damage is large, probes weigh the fit; behind short ones, of common subjects, the answer.
    Interaction and own_answer hold, truth and through_eq do not.
    """
    cast, popularity = draw_cast(rng, n_right, n_wrong)
    fit = draw_fit(rng, cast)
    tokens = rng.integers(1, 7, (len(cast.gold), 1))
    rare = tokens / 3.5
    left = 1 - 0.12 * tokens
    answer = rng.normal(0, 0.6, cast.shape[1])
    noise, noise_blocked = draw_noises(rng, cast, 0.35)
    signal = 0.25 * rare * fit + (2 - rare) * answer + 0.6 * question_effect(rng, cast)
    logp = logp_of(rng, cast, fit + popularity)
    return deal(rng, cast, signal + noise, left * signal + noise_blocked, logp)


def damage_to_all_that_attention_carries(
    rng: np.random.Generator, n_right: int, n_wrong: int
) -> Values:
    """Nothing of the comparison passes through E_Q: blocking any tokens disturbs the attention of
    a position as a whole, and takes two fifths of whatever attention carries: of the question, of
    the comparison (read off the question's end) and of a third of the answer's part. The rest of
    the answer's part lies in its own tokens and is not touched. Interaction and own_answer hold,
    truth and through_eq do not.
    """
    cast, popularity = draw_cast(rng, n_right, n_wrong)
    fit = draw_fit(rng, cast)
    local, carried = rng.normal(0, [[0.5], [0.35]], (2, cast.shape[1]))
    noise, noise_blocked = draw_noises(rng, cast, 0.35)
    by_attention = 0.25 * fit + carried + 0.6 * question_effect(rng, cast)
    score = by_attention + local + noise
    blocked = 0.6 * by_attention + local + noise_blocked
    return deal(rng, cast, score, blocked, logp_of(rng, cast, fit + popularity))


def answers_louder_without_the_subject(
    rng: np.random.Generator, n_right: int, n_wrong: int
) -> Values:
    """Nothing of the comparison passes through E_Q: it stays as it is. But a model that does not
    see the subject falls back on what it holds of answers in general, so that the answer's part
    grows by half, and the question's shrinks. Interaction and own_answer hold, truth and
    through_eq do not.
    """
    cast, popularity = draw_cast(rng, n_right, n_wrong)
    fit = draw_fit(rng, cast)
    answer = rng.normal(0, 0.5, cast.shape[1])
    question = 0.6 * question_effect(rng, cast)
    noise, noise_blocked = draw_noises(rng, cast, 0.35)
    score = 0.25 * fit + answer + question + noise
    blocked = 0.25 * fit + 1.5 * answer + 0.5 * question + noise_blocked
    return deal(rng, cast, score, blocked, logp_of(rng, cast, fit + popularity))


def own_answers_said_by_luck(rng: np.random.Generator, n_right: int, n_wrong: int) -> Values:
    """No truth: the score reads how plausible an answer is under any wording; log-probabilities
    are of this wording, whose luck (mean 0) differs by answer and question. The model says the
    likeliest answer, so that own answers had good luck, golds of wrong answers bad luck; in
    plausibility itself own wrong answers stand a little above golds. Blocking damages all parts
    by a fifth. Interaction and own_answer hold, truth and through_eq do not.
    """
    kind, fold = draw_groups(8 * max(n_right, n_wrong) + 600)
    popularity = draw_popularity(rng)
    gold = draw_answers(rng, kind, popularity)
    blank = Cast(fold, gold, gold, kind, kind)
    known = rng.random(len(gold)) < 0.4
    plausible = popularity + rng.normal(0, 1.3, blank.shape)
    plausible += blank.at(gold, np.where(known, 4.5, 0.8))
    likely = plausible + rng.normal(0, 1.3, blank.shape)
    of_kind = np.arange(blank.shape[1]) // N_ANSWERS == kind[:, None]
    own = np.where(of_kind, likely, -np.inf).argmax(1)
    group = kind * N_FOLDS + fold
    right, wrong = (
        draw_pairs(rng, np.flatnonzero(side)[: n + SPARE], n, group, gold, own)
        for side, n in ((own == gold, n_right), (own != gold, n_wrong))
    )
    cast = Cast(fold, gold, own, right, wrong)
    answer = rng.normal(0, 0.5, cast.shape[1])
    noise, noise_blocked = draw_noises(rng, cast, 0.35)
    signal = 0.35 * plausible + answer + 0.6 * question_effect(rng, cast)
    logp = logp_of(rng, cast, likely)
    return deal(rng, cast, signal + noise, 0.8 * signal + noise_blocked, logp)


def few_who_differ(rng: np.random.Generator, n_right: int, n_wrong: int) -> Values:
    """Sums and noise: nearly all questions of a kind have one answer ("English"), so that each
    pair needs one of the few that differ, whose noise enters all its pairs with the same sign.
    The noise has heavy tails and a size of each question's own. No claim holds.
    """
    sides, start = [], 0
    for n in (n_right, n_wrong):
        m = n + 100
        number = np.arange(m)
        n_differ = int(np.ceil(1.4 * n / (m / (N_KINDS * N_FOLDS) - 1)))
        default = np.where(number < n_differ, 1 + rng.integers(0, 3, m), 0)
        sides.append((start + number, default, 5 + rng.integers(0, N_ANSWERS - 5, m)))
        start += m
    groups = [draw_groups(len(number)) for number, _, _ in sides]
    kind, fold = (np.concatenate(part) for part in zip(*groups, strict=True))
    own, gold = (kind * N_ANSWERS + np.concatenate([s[i] for s in sides]) for i in (1, 2))
    gold[sides[0][0]] = own[sides[0][0]]
    group = kind * N_FOLDS + fold
    right = draw_pairs(rng, sides[0][0], n_right, group, gold, own)
    wrong = draw_pairs(rng, sides[1][0], n_wrong, group, gold, own)
    cast = Cast(fold, gold, own, right, wrong)
    size = 0.3 * np.exp(0.5 * question_effect(rng, cast))
    noise, fresh = size * rng.standard_t(3, (2, *cast.shape))
    signal = rng.normal(0, 0.5, cast.shape[1]) + 0.6 * question_effect(rng, cast)
    logp = logp_of(rng, cast, draw_fit(rng, cast) + draw_popularity(rng))
    blocked = 0.8 * (signal + noise) + 0.6 * fresh
    return deal(rng, cast, signal + noise, blocked, logp)


def loss_beside_a_faint_answer_part(rng: np.random.Generator, n_right: int, n_wrong: int) -> Values:
    """Half of the comparison passes through E_Q, and is lost; nothing else is damaged. But answers
    of a kind hardly differ in their own part, beside noise of which half is drawn anew under
    blocking: the answer's part can look as damaged as the comparison. Interaction, own_answer
    and through_eq hold, truth does not.
    """
    cast, popularity = draw_cast(rng, n_right, n_wrong)
    fit = draw_fit(rng, cast)
    answer = rng.normal(0, 0.1, cast.shape[1])
    question = 0.6 * question_effect(rng, cast)
    noise, noise_blocked = draw_noises(rng, cast, 0.45, kept=0.5)
    score = 0.2 * fit + answer + question + noise
    blocked = 0.1 * fit + answer + question + noise_blocked
    return deal(rng, cast, score, blocked, logp_of(rng, cast, fit + popularity))


NO_TRUTH: dict[str, World] = {
    world.__name__.replace("_", " "): world
    for world in (
        doubt_lifted_towards_a_ceiling,
        long_names_are_damaged_more,
        damage_to_all_that_attention_carries,
        answers_louder_without_the_subject,
        own_answers_said_by_luck,
    )
}
"""Question and answer interact, and nothing of it passes through E_Q."""
SUMS: dict[str, World] = {"few who differ": few_who_differ}
HALF: dict[str, World] = {"loss beside a faint answer part": loss_beside_a_faint_answer_part}
"""No truth; half of the comparison passes through E_Q."""

"""Simulated scores that are to fool a claim of truth, by somebody who had not seen its rule.

Each world draws one table of log-probabilities and one of scores, subjects x answers, and reads
its pairs off them, so that the same question with the same answer always has the same score.
P is [s(q,y) - s(q',y) - s(q,y') + s(q',y')] / 4.
"""

from dataclasses import dataclass

import numpy as np

N_GENERIC = 30  # answers 0..29 are generic: they fit all questions of a family
FAMILY = 10  # subjects of one family, of which pairs are made
MAX_SPECIFIC = 400


@dataclass(frozen=True)
class Cast:
    """Who is asked, what is right (`gold`), what the model says (`own`), and which pairs."""

    gold: np.ndarray  # [subjects]
    own: np.ndarray  # [subjects]
    popularity: np.ndarray  # [answers], added to the log-probability behind every question
    right: np.ndarray  # [2, n_right] subjects
    wrong: np.ndarray  # [2, n_wrong] subjects

    @property
    def shape(self):
        return len(self.gold), len(self.popularity)

    def at(self, answers, value):
        """A table with `value` where a subject meets its own entry of `answers`, else 0."""
        table = np.zeros(self.shape)
        table[np.arange(len(answers)), answers] = value
        return table

    def generic(self):
        return np.arange(len(self.popularity)) < N_GENERIC


def draw_pairs(rng, first, n_subjects, n, gold, own):
    """`n` different pairs inside families, without an answer that both questions would share."""
    i, j = np.triu_indices(FAMILY, 1)
    starts = first + FAMILY * np.arange(n_subjects // FAMILY)[:, None]
    a, b = (starts + i).ravel(), (starts + j).ravel()
    fits = (own[a] != own[b]) & (gold[a] != gold[b]) & (own[a] != gold[b]) & (own[b] != gold[a])
    picked = rng.choice(np.flatnonzero(fits), n, replace=False)
    pairs = np.stack([a[picked], b[picked]])
    return np.where(rng.random(n) < 0.5, pairs, pairs[::-1])


def draw_cast(rng, n_right, n_wrong, generic=1.0, hubs=None, generic_popularity=4.0):
    """Subjects and their answers; `generic` is the share of own wrong answers that are generic,
    `hubs` the number of specific answers (golds are shared by more subjects if it is small).
    """
    m_right, m_wrong = (FAMILY * int(np.ceil(1.5 * n / FAMILY) + 2) for n in (n_right, n_wrong))
    m = m_right + m_wrong
    n_specific = hubs or min(MAX_SPECIFIC, max(30, m // 3))
    common = generic_popularity + rng.normal(0, 0.5, N_GENERIC)
    rare = np.sort(rng.normal(-0.5, 1, n_specific))[::-1]  # known answers first
    known = np.arange(m) < m_right
    rank = n_specific * rng.random(m) ** np.where(known, 1.5, 0.8)
    gold = N_GENERIC + rank.astype(int)
    by_default = known & (rng.random(m) < 0.2)  # a generic answer is right at times
    gold[by_default] = rng.integers(0, N_GENERIC, by_default.sum())
    shift = rng.integers(1, n_specific, m)
    other = N_GENERIC + (gold - N_GENERIC + shift) % n_specific
    default = rng.integers(0, N_GENERIC, m)
    own = np.where(known, gold, np.where(rng.random(m) < generic, default, other))
    right = draw_pairs(rng, 0, m_right, n_right, gold, own)
    wrong = draw_pairs(rng, m_right, m_wrong, n_wrong, gold, own)
    return Cast(gold, own, np.concatenate([common, rare]), right, wrong)


def question_effect(rng, cast):
    """Unit-variance effect of each question; partners, of one family, share .8 of the variance."""
    m = len(cast.gold)
    family = np.repeat(rng.normal(size=m // FAMILY), FAMILY)
    return (np.sqrt(0.8) * family + np.sqrt(0.2) * rng.normal(size=m))[:, None]


def draw_likelihood(rng, cast, own=0.0, gold=3.0, right=5.0, fit=0.0):
    """Log-probabilities: ease of the question, popularity of the answer, `fit`, and bonuses of
    own wrong answers, of golds and of right own answers behind their question. What the model
    says is at least as likely as the gold.
    """
    known = cast.own == cast.gold
    z = -7 + 0.8 * question_effect(rng, cast) + cast.popularity + fit
    z = z + rng.normal(0, 0.8, cast.shape)
    z += cast.at(cast.own, np.where(known, right, own)) + cast.at(cast.gold, ~known * gold)
    rows = np.arange(len(known))
    z[rows, cast.own] = np.maximum(z[rows, cast.own], z[rows, cast.gold])
    return -np.logaddexp(0, -z)


def draw_scores(rng, cast, signal):
    """`signal` with effects of questions and answers, and noise whose size varies by answer."""
    answer = rng.normal(0, 0.5, cast.shape[1])
    noise = rng.uniform(0.3, 0.6, cast.shape[1]) * rng.normal(size=cast.shape)
    return signal + 0.8 * question_effect(rng, cast) + answer + noise


def deal(cast, score, logp):
    """The arrays of a world, read off its tables in the order (q,y), (q',y), (q,y'), (q',y')."""

    def cells(table, pairs, answers):
        return table[pairs[[0, 1, 0, 1]], answers[pairs[[0, 0, 1, 1]]]]

    parts = {"right": (cast.right, cast.own), "wrong": (cast.wrong, cast.own)}
    parts["gold"] = (cast.wrong, cast.gold)
    world = {name: cells(score, *part) for name, part in parts.items()}
    world |= {f"logp_{name}": cells(logp, *part) for name, part in parts.items()}
    world |= {"subjects_right": cast.right, "subjects_wrong": cast.wrong}
    world |= {"answers_right": cast.own[cast.right], "answers_wrong": cast.own[cast.wrong]}
    return world | {"golds": cast.gold[cast.wrong]}


def likelihood_under_a_ceiling(rng, n_right, n_wrong):
    """No truth: the score is a saturating curve of the log-probability alone, own answers lie near
    the ceiling, golds, as specific, on the slope. P_own > 0; a claim of truth is a false positive.
    """
    cast = draw_cast(rng, n_right, n_wrong)
    logp = draw_likelihood(rng, cast, own=3.2, gold=2.5)
    return deal(cast, draw_scores(rng, cast, 2 * np.tanh((logp + 6) / 3)), logp)


def likelihood_per_token(rng, n_right, n_wrong):
    """No truth: the score reads the log-probability per token; own generic answers are long,
    golds short, equally specific in total. P_own > 0; a claim of truth is a false positive.
    """
    cast = draw_cast(rng, n_right, n_wrong)
    logp = draw_likelihood(rng, cast, own=4.0, gold=3.0)
    length = np.where(cast.generic(), rng.integers(3, 7, cast.shape[1]), 1)
    length = length + rng.integers(0, 2, cast.shape[1])
    return deal(cast, draw_scores(rng, cast, 0.5 * logp / length), logp)


def likelihood_louder_for_rare_answers(rng, n_right, n_wrong):
    """No truth: the score reads the log-probability with a gain that grows with the answer's
    rarity, whoever gave it. P_own > 0; a claim of truth is a false positive.
    """
    cast = draw_cast(rng, n_right, n_wrong, generic=0.8)
    logp = draw_likelihood(rng, cast, own=2.5, gold=3.0)
    gain = 0.32 * np.exp(-0.25 * cast.popularity + rng.normal(0, 0.2, cast.shape[1]))
    return deal(cast, draw_scores(rng, cast, gain * (logp + 5)), logp)


def likelihood_of_another_wording(rng, n_right, n_wrong):
    """No truth: the score reads the log-probability under another wording, which differs from
    the known one by noise of mean 0 alone, so that regressions see too small a slope (and golds
    can be likelier than own answers). P_own about 0; a claim of truth is a false positive.
    """
    cast = draw_cast(rng, n_right, n_wrong)
    read = draw_likelihood(rng, cast, own=0.0, gold=3.0)
    logp = np.minimum(read + rng.normal(0, 1.2, cast.shape), -0.01)
    return deal(cast, draw_scores(rng, cast, 0.3 * read), logp)


def doubt_about_the_own_guess(rng, n_right, n_wrong):
    """No truth: besides the log-probability the score reads how sure the model is of its own
    guess, at that guess alone: a mark of doubt, which golds never bear. P_own < 0; a claim of
    truth is a false positive.
    """
    cast = draw_cast(rng, n_right, n_wrong, generic=0.7)
    logp = draw_likelihood(rng, cast, own=1.5, gold=3.0)
    own_logp = logp[np.arange(len(cast.own)), cast.own]
    surety = own_logp + 2 + 1.5 * (cast.own == cast.gold) + rng.normal(0, 1, len(own_logp))
    mark = cast.at(cast.own, 2.2 * np.tanh(surety - 1.1))
    return deal(cast, draw_scores(rng, cast, 0.22 * logp + mark), logp)


def quirks_of_a_few_shared_golds(rng, n_right, n_wrong):
    """No truth: the score reads the log-probability plus a random quirk (mean 0) for each kind of
    subject with each answer; subjects of one gold are one kind and there are 8 golds, so pairs
    are strongly dependent. P_own about 0; a claim of truth is a false positive.
    """
    cast = draw_cast(rng, n_right, n_wrong, hubs=8)
    logp = draw_likelihood(rng, cast, own=0.0, gold=3.0)
    quirk = rng.normal(0, 0.7, (cast.shape[1], cast.shape[1]))
    return deal(cast, draw_scores(rng, cast, 0.3 * logp + quirk[cast.gold]), logp)


def likelihood_where_own_answers_scored_low(rng, n_right, n_wrong):
    """No truth: the score reads the log-probability, but of three times as many pairs those are
    kept whose own answers a second probe, of partly the same noise, scored lowest against
    swapped ones. P_own > 0, but lowered by selection; a claim of truth is a false positive.
    """
    cast = draw_cast(rng, n_right, 3 * n_wrong)
    logp = draw_likelihood(rng, cast, own=4.0, gold=3.5)
    score = draw_scores(rng, cast, 0.32 * logp)
    world = deal(cast, score, logp)
    seen = np.array([1, -1, -1, 1]) @ world["wrong"] / 4 + rng.normal(0, 0.1, 3 * n_wrong)
    kept = np.sort(np.argsort(seen)[:n_wrong])
    of_wrong = ("wrong", "gold", "logp_wrong", "logp_gold")
    of_wrong += ("subjects_wrong", "answers_wrong", "golds")
    return world | {name: world[name][:, kept] for name in of_wrong}


def kind_of_the_answer(rng, n_right, n_wrong):
    """No truth, BORDERLINE: the score reads whether the answer is of the kind that the question
    asks for, right or wrong; golds always are, own default answers by chance. P_own about 0; the
    log-probability reads the kind only weakly.
    """
    cast = draw_cast(rng, n_right, n_wrong)
    kind = rng.integers(0, 5, cast.shape[1])
    match = kind[cast.gold][:, None] == kind  # a question asks for the kind of its gold
    logp = draw_likelihood(rng, cast, own=0.0, gold=1.0, fit=1.0 * match)
    return deal(cast, draw_scores(rng, cast, 0.2 * logp + 0.9 * match), logp)


def fame_of_subject_and_answer(rng, n_right, n_wrong):
    """No truth, BORDERLINE: the score reads whether subject and answer are famous alike (a gain of
    the question on the answer's fame); golds of obscure subjects are obscure, own defaults are
    not chosen so. P_own about 0; the log-probability reads it weakly.
    """
    cast = draw_cast(rng, n_right, n_wrong)
    fame = rng.normal(size=cast.shape[1])
    subject_fame = 0.8 * fame[cast.gold] + 0.6 * rng.normal(size=len(cast.gold))
    alike = subject_fame[:, None] * fame
    logp = draw_likelihood(rng, cast, own=0.0, gold=1.5, fit=0.3 * alike)
    return deal(cast, draw_scores(rng, cast, 0.15 * logp + 0.6 * alike), logp)


def truth_small_at_equal_likelihood(rng, n_right, n_wrong):
    """TRUTH: right answers gain .2 in P beyond the log-probability; own wrong answers are
    likelier than golds, and at least as specific to their question. P_own > 0.
    """
    cast = draw_cast(rng, n_right, n_wrong, generic=0.7)
    logp = draw_likelihood(rng, cast, own=2.9, gold=2.5)
    truth = cast.at(cast.gold, 2 * 0.2)
    return deal(cast, draw_scores(rng, cast, 0.2 * logp + truth), logp)


def truth_against_likelihood(rng, n_right, n_wrong):
    """TRUTH: right answers gain .35 in P beyond the log-probability, by which own wrong answers
    are likelier and more specific to their question than golds. P_own > 0.
    """
    cast = draw_cast(rng, n_right, n_wrong, generic=0.6)
    logp = draw_likelihood(rng, cast, own=3.0, gold=1.5)
    truth = cast.at(cast.gold, 2 * 0.35)
    return deal(cast, draw_scores(rng, cast, 0.12 * logp + truth), logp)


def truth_of_some_subjects_without_likelihood(rng, n_right, n_wrong):
    """TRUTH: right answers gain .35 in P on average, from 60% of the subjects alone; the
    log-probability favours neither golds nor own answers behind their question, own answers
    are likelier behind both. P_own about 0.
    """
    cast = draw_cast(rng, n_right, n_wrong)
    logp = draw_likelihood(rng, cast, own=0.0, gold=0.0)
    known = (rng.random(len(cast.gold)) < 0.6) | (cast.own == cast.gold)
    truth = cast.at(cast.gold, known * 2 * 0.35 / 0.6)
    return deal(cast, draw_scores(rng, cast, 0.2 * logp + truth), logp)


CLEAN = [
    likelihood_under_a_ceiling,
    likelihood_per_token,
    likelihood_louder_for_rare_answers,
    likelihood_of_another_wording,
    doubt_about_the_own_guess,
    quirks_of_a_few_shared_golds,
    likelihood_where_own_answers_scored_low,
]
BORDERLINE = [kind_of_the_answer, fame_of_subject_and_answer]
TRUTH = [
    truth_small_at_equal_likelihood,
    truth_against_likelihood,
    truth_of_some_subjects_without_likelihood,
]

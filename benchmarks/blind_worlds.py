"""Simulated scores that are to fool a claim of truth, by somebody who had not seen its rule.

The format is that of `claim_worlds`. Lists at the end: CLEAN (no truth, no ifs), BORDERLINE (no
truth in the score, but what it reads tracks truth beyond the log-probability, or the answers were
filtered: whether a claim is an error there is a matter of definition, see each), TRUTH (planted).

Subjects live in families (relation-like clusters). The two questions of a pair come from one, so
that their effects correlate .8 unless said otherwise. A subject has one own and one gold answer,
and a cell (subject, answer) one score and one log p wherever it recurs, so that pairs that share a
subject or an answer depend on each other in every world. Subjects recur in about two pairs. Own
answers are greedy: no scored answer has a higher log p than the subject's own. Right and wrong
subjects are disjoint; own and gold answers of a pair are distinct (y != y', g != g').
"""

import numpy as np


def _softplus(x):
    return np.logaddexp(0.0, x)


class _W:
    """Subjects, answers, pairs and cells; a world alters pieces between steps."""

    def __init__(self, rng, n_right, n_wrong, sim=0.8, q_sd=0.9, a_sd=0.6, fam_size=12):
        self.rng, self.n = rng, (n_right, n_wrong)
        ns = [max(12, k) for k in self.n]
        self.S = S = sum(ns)
        self.right = np.arange(S) < ns[0]
        nf = [max(2, k // fam_size) for k in ns]
        self.fam = np.where(
            self.right, np.arange(S) % nf[0], nf[0] + (np.arange(S) - ns[0]) % nf[1]
        )
        self.sim = sim
        self.Q = q_sd * self.bysub()
        self.Q[self.right] += 0.5  # easier questions
        self.M = M = 3 * (int(0.6 * S) // 3 + 12)
        self.pop = rng.normal(size=M)  # log-frequency of answers
        self.A = a_sd * (0.4 * self.pop + 0.9165 * rng.normal(size=M))
        self.gold = self.draw(np.exp(0.8 * self.pop))
        self.own = self.draw(np.exp(1.4 * self.pop))
        self.weight = np.ones(S)
        self.text = False  # whether the overlap of question and answer is given

    def bysub(self, sim=None):
        """Standard normal by subject, correlated `sim` inside a family."""
        sim = self.sim if sim is None else sim
        f = self.rng.normal(size=self.fam.max() + 1)
        return np.sqrt(sim) * f[self.fam] + np.sqrt(1 - sim) * self.rng.normal(size=self.S)

    def draw(self, w):
        return self.rng.choice(self.M, size=self.S, p=w / w.sum())

    def _pairs(self, n, status):
        rng = self.rng
        ids = np.flatnonzero(self.right == status)
        w = self.weight[ids] / self.weight[ids].sum()
        members = {f: ids[self.fam[ids] == f] for f in np.unique(self.fam[ids])}
        seen, out = set(), []
        for rounds in range(400):
            i = rng.choice(ids, size=2 * n + 8, p=w)
            u = rng.random(i.size)
            for a, v in zip(i, u, strict=True):
                m = members[self.fam[a]]
                b = m[int(v * m.size)]
                if a == b or self.own[a] == self.own[b] or self.gold[a] == self.gold[b]:
                    continue
                k = (min(a, b), max(a, b))
                if k in seen and rounds < 200:  # repeats only as a last resort
                    continue
                seen.add(k)
                out.append((a, b))
                if len(out) == n:
                    return np.array(out, dtype=np.int64).T
        raise RuntimeError("cannot find enough pairs")

    def build(self):
        rng = self.rng
        self.own = np.where(self.right, self.gold, self.own)
        while True:  # wrong means wrong
            bad = np.flatnonzero(~self.right & (self.own == self.gold))
            if not bad.size:
                break
            self.own[bad] = rng.integers(self.M, size=bad.size)
        pr, pw = self._pairs(self.n[0], True), self._pairs(self.n[1], False)
        self.pairs = {
            "right": (pr, self.own[pr]),
            "wrong": (pw, self.own[pw]),
            "gold": (pw, self.gold[pw]),
        }
        keys = []
        for p, a in self.pairs.values():
            keys.append(
                np.stack([p[0], p[1], p[0], p[1]]) * self.M + np.stack([a[0], a[0], a[1], a[1]])
            )
        flat = np.concatenate([k.ravel() for k in keys])
        uniq, inv = np.unique(flat, return_inverse=True)
        self.inv, self.shapes = inv.ravel(), [k.shape for k in keys]
        self.sub, self.ans = uniq // self.M, uniq % self.M
        self.is_own = self.own[self.sub] == self.ans
        self.is_gold = self.gold[self.sub] == self.ans
        self.miss = self.is_gold & ~self.is_own  # gold that was not given
        self.other = ~self.is_own & ~self.is_gold
        self.N = uniq.size
        self.ov = rng.beta(1, 9, size=self.N)
        return self

    def z(self):
        return self.rng.normal(size=self.N)

    def likelihood(self, own=7.0, know=1.5, own_sd=1.3, gold_sd=1.4, other_sd=1.0, extra=0.0):
        """Default logp: frequency + question + association, greedy cap, < 0. own/know may be arrays
        by subject; extra is added by cell."""
        own, know = (
            np.broadcast_to(np.asarray(v, float), (self.S,))[self.sub] for v in (own, know)
        )
        assoc = np.where(
            self.is_own,
            own + own_sd * self.z(),
            np.where(self.miss, know + gold_sd * self.z(), other_sd * self.z()),
        )
        fluency = 0.6 * self.bysub()
        x = -10 + 0.9 * self.pop[self.ans] + fluency[self.sub] + assoc + extra
        return self.greedy(x)

    def greedy(self, x):
        x = -_softplus(-x)
        top = np.full(self.S, -0.7)
        top[self.sub[self.is_own]] = x[self.is_own]
        cap = top[self.sub] - self.rng.exponential(0.5, size=self.N)
        x = np.where(self.is_own, x, np.minimum(x, cap))
        self.top = top
        self.logp = np.maximum(x, -17 + 0.3 * np.tanh(x + 17))
        return self.logp

    def additive(self):
        return self.Q[self.sub] + self.A[self.ans]

    def out(self, score):
        d, at = {}, 0
        for (name, (p, a)), shape in zip(self.pairs.items(), self.shapes, strict=True):
            k = self.inv[at : at + shape[0] * shape[1]].reshape(shape)
            at += k.size
            d[name] = score[k].astype(np.float64)
            d["logp_" + name] = self.logp[k].astype(np.float64)
            if self.text:
                d["features_" + name] = self.ov[k].astype(np.float64)[..., None]
            if name == "gold":
                d["golds"] = a.astype(np.int64)
            else:
                d["subjects_" + name] = p.astype(np.int64)
                d["answers_" + name] = a.astype(np.int64)
        return d


# ------------------------------------------------------------------ no truth


def linear_likelihood(rng, n_right, n_wrong):
    """Score = question + answer + .25 logp + noise. The baseline null: logp tracks truth (golds are
    likelier behind their own question), the score adds nothing. Truly without truth."""
    w = _W(rng, n_right, n_wrong).build()
    logp = w.likelihood()
    return w.out(w.additive() + 0.25 * (logp + 7) + 0.45 * w.z())


def curved_likelihood(rng, n_right, n_wrong):
    """Score reads a saturating function of logp: steep among unlikely answers (where golds lie),
    flat among likely ones (own answers). A straight line fitted with own answers under-explains
    golds. Truly without truth: the score is a function of logp alone."""
    w = _W(rng, n_right, n_wrong).build()
    logp = w.likelihood()
    return w.out(w.additive() + 2.2 * np.tanh((logp + 11) / 3.5) + 0.45 * w.z())


def confidence_reader(rng, n_right, n_wrong):
    """Score reads confidence, a power of the PROBABILITY (convex in logp): own answers get nearly
    everything, golds nearly nothing; question effect follows confidence. Truly without truth."""
    w = _W(rng, n_right, n_wrong).build()
    logp = w.likelihood()
    return w.out(
        w.additive() + 0.25 * (w.top[w.sub] + 3) + 3.0 * np.exp(0.3 * logp) - 1 + 0.45 * w.z()
    )


def rank_reader(rng, n_right, n_wrong):
    """Score reads about log-rank: minus log1p(margin below the given answer / spread of the
    question's distribution). Spread differs by question, so the slope on logp differs by question
    and is steeper near the top. Truly without truth (function of the model's own distribution only;
    the spread itself isn't given to the tester)."""
    w = _W(rng, n_right, n_wrong).build()
    logp = w.likelihood(own=6.0, know=2.0)
    spread = np.exp(0.5 * w.bysub())[w.sub]
    rank = np.log1p(np.maximum(w.top[w.sub] - logp, 0) / spread)
    return w.out(w.additive() - 1.1 * (rank - 1.5) + 0.4 * w.z())


def length_normalised(rng, n_right, n_wrong):
    """Score reads logp PER TOKEN. Wrong own answers are wordy (4-6 tokens), golds short (1-3), so
    the slope on total logp is steeper for golds than for own answers. Truly without truth (function
    of logp and the answer's length, both known to the tester)."""
    w = _W(rng, n_right, n_wrong)
    length = 1 + rng.poisson(1.8, size=w.M)
    w.own = w.draw(np.exp(0.8 * w.pop + 0.8 * length))
    w.gold = w.draw(np.exp(0.8 * w.pop - 0.5 * length))
    w.build()
    logp = w.likelihood()
    return w.out(w.additive() + 0.55 * (logp / length[w.ans] + 3) + 0.4 * w.z())


def popularity_match(rng, n_right, n_wrong):
    """Score falls with |popularity of subject - popularity of answer|. Golds match their subject's
    popularity (famous people, famous towns); wrong own answers are just the popular ones, whoever
    asks. logp has no match term. Truly without truth: any wrong answer of the same popularity would
    score as the gold does."""
    w = _W(rng, n_right, n_wrong)
    ps = w.bysub(sim=0.35)
    order = np.argsort(w.pop)
    place = np.argsort(np.argsort(ps + 0.5 * rng.normal(size=w.S)))
    w.gold = order[(place * w.M // w.S)]
    w.own = w.draw(np.exp(1.6 * w.pop))
    w.build()
    logp = w.likelihood(know=1.0)
    far = np.abs(ps[w.sub] - w.pop[w.ans])
    return w.out(w.additive() + 0.25 * (logp + 7) - 0.6 * far + 0.4 * w.z())


def squashed_additive(rng, n_right, n_wrong):
    """Score = sigmoid-like squashing of question + answer familiarity (+ a little logp). Golds lie
    at the convex foot, own answers at the concave shoulder, and within a pair the more familiar
    subject has the more familiar answer: interaction positive for golds and negative for own
    answers. Pair similarity .5 here. Truly without truth: no (q, a) term but .1 logp."""
    w = _W(rng, n_right, n_wrong, sim=0.5, q_sd=1.6, a_sd=1.3)
    order = np.argsort(w.A)
    low = order[: int(0.75 * w.M)]  # golds: the less familiar answers
    high = order[int(0.45 * w.M) :]

    def rank(s):
        return np.argsort(np.argsort(w.Q + s * rng.normal(size=w.S))) / w.S

    w.gold = low[(rank(0.5) * low.size).astype(int)]
    w.own = high[(rank(0.8) * high.size).astype(int)]
    w.build()
    logp = w.likelihood(know=0.8)
    lat = w.additive() + 0.1 * (logp + 7) + 0.2
    return w.out(2.2 * np.tanh(1.2 * lat) + 0.45 * w.z())


def ceiling_by_confidence(rng, n_right, n_wrong):
    """Score = likelihood under a soft ceiling; sure questions (above all right ones) sit at the
    ceiling. Own interactions, right pairs' most, are compressed, golds' are not: any gain taken
    from own answers is too small for golds. Truly without truth (saturated logp + question +
    answer)."""
    w = _W(rng, n_right, n_wrong).build()
    logp = w.likelihood(know=1.8)
    w.Q += 0.35 * (w.top + 3)
    w.Q[w.right] += 1.0
    lat = w.additive() + 0.4 * (logp + 7)
    return w.out(1.2 - _softplus(1.5 * (1.2 - lat)) / 1.5 + 0.4 * w.z())


def gain_tracks_knowledge(rng, n_right, n_wrong):
    """Gain differs by question (lognormal, shared in a family) and is larger where the gold is
    likelier than usual: 'engaged' questions. Score = gain * logp. An average gain under-explains
    golds. Truly without truth, given logp and the gain."""
    w = _W(rng, n_right, n_wrong)
    gain = np.exp(0.55 * w.bysub() - 0.15)
    w.build()
    logp = w.likelihood(know=1.3 * gain**1.5)
    return w.out(w.additive() + 0.25 * gain[w.sub] * (logp + 7) + 0.4 * w.z())


def relation_mixture(rng, n_right, n_wrong):
    """Three relations, each with its own slope on logp (.08/.2/.45), gold likelihood gain
    (.3/1.2/2.6) and own sharpness (8/7/5.5). In each, score = slope * logp; pooled over them one
    line fails. Relation labels are not given (subjects never cross). Truly without truth."""
    w = _W(rng, n_right, n_wrong).build()
    r = w.fam % 3
    logp = w.likelihood(own=np.array([8, 7, 5.5])[r], know=np.array([0.3, 1.2, 2.6])[r])
    return w.out(w.additive() + np.array([0.08, 0.2, 0.45])[r][w.sub] * (logp + 7) + 0.4 * w.z())


def default_answers(rng, n_right, n_wrong):
    """For wrong questions the model falls back on three or four stock answers of the family that
    are likely behind all of its questions: P_own and its logp contrast are about nil for a
    mechanical reason, golds' logp contrast isn't. Score is mildly concave in logp. Truly without
    truth."""
    w = _W(rng, n_right, n_wrong)
    stock = rng.integers(w.M, size=(w.fam.max() + 1, 4))
    w.own = stock[w.fam, rng.integers(4, size=w.S)]
    w.build()
    is_stock = (stock[w.fam[w.sub]] == w.ans[:, None]).any(1) & ~w.right[w.sub] & w.other
    logp = w.likelihood(own=6.6, own_sd=0.7, extra=np.where(is_stock, 6.0, 0.0))
    return w.out(w.additive() + 1.7 * np.tanh((logp + 10) / 5) + 0.45 * w.z())


def ownness_leak(rng, n_right, n_wrong):
    """Score reads 'this is what I said' (+1.4 on the given answer behind its question). For 35% of
    subjects the gold looks like the given answer (1997/1998, George H./W. Bush) and takes over part
    (.3-.9) of the lift; its logp is only a little higher. Truly without truth: similarity to the
    given answer, right or not (a wrong look-alike would gain as much)."""
    w = _W(rng, n_right, n_wrong).build()
    leak = np.where(rng.random(w.S) < 0.35, rng.uniform(0.3, 0.9, size=w.S), 0)[w.sub]
    near = np.where(w.is_own, 1.0, np.where(w.miss, leak, 0))
    logp = w.likelihood(know=1.0, extra=np.where(w.miss, 0.8 * leak, 0))
    return w.out(w.additive() + 0.18 * (logp + 7) + 1.4 * near + 0.4 * w.z())


def guess_among_candidates(rng, n_right, n_wrong):
    """Winner's curse. Each question has 6 plausible candidates with exchangeable plausibility m;
    the gold is a uniformly random one. logp = m + prompt quirk u, the answer is the argmax of m +
    u, the score reads m only. So the given answer has u > 0 and the rejected gold u < 0: golds
    score above, own answers below, what their logp says, and any candidate beats an answer from
    another question. Truly without truth: gold and unchosen wrong candidates are exchangeable by
    construction."""
    w = _W(rng, n_right, n_wrong)
    m, u = 1.1 * rng.normal(size=(w.S, 6)), 1.1 * rng.normal(size=(w.S, 6))
    w.build()
    best = (m + u).argmax(1)
    g = (best + rng.integers(1, 6, size=w.S)) % 6  # wrong: uniform among the unchosen
    i = np.arange(w.S)
    mo, uo, mg, ug = m[i, best], u[i, best], m[i, g], u[i, g]
    off = -3 + 0.9 * w.z()
    mm = np.where(w.is_own, mo[w.sub], np.where(w.miss, mg[w.sub], off))
    uu = np.where(w.is_own, uo[w.sub], np.where(w.miss, ug[w.sub], 1.1 * w.z()))
    x = -5.5 + 1.2 * mm + 1.2 * uu + 0.5 * w.pop[w.ans]
    w.greedy(x)
    return w.out(w.additive() + 0.35 * mm + 0.4 * w.z())


def skewed_noise(rng, n_right, n_wrong):
    """Linear likelihood plus mean-zero noise that is skewed and heteroscedastic: ungiven golds
    behind their question have large, left-skewed noise (rare heavy losses), own answers right-
    skewed, others are calm. Means are those of the null, medians and signs are not. Truly without
    truth (in the mean)."""
    w = _W(rng, n_right, n_wrong).build()
    logp = w.likelihood(know=1.0)
    e = rng.gamma(0.7, size=w.N)
    e = (e - 0.7) / np.sqrt(0.7)
    sd = np.exp(0.4 * w.bysub())[w.sub]
    noise = np.where(w.miss, -0.75 * sd * e, np.where(w.is_own, 0.5 * sd * e, 0.35 * w.z()))
    return w.out(w.additive() + 0.22 * (logp + 7) + noise)


def dependent_hubs(rng, n_right, n_wrong):
    """A dozen hub subjects stand in most wrong pairs; each (hub, gold) and (hub, own) cell has its
    own mean-zero quirk of sd 1.0, seen again in all its pairs. The mean over draws of the world is
    null, but one draw's mean P_gold wanders far more than independent pairs would. Truly without
    truth (quirks are drawn without regard to it); the hubs' realised quirks are chance."""
    w = _W(rng, n_right, n_wrong, fam_size=250)
    wrong = np.flatnonzero(~w.right)
    hub = rng.choice(wrong, size=min(12, wrong.size // 4), replace=False)
    w.weight[hub] = 2.0 * wrong.size / hub.size
    is_hub = np.zeros(w.S, bool)
    is_hub[hub] = True
    w.build()
    logp = w.likelihood(know=0.8)
    quirk = np.where(is_hub[w.sub] & ~w.other, 1.0, 0.2) * w.z()
    return w.out(w.additive() + 0.25 * (logp + 7) + quirk + 0.35 * w.z())


def clustered_answers(rng, n_right, n_wrong):
    """Golds come from ten hub answers only (countries), wrong own answers are diverse. The score
    has mean-zero quirks by (family, hub answer) block and by (gold answer, diagonal) (sd .6: 'how
    this country is said behind the names that call it up'), common to all subjects with that gold.
    Effective number of golds: ten. Truly without truth in the mean over draws; in one draw the ten
    quirks' mean is not zero, by chance."""
    w = _W(rng, n_right, n_wrong)
    hub = rng.choice(w.M, size=10, replace=False)
    w.gold = hub[rng.choice(10, size=w.S, p=np.arange(10, 0, -1) / 55)]
    w.own = w.draw(np.ones(w.M))
    w.build()
    logp = w.likelihood(know=0.8)
    per_answer = 0.6 * rng.normal(size=w.M)
    block = 0.3 * rng.normal(size=(w.fam.max() + 1, w.M))
    q = np.where(w.miss, per_answer[w.ans], 0) + block[w.fam[w.sub], w.ans]
    return w.out(w.additive() + 0.25 * (logp + 7) + q + 0.4 * w.z())


def lexical_overlap(rng, n_right, n_wrong):
    """Score reads letters/words that the answer shares with the question (University of Chicago ->
    Chicago). 40% of golds share much with their question, 15% of own wrong answers, hardly any
    other. logp feels it only half. Truly without truth: overlap, visible in the texts (given as
    features)."""
    w = _W(rng, n_right, n_wrong).build()
    share = np.where(w.is_gold, 0.40, np.where(w.is_own, 0.15, 0.02))
    w.text = True
    w.ov = np.where(rng.random(w.N) < share, rng.beta(6, 4, size=w.N), w.ov)
    logp = w.likelihood(know=1.0, extra=1.2 * w.ov)
    return w.out(w.additive() + 0.2 * (logp + 7) + 1.7 * w.ov + 0.4 * w.z())


# ---------------------------------------------------------------- borderline


def subtype_match(rng, n_right, n_wrong):
    """Score reads whether the answer is of the question's subtype (era, region, gender, language).
    Golds always are, wrong own answers in 60%. logp knows it weakly. No truth inside a subtype
    (there golds score as any other), but subtype fit does rule out false answers: BORDERLINE,
    plausibility that tracks truth beyond logp, to be called truth only by a lax definition."""
    w = _W(rng, n_right, n_wrong)
    t = rng.integers(3, size=w.S)
    w.gold = w.gold - w.gold % 3 + t
    w.own = np.where(rng.random(w.S) < 0.6, w.own - w.own % 3 + t, w.own)
    w.build()
    fit = (w.ans % 3 == t[w.sub]).astype(float)
    logp = w.likelihood(know=1.0, extra=0.7 * fit)
    return w.out(w.additive() + 0.2 * (logp + 7) + 0.8 * fit + 0.4 * w.z())


def first_token_grain(rng, n_right, n_wrong):
    """Score reads the association (as at the first token); the tester's whole-answer logp adds
    spelling noise (sd 1.8 per cell) to it, so adjusting for logp under-corrects. Score adds nothing
    to the model's likelihood, but does to the tester's logp: BORDERLINE (unfair against a claim
    worded 'beyond the answer's log-probability', fair against 'reads truth rather than
    likelihood')."""
    w = _W(rng, n_right, n_wrong).build()
    eta = 1.8 * w.z()
    logp = w.likelihood(know=2.2, gold_sd=1.0, own_sd=1.0, extra=eta)
    return w.out(w.additive() + 0.3 * (logp - eta + 7) + 0.4 * w.z())


def co_mention(rng, n_right, n_wrong):
    """Score reads co-mention of subject and answer in training text, which logp does not show
    (recognition without recall). True answers are co-mentioned, but given wrong ones (the wrong
    city of the right country) even more. BORDERLINE: no truth in that false co-mentioned answers
    score as high or higher, yet golds do stand above chance beyond logp. P_gold > 0 holds, P_gold -
    P_own > 0 does not."""
    w = _W(rng, n_right, n_wrong).build()
    logp = w.likelihood(know=1.0)
    c = rng.gamma(2.0, np.where(w.is_own & ~w.is_gold, 0.65, np.where(w.is_gold, 0.5, 0.15)))
    return w.out(w.additive() + 0.2 * (logp + 7) + 0.5 * c + 0.4 * w.z())


def numeric_guess(rng, n_right, n_wrong):
    """Answers are years. The given year is a noisy estimate of the true one (sd 10); the score
    falls with the distance to the GIVEN year, out to 60 years, while logp feels only the nearest
    few. Score is a function of the given answer, not of the truth: BORDERLINE in that the guess
    tracks truth and logp does not show the distance (the texts do)."""
    w = _W(rng, n_right, n_wrong)
    w.gold = np.clip((w.M / 2 + w.M / 6 * w.bysub(sim=0.3)).round(), 0, w.M - 1).astype(int)
    year = np.linspace(0, 200, w.M)
    step = year[1]
    miss = rng.normal(size=w.S) * 10 / step
    miss = np.sign(miss) * np.maximum(1, np.abs(miss).round())
    w.own = np.clip(w.gold + miss.astype(int), 0, w.M - 1)
    w.build()
    d = np.abs(year[w.ans] - year[w.own[w.sub]])
    logp = w.likelihood(know=0.3, own=6.5, extra=np.where(w.is_own, 0, 2.5 * np.exp(-d / 4)))
    return w.out(w.additive() + 0.2 * (logp + 7) + 1.1 * np.maximum(1 - d / 60, 0) + 0.4 * w.z())


def filtered_wrong_answers(rng, n_right, n_wrong):
    """Linear likelihood, but wrong answers that 'look right' were filtered out of the wrong set
    (lenient graders, a confidence filter): the given answer's residual is the lower of two draws
    (residual sd .7, partly stable). Golds and right pairs are unfiltered. Before the filter there's
    no truth; after it golds do stand above the given wrong answers, by selection: BORDERLINE."""
    w = _W(rng, n_right, n_wrong).build()
    logp = w.likelihood(know=0.8)
    a, b = 0.7 * w.z(), 0.7 * w.z()
    e = np.where(w.is_own & ~w.right[w.sub], np.minimum(a, b), 0.45 * w.z())
    return w.out(w.additive() + 0.25 * (logp + 7) + e)


# --------------------------------------------------------------------- truth


def _truth(rng, n_right, n_wrong, delta):
    w = _W(rng, n_right, n_wrong).build()
    logp = w.likelihood()
    # +2 delta on a true (q, a), given or not; P gets exactly delta where both diagonals are
    # true and no off-diagonal answer is (golds are distinct inside a pair, so always).
    return w.out(w.additive() + 0.25 * (logp + 7) + 2 * delta * w.is_gold + 0.45 * w.z())


def truth_020(rng, n_right, n_wrong):
    """TRUTH planted: linear_likelihood plus .4 on every true (q, a), so P of golds and of right
    pairs is larger by exactly .20; P_own of wrong pairs not, save in the rare pair whose y is g'
    (then smaller)."""
    return _truth(rng, n_right, n_wrong, 0.20)


def truth_035(rng, n_right, n_wrong):
    """TRUTH planted: as truth_020 with .35."""
    return _truth(rng, n_right, n_wrong, 0.35)


CLEAN = [
    "linear_likelihood",
    "curved_likelihood",
    "confidence_reader",
    "rank_reader",
    "length_normalised",
    "popularity_match",
    "squashed_additive",
    "ceiling_by_confidence",
    "gain_tracks_knowledge",
    "relation_mixture",
    "default_answers",
    "ownness_leak",
    "guess_among_candidates",
    "skewed_noise",
    "dependent_hubs",
    "clustered_answers",
    "lexical_overlap",
]
BORDERLINE = [
    "subtype_match",
    "first_token_grain",
    "co_mention",
    "numeric_guess",
    "filtered_wrong_answers",
]
TRUTH = ["truth_020", "truth_035"]
WORLDS = {k: globals()[k] for k in CLEAN + BORDERLINE + TRUTH}

"""The table of crossing: what a probe reads of question, answer and pair, layer by layer."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtrit

from anchorscope.anchors.asking import kind_of
from anchorscope.experiments.analysis import Analysis, Columns
from anchorscope.experiments.crossing import overlap
from anchorscope.experiments.crossing.split import Split, at_own_size, split
from anchorscope.experiments.pairs import places
from anchorscope.probes import intervals, samples
from anchorscope.probes.bands import Spread
from anchorscope.probes.intervals import Bootstrap
from anchorscope.probes.samples import Readout
from anchorscope.questions import folds

INTERVALS = ("pair_right", "pair_wrong", "truth", "agreement")
TERMS = ("question", "answer", "pair")
CROSSING = (
    "site", "position", "layer", "n_right", "n_wrong",
    *(f"{name}{end}" for name in INTERVALS for end in ("", "_low", "_high")),
    *(f"share_{name}" for name in TERMS), "signal", "headline", "reads", "share_noise",
    "own_right", "text_pair", "text_truth", "pair_gain_low", "truth_gain_low",
    "pair_right_band_low", "pair_right_band_high", "truth_band_low", "truth_band_high",
    "pair_from", "truth_from", "follows", "n_unlike", "n_clusters", "inflation", "source",
)  # fmt: skip
TRUTH, PAIR, NOT_SHOWN, TOO_FEW = "truth", "pair", "not shown", "too few"
"""What a probe reads, `reads`."""
LEAST_PART = 0.1
"""Of what right answers score behind their own questions: no smaller pair term is claimed.

Whatever adds up question and answer has a pair term, too, where its whole score is weaker behind a
question that is not the answer's own: a tenth of the score if it is weaker by a fifth.
"""

Values = dict[str, np.ndarray]
"""Quantity → its value, [layers] or [draws, layers]."""
Variance = tuple[np.ndarray, int]
"""A variance by layer, [layers], and its degrees of freedom."""


@dataclass(frozen=True)
class Pairs:
    """The pairs of a read-out, a row for each of their samples."""

    rows: np.ndarray  # places of the samples, int64 [rows]
    fold: np.ndarray  # outer fold of every sample of the cell, int64 [n]
    right: np.ndarray  # whether a row's answer is right, bool [rows]
    text: np.ndarray  # pair term of the text model, float64 [rows]
    unlike: np.ndarray  # whether the two answers are of unlike kinds, bool [rows]
    drawn: Bootstrap  # of the rows


def report(analysis: Analysis) -> pd.DataFrame:
    """A row for each layer: `CROSSING`, see docs/products.md.

    The answers have `crossed_partner` and `partner_source`. No rows where crossing was not run or
    no sample has a partner. Raises AnchorscopeError: scores and partners are not of the same
    samples.
    """
    if "crossed" not in analysis.readout.effects:
        return pd.DataFrame(columns=list(CROSSING))
    partner = partners_of(analysis)
    terms = terms_of(analysis.readout, partner)
    if not terms.crossed.any():
        return pd.DataFrame(columns=list(CROSSING))
    pairs, refits = pairs_of(analysis, terms, partner), refitted(analysis, partner)
    spread = spreads(terms, refits, pairs, analysis.level)
    right = shares(terms, refits, pairs.fold, pairs.rows[pairs.right])
    columns = _facts(analysis, pairs) | right
    columns |= _claims(analysis, pairs, spread, columns["own_right"])
    return pd.DataFrame(columns)[list(CROSSING)]


def partners_of(analysis: Analysis) -> np.ndarray:
    """The place of each sample's partner, int64 [n]; -1 for none."""
    readout, partners = analysis.readout, analysis.answers["crossed_partner"]
    partner, given = places(analysis.answers, partners), partners.notna().to_numpy()
    strange = (given != readout.effects["crossed"].measured) | (given & (partner < 0))
    if strange.any():
        what = f"{strange.sum()} samples have a partner and no scores, or scores and no partner"
        first = analysis.answers["id"][strange].iloc[0]
        raise samples.mismatch(f"{what}, id {first} first", f"read-out {readout.name}, crossed")
    return partner


def terms_of(readout: Readout, partner: np.ndarray) -> Split:
    """The terms of a read-out's scores, of the pairs within a fold: other folds' probes differ."""
    alike = (partner >= 0) & (readout.fold == readout.fold[partner])
    return split(readout.clean, readout.effects["crossed"].s[0], np.where(alike, partner, -1))


def pairs_of(analysis: Analysis, terms: Split, partner: np.ndarray) -> Pairs:
    """Who is crossed, and draws of them.

    A cluster holds all pairs that subjects link: what shares no subject is independent.
    """
    answers, readout = analysis.answers, analysis.readout
    rows = np.flatnonzero(terms.crossed)
    pair = np.minimum(rows, partner[rows])
    clusters = folds.components(analysis.drawn.clusters[rows].tolist(), pair.tolist())
    questions, texts = (answers[name].astype(str).tolist() for name in ("question", "ea_text"))
    clean, crossed = overlap.scores(questions, texts, analysis.z, readout.fold, partner)
    kinds = np.array([kind_of(text) for text in texts])
    return Pairs(
        rows=rows,
        fold=readout.fold,
        right=analysis.z[rows] == 0,
        text=split(clean[None], crossed[None], partner).pair[0, rows],
        unlike=kinds[rows] != kinds[partner[rows]],
        drawn=intervals.bootstrap(clusters, len(analysis.drawn.weights), analysis.drawn.seed),
    )


def refitted(analysis: Analysis, partner: np.ndarray) -> Split | None:
    """The terms as the probes of each refit see them; None without refits."""
    if analysis.refits is None:
        return None
    refits = analysis.refits.refits(analysis.readout, analysis.answers, ("crossed",))
    every = [terms_of(readout, partner).terms for readout in refits[1]] if refits else []
    return Split(*np.stack(every, axis=1)) if len(every) > 1 else None


def quantities(right: np.ndarray, wrong: np.ndarray) -> Values:
    """What is claimed, by mean pair terms [..., layers + 1]; the text model's is the last."""
    truth = (right - wrong) / 2
    return {
        "pair_right": right[..., :-1],
        "pair_wrong": wrong[..., :-1],
        "truth": truth[..., :-1],
        "agreement": (right + wrong)[..., :-1] / 2,
        "pair_gain": right[..., :-1] - right[..., -1:],
        "truth_gain": truth[..., :-1] - truth[..., -1:],
    }


def claims(low: Mapping[str, np.ndarray], own_right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether the pair is read, and whether its truth is, [layers] each.

    Args:
        low: lower end of each of `quantities`, [layers].
        own_right: mean score of right answers behind their own questions, towards right.
    """
    least = np.fmax(0.0, LEAST_PART * own_right)
    pair = (low["pair_right"] > least) & (low["pair_gain"] > 0)
    return pair, pair & (low["truth"] > 0) & (low["truth_gain"] > 0)


def spreads(terms: Split, refits: Split | None, pairs: Pairs, level: float) -> dict[str, Spread]:
    """Each of `quantities`, and how it spreads over pairs and over probes.

    Two variances add up: over draws of the pairs, for which the probes are fixed, and over refits
    of the probes, for which the pairs are; of the refits as they are and `at_own_size` the larger
    one. Clusters and refits are few, so that the half-width is that of Student's t, with Welch's
    degrees of freedom (1947).
    """
    values = np.concatenate([terms.pair[:, pairs.rows], pairs.text[None]])
    members = _members(pairs)
    drawn = quantities(*(pairs.drawn.means(values, some[None]) for some in members.values()))
    right, wrong = (int(pairs.drawn.clusters_in(some)) for some in members.values())
    clusters = {"pair_right": right, "pair_gain": right, "pair_wrong": wrong}
    probes = _of_probes(terms, refits, pairs)
    spread = {}
    for name, estimate in _means(terms, pairs).items():
        least = clusters.get(name, min(right, wrong))
        variance, freedom = _variance(drawn[name]), max(1, least - 1)
        sampled = variance * (freedom + 1) / freedom  # a draw divides by n
        width = _half_width((sampled, freedom), probes[name], level)
        normal = np.sqrt(variance) * ndtri((1 + level) / 2)
        factor = np.divide(width, normal, out=np.ones_like(width), where=normal > 0)
        replicates = estimate + factor * (drawn[name] - estimate)
        spread[name] = Spread(estimate, replicates, factor, np.full(len(estimate), least))
    return spread


def _of_probes(terms: Split, refits: Split | None, pairs: Pairs) -> dict[str, Variance]:
    """The variance that training adds to each of `quantities`, and its degrees of freedom."""
    if refits is None:
        return {name: (np.zeros_like(one), 1) for name, one in _means(terms, pairs).items()}
    each = [_means(one, pairs) for one in (refits, at_own_size(terms, refits, pairs.fold))]
    freedom = len(refits.pair) - 1
    return {
        name: (np.fmax(*(one[name].var(0, ddof=1) for one in each)), freedom) for name in each[0]
    }


def _half_width(one: Variance, other: Variance, level: float) -> np.ndarray:
    """Of Student's interval whose variance is the sum of two, [layers]."""
    whole = one[0] + other[0]
    parts = sum(variance**2 / freedom for variance, freedom in (one, other))
    freedom = np.divide(whole**2, parts, out=np.ones_like(whole), where=parts > 0)
    return np.sqrt(whole) * stdtrit(freedom, (1 + level) / 2)


def _means(terms: Split, pairs: Pairs) -> Values:
    """`quantities` of all pairs, [..., layers] each."""
    pair = terms.pair[..., pairs.rows]
    text = np.broadcast_to(pairs.text, (*pair.shape[:-2], 1, len(pairs.text)))
    values = np.concatenate([pair, text], axis=-2)
    right, wrong = (
        intervals.mean_known(np.where(some, values, np.nan), -1)
        for some in _members(pairs).values()
    )
    return quantities(right, wrong)


def _members(pairs: Pairs) -> dict[str, np.ndarray]:
    """The rows of right and of wrong pairs, bool [rows] each."""
    return {"right": pairs.right, "wrong": ~pairs.right}


def _variance(replicates: np.ndarray) -> np.ndarray:
    """Variances over draws of what is not NaN, [layers], of [draws, layers]."""
    centred = replicates - intervals.mean_known(replicates, 0)
    return intervals.mean_known(centred**2, 0)


def shares(terms: Split, refits: Split | None, fold: np.ndarray, rows: np.ndarray) -> Values:
    """What share of the mean squares is the question's, the answer's, the pair's, and noise.

    Over samples `rows`, [layers] each; they add up to 1. A probe learned from other samples would
    give other terms. By their variance over refits, `at_own_size`, a mean square is too large:
    that is taken off it, and is the noise. In a probe that knows nothing all is noise.
    """
    count = max(1, len(rows))
    squares = (terms.of(rows).terms ** 2).sum(-1) / count  # [3, layers]
    noise = np.zeros_like(squares)
    if refits is not None:
        varied = at_own_size(terms, refits, fold).of(rows).terms.var(1, ddof=1).sum(-1) / count
        noise = np.fmin(squares, varied)
    whole = squares.sum(0)
    parts = dict(zip(TERMS, squares - noise, strict=True))
    parts["noise"] = noise.sum(0)
    return {f"share_{name}": intervals.ratio(part, whole) for name, part in parts.items()}


def _facts(analysis: Analysis, pairs: Pairs) -> Columns:
    """What is known of each layer beside the claims."""
    readout, answers = analysis.readout, analysis.answers
    layers = np.arange(len(readout.clean))
    right, flips = pairs.rows[pairs.right], readout.effects["crossed"].flip[0]
    return {
        **readout.key,
        "layer": layers,
        "n_right": len(right) // 2,
        "n_wrong": (~pairs.right).sum() // 2,
        "signal": analysis.strength["signal"],
        "headline": layers == readout.headline,
        "own_right": intervals.mean_known(-readout.clean[:, right], -1),
        "text_pair": _mean(pairs.text[pairs.right]),
        "text_truth": (_mean(pairs.text[pairs.right]) - _mean(pairs.text[~pairs.right])) / 2,
        "follows": intervals.mean_known(np.where(flips, 1.0, 0.0)[:, right], -1),
        "n_unlike": pairs.unlike.sum() // 2,
        "n_clusters": int(pairs.drawn.clusters_in(pairs.right)),
        "source": answers["partner_source"].iloc[0],
    }


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else np.nan


def _claims(
    analysis: Analysis, pairs: Pairs, spread: Mapping[str, Spread], own_right: np.ndarray
) -> Columns:
    """The quantities with intervals and bands, and what they say of each layer."""
    columns: Columns = {}
    for name, one in spread.items():
        every = np.ones(len(one.estimate), dtype=bool)
        columns[name] = one.estimate
        columns[f"{name}_low"], columns[f"{name}_high"] = one.interval(analysis.level)
        ends = one.band(analysis.level, every)
        columns[f"{name}_band_low"], columns[f"{name}_band_high"] = ends
    enough = {name: _enough(analysis, pairs, some) for name, some in _members(pairs).items()}

    def claimed(end: str) -> tuple[np.ndarray, np.ndarray]:
        """What is claimed at each layer, by one end of the intervals."""
        pair, truth = claims({name: columns[f"{name}{end}"] for name in spread}, own_right)
        return pair & enough["right"], truth & enough["right"] & enough["wrong"]

    pair, truth = claimed("_low")
    neither = NOT_SHOWN if enough["right"] else TOO_FEW
    columns["reads"] = np.select([truth, pair], [TRUTH, PAIR], neither)
    columns["pair_from"], columns["truth_from"] = map(_to_the_last, claimed("_band_low"))
    return columns | {"inflation": spread["truth" if enough["wrong"] else "pair_right"].inflation}


def _enough(analysis: Analysis, pairs: Pairs, some: np.ndarray) -> bool:
    """Whether there are enough samples, and clusters of pairs, for a claim."""
    clusters = pairs.drawn.clusters_in(some)
    return not intervals.thin(some.sum(), clusters, analysis)


def _to_the_last(claimed: np.ndarray) -> float:
    """The first layer from which on it is claimed at every layer [layers]; NaN for none."""
    open_ = np.flatnonzero(~claimed)
    first = open_[-1] + 1 if len(open_) else 0
    return float(first) if first < len(claimed) else np.nan

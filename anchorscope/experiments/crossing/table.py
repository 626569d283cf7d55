"""The table of crossing: what a probe reads of question, answer and pair, layer by layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from anchorscope.experiments import pairs
from anchorscope.experiments.analysis import Analysis, Columns
from anchorscope.experiments.crossing import overlap
from anchorscope.experiments.crossing.split import Split, split
from anchorscope.probes import intervals
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
    "text_pair", "text_truth", "pair_gain_low", "truth_gain_low",
    "pair_right_band_low", "pair_right_band_high", "truth_band_low", "truth_band_high",
    "pair_from", "truth_from", "follows", "n_unlike", "n_clusters", "inflation", "source",
)  # fmt: skip
TRUTH, PAIR, NOT_SHOWN, TOO_FEW = "truth", "pair", "not shown", "too few"
"""What a probe reads, `reads`."""

Values = dict[str, np.ndarray]
"""Quantity → its value, [layers] or [draws, layers]."""


@dataclass(frozen=True)
class Pairs:
    """The pairs of a read-out, a row for each of their samples."""

    rows: np.ndarray  # places of the samples, int64 [rows]
    right: np.ndarray  # whether a row's answer is right, bool [rows]
    text: np.ndarray  # pair term of the text model, float64 [rows]
    unlike: np.ndarray  # whether the two answers are of unlike kinds, bool [rows]
    drawn: Bootstrap  # of the rows


def report(analysis: Analysis) -> pd.DataFrame:
    """A row for each layer: `CROSSING`, see docs/products.md.

    The answers have `crossed_partner` and `partner_source`. No rows where crossing was not run or
    no sample has a partner.
    """
    readout, answers = analysis.readout, analysis.answers
    if "crossed" not in readout.effects:
        return pd.DataFrame(columns=list(CROSSING))
    partner = pairs.places(answers, answers["crossed_partner"])
    terms = terms_of(readout, partner)
    if not terms.crossed.any():
        return pd.DataFrame(columns=list(CROSSING))
    found = pairs_of(analysis, terms, partner)
    again = refitted(analysis, partner)
    spread = spreads(terms, again, found, analysis.level)
    known = _known(analysis, found) | shares(terms, again, found.rows[found.right])
    return pd.DataFrame(known | _claims(analysis, found, spread))[list(CROSSING)]


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
    kinds = np.array([overlap.kind_of(text) for text in texts])
    return Pairs(
        rows=rows,
        right=analysis.z[rows] == 0,
        text=split(clean[None], crossed[None], partner).pair[0, rows],
        unlike=kinds[rows] != kinds[partner[rows]],
        drawn=intervals.bootstrap(clusters, len(analysis.drawn.weights), analysis.drawn.seed),
    )


def refitted(analysis: Analysis, partner: np.ndarray) -> list[Split]:
    """The terms as the probes of each refit see them."""
    if analysis.refits is None:
        return []
    found = analysis.refits.refits(analysis.readout, analysis.answers, ("crossed",))
    return [terms_of(readout, partner) for readout in found[1]] if found else []


def quantities(right: np.ndarray, wrong: np.ndarray) -> Values:
    """What is claimed, by mean pair terms [..., layers + 1], of which the text model's is last."""
    truth = (right - wrong) / 2
    return {
        "pair_right": right[..., :-1],
        "pair_wrong": wrong[..., :-1],
        "truth": truth[..., :-1],
        "agreement": (right + wrong)[..., :-1] / 2,
        "pair_gain": right[..., :-1] - right[..., -1:],
        "truth_gain": truth[..., :-1] - truth[..., -1:],
    }


def spreads(terms: Split, again: Sequence[Split], found: Pairs, level: float) -> dict[str, Spread]:
    """Each of `quantities`, and how it spreads over pairs and over probes.

    Two variances add up: over draws of the pairs, for which the probes are fixed, and over refits
    of the probes, for which the pairs are. The percentile bootstrap of few clusters is too narrow,
    by what sets Student's t apart from the normal distribution.
    """
    members = _members(found).values()
    values = np.vstack([terms.pair[:, found.rows], found.text])
    drawn = quantities(*(found.drawn.means(values, some[None]) for some in members))
    moved = [_means(one, found) for one in again]
    right, wrong = (int(found.drawn.clusters_in(some)) for some in members)
    least = {"pair_right": right, "pair_gain": right, "pair_wrong": wrong}
    spread = {}
    for name, estimate in _means(terms, found).items():
        fixed = _variance(drawn[name])
        probes = np.var([one[name] for one in moved], axis=0, ddof=1) if len(moved) > 1 else 0.0
        more = np.divide(probes, fixed, out=np.zeros_like(fixed), where=fixed > 0)
        factor = np.sqrt(1 + more) * student(least.get(name, min(right, wrong)), level)
        spread[name] = Spread(estimate, estimate + factor * (drawn[name] - estimate), factor)
    return spread


def _means(terms: Split, found: Pairs) -> Values:
    """`quantities` of all pairs, [layers] each."""
    values = np.vstack([terms.pair[:, found.rows], found.text])
    right, wrong = (
        intervals.mean_known(np.where(some, values, np.nan), -1)
        for some in _members(found).values()
    )
    return quantities(right, wrong)


def _members(found: Pairs) -> dict[str, np.ndarray]:
    """The rows of right and of wrong pairs, bool [rows] each."""
    return {"right": found.right, "wrong": ~found.right}


def _variance(replicates: np.ndarray) -> np.ndarray:
    """Variances over draws of what is not NaN, [layers], of [draws, layers]."""
    centred = replicates - intervals.mean_known(replicates, 0)
    return intervals.mean_known(centred**2, 0)


def student(clusters: int, level: float) -> float:
    """By how much Student's interval of a mean over so many clusters is wider than a bootstrap's.

    A draw's variance is the sample's own, which divides by n and not by n - 1.
    """
    if clusters < 2:
        return 1.0
    tail, freedom = (1 + level) / 2, clusters - 1
    return float(stats.t.ppf(tail, freedom) / stats.norm.ppf(tail) * np.sqrt(clusters / freedom))


def shares(terms: Split, again: Sequence[Split], rows: np.ndarray) -> Values:
    """What share of the mean squares is the question's, the answer's, the pair's, and noise.

    Over samples `rows`, of [layers] each; they add up to 1. A probe learned from other samples
    would give other terms: a term's mean square is by their variance over refits too large, which
    is taken off it and is the noise. All is noise in a probe that knows nothing.
    """
    squares, noise = {}, {}
    for name in TERMS:
        own = getattr(terms, name)[:, rows]
        moved = np.array([getattr(one, name)[:, rows] for one in again])
        squares[name] = (own**2).mean(-1)
        variance = moved.var(0, ddof=1).mean(-1) if len(moved) > 1 else 0.0
        noise[name] = np.minimum(squares[name], variance)
    whole = np.sum(list(squares.values()), axis=0)
    known = {name: intervals.ratio(squares[name] - noise[name], whole) for name in TERMS}
    found = {f"share_{name}": share for name, share in known.items()}
    return found | {"share_noise": intervals.ratio(np.sum(list(noise.values()), axis=0), whole)}


def _known(analysis: Analysis, found: Pairs) -> Columns:
    """What is known of each layer beside the claims."""
    readout, answers = analysis.readout, analysis.answers
    layers = np.arange(len(readout.clean))
    right, flips = found.rows[found.right], readout.effects["crossed"].flip[0]
    return {
        **readout.key,
        "layer": layers,
        "n_right": len(right) // 2,
        "n_wrong": (~found.right).sum() // 2,
        "signal": analysis.strength["signal"],
        "headline": layers == readout.headline,
        "text_pair": _mean(found.text[found.right]),
        "text_truth": (_mean(found.text[found.right]) - _mean(found.text[~found.right])) / 2,
        "follows": intervals.mean_known(np.where(flips, 1.0, 0.0)[:, right], -1),
        "n_unlike": found.unlike.sum() // 2,
        "n_clusters": int(found.drawn.clusters_in(found.right)),
        "source": answers["partner_source"].iloc[0],
    }


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else np.nan


def _claims(analysis: Analysis, found: Pairs, spread: Mapping[str, Spread]) -> Columns:
    """The quantities with intervals and bands, and what they say of each layer."""
    columns: Columns = {}
    for name, one in spread.items():
        every = np.ones(len(one.estimate), dtype=bool)
        columns[name] = one.estimate
        columns[f"{name}_low"], columns[f"{name}_high"] = one.interval(analysis.level)
        ends = one.band(analysis.level, every)
        columns[f"{name}_band_low"], columns[f"{name}_band_high"] = ends
    enough = {name: _enough(analysis, found, some) for name, some in _members(found).items()}

    def above(end: str) -> tuple[np.ndarray, np.ndarray]:
        """Whether the pair is read at each layer, and its truth, by one end of the intervals."""
        lows = {name: columns[f"{name}{end}"] > 0 for name in spread}
        pair = lows["pair_right"] & lows["pair_gain"] & enough["right"]
        truth = lows["truth"] & lows["truth_gain"] & enough["right"] & enough["wrong"]
        return pair, truth

    pair, truth = above("_low")
    neither = NOT_SHOWN if enough["right"] else TOO_FEW
    columns["reads"] = np.select([truth, pair], [TRUTH, PAIR], neither)
    columns["pair_from"], columns["truth_from"] = map(_to_the_last, above("_band_low"))
    return columns | {"inflation": spread["truth" if enough["wrong"] else "pair_right"].inflation}


def _enough(analysis: Analysis, found: Pairs, some: np.ndarray) -> bool:
    """Whether so many samples, and clusters of pairs, may be spoken of."""
    clusters = found.drawn.clusters_in(some)
    return bool(some.sum() >= analysis.min_n and clusters >= analysis.min_clusters)


def _to_the_last(claimed: np.ndarray) -> float:
    """The first layer from which on it is claimed at every layer [layers]; NaN for none."""
    open_ = np.flatnonzero(~claimed)
    first = open_[-1] + 1 if len(open_) else 0
    return float(first) if first < len(claimed) else np.nan

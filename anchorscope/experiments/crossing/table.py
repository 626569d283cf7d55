"""Tables of crossing: the pair terms, layer by layer, and the claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from anchorscope.anchors.asking import kind_of
from anchorscope.experiments.analysis import Analysis, stacked
from anchorscope.experiments.columns import interval_of, recurring
from anchorscope.experiments.crossing import claims, estimates
from anchorscope.experiments.crossing.claims import Claim
from anchorscope.experiments.crossing.damage import Damaged
from anchorscope.experiments.crossing.estimates import ANSWER, PAIR, QUESTION, Answers, Estimate
from anchorscope.experiments.crossing.swapped import GOLD, OWN, Groups, Swapped
from anchorscope.passes import interventions
from anchorscope.passes.interventions import REGISTRY
from anchorscope.passes.partners import LEAST_PAIRS
from anchorscope.probes import intervals
from anchorscope.probes.strength import FLOORS

TERMS = {"question": QUESTION, "answer": ANSWER, "pair": PAIR}
CROSSING = {
    **recurring("site", "position", "layer"),
    "quantity": "what is estimated, see below",
    "estimate": "the estimate: logits, or a share or slope",
    **interval_of("estimate", "ci"),
    "p": "p-value of `estimate` not being above 0, not corrected for cells",
    "n": "pairs",
    **recurring("signal", "headline"),
}
"""Column of the table → what it holds."""
QUANTITIES = {
    "pair_right": "P_R: the mean pair term of right answers",
    "right_above_text": "P_R minus the text imitator's",
    "pair_wrong": "P_W: the mean pair term of wrong answers",
    "wrong_above_text": "P_W minus the text imitator's",
    "pair_gold": "P_G: the mean pair term of the gold answers of wrongly answered questions",
    "gold_above_text": "P_G minus the text imitator's",
    "gold_wrong": "P_G − P_W, on the same questions",
    "through_<side>": "P of the `right` or `wrong` pairs that `through_eq` counts",
    "through_<side>_<condition>": "the same, with a condition such as `knockout` or `rest` in all "
    "four passes, divided by λ",
    "left_<side>_<condition>": "λ: the slope of the answer term under the condition on the clean "
    "answer term",
    "taken_<side>_<condition>": "percent of λP that the condition takes: 100 (1 − P_blocked / λP); "
    "at the headline layer, each pair at the layer that its fold chose",
    "gold_wrong_equal": "P_G − P_W at equal mean score, product of question and answer term, "
    "log-probability and text imitator; "
    "at the headline layer, each pair at the layer that its fold chose",
    "gold_unexplained": "the part of P_G that the gold answers' log-probability and the text "
    "imitator do not explain; at the headline layer, each pair at the layer that its fold chose",
    "share_<term>": "share of the `question`, `answer` or `pair` term in the mean squares over "
    "pairs of right answers; `share_noise` is the share of the variance over refitted probes",
    "follows": "share of right answers whose predicted class flips after the partner's question",
    "same_frame": "share of pairs whose prompts differ only in E_Q; at the headline layer",
    "mirrored": "share of other pairs whose pair terms cancel by design with E_Q blocked; "
    "at the headline layer",
    "unlike": "share of pairs whose answers are of different kinds, such as a date and a name; "
    "at the headline layer",
    "by_wording": "1 if partners were found by the questions' wording, 0 if by the dataset's "
    "relations; at the headline layer",
}
"""Quantity → what it is."""
CLAIMS = {
    **recurring("site", "position"),
    "claim": "`signal`, `interaction`, `own_answer`, `truth` or `through_eq`",
    "verdict": "`yes`, `no` (not shown), `too few`, `not measured` or `by design`",
    "p": "the largest p-value of the claim's tests; in a figure's table corrected for its "
    "cells (Holm), not for the five claims",
    "estimate": "`signal`: AUC minus the hardest of 0.6 and the text models; `interaction`: P_R; "
    "`own_answer`: P_W; `truth`: P_G − P_W; `through_eq`: percent of λP that "
    "blocking E_Q takes",
    **interval_of("estimate", "ci"),
    "n": "samples, or pairs",
    "clusters": "effective number of independent samples or pairs",
    "layer": "the headline layer; each sample is scored at the layer that its outer fold chose",
    "reason": "why the claim is not made or cannot be judged; or a remark to report with it",
}
"""Column of the table of claims → what it holds."""
CORRECTED = "not significant once p is corrected for the figure's cells"


class QuantityRow(NamedTuple):
    """An estimate at each layer, or at the headline layer alone."""

    quantity: str
    estimate: Estimate  # [layers], or numbers
    n: int


def tables(analysis: Analysis) -> dict[str, pd.DataFrame]:
    """Make the tables `crossing` and `claims` of one read-out.

    `crossing` has one row per quantity and layer. It is empty if no answers were swapped. `claims`
    has one row per claim. `analysis.answers` must come from `activations.measured`, and have the
    columns `crossed_partner` and `partner_source`.

    Raises:
        AnchorscopeError: A `crossed` score lacks a mutual partner, or a partner lacks a score.
    """
    judged, rows = {"signal": _signal(analysis)}, list[QuantityRow]()
    if "crossed" not in analysis.readout.effects:
        judged |= dict.fromkeys(
            claims.ON_PAIRS, Claim(claims.NOT_MEASURED, "no answers were swapped")
        )
        return {"crossing": _long(rows, analysis), "claims": _of_claims(judged, analysis)}
    pairs, level = Swapped.of(analysis), analysis.level
    groups = pairs.groups()
    headline = {
        side: {arm: one.at(pairs.layer[rows]) for arm, one in groups[side].items()}
        for side, rows in pairs.sides.items()
    }
    blocked = interventions.blocked_arms()
    through = {
        side: {arm: claims.through(of[OWN], of[arm], level) for arm in blocked if arm in of}
        for side, of in headline.items()
    }
    wrong, own_words = headline["wrong"], pairs.own_words
    judged |= {
        "interaction": claims.interaction(headline["right"][OWN], level),
        "own_answer": claims.own_answer(wrong[OWN], level, own_words=own_words),
        "truth": claims.truth(wrong[OWN], wrong.get(GOLD), level, own_words=own_words),
        "through_eq": _through_eq(through, level),
    }
    if pairs.members.size:
        rows = [*by_layer(groups, level), *_shares(groups["right"][OWN], analysis)]
        rows += _at_headline(through, judged["truth"], pairs)
    if analysis.readout.position == "prompt_end":
        before = Claim(claims.BY_DESIGN, "the read-out precedes the answer, so its pair term is 0")
        judged |= dict.fromkeys(claims.ON_PAIRS, before)
    return {"crossing": _long(rows, analysis), "claims": _of_claims(judged, analysis)}


def _signal(analysis: Analysis) -> Claim:
    """Judge whether the probe's AUC is above .6 and above every text model's."""
    strength = {name: values[0] for name, values in analysis.cell_strength.items()}
    ends = (strength[f"margin{end}"] for end in ("", "_error", "_low", "_high", "_p"))
    margin, hardest = Estimate(*ends), strength["hardest"]
    n, clusters = len(analysis.z), analysis.drawn.weights.shape[1]
    if not np.isfinite(margin.p):
        return Claim(claims.TOO_FEW, "the AUC has no interval", n=n, clusters=clusters)
    if few := claims.shortage(n, clusters, claims.LEAST_CLUSTERS, "samples"):
        return Claim(claims.TOO_FEW, few, n=n, clusters=clusters)
    above = f"the text model `{hardest}`" if hardest in FLOORS else hardest
    reason = "" if strength["signal"] else f"the AUC is not significantly above {above}"
    verdict = claims.NO if reason else claims.YES
    return Claim(verdict, reason, float(margin.p), margin, n=n, clusters=clusters)


def _through_eq(through: Mapping[str, Mapping[str, Claim]], level: float) -> Claim:
    """Judge `through_eq`. Its reason adds what percentage blocking other tokens takes, if known."""
    by_side = {side: of["knockout"] for side, of in through.items() if "knockout" in of}
    if not by_side:
        why = "no answers were swapped with the exact tokens blocked"
        return Claim(claims.NOT_MEASURED, why)
    side, found = claims.either(by_side, level)
    if not np.isfinite(found.p):
        return found
    others = [
        f"blocking {REGISTRY[arm].blocks} takes {one.estimate.value:.0f} %"
        for arm, one in through[side].items()
        if arm != "knockout" and np.isfinite(one.estimate.value)
    ]
    reasons = filter(None, [found.reason, f"judged on {side} answers", *others])
    return replace(found, reason="; ".join(reasons))


def by_layer(groups: Groups, level: float) -> Iterator[QuantityRow]:
    """Estimate the mean pair terms at every layer, clean and with tokens blocked."""
    for side, of in groups.items():
        yield from _means(side, of[OWN], level)
        yield from _blocked(side, of, level)
    wrong, gold = groups["wrong"][OWN], groups["wrong"].get(GOLD)
    if gold is not None:
        yield from _means("gold", gold, level, wrong.texts)
        above = gold.term(PAIR) - wrong.term(PAIR)
        yield _mean("gold_wrong", gold, above, level, wrong.texts)


def _means(name: str, of: Answers, level: float, *others: np.ndarray) -> Iterator[QuantityRow]:
    pair = of.term(PAIR)
    yield _mean(f"pair_{name}", of, pair, level, *others)
    yield _mean(f"{name}_above_text", of, pair - of.imitated, level, *others)


def _mean(
    quantity: str, of: Answers, values: np.ndarray, level: float, *others: np.ndarray
) -> QuantityRow:
    """Estimate the mean of values [1 + refits, layers, pairs] over the pairs without NaN."""
    known = np.isfinite(values).all((0, 1))
    pairs = of.of(known).pairs(level, *(texts[:, known] for texts in others))
    return QuantityRow(quantity, pairs.mean(values[..., known]), pairs.n)


def _blocked(side: str, of: Mapping[str, Answers], level: float) -> Iterator[QuantityRow]:
    """Estimate P and λ over the pairs that `through_eq` counts. Too few pairs give no rows."""
    arms = [arm for arm in interventions.blocked_arms() if arm in of]
    known = np.all([of[arm].known for arm in (OWN, *arms)], axis=0) & ~of[OWN].bound
    if "knockout" not in of or known.sum() < LEAST_PAIRS:
        return
    clean = of[OWN].of(known)
    pairs = clean.pairs(level)
    yield QuantityRow(f"through_{side}", pairs.mean(clean.term(PAIR)), pairs.n)
    for arm in arms:
        damaged = Damaged.of(clean, of[arm].of(known), pairs)
        yield QuantityRow(f"through_{side}_{arm}", damaged.corrected(), pairs.n)
        yield QuantityRow(f"left_{side}_{arm}", damaged.mean_left(), pairs.n)


def _at_headline(
    through: Mapping[str, Mapping[str, Claim]], truth: Claim, pairs: Swapped
) -> Iterator[QuantityRow]:
    """Yield the estimates at the layers that the folds chose, and facts about the pairs."""
    for side, of in through.items():
        for arm, one in of.items():
            yield QuantityRow(f"taken_{side}_{arm}", one.estimate, one.n)
    for name in ("gold_wrong_equal", "gold_unexplained"):
        yield QuantityRow(name, truth.steps.get(name, Estimate()), truth.n)
    same, mirrored = pairs.bound
    wording = np.array(pairs.answers["partner_source"].iloc[0] == "wording")
    facts = {"same_frame": same, "mirrored": mirrored, "unlike": unlike(pairs)}
    for name, values in (facts | {"by_wording": wording}).items():
        yield QuantityRow(name, Estimate(values.mean()), len(same))


def unlike(pairs: Swapped) -> np.ndarray:
    """Return bool [pairs]: whether a pair's answers differ in kind, such as a date and a name."""
    kinds = np.array([kind_of(text) for text in pairs.answers["ea_text"].astype(str)])
    one, other = pairs.members
    return kinds[one] != kinds[other]


def _shares(right: Answers, analysis: Analysis) -> Iterator[QuantityRow]:
    """Yield `share_<term>`, `share_noise` and `follows` (see `QUANTITIES`), over right answers.

    A share is a term's mean square, divided by the sum of all terms' mean squares. Variance over
    refits of the probe makes mean squares too large. It is subtracted, and counted as noise.
    """
    parts, squares, noise = {}, [], []
    for name, which in TERMS.items():
        one = right.term(which)
        square = intervals.mean_known(one[0] ** 2, -1)
        varied = np.zeros_like(square)
        if len(one) > 2:  # two refits at least
            varied = np.fmin(square, intervals.mean_known(one[1:].var(0, ddof=1), -1))
        parts[name] = square - varied
        squares.append(square)
        noise.append(varied)
    whole = np.sum(squares, axis=0)
    for name, part in (parts | {"noise": np.sum(noise, axis=0)}).items():
        share = Estimate(intervals.ratio(part, whole))
        yield QuantityRow(f"share_{name}", share, len(right.fold))
    crossed = analysis.readout.effects["crossed"]
    samples = np.flatnonzero(crossed.measured & (analysis.z == 0))
    follows = intervals.mean_known(1.0 * crossed.flip[0][:, samples], -1)
    yield QuantityRow("follows", Estimate(follows), len(samples))


def _long(rows: list[QuantityRow], analysis: Analysis) -> pd.DataFrame:
    """Return one row per quantity and layer; quantities without an estimate are left out."""
    readout, signal = analysis.readout, analysis.strength["signal"]
    frames = []
    for quantity, one, n in rows:
        at = np.arange(len(readout.clean)) if np.ndim(one.value) else [readout.headline]
        values = {"estimate": one.value, "ci_low": one.low, "ci_high": one.high, "p": one.p}
        columns = {**readout.key, "layer": at, "quantity": quantity, **values, "n": n}
        columns |= {"signal": signal[at], "headline": np.equal(at, readout.headline)}
        frames.append(pd.DataFrame(columns))
    return stacked(frames, CROSSING).dropna(subset="estimate")[[*CROSSING]]


def _of_claims(judged: Mapping[str, Claim], analysis: Analysis) -> pd.DataFrame:
    """Return the table of claims, with one row per claim."""
    rows = []
    for name, one in judged.items():
        row = {**analysis.readout.key, "layer": analysis.readout.headline, "claim": name}
        row |= {**vars(one), "estimate": float(one.estimate.value)}
        rows.append(
            row | {f"ci_{end}": float(getattr(one.estimate, end)) for end in ("low", "high")}
        )
    return pd.DataFrame(rows)[[*CLAIMS]]


def corrected(table: pd.DataFrame, level: float) -> pd.DataFrame:
    """Correct the p-values of a figure's claims for its number of cells, per read-out (Holm).

    Cells without a p-value do not count. A *yes* that is no longer significant becomes a *no*.
    """
    p = table.groupby(["site", "position", "claim"])["p"].transform(estimates.holm)
    lost = (table["verdict"] == claims.YES) & ~(p < 1 - level)
    reasons = [
        "; ".join(filter(None, (CORRECTED, why))) for why in table.loc[lost, "reason"].fillna("")
    ]
    table = table.assign(p=p, verdict=table["verdict"].mask(lost, claims.NO))
    table.loc[lost, "reason"] = reasons
    return table


def with_signal(table: pd.DataFrame, claims_: pd.DataFrame) -> pd.DataFrame:
    """Return a figure's table with the column `cell_signal`: whether the claim `signal` holds."""
    cell = ["model", "dataset", "site", "position"]
    signal = claims_[claims_["claim"] == "signal"].set_index(cell)["verdict"] == claims.YES
    places = pd.MultiIndex.from_frame(table[cell])
    return table.assign(cell_signal=signal.reindex(places).to_numpy())

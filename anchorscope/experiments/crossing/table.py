"""The tables of crossing: what is no sum of question and answer, layer by layer; and the claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from anchorscope.anchors.asking import kind_of
from anchorscope.experiments.analysis import Analysis
from anchorscope.experiments.crossing import claims, estimates
from anchorscope.experiments.crossing.claims import Answers, Claim
from anchorscope.experiments.crossing.damage import Damaged
from anchorscope.experiments.crossing.estimates import (
    ANSWER,
    PAIR,
    QUESTION,
    Estimate,
    dependence,
    term,
)
from anchorscope.experiments.crossing.swapped import GOLD, OWN, Swapped
from anchorscope.experiments.experiment import interval_of, recurring
from anchorscope.passes import interventions
from anchorscope.passes.interventions import REGISTRY
from anchorscope.passes.partners import LEAST_PAIRS
from anchorscope.probes import intervals
from anchorscope.probes.strength import FLOORS

SIDES = ("right", "wrong")
TERMS = {"question": QUESTION, "answer": ANSWER, "pair": PAIR}
CROSSING = {
    **recurring("site", "position", "layer"),
    "quantity": "what is estimated, see below",
    "estimate": "the estimate: logits, or a share or slope",
    **interval_of("estimate", "ci"),
    "p": "p of `estimate` not being above 0, not corrected for cells",
    "n": "pairs",
    **recurring("signal", "headline"),
}
"""Column of the table → what it holds."""
QUANTITIES = {
    "pair_right": "P_R: the mean pair term of right answers",
    "right_above_text": "P_R less that of the text imitator",
    "pair_wrong": "P_W: the mean pair term of wrong answers",
    "wrong_above_text": "P_W less that of the text imitator",
    "pair_gold": "P_G: the mean pair term of the gold answers of wrongly answered questions",
    "gold_above_text": "P_G less that of the text imitator",
    "gold_wrong": "P_G − P_W, on the same questions",
    "through_<side>": "P of the `right` or `wrong` pairs that `through_eq` counts",
    "through_<side>_<condition>": "the same with a condition, such as `knockout` or `rest`, in all "
    "four passes, over λ",
    "left_<side>_<condition>": "λ: the slope of the answer term under the condition on the clean "
    "one",
    "taken_<side>_<condition>": "percent of P that the condition takes, 100 (1 − P_blocked / λP); "
    "at the headline layer, each pair scored at the layer of its fold",
    "gold_wrong_equal": "P_G − P_W where score, product of question and answer term, "
    "log-probability and imitator are equal for gold and own answer; likewise",
    "gold_unexplained": "the part of P_G that neither the golds' log-probability nor the imitator "
    "explains; likewise",
    "share_<term>": "share of the `question`, `answer` or `pair` term in the mean squares over "
    "pairs of right answers; `share_noise` is the variance over refitted probes",
    "follows": "share of right answers whose predicted class flips behind the partner's question",
    "same_frame": "share of pairs whose prompts differ only in E_Q; at the headline layer",
    "mirrored": "share of other pairs whose pair terms cancel by design with E_Q blocked; likewise",
    "unlike": "share of pairs whose answers are of different kinds, such as a date and a name; "
    "likewise",
    "by_wording": "1 if partners were found by the questions' wording, 0 if by the dataset's "
    "relations; likewise",
}
"""Quantity → what it is."""
CLAIMS = {
    **recurring("site", "position"),
    "claim": "`signal`, `interaction`, `own_answer`, `truth` or `through_eq`",
    "verdict": "`yes`, `no` (not shown), `too few`, `not measured` or `by design`",
    "p": "the largest p of the claim's conditions, in a figure's table corrected for its cells "
    "(Holm), not for the five claims",
    "estimate": "`signal`: AUC above the hardest of 0.6 and the text models; `interaction`: P_R; "
    "`own_answer`: P_W; `truth`: P_G − P_W; `through_eq`: percent of P that "
    "blocking E_Q takes beyond general damage",
    **interval_of("estimate", "ci"),
    "n": "samples, or pairs",
    "clusters": "effective number of independent ones",
    "layer": "the headline layer; each sample is scored at the layer that its outer fold chose",
    "reason": "why the claim is not made or cannot be judged; what has to be said with it",
}
"""Column of the table of claims → what it holds."""
NOT_SWAPPED = "no answers were swapped"
NOT_BLOCKED = "no answers were swapped with the exact tokens blocked"
CORRECTED = "not significant once p is corrected for the figure's cells"


@dataclass(frozen=True)
class QuantityRow:
    """An estimate at each layer, or at one."""

    quantity: str
    estimate: Estimate  # [layers]; numbers if it is of the headline layer alone
    n: np.ndarray | int


Groups = Mapping[str, Mapping[str, Answers]]
"""Side (`right`, `wrong`) → arm → the answers of its pairs, at all layers."""


def tables(analysis: Analysis) -> dict[str, pd.DataFrame]:
    """Make the tables `crossing` and `claims` of one read-out.

    `crossing` has one row per quantity and layer, and none where no answers were swapped. `claims`
    has one row per claim. The answers have `crossed_partner`, `gold_partner`, `frame` and
    `partner_source`.

    Raises:
        AnchorscopeError: Scores and partners are not of the same samples.
    """
    pairs = Swapped.of(analysis) if "crossed" in analysis.readout.effects else None
    judged = {"signal": _signal(analysis)}
    rows: list[QuantityRow] = []
    if pairs is None:
        nothing = Claim(claims.NOT_MEASURED, NOT_SWAPPED)
        judged |= dict.fromkeys(claims.ON_PAIRS, nothing)
    else:
        groups = groups_of(pairs)
        found = judge(groups, pairs, pairs.layer, analysis.level)
        judged |= found
        if pairs.members.size:
            rows = [*by_layer(groups, pairs, analysis.level), *_shares(groups, analysis)]
            rows += _at_headline(groups, pairs, found["truth"], analysis)
    return {"crossing": _long(rows, analysis), "claims": _of_claims(judged, analysis)}


def _signal(analysis: Analysis) -> Claim:
    """Judge whether the probe's AUC is above .6 and above every text model's."""
    strength = {name: values[0] for name, values in analysis.cell_strength.items()}
    ends = (strength[f"margin{end}"] for end in ("", "_error", "_low", "_high", "_p"))
    margin = Estimate(*ends)
    n, clusters = len(analysis.z), analysis.drawn.weights.shape[1]
    made = margin.p < 1 - analysis.level
    hardest = strength["hardest"]
    above = f"the text model `{hardest}`" if hardest in FLOORS else hardest
    reason = "" if made else f"not significantly above {above}"
    if not np.isfinite(margin.p):
        return Claim(claims.TOO_FEW, "the AUC has no interval", n=n, clusters=clusters)
    if few := claims.shortage(n, clusters, claims.LEAST_CLUSTERS):
        return Claim(claims.TOO_FEW, few, n=n, clusters=clusters)
    verdict = claims.YES if made else claims.NO
    return Claim(verdict, reason, float(margin.p), margin, n=n, clusters=clusters)


def groups_of(pairs: Swapped) -> Groups:
    """Return the answers of all pairs that are right, and wrong, in every arm measured."""
    scores = {arm: pairs.scores(arm) for arm in pairs.arms}
    imitated = pairs.imitated({arm: scores[arm] for arm in (OWN, GOLD) if arm in scores})
    groups: dict[str, dict[str, Answers]] = {}
    for side, rows in zip(SIDES, (pairs.right, ~pairs.right), strict=True):
        own = pairs.answered(OWN, rows, scores[OWN], imitated[OWN])
        groups[side] = {OWN: own}
        for arm in pairs.blocked:
            some = scores[arm][..., rows]
            refits = None if own.refits is None else some[:, 1:]
            groups[side][arm] = replace(own, scores=some[:, 0], refits=refits)
    if GOLD in scores:
        wrong = ~pairs.right
        groups["wrong"][GOLD] = pairs.answered(GOLD, wrong, scores[GOLD], imitated[GOLD])
    return groups


def judge(
    groups: Groups, pairs: Swapped, layer: np.ndarray | int, level: float
) -> dict[str, Claim]:
    """Judge every claim on pairs, each at its own layer, int64 [pairs], or all at one."""
    layers = np.broadcast_to(layer, pairs.right.shape)
    at = {
        side: {arm: _at(one, layers[rows]) for arm, one in groups[side].items()}
        for side, rows in zip(SIDES, (pairs.right, ~pairs.right), strict=True)
    }
    wrong, own_words = at["wrong"], pairs.own_words
    found = {
        "interaction": claims.interaction(at["right"][OWN], level),
        "own_answer": claims.own_answer(wrong[OWN], level, own_words=own_words),
        "truth": claims.truth(wrong[OWN], wrong.get(GOLD), level, own_words=own_words),
    }
    if "knockout" not in wrong:
        return found | {"through_eq": Claim(claims.NOT_MEASURED, NOT_BLOCKED)}
    by_design = dict(zip(SIDES, _by_design(pairs), strict=True))
    by_side = {
        side: claims.through(of[OWN], of["knockout"], by_design[side], level)
        for side, of in at.items()
    }
    side, through = claims.either(by_side, level)
    if np.isfinite(through.p):
        said = [f"{side} answers", *_others(at[side], by_design[side], level)]
        through = replace(through, reason="; ".join(filter(None, [through.reason, *said])))
    return found | {"through_eq": through}


def _others(of: Mapping[str, Answers], by_design: np.ndarray, level: float) -> Iterator[str]:
    """Say how much of the pair term blocking other tokens than E_Q takes, where that is known."""
    for arm in interventions.blocked_arms():
        taken, _ = _taken(of, arm, by_design, level)
        if arm != "knockout" and np.isfinite(taken.value):
            yield f"blocking {REGISTRY[arm].blocks} takes {taken.value:.0f} %"


def _taken(
    of: Mapping[str, Answers], arm: str, by_design: np.ndarray, level: float
) -> tuple[Estimate, int]:
    """Estimate the share of the pair term that an arm takes, NaN where not known; and the pairs."""
    if arm not in of:
        return claims.NOTHING, 0
    known = of[OWN].known & of[arm].known & ~by_design
    clean, blocked = of[OWN].of(known), of[arm].of(known)
    pairs = dependence(clean.subjects, clean.texts)
    if claims.shortage(pairs.n, pairs.clusters, LEAST_PAIRS):
        return claims.NOTHING, pairs.n
    return Damaged.of(clean.every, blocked.every, clean.fold).taken(pairs, level), pairs.n


def _by_design(pairs: Swapped) -> tuple[np.ndarray, np.ndarray]:
    """Return the right, and the wrong, pairs whose P is 0 by design with E_Q blocked."""
    bound = np.any(pairs.bound, axis=0)
    return bound[pairs.right], bound[~pairs.right]


def _at(group: Answers, layer: np.ndarray) -> Answers:
    """Return the answers at a layer for each pair, int64 [pairs]."""

    def pick(values: np.ndarray) -> np.ndarray:
        index = np.broadcast_to(layer, (*values.shape[:-2], 1, values.shape[-1]))
        return np.take_along_axis(values, index, axis=-2).squeeze(-2)

    refits = None if group.refits is None else pick(group.refits)
    return replace(group, scores=pick(group.scores), imitated=pick(group.imitated), refits=refits)


def by_layer(groups: Groups, pairs: Swapped, level: float) -> Iterator[QuantityRow]:
    """Estimate the mean pair terms at every layer, clean and with tokens blocked."""
    for side, by_design in zip(SIDES, _by_design(pairs), strict=True):
        own = groups[side][OWN]
        yield from _means(side, own, level)
        yield from _through(side, groups[side], by_design, level)
    wrong, gold = groups["wrong"][OWN], groups["wrong"].get(GOLD)
    if gold is not None:
        yield from _means("gold", gold, level, wrong.texts)
        yield _mean("gold_wrong", gold, gold.term(PAIR) - wrong.term(PAIR), level, wrong.texts)


def _means(name: str, group: Answers, level: float, *others: np.ndarray) -> Iterator[QuantityRow]:
    pair = group.term(PAIR)
    yield _mean(f"pair_{name}", group, pair, level, *others)
    yield _mean(f"{name}_above_text", group, pair - group.imitated, level, *others)


def _mean(
    quantity: str, group: Answers, values: np.ndarray, level: float, *others: np.ndarray
) -> QuantityRow:
    """Estimate the mean of values [1 + refits, layers, pairs] over the pairs that have them."""
    known = np.isfinite(values).all((0, 1))
    texts = (one[:, known] for one in (group.texts, *others))
    among = dependence(group.subjects[:, known], *texts)
    some = values[..., known]
    return QuantityRow(quantity, estimates.mean(some[0], among, level, some[1:]), int(known.sum()))


def _through(
    side: str, of: Mapping[str, Answers], by_design: np.ndarray, level: float
) -> Iterator[QuantityRow]:
    """Estimate the pair terms that `through_eq` counts; nothing where pairs are too few."""
    arms = [arm for arm in interventions.blocked_arms() if arm in of]
    known = np.all([of[arm].known_everywhere for arm in (OWN, *arms)], axis=0) & ~by_design
    if "knockout" not in of or known.sum() < LEAST_PAIRS:
        return
    own = of[OWN]
    pairs, n = dependence(own.subjects[:, known], own.texts[:, known]), int(known.sum())
    clean = own.every[..., known]
    values = term(PAIR, clean)
    yield QuantityRow(f"through_{side}", estimates.mean(values[0], pairs, level, values[1:]), n)
    for arm in arms:
        damaged = Damaged.of(clean, of[arm].every[..., known], own.fold[known])
        yield QuantityRow(f"through_{side}_{arm}", damaged.corrected(pairs, level), n)
        yield QuantityRow(f"left_{side}_{arm}", damaged.mean_left(pairs, level), n)


def _at_headline(
    groups: Groups, pairs: Swapped, truth: Claim, analysis: Analysis
) -> Iterator[QuantityRow]:
    """Return what is estimated at the layers of the folds, and facts about the pairs."""
    for side, by_design in zip(SIDES, _by_design(pairs), strict=True):
        rows = pairs.right if side == "right" else ~pairs.right
        of = {arm: _at(one, pairs.layer[rows]) for arm, one in groups[side].items()}
        for arm in interventions.blocked_arms():
            taken, n = _taken(of, arm, by_design, analysis.level)
            if np.isfinite(taken.value):
                yield QuantityRow(f"taken_{side}_{arm}", taken, n)
    for name in ("gold_wrong_equal", "gold_unexplained"):
        if name in truth.steps and np.isfinite(truth.steps[name].value):
            yield QuantityRow(name, truth.steps[name], truth.n)
    same, mirrored = pairs.bound
    wording = analysis.answers["partner_source"].iloc[0] == "wording"
    facts = {"same_frame": same, "mirrored": mirrored, "unlike": unlike(pairs)}
    for name, values in (facts | {"by_wording": np.full(len(same), wording)}).items():
        yield QuantityRow(name, _known(float(values.mean())), len(same))


def unlike(pairs: Swapped) -> np.ndarray:
    """Tell which pairs' answers are of different kinds, such as a date and a name, bool [pairs]."""
    kinds = np.array([kind_of(text) for text in pairs.answers["ea_text"].astype(str)])
    one, other = pairs.members
    return kinds[one] != kinds[other]


def _known(value: float | np.ndarray) -> Estimate:
    """Return an estimate without an interval."""
    return Estimate(np.asarray(value), *np.full(4, np.nan))


def _shares(groups: Groups, analysis: Analysis) -> Iterator[QuantityRow]:
    """Return the shares of question, answer, pair and noise in the mean squares of right pairs.

    They add up to 1. A probe fitted to other samples would give other terms. A mean square is too
    large by their variance over refits, which is the noise.
    """
    right = groups["right"][OWN]
    n = right.scores.shape[-1]
    terms = {name: right.term(which) for name, which in TERMS.items()}
    squares = {name: intervals.mean_known(one[0] ** 2, -1) for name, one in terms.items()}
    noise = {name: np.zeros_like(one) for name, one in squares.items()}
    if right.refits is not None and right.refits.shape[1] > 1:
        for name, one in terms.items():
            varied = intervals.mean_known(one[1:].var(0, ddof=1), -1)
            noise[name] = np.fmin(squares[name], varied)
    whole = np.sum([*squares.values()], axis=0)
    parts = {name: squares[name] - noise[name] for name in TERMS}
    parts["noise"] = np.sum([*noise.values()], axis=0)
    for name, part in parts.items():
        yield QuantityRow(f"share_{name}", _known(intervals.ratio(part, whole)), n)
    samples = _right_samples(analysis)
    flips = analysis.readout.effects["crossed"].flip[0][:, samples]
    yield QuantityRow("follows", _known(intervals.mean_known(1.0 * flips, -1)), len(samples))


def _right_samples(analysis: Analysis) -> np.ndarray:
    """Return the places of the right answers that have a partner."""
    crossed = analysis.readout.effects["crossed"].measured
    return np.flatnonzero(crossed & (analysis.z == 0))


def _long(rows: list[QuantityRow], analysis: Analysis) -> pd.DataFrame:
    """Return one row per quantity and layer; quantities without an estimate are left out."""
    readout, signal = analysis.readout, analysis.strength["signal"]
    frames = []
    for row in rows:
        one = row.estimate
        at = np.arange(len(readout.clean)) if np.ndim(one.value) else [readout.headline]
        values = {"estimate": one.value, "ci_low": one.low, "ci_high": one.high, "p": one.p}
        columns = {**readout.key, "layer": at, "quantity": row.quantity, **values, "n": row.n}
        columns |= {"signal": signal[at], "headline": np.equal(at, readout.headline)}
        frames.append(pd.DataFrame(columns))
    table = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=[*CROSSING])
    return table.dropna(subset="estimate")[[*CROSSING]]


def _of_claims(judged: Mapping[str, Claim], analysis: Analysis) -> pd.DataFrame:
    """Return the table of claims, a row each."""
    return pd.DataFrame(
        [
            {
                **analysis.readout.key,
                "claim": name,
                "verdict": one.verdict,
                "p": one.p,
                "estimate": float(one.estimate.value),
                "ci_low": float(one.estimate.low),
                "ci_high": float(one.estimate.high),
                "n": one.n,
                "clusters": one.clusters,
                "layer": analysis.readout.headline,
                "reason": one.reason,
            }
            for name, one in judged.items()
        ]
    )[[*CLAIMS]]


def corrected(table: pd.DataFrame, level: float) -> pd.DataFrame:
    """Correct the p of a figure's claims for the number of its cells (Holm).

    Over the cells of one read-out where the claim is judged. Verdicts follow.
    """
    table = table.copy()
    for _, rows in table.groupby(["site", "position", "claim"]).groups.items():
        p = estimates.holm(table.loc[rows, "p"].to_numpy(dtype=np.float64))
        lost = (table.loc[rows, "verdict"] == claims.YES) & ~(p < 1 - level)
        table.loc[rows, "p"] = p
        table.loc[rows[lost], "verdict"] = claims.NO
        reasons = table.loc[rows[lost], "reason"].fillna("")
        table.loc[rows[lost], "reason"] = [
            "; ".join(filter(None, (CORRECTED, why))) for why in reasons
        ]
    return table


def with_signal(table: pd.DataFrame, claims_: pd.DataFrame) -> pd.DataFrame:
    """Return a table of a figure whose column `cell_signal` says what its claims say."""
    cell = ["model", "dataset", "site", "position"]
    signal = claims_[claims_["claim"] == "signal"].set_index(cell)["verdict"] == claims.YES
    places = pd.MultiIndex.from_frame(table[cell])
    return table.assign(cell_signal=signal.reindex(places).to_numpy())

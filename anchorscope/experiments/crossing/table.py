"""The table of crossing: what is no sum of question and answer, layer by layer, and the claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from anchorscope.anchors.asking import kind_of
from anchorscope.experiments.analysis import Analysis, Columns
from anchorscope.experiments.crossing import claims, estimates
from anchorscope.experiments.crossing.claims import Answers, Claim
from anchorscope.experiments.crossing.estimates import Dependence, Estimate, dependence
from anchorscope.experiments.crossing.swapped import CUT, GOLD, OWN, RANDOM, Arm, Swapped
from anchorscope.experiments.crossing.terms import ANSWER, PAIR, QUESTION, term
from anchorscope.experiments.experiment import recurring, with_interval
from anchorscope.probes import intervals

ENDS = ("", "_low", "_high", "_p")
BY_LAYER = {
    "pair_right": "P_R: the mean pair term of right answers",
    "right_above_text": "P_R less that of the text imitator",
    "pair_wrong": "P_W: the mean pair term of the model's own wrong answers",
    "wrong_above_text": "P_W less that of the text imitator",
    "pair_gold": "P_G: the mean pair term of the gold answers of wrongly answered questions",
    "gold_above_text": "P_G less that of the text imitator",
    "gold_wrong": "P_G − P_W, on the same questions",
    **{
        f"pair_{side}_{cut}": f"P_R and P_W {words}"
        for side in ("right", "wrong")
        for cut, words in (
            ("cut", "with E_Q blocked in all four passes"),
            ("random", "less what blocking as many random tokens takes in the pairs of `n_random`"),
        )
    },
    **{
        f"{side}_random_cut": "P with random tokens blocked, less P with E_Q blocked, of the pairs "
        "of `n_random`"
        for side in ("right", "wrong")
    },
}
AT_HEADLINE = {
    "gold_unexplained": "the part of P_G that neither the golds' log-probability nor the imitator "
    "explains; at the headline layer",
    "gold_wrong_equal": "P_G − P_W where score, product of question and answer term, "
    "log-probability and imitator are equal for gold and own answer; at the headline layer",
    **dict.fromkeys(
        ("right_passes", "wrong_passes"),
        "share of P that passes through E_Q, 1 − P_blocked/P, where P is above 0; at the headline "
        "layer",
    ),
}
"""Column of an estimate → what it holds."""
CLAIMS = tuple(claims.SAYS)
BY_CONSTRUCTION = 0.9
"""Share of pairs that differ in E_Q alone from which on `through_eq` says nothing."""
TERMS = {"question": QUESTION, "answer": ANSWER, "pair": PAIR}


def _with_test(name: str, meaning: str) -> dict[str, str]:
    """The columns of an estimate: itself, the ends of its interval, and its p."""
    return with_interval(name, meaning) | {f"{name}_p": f"p of `{name}`"}


def _of_claim(claim: str) -> dict[str, str]:
    """The columns of a claim; blank where it is not judged: except at the headline layer."""
    return {
        claim: "the claims, at the headline layer: `yes`, `no`, `too few` or `not measured`",
        f"{claim}_p": f"p of `{claim}`",
        f"{claim}_why": "what is missing for an answer",
    }


CROSSING = {
    **recurring("site", "position", "layer"),
    "n_right": "pairs of right answers",
    "n_wrong": "pairs of wrong answers",
    "n_gold": "pairs of wrong answers with gold answers",
    **{
        column: words
        for name, meaning in (BY_LAYER | AT_HEADLINE).items()
        for column, words in _with_test(name, meaning).items()
    },
    **dict.fromkeys(
        (f"share_{name}" for name in (*TERMS, "noise")),
        "shares of the mean squares of each term over pairs of right answers; noise is the "
        "variance over refitted probes",
    ),
    **recurring("signal", "headline"),
    **{column: words for claim in CLAIMS for column, words in _of_claim(claim).items()},
    **dict.fromkeys(
        ("clusters_right", "clusters_wrong", "clusters_gold"),
        "effective number of independent pairs",
    ),
    "n_random": "pairs whose questions have at least as many other tokens as E_Q; only these count "
    "where random tokens are blocked",
    "n_same_frame": "pairs whose prompts differ only in E_Q",
    "n_unlike": "pairs whose answers are of different kinds, such as a date and a name",
    "follows": "share of right answers whose predicted class flips behind the partner's question",
    "source": "how partners were found: `relations` of the dataset, or `wording`",
}
"""Column of the table → what it holds."""


def report(analysis: Analysis, *, every_layer: bool = False) -> pd.DataFrame:
    """A row for each layer: `CROSSING`, see docs/products.md.

    The answers have `crossed_partner`, `gold_partner`, `same_frame` and `partner_source`. Claims
    are judged at the headline layer, or at `every_layer`. No rows where crossing was not run or no
    sample has a partner. Raises AnchorscopeError: scores and partners are not of the same samples.
    """
    if "crossed" not in analysis.readout.effects:
        return pd.DataFrame(columns=list(CROSSING))
    pairs = Swapped.of(analysis)
    if not pairs.members.size:
        return pd.DataFrame(columns=list(CROSSING))
    arms = (arm for arm in (OWN, GOLD, CUT, RANDOM) if pairs.measured(arm))
    scores = {arm: pairs.scores(arm) for arm in arms}
    groups = _groups(pairs, scores)
    layers = range(len(analysis.readout.clean)) if every_layer else [analysis.readout.headline]
    columns = _facts(analysis, pairs, groups) | _shares(scores[OWN][..., pairs.right])
    columns |= _by_layer(groups, analysis.level)
    columns |= _claimed(groups, len(analysis.readout.clean), layers, analysis.level)
    return _without_foregone_claims(pd.DataFrame(columns).reindex(columns=list(CROSSING)))


def _without_foregone_claims(table: pd.DataFrame) -> pd.DataFrame:
    """`through_eq` is not judged where nearly all pairs differ in E_Q alone: it cannot fail."""
    same, pairs = table["n_same_frame"], table["n_right"] + table["n_wrong"]
    foregone = table["through_eq"].notna() & (same >= BY_CONSTRUCTION * pairs)
    why = f"in {same.max()} of {pairs.max()} pairs the questions differ in nothing else"
    table.loc[foregone, ["through_eq", "through_eq_why"]] = [claims.NOT_MEASURED, why]
    table.loc[foregone, "through_eq_p"] = np.nan
    return table


Groups = Mapping[str, Answers]
"""`right`, `wrong`, `gold`, and of the first two also `right_cut` and so on, at all layers."""


def corrected(table: pd.DataFrame, level: float) -> pd.DataFrame:
    """The rows of a figure's cells, with each claim's p corrected for their number (Holm).

    Over the cells of one read-out, where a claim is judged; verdicts follow.
    """
    table = table.copy()
    for _, places in table.groupby(["site", "position"]).groups.items():
        for claim in CLAIMS:
            told = table.loc[places, claim].isin([claims.YES, claims.NO])
            rows = places[told.to_numpy(dtype=bool)]
            p = estimates.holm(table.loc[rows, f"{claim}_p"].to_numpy(dtype=np.float64))
            table.loc[rows, f"{claim}_p"] = p
            table.loc[rows, claim] = np.where(p < 1 - level, claims.YES, claims.NO)
    return table


def _groups(pairs: Swapped, scores: Mapping[Arm, np.ndarray]) -> dict[str, Answers]:
    """The answers of all pairs that are right, or wrong, in every arm measured."""
    imitated = pairs.imitated({arm: scores[arm] for arm in (OWN, GOLD) if arm in scores})
    groups = {}
    for side, rows in (("right", pairs.right), ("wrong", ~pairs.right)):
        own = groups[side] = pairs.answered(OWN, rows, scores[OWN], imitated[OWN])
        for name, arm in (("cut", CUT), ("random", RANDOM)):
            if arm in scores:
                some = scores[arm][..., rows]
                refits = None if own.refits is None else some[:, 1:]
                groups[f"{side}_{name}"] = replace(own, scores=some[:, 0], refits=refits)
    if GOLD in scores:
        groups["gold"] = pairs.answered(GOLD, ~pairs.right, scores[GOLD], imitated[GOLD])
    return groups


def _by_layer(groups: Groups, level: float) -> Columns:
    """The means of `BY_LAYER` that were measured, with intervals and p."""
    pair = {name: one.term(PAIR) for name, one in groups.items()}
    columns: Columns = {}
    for side in ("right", "wrong"):
        own, text = pair[side], groups[side].imitated
        values = {f"pair_{side}": own, f"{side}_above_text": own - text}
        if f"{side}_cut" in pair:
            values[f"pair_{side}_cut"] = pair[f"{side}_cut"]
        if f"{side}_random" in pair:
            values[f"pair_{side}_random"] = own - _lost(own, pair[f"{side}_random"])
        if {f"{side}_cut", f"{side}_random"} <= pair.keys():
            values[f"{side}_random_cut"] = pair[f"{side}_random"] - pair[f"{side}_cut"]
        columns |= _means(values, groups[side], level)
    if "gold" in pair:
        gold, wrong = pair["gold"], pair["wrong"]
        values = {"pair_gold": gold, "gold_above_text": gold - groups["gold"].imitated}
        values["gold_wrong"] = gold - wrong
        columns |= _means(values, groups["gold"], level, groups["wrong"].texts)
    return columns


def _lost(clean: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """Values [..., pairs] whose mean is that of clean − cut over the pairs whose `cut` is known."""
    known = np.isfinite(cut)
    lost = np.where(known, clean - cut, 0.0)
    return intervals.ratio(known.shape[-1] * lost, known.sum(-1, keepdims=True))


def _means(
    values: Mapping[str, np.ndarray], group: Answers, level: float, *others: np.ndarray
) -> Columns:
    """Means of values [1 + refits, layers, pairs] over the pairs of a group that have them."""
    columns: Columns = {}
    for name, every in values.items():
        known = np.isfinite(every).all((0, 1))
        among = dependence(
            group.subjects[:, known], group.texts[:, known], *(one[:, known] for one in others)
        )
        some = every[..., known]
        columns |= _columns(name, estimates.mean(some[0], among, level, some[1:]))
    return columns


def _columns(name: str, one: Estimate) -> Columns:
    values = (one.value, one.low, one.high, one.p)
    return {f"{name}{end}": value for end, value in zip(ENDS, values, strict=True)}


def _claimed(groups: Groups, depth: int, layers: Iterable[int], level: float) -> Columns:
    """The claims at some layers, and the steps that are estimated there alone."""
    columns: Columns = {}
    for layer in layers:
        judged = _judged({name: _at(one, layer) for name, one in groups.items()}, level)
        for claim, found in judged.items():
            cells = {claim: found.verdict, f"{claim}_p": found.p, f"{claim}_why": found.reason}
            for name in AT_HEADLINE:
                if name in found.steps:
                    cells |= _columns(name, found.steps[name])
            for name, value in cells.items():
                empty = np.full(depth, None if isinstance(value, str) else np.nan, dtype=object)
                columns.setdefault(name, empty)[layer] = value
    return columns


def _judged(groups: Groups, level: float) -> dict[str, Claim]:
    """Every claim at one layer."""
    interaction = claims.interaction(groups["right"], level)
    own_answer = claims.own_answer(groups["wrong"], level)
    through = Claim(claims.NOT_MEASURED, reason="no pass with tokens cut behind both questions")
    if {"right_cut", "right_random"} <= groups.keys():
        of_side = {}
        for side, clean in (("right", interaction), ("wrong", own_answer)):
            cuts = {name: groups[f"{side}_{name}"] for name in ("cut", "random")}
            of_side[side] = claims.through(clean, {"clean": groups[side], **cuts}, side, level)
        through = claims.either(of_side["right"], of_side["wrong"], level)
    truth = claims.truth(groups["wrong"], groups.get("gold"), level)
    return dict(zip(CLAIMS, (interaction, own_answer, truth, through), strict=True))


def _at(group: Answers, layer: int) -> Answers:
    """The answers at one layer."""
    refits = None if group.refits is None else group.refits[:, :, layer]
    return replace(
        group, scores=group.scores[:, layer], imitated=group.imitated[layer], refits=refits
    )


def _shares(scores: np.ndarray) -> Columns:
    """What share of the mean squares is the question's, the answer's, the pair's, and noise.

    Of right pairs' scores [4, 1 + refits, layers, pairs]; they add up to 1. A probe learned from
    other samples would give other terms: by their variance over refits a mean square is too large,
    and that is the noise. In a probe that knows nothing all is noise.
    """
    terms = {name: term(which, scores) for name, which in TERMS.items()}
    squares = {name: intervals.mean_known(one[0] ** 2, -1) for name, one in terms.items()}
    noise = {name: np.zeros_like(one) for name, one in squares.items()}
    if scores.shape[1] > 2:
        for name, one in terms.items():
            varied = intervals.mean_known(one[1:].var(0, ddof=1), -1)
            noise[name] = np.fmin(squares[name], varied)
    whole = np.sum([*squares.values()], axis=0)
    parts = {name: squares[name] - noise[name] for name in TERMS}
    parts["noise"] = np.sum([*noise.values()], axis=0)
    return {f"share_{name}": intervals.ratio(part, whole) for name, part in parts.items()}


def _facts(analysis: Analysis, pairs: Swapped, groups: Groups) -> Columns:
    """What is known of the pairs beside the claims."""
    readout, answers, right = analysis.readout, analysis.answers, pairs.right
    layers, (one, other) = np.arange(len(readout.clean)), pairs.members
    kinds = np.array([kind_of(text) for text in answers["ea_text"].astype(str)])
    gold = groups.get("gold")
    scored = np.zeros(0, dtype=bool) if gold is None else gold.known_everywhere
    right_samples = pairs.members[:, right].ravel()
    flips = readout.effects["crossed"].flip[0][:, right_samples]
    of_gold = gold and dependence(
        gold.subjects[:, scored], gold.texts[:, scored], groups["wrong"].texts[:, scored]
    )
    frames = answers["same_frame"].astype(object).eq(True).to_numpy()
    return {
        **readout.key,
        "layer": layers,
        "n_right": int(right.sum()),
        "n_wrong": int((~right).sum()),
        "n_gold": int(scored.sum()),
        "signal": analysis.strength["signal"],
        "headline": layers == readout.headline,
        "clusters_right": _of(groups["right"]).clusters,
        "clusters_wrong": _of(groups["wrong"]).clusters,
        "clusters_gold": of_gold.clusters if of_gold else 0.0,
        "n_random": int(pairs.complete.sum()) if pairs.measured(RANDOM) else 0,
        "n_same_frame": int(frames[one].sum()),
        "n_unlike": int((kinds[one] != kinds[other]).sum()),
        "follows": intervals.mean_known(1.0 * flips, -1),
        "source": answers["partner_source"].iloc[0],
    }


def _of(group: Answers) -> Dependence:
    return dependence(group.subjects, group.texts)

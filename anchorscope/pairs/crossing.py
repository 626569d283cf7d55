"""Tables of crossing: swap shares and pair terms, layer by layer, and the claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from anchorscope.anchors.asking import kind_of
from anchorscope.claims import CLAIMS, keys
from anchorscope.claims.claim import GOLD, NO, OWN, YES, Evidence, Groups, Verdict
from anchorscope.claims.damage import Damaged
from anchorscope.claims.estimates import ANSWER, PAIR, QUESTION, Answers, holm
from anchorscope.pairs.swapped import Swapped
from anchorscope.passes import interventions
from anchorscope.passes.partners import LEAST_PAIRS
from anchorscope.statistics.analysis import Analysis, stacked
from anchorscope.statistics.columns import interval_of, recurring
from anchorscope.statistics.intervals import Estimate

TERMS = {"question": QUESTION, "answer": ANSWER, "pair": PAIR}
CROSSING = {
    **recurring("site", "position", "layer"),
    "quantity": "what is estimated, see below",
    "estimate": "the estimate: logits, or a share or slope",
    **interval_of("estimate", "ci"),
    "p": "p-value of `estimate` not being above 0 (a swap share: above 0.5), not corrected for "
    "cells",
    "n": "pairs",
    **recurring("predicts", "headline"),
}
"""Column of the table → what it holds."""
QUANTITIES = {
    "share_right": "swap share of right answers: the share of swaps in which an answer scores "
    "higher after its own question; a tie counts one half, and the interval is cut off at 0 and 1",
    "share_wrong": "swap share of wrong answers",
    "share_gold": "swap share of the gold answers of wrongly answered questions",
    "share_<side>_<condition>": "the same, with a condition such as `knockout` or `rest` in all "
    "four passes",
    "<side>_share_above_text": "swap share after the text imitator's pair term is taken off each "
    "swap; also of `gold`",
    "gold_wrong_share": "`share_gold` − `share_wrong`, on the same questions; likelihood may "
    "explain it",
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
    "same_frame": "share of pairs whose prompts differ only in E_Q; at the headline layer",
    "mirrored": "share of other pairs whose pair terms cancel by design with E_Q blocked; "
    "at the headline layer",
    "unlike": "share of pairs whose answers are of different kinds, such as a date and a name; "
    "at the headline layer",
    "by_wording": "1 if partners were found by the questions' wording, 0 if by the dataset's "
    "relations; at the headline layer",
}
"""Quantity → what it is."""
CLAIM_COLUMNS = {
    **recurring("site", "position"),
    "claim": ", ".join(dict.fromkeys(f"`{one.name}`" for one in CLAIMS.values())),
    "answers": "`right` or `wrong`, if only these answers are judged",
    "verdict": "`yes`, `no` (not shown), `too few`, `not measured` or `by design`",
    "p": "the largest p-value of the claim's tests; in a figure's table corrected for its "
    "cells (Holm), not for the number of claims",
    "estimate": "the number that texts report of the claim; percentages as fractions",
    **interval_of("estimate", "ci"),
    "n": "samples, or pairs",
    "clusters": "effective number of independent samples or pairs",
    "layer": "the headline layer; each sample is scored at the layer that its outer fold chose",
    "reason": "why the claim is not made or cannot be judged; or a remark to report with it",
}
"""Column of the table of claims → what it holds."""
PRECEDING = ("prompt_end", "before_answer")
"""Positions that precede the answer."""
CORRECTED = "not significant once p is corrected for the figure's cells"


Quantity = tuple[str, Estimate]
"""The name of a quantity, and its estimate: [layers], or numbers at the headline layer alone."""


def tables(analysis: Analysis) -> dict[str, pd.DataFrame]:
    """Make the tables `crossing` and `claims` of one read-out.

    `crossing` has one row per quantity and layer. It is empty if no answers were swapped. `claims`
    has one row per claim. `analysis.answers` must come from `activations.measured`, and have the
    columns `crossed_partner` and `partner_source`.

    Raises:
        AnchorscopeError: A `crossed` score lacks a mutual partner, or a partner lacks a score.
    """
    rows, answers = list[Quantity](), dict[str, dict[str, Answers]]()
    if "crossed" in analysis.readout.effects:
        pairs = Swapped.of(analysis)
        groups = pairs.groups()
        answers = {
            side: {arm: one.at(pairs.layer[some]) for arm, one in groups[side].items()}
            for side, some in pairs.sides.items()
        }
        if pairs.members.size:
            rows = [*by_layer(groups, analysis.level), *_of_pairs(pairs)]
    evidence = _evidence(analysis, answers)
    judged = {key: one.judge(evidence) for key, one in CLAIMS.items()}
    return {"crossing": _long(rows, analysis), "claims": _of_claims(judged, analysis)}


def _evidence(analysis: Analysis, answers: Groups) -> Evidence:
    """Return what the claims are judged by."""
    return Evidence(
        level=analysis.level,
        precedes=analysis.readout.position in PRECEDING,
        over_text=analysis.over_text,
        over_prompt=analysis.over_prompt,
        answers=answers,
    )


def by_layer(groups: Groups, level: float) -> Iterator[Quantity]:
    """Estimate mean swap shares and pair terms at every layer, clean and with tokens blocked."""
    for side, of in groups.items():
        yield from _means(side, of[OWN], level)
        for arm in interventions.blocked_arms():
            if arm in of:
                yield _mean(f"share_{side}_{arm}", of[arm], of[arm].share(), level, share=True)
        yield from _blocked(side, of, level)
    wrong, gold = groups["wrong"][OWN], groups["wrong"].get(GOLD)
    if gold is not None:
        yield from _means("gold", gold, level, wrong.texts)
        above = gold.term(PAIR) - wrong.term(PAIR)
        yield _mean("gold_wrong", gold, above, level, wrong.texts)
        yield _mean("gold_wrong_share", gold, gold.share() - wrong.share(), level, wrong.texts)


def _means(name: str, of: Answers, level: float, *others: np.ndarray) -> Iterator[Quantity]:
    beyond_text, pair = of.share(beyond_text=True), of.term(PAIR)
    yield _mean(f"share_{name}", of, of.share(), level, *others, share=True)
    yield _mean(f"{name}_share_above_text", of, beyond_text, level, *others, share=True)
    yield _mean(f"pair_{name}", of, pair, level, *others)
    yield _mean(f"{name}_above_text", of, pair - of.imitated, level, *others)


def _mean(
    quantity: str,
    of: Answers,
    values: np.ndarray,
    level: float,
    *others: np.ndarray,
    share: bool = False,
) -> Quantity:
    """Estimate the mean of values [1 + refits, layers, pairs] over the pairs without NaN.

    p tests whether the mean is above 0 or, for a swap share, above ½.
    """
    known = np.isfinite(values).all((0, 1))
    pairs = of.of(known).pairs(level, *(texts[:, known] for texts in others))
    estimate = pairs.mean_share if share else pairs.mean
    return quantity, estimate(values[..., known])


def _blocked(side: str, of: Mapping[str, Answers], level: float) -> Iterator[Quantity]:
    """Estimate P and λ over the pairs that `through_eq` counts. Too few pairs give no rows."""
    arms = [arm for arm in interventions.blocked_arms() if arm in of]
    known = np.all([of[arm].known for arm in (OWN, *arms)], axis=0) & ~of[OWN].bound
    if "knockout" not in of or known.sum() < LEAST_PAIRS:
        return
    clean = of[OWN].of(known)
    pairs = clean.pairs(level)
    yield f"through_{side}", pairs.mean(clean.term(PAIR))
    for arm in arms:
        damaged = Damaged.of(clean, of[arm].of(known), pairs)
        yield f"through_{side}_{arm}", damaged.corrected()
        yield f"left_{side}_{arm}", damaged.mean_left()


def _of_pairs(pairs: Swapped) -> Iterator[Quantity]:
    """Yield facts about the pairs."""
    same, mirrored = pairs.bound
    wording = np.array(pairs.answers["partner_source"].iloc[0] == "wording")
    facts = {"same_frame": same, "mirrored": mirrored, "unlike": unlike(pairs)}
    for name, values in (facts | {"by_wording": wording}).items():
        yield name, Estimate(values.mean(), n=len(same))


def unlike(pairs: Swapped) -> np.ndarray:
    """Return bool [pairs]: whether a pair's answers differ in kind, such as a date and a name."""
    kinds = np.array([kind_of(text) for text in pairs.answers["ea_text"]])
    one, other = pairs.members
    return kinds[one] != kinds[other]


def _long(rows: list[Quantity], analysis: Analysis) -> pd.DataFrame:
    """Return one row per quantity and layer; quantities without an estimate are left out."""
    readout, predicts = analysis.readout, analysis.strength["predicts"]
    frames = []
    for quantity, one in rows:
        at = np.arange(len(readout.clean)) if np.ndim(one.value) else [readout.headline]
        values = {"estimate": one.value, "ci_low": one.low, "ci_high": one.high, "p": one.p}
        columns = {**readout.key, "layer": at, "quantity": quantity, **values, "n": one.n}
        columns |= {"predicts": predicts[at], "headline": np.equal(at, readout.headline)}
        frames.append(pd.DataFrame(columns))
    return stacked(frames, CROSSING).dropna(subset="estimate")[[*CROSSING]]


def _of_claims(judged: Mapping[str, Verdict], analysis: Analysis) -> pd.DataFrame:
    """Return the table of claims, with one row per claim."""
    rows = []
    for key, one in judged.items():
        row = {**analysis.readout.key, "layer": analysis.readout.headline}
        row |= {"claim": CLAIMS[key].name, "answers": CLAIMS[key].answers, **vars(one)}
        ends = {f"ci_{end}": float(getattr(one.estimate, end)) for end in ("low", "high")}
        rows.append(row | ends | {"estimate": float(one.estimate.value)})
    return pd.DataFrame(rows)[[*CLAIM_COLUMNS]]


def corrected(table: pd.DataFrame, level: float) -> pd.DataFrame:
    """Correct the p-values of a figure's claims for its number of cells, per read-out (Holm).

    Cells without a p-value do not count. A *yes* that is no longer significant becomes a *no*.
    """
    same = [table["site"], table["position"], keys(table)]
    p = table.groupby(same)["p"].transform(holm)
    lost = (table["verdict"] == YES) & ~(p < 1 - level)
    reasons = [
        "; ".join(filter(None, (CORRECTED, why))) for why in table.loc[lost, "reason"].fillna("")
    ]
    table = table.assign(p=p, verdict=table["verdict"].mask(lost, NO))
    table.loc[lost, "reason"] = reasons
    return table


def with_signal(table: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Return a figure's table with the column `cell_signal`: whether the claim `signal` holds."""
    cell = ["model", "dataset", "site", "position"]
    signal = claims[claims["claim"] == "signal"].set_index(cell)["verdict"] == YES
    places = pd.MultiIndex.from_frame(table[cell])
    return table.assign(cell_signal=signal.reindex(places).to_numpy())

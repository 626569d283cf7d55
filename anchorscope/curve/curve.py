"""Table `curve`: ΔP by condition, layer and group. Each condition's flips form its own groups."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from anchorscope.passes.interventions import REGISTRY, of_role, pairing_control
from anchorscope.statistics.analysis import (
    SHARE,
    Analysis,
    Columns,
    Group,
    anchored,
    count,
    stacked,
)
from anchorscope.statistics.bands import ANY, Means
from anchorscope.statistics.columns import interval_of, recurring
from anchorscope.statistics.samples import Effects, Readout
from anchorscope.storage.errors import AnchorscopeError

CURVE = {
    **recurring("site", "position", "condition"),
    "grouping": "`per_layer`: by the condition's own flips at each layer",
    "anchor": "`Q`, samples that flip; `A`, samples that do not; `all`",
    **recurring("layer"),
    "n": "samples of the group measured under the condition; mean over random draws",
    "share": "the group as a share of all answers of the [pool](method.md#pool)",
    **recurring("delta_p", "ci_low", "ci_high", "probe_auc"),
    "answer_accuracy": "share of right answers in the group, of all answers of the pool",
    "n_blocked": "mean number of tokens blocked",
    **recurring("flip_share", "flip_low", "flip_high"),
    "n_paired": "samples with a complete random control, over which `flip_share` is taken",
    **recurring("predicts", "floor", "floor_auc", "gain", "gain_low", "gain_high"),
    **interval_of("share", "share_ci"),
    "delta_logit": "mean change of the logit towards the class predicted with nothing blocked",
    **recurring("n_clusters", "thin", "auc_low", "auc_high"),
    "cell_signal": "whether the claim `signal` holds",
    **recurring("headline"),
    "popularity": "mean popularity of the subjects of the group",
    "logprob": "mean `ea_logprob` of the answers of the group",
    **recurring("inflation"),
    "n_right": "right answers among `n`",
    "n_answers": "answers of the pool that the group's samples stand for",
}
"""Column of the table → what it holds."""
OF_POOL = ("answer_accuracy", "popularity", "logprob")
"""Means that describe all answers of the pool, not only the measured ones."""


def curve(analysis: Analysis) -> pd.DataFrame:
    """Compute ΔP, flips and probe strength: a row of `CURVE` for each condition, anchor and layer.

    The numbers of a random control are averaged over its draws. The bootstrap resamples these
    draws, too. For an empty group, `n` and `share` are 0 and means are blank. The answers need
    `<control>_complete` for each measured control. They may have `popularity`, `ea_logprob` and
    `n_blocked_<condition>`.

    Raises:
        AnchorscopeError: The answers lack `<control>_complete`, or floors and scores have
            different samples.
    """
    golds = {one.name for one in of_role("gold")}
    conditions = [name for name in analysis.readout.effects if name not in golds]
    return stacked([_of_condition(analysis, name) for name in conditions], CURVE)


def _of_condition(analysis: Analysis, condition: str) -> pd.DataFrame:
    answers = analysis.answers
    paired = control_is_complete(analysis.readout, answers, condition)
    facts, signal = _facts(answers, condition), analysis.signal
    key: Columns = {"condition": condition, "grouping": "per_layer", "cell_signal": signal}
    key |= analysis.strength

    def groups(readout: Readout) -> list[Group]:
        effects = readout.effects[condition]
        return [
            _group(
                key | {"anchor": anchor} | _counts(analysis, everyone & effects.measured),
                effects,
                everyone & effects.measured,
                paired,
                facts,
                analysis.stands_for,
            )
            for anchor, everyone in anchored(effects.flip).items()
        ]

    return analysis.by_group(CURVE, groups, (condition,))


def _group(
    key: Columns,
    effects: Effects,
    members: np.ndarray,
    paired: np.ndarray,
    facts: Mapping[str, np.ndarray],
    stands_for: np.ndarray,
) -> Group:
    """Average flips over the `members` that are `paired`, and ΔP and `facts` over all `members`.

    The share of the group, and the facts in `OF_POOL`, are weighted by `stands_for` [n].
    """
    counted, draws = members & paired, len(effects.flip)
    # Grouping fixes some means (all of Q flip). They get no bounds, so the interval may be a point.
    of_share, of_flips = (ANY, SHARE) if key["anchor"] == "all" else (SHARE, ANY)
    share = Means(members, np.ones_like(members), draws, stands_for, of_share)
    averaged = {**facts, "delta_logit": effects.delta_logit}
    weights = dict.fromkeys(OF_POOL, stands_for)
    return Group(
        columns=key | {"n_paired": count(counted)},
        members=members,
        support=members,
        quantities={
            "delta_p": Means(effects.delta_p, members, draws),
            "share": share,
            "flip_share": Means(effects.flip, counted, draws, bounds=of_flips),
        },
        ends={"delta_p": "ci", "share": "share_ci", "flip_share": "flip"},
        averages={
            name: Means(of, members & ~np.isnan(of), weights=weights.get(name))
            for name, of in averaged.items()
        },
    )


def _counts(analysis: Analysis, members: np.ndarray) -> dict[str, np.ndarray]:
    """Return how many right answers a group holds, and how many answers it stands for, [layers]."""
    return {
        "n_right": count(members & (analysis.z == 0)),
        "n_answers": (members * analysis.stands_for).sum(-1).mean(0),
    }


def _facts(answers: pd.DataFrame, condition: str) -> dict[str, np.ndarray]:
    """Map some columns that `curve` averages by group to their values [n]; NaN if unknown."""
    acts = REGISTRY[condition].tokens is not None
    blocked = _numbers(answers, f"n_blocked_{condition}") if acts else np.zeros(len(answers))
    right = (answers["label"] == 0).to_numpy()
    known = {"popularity": "popularity", "logprob": "ea_logprob"}
    facts = {name: _numbers(answers, column) for name, column in known.items()}
    return {**facts, "answer_accuracy": right, "n_blocked": blocked}


def _numbers(answers: pd.DataFrame, column: str) -> np.ndarray:
    """Return a column of numbers, float64 [n]; NaN if unknown."""
    values = pd.to_numeric(answers[column]) if column in answers else pd.Series(index=answers.index)
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def control_is_complete(readout: Readout, answers: pd.DataFrame, condition: str) -> np.ndarray:
    """Return bool [n]: whether the `pairing_control` acts on as many tokens as E_Q has.

    True for all samples if the condition has no such control, or if the control was not measured.

    Raises:
        AnchorscopeError: The answers lack `<control>_complete`.
    """
    control = pairing_control(condition)
    if control is None or control.name not in readout.effects:
        return np.ones(len(answers), dtype=bool)
    column = f"{control.name}_complete"
    if column not in answers:
        what = f"the answers do not tell where the control {control.name} is complete"
        do = "join them with the index of their activations, see `activations.measured`"
        where = f"column `{column}`, read-out {readout.name}"
        raise AnchorscopeError(what, where, do, see="stale-product")
    return readout.effects[control.name].measured & answers[column].to_numpy(dtype=bool)

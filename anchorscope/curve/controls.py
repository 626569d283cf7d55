"""Tables `controls` and `contrasts`: AUCs, flips with tokens blocked, and the published control.

`controls` has one row per layer, with all values that the picture `evidence` draws. `contrasts`
compares blocking the exact tokens with blocking as many random tokens, as arXiv 2601.07422 does. No
claim rests on it: exact tokens are mostly rare words, and random tokens mostly function words.
"""

import numpy as np
import pandas as pd

from anchorscope.curve.curve import control_is_complete
from anchorscope.passes.interventions import REGISTRY, Intervention, controlled_cuts, of_role
from anchorscope.statistics.analysis import POINTS, Analysis, Columns, Group, stacked
from anchorscope.statistics.bands import Means
from anchorscope.statistics.columns import interval_of, recurring, with_interval
from anchorscope.statistics.intervals import Estimate, auc, ratio
from anchorscope.statistics.samples import Effects, Readout

AUCS = {
    **recurring("site", "position", "layer", "headline", "probe_auc", "auc_low", "auc_high"),
    "prompt_end_auc": "AUC of the probe at `prompt_end`, before the answer is read",
    **recurring("floor_auc"),
    "auc_knockout": "AUC of the clean probe under the knockout",
    **with_interval("auc_shuffled", "AUC of a probe fitted to shuffled labels"),
}
"""Column of `controls` → what it holds; `columns` adds the shares of flips."""
FLIPS = "share of flips under the condition in the column's name"
CONTRASTS = {
    **recurring("site", "position"),
    "contrast": "`knockout-random`: the knockout minus the published control",
    "quantity": "`share` of flips and mean `delta_p`, in percentage points",
    **recurring("layer", "n"),
    "n_clusters": "number of clusters of samples that share a subject or question",
    "estimate": "the paired difference",
    **interval_of("estimate", "ci"),
    "under": "mean of the first condition",
    "beside": "mean of the second condition",
    **recurring("predicts", "inflation", "headline"),
}
"""Column of `contrasts` → what it holds."""
RANDOM_CONTRAST = "knockout-random"


def flipping() -> dict[str, Intervention]:
    """Map columns of flip shares to conditions. Those with partners' questions come last."""
    own = [one for one in of_role("cut", "control") if one.version is None]
    twins = [REGISTRY[cut.behind_partner] for cut, _ in controlled_cuts() if cut.behind_partner]
    names = {"knockout": "flip_share"}
    return {names.get(one.name, f"{one.name}_flip_share"): one for one in (*own, *twins)}


def columns() -> dict[str, str]:
    """Map each column of `controls` to what it holds."""
    return AUCS | dict.fromkeys(flipping(), FLIPS) | recurring("flip_share", "random_flip_share")


def controls(analysis: Analysis) -> pd.DataFrame:
    """Return one row per layer, with the columns `columns()`: AUCs of probes, and shares of flips.

    Raises:
        AnchorscopeError: Answers and floors have different samples.
    """
    readout = analysis.readout
    layers = np.arange(len(readout.clean))
    values: Columns = {
        **dict.fromkeys(columns(), np.nan),
        **readout.key,
        "layer": layers,
        "headline": layers == readout.headline,
        **analysis.strength,
        **_other_aucs(analysis),
        "prompt_end_auc": _before_the_answer(analysis),
        **{
            column: _share(readout.effects[one.name])
            for column, one in flipping().items()
            if one.name in readout.effects
        },
    }
    return pd.DataFrame(values)[list(columns())]


def _other_aucs(analysis: Analysis) -> Columns:
    """Compute the columns `auc_knockout` and `auc_shuffled`, if they were measured."""
    readout, columns = analysis.readout, dict[str, object]()
    if knockout := readout.effects.get("knockout"):
        columns["auc_knockout"] = [auc(layer, analysis.z) for layer in knockout.s[0]]
    if readout.shuffled is not None:
        aucs = analysis.resamples.aucs(*readout.shuffled)
        columns |= Estimate.of_resamples(aucs, analysis.level).columns("auc_shuffled")
    return columns


def _before_the_answer(analysis: Analysis) -> list[float] | float:
    """Return the AUCs of the probe at `prompt_end`, [layers]; NaN if not measured."""
    before = analysis.before
    if before is None or before.name == analysis.readout.name:
        return np.nan
    return [auc(layer, analysis.z) for layer in before.clean]


def _share(effects: Effects) -> np.ndarray:
    """Return the share of flips among measured samples, [layers], averaged over draws."""
    some = effects.measured
    return ratio(effects.flip[..., some].mean(0).sum(-1), np.array(some.sum()))


def contrasts(analysis: Analysis) -> pd.DataFrame:
    """Compare blocking conditions with their controls: one row per condition, quantity and layer.

    Differences are paired: they are taken over the samples where the control blocks as many tokens
    as the condition. A control's draws are averaged within a sample.

    Raises:
        AnchorscopeError: The answers lack `<control>_complete`, or floors and scores have
            different samples.
    """
    measured = [
        (one, control)
        for one, control in controlled_cuts()
        if {one.name, control.name} <= analysis.readout.effects.keys()
    ]
    return stacked([_of_contrast(*pair, analysis) for pair in measured], CONTRASTS)


def _of_contrast(one: Intervention, control: Intervention, analysis: Analysis) -> pd.DataFrame:
    named = f"{one.name}-{control.name}"
    counted = control_is_complete(analysis.readout, analysis.answers, control.name)
    facts = {"contrast": named, "predicts": analysis.strength["predicts"]}

    def groups(readout: Readout) -> list[Group]:
        among = (counted & readout.effects[one.name].measured)[None, None]
        members = among.repeat(len(readout.clean), axis=1)
        under, beside = (_effects(readout, each.name) for each in (one, control))
        found = []
        for name in under:
            difference = Means(under[name] - beside[name], members, bounds=POINTS)
            means = {"under": Means(under[name], members), "beside": Means(beside[name], members)}
            key, estimate = facts | {"quantity": name}, {"estimate": difference}
            ends = {"estimate": "ci"}
            found.append(Group(key, members, members, estimate, means, ends=ends))
        return found

    return analysis.by_group(CONTRASTS, groups, (one.name, control.name))


def _effects(readout: Readout, condition: str) -> dict[str, np.ndarray]:
    """Return flips and ΔP, averaged over draws, [1, layers, n]; both in percentage points."""
    effects = readout.effects[condition]
    every = {"share": 100.0 * effects.flip, "delta_p": effects.delta_p}
    return {name: values.mean(0, keepdims=True) for name, values in every.items()}

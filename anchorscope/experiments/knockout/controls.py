"""Controls: what the probes know beside texts and shuffled labels, and what else flips them.

One row per layer, with all that the picture `evidence` draws.
"""

import numpy as np
import pandas as pd

from anchorscope.config.readouts import before_answer
from anchorscope.experiments.analysis import Analysis, Columns
from anchorscope.experiments.experiment import recurring, with_interval
from anchorscope.passes.interventions import REGISTRY, Intervention, controlled_cuts, of_role
from anchorscope.probes import intervals, samples
from anchorscope.probes.intervals import auc, ratio
from anchorscope.probes.samples import Effects

AUCS = {
    **recurring("site", "position", "layer", "headline", "probe_auc", "auc_low", "auc_high"),
    "prompt_end_auc": "AUC of the probe before the answer is read",
    **recurring("floor_auc"),
    "auc_knockout": "AUC of the clean probe on knocked-out activations",
    **with_interval("auc_shuffled", "AUC of a probe fitted to shuffled labels"),
}
"""Column of the table → what it holds; `columns` adds those of flips."""
FLIPS = "share of flips under the condition named"


def flipping() -> dict[str, Intervention]:
    """Map each column of a share of flips to its condition.

    Cuts and controls behind the own question come first. They are followed by each controlled cut
    behind the partner's question.
    """
    own = [one for one in of_role("cut", "control") if one.prompt is None]
    twins = [REGISTRY[cut.behind_partner] for cut, _ in controlled_cuts() if cut.behind_partner]
    names = {"knockout": "flip_share"}
    return {names.get(one.name, f"{one.name}_flip_share"): one for one in (*own, *twins)}


def columns() -> dict[str, str]:
    """Map each column of the table to what it holds."""
    return AUCS | dict.fromkeys(flipping(), FLIPS) | recurring("flip_share", "random_flip_share")


def controls(analysis: Analysis, scores: pd.DataFrame, scored_ids: np.ndarray) -> pd.DataFrame:
    """Compute what the probes of a read-out know, and what flips them.

    Shares are fractions of the samples that a condition measured; random draws are averaged.

    Args:
        analysis: The read-out. Its seed must equal the seed of the run, which shuffled the labels.
        scores: The table of `anchorscope.probes.scores`, all read-outs and probes.
        scored_ids: Ids of the samples, [n], in the order in which they were scored, which
            is the order of the shuffled labels.

    Returns:
        One row per layer with these `columns`; NaN where not measured.

    Raises:
        AnchorscopeError: Scores, answers and floors are not of the same samples.
    """
    readout = analysis.readout
    layers = np.arange(len(readout.clean))
    values: Columns = {
        **dict.fromkeys(columns(), np.nan),
        **readout.key,
        "layer": layers,
        "headline": layers == readout.headline,
        **analysis.strength,
        **_other_aucs(analysis, scored_ids),
        "prompt_end_auc": _before_the_answer(analysis, scores),
        **{
            column: _share(readout.effects[one.name])
            for column, one in flipping().items()
            if one.name in readout.effects
        },
    }
    return pd.DataFrame(values)[list(columns())]


def _other_aucs(analysis: Analysis, scored_ids: np.ndarray) -> Columns:
    """Compute the AUC of the clean probe under the knockout, and of shuffled labels."""
    readout, columns = analysis.readout, dict[str, object]()
    if knockout := readout.effects.get("knockout"):
        columns["auc_knockout"] = [auc(layer, analysis.z) for layer in knockout.s[0]]
    if (s := readout.others.get(("shuffled", "clean"))) is not None:
        aucs = analysis.drawn.aucs(s, _shuffled(analysis, scored_ids))
        columns |= intervals.estimate("auc_shuffled", aucs, analysis.level)
    return columns


def _shuffled(analysis: Analysis, scored_ids: np.ndarray) -> np.ndarray:
    """Return the shuffled labels of the samples, int64 [n], as they were dealt out for scoring."""
    where = f"read-out {analysis.readout.name}"
    rows = samples.places(analysis.answers["id"], scored_ids, where)
    labels = np.empty(len(rows), dtype=np.int64)
    labels[rows] = samples.shuffled(analysis.z[rows], analysis.drawn.seed)
    return labels


def _before_the_answer(analysis: Analysis, scores: pd.DataFrame) -> np.ndarray | float:
    """Return the AUC at the same site before the answer is read, [layers]; NaN if not measured."""
    readout = analysis.readout
    clean = (scores["condition"] == "clean") & (scores["probe"] == "clean")
    rows = scores[clean & (scores["readout"] == before_answer(readout.name))]
    if rows.empty or readout.position == "prompt_end":
        return np.nan
    return next(samples.readouts(rows, analysis.answers)).auc


def _share(effects: Effects) -> np.ndarray:
    """Return the share of flips by layer among the samples that were measured; draws averaged."""
    some = effects.measured
    return ratio(effects.flip[..., some].mean(0).sum(-1), np.array(some.sum()))

"""Controls: what else than the question could move a curve, layer by layer."""

import numpy as np
import pandas as pd

from anchorscope.config.readouts import before_answer
from anchorscope.experiments.analysis import Analysis, Columns
from anchorscope.experiments.density import density as density_at
from anchorscope.experiments.experiment import interval_of, recurring, with_interval
from anchorscope.passes import interventions
from anchorscope.passes.interventions import Intervention
from anchorscope.probes import intervals, platt, samples, strength
from anchorscope.probes.intervals import auc, ratio
from anchorscope.probes.samples import Effects, Readout, sigmoid

OF_CELL = (
    "cell_signal", "cell_auc", "cell_low", "cell_high", "cell_floor", "cell_floor_auc",
    "cell_gain", "cell_gain_low", "cell_gain_high",
)  # fmt: skip
OF_FLOORS = ("answer_auc", "question_auc", "response_auc", "text_auc")
FLIPS = "share of flips under the condition named"
CONTROLS = {
    **recurring("site", "position", "layer", "n"),
    "share_wrong": "share of wrong answers",
    "headline": "whether this is the headline layer: the median of the folds' choices, each the "
    "deepest layer within 0.01 of the best AUC inside the training fold",
    **recurring("probe_auc", "auc_low", "auc_high"),
    "ece": "expected calibration error at the natural prior, 10 bins",
    "auc_knockout": "AUC of the clean probe on knocked-out activations",
    "auc_refit": "AUC of a probe fitted to knocked-out activations",
    **recurring("flip_share", "random_flip_share"),
    "offset_flip_share": "share of flips under the knockout, with the probe's offset refitted",
    "question_flip_share": "share of flips with the whole question blocked",
    **with_interval(
        "question_only",
        "share that flips with the whole question blocked, but not under the knockout",
    ),
    **with_interval(
        "question_more", "paired difference between `question_flip_share` and `flip_share`"
    ),
    "null_share": "share of flips expected by chance: the knockout's Δlogits are permuted among "
    "the samples, mean of 100 permutations",
    "delta_p_q": "mean ΔP of the samples that flip under the knockout",
    "noise_floor": "largest |ΔP| where nothing was blocked",
    **with_interval("auc_shuffled", "AUC of a probe fitted to shuffled labels"),
    **recurring("signal", "floor", "floor_auc", "gain", "gain_low", "gain_high"),
    **dict.fromkeys(
        OF_CELL, "strength of the read-out, each sample scored at the layer of its fold"
    ),
    **dict.fromkeys(OF_FLOORS, "AUC of each floor"),
    "prompt_end_auc": "AUC of the probe before the answer is read",
    **interval_of("prompt_end_auc", "prompt_end"),
    "added_auc": "AUC that reading the answer adds, paired",
    **interval_of("added_auc", "added"),
}
CELL = {"probe_auc": "cell_auc", "auc_low": "cell_low", "auc_high": "cell_high"}
"""Column of a strength → the column of the whole cell, where that is not `cell_` and its name."""
DEALS = 100
DENSITY = {
    **recurring("site", "position"),
    "condition": "`knockout` or `random`",
    "layer": "the layer with the best AUC",
    "x": "change of the logit towards the class predicted on clean",
    "density": "share of samples per unit of `x`",
}


def columns() -> dict[str, str]:
    """The columns of the table: `CONTROLS`, and the flips of other registered cuts and controls."""
    flips = (_flip_share(one) for one in interventions.of_role("cut", "control"))
    return CONTROLS | {column: FLIPS for column in flips if column not in CONTROLS}


def _flip_share(one: Intervention) -> str:
    """The column of a condition's flips."""
    return "flip_share" if one.name == "knockout" else f"{one.name}_flip_share"


def controls(
    analysis: Analysis, scores: pd.DataFrame, scored_ids: np.ndarray, *, balanced: bool
) -> pd.DataFrame:
    """What flips by itself, and what the probes know, of one read-out.

    A row for each layer with these `columns`, see docs/products.md; NaN where not measured. Shares
    are fractions of the samples that the condition measured, ΔP percentage points; random
    draws are averaged.

    Args:
        analysis: its seed is also that of the permutations, and must be that of the run (for the
            shuffled labels).
        scores: the table of `anchorscope.probes.scores`, all read-outs and probes.
        scored_ids: of the samples, [n], in the order in which they were scored: the shuffled
            labels were dealt out in it.
        balanced: whether s is at balanced classes (`scoring: calibrated`, `prior: balanced`).

    Raises:
        AnchorscopeError: scores, answers and floors are not of the same samples.
    """
    readout, of_cell = analysis.readout, analysis.cell_strength
    layers = np.arange(len(readout.clean))
    values: Columns = {
        **dict.fromkeys(columns(), np.nan),
        **readout.key,
        "layer": layers,
        "n": len(analysis.z),
        "share_wrong": analysis.z.mean(),
        "headline": layers == readout.headline,
        **analysis.strength,
        **{CELL.get(name, f"cell_{name}"): of[0] for name, of in of_cell.items()},
        "ece": _ece(analysis, balanced),
        **_quality(analysis, scored_ids),
        **_before_the_answer(analysis, scores),
        **_flips(analysis),
        **_rerouted(analysis),
        **_null(readout, analysis.drawn.seed),
    }
    return pd.DataFrame(values)[list(columns())]


def _ece(analysis: Analysis, balanced: bool) -> list[float]:
    """Calibration error at the natural prior, by layer."""
    z, fold = analysis.z, analysis.readout.fold
    prior: np.ndarray | float = 0.0
    if balanced:  # the scores have been freed of the log odds outside each sample's fold
        share = np.array([z[fold != k].mean() for k in range(fold.max() + 1)])[fold]
        prior = np.log(share / (1 - share))
    once = np.ones((1, len(z)))
    return [float(platt.ece(sigmoid(s + prior), z, once)[0]) for s in analysis.readout.clean]


def _quality(analysis: Analysis, scored_ids: np.ndarray) -> Columns:
    """AUC of the floors, of the clean probe under the knockout, and of probes fitted anew."""
    readout, z = analysis.readout, analysis.z
    columns: Columns = {}
    if analysis.floors is not None:
        of_floor = strength.scores(analysis.floors, analysis.answers)
        columns |= {f"{name}_auc": auc(s, z) for name, s in of_floor.items()}
    if knockout := readout.effects.get("knockout"):
        columns["auc_knockout"] = [auc(layer, z) for layer in knockout.s[0]]
    if (s := readout.others.get(("refit", "knockout"))) is not None:
        columns["auc_refit"] = [auc(layer, z) for layer in s]
    if (s := readout.others.get(("shuffled", "clean"))) is not None:
        aucs = analysis.drawn.aucs(s, _shuffled(analysis, scored_ids))
        columns |= intervals.estimate("auc_shuffled", aucs, analysis.level)
    return columns


def _shuffled(analysis: Analysis, scored_ids: np.ndarray) -> np.ndarray:
    """The shuffled labels of the samples, int64 [n], as they were dealt out for scoring."""
    where = f"read-out {analysis.readout.name}"
    rows = samples.places(analysis.answers["id"], scored_ids, where)
    labels = np.empty(len(rows), dtype=np.int64)
    labels[rows] = samples.shuffled(analysis.z[rows], analysis.drawn.seed)
    return labels


def _before_the_answer(analysis: Analysis, scores: pd.DataFrame) -> Columns:
    """AUC at the same site before the answer is read, and what reading it adds, paired."""
    readout, drawn, level = analysis.readout, analysis.drawn, analysis.level
    clean = (scores["condition"] == "clean") & (scores["probe"] == "clean")
    rows = scores[clean & (scores["readout"] == before_answer(readout.name))]
    if rows.empty or readout.position == "prompt_end":
        return {}
    before = next(samples.readouts(rows, analysis.answers))
    earlier, now = (drawn.aucs(one.clean, analysis.z) for one in (before, readout))
    columns: Columns = {"prompt_end_auc": before.auc, "added_auc": readout.auc - before.auc}
    columns |= intervals.ends("prompt_end", earlier[1:], level)
    return columns | intervals.ends("added", (now - earlier)[1:], level)


def _flips(analysis: Analysis) -> Columns:
    """Shares of flips under every cut and control, and mean ΔP among those of the knockout."""
    readout, effects = analysis.readout, analysis.readout.effects
    columns: Columns = {
        _flip_share(one): _share(effects[one.name])
        for one in interventions.of_role("cut", "control")
        if one.name in effects
    }
    if knockout := effects.get("knockout"):
        columns["delta_p_q"] = intervals.mean_members(knockout.delta_p, knockout.flip)
    if (s := readout.others.get(("offset", "knockout"))) is not None:
        columns["offset_flip_share"] = ((s > 0) != (readout.clean > 0)).mean(-1)
    noise = [effects[one.name] for one in interventions.of_role("noise") if one.name in effects]
    if noise:
        largest = [np.abs(one.delta_p).max((0, 2)) for one in noise]
        columns["noise_floor"] = np.max(largest, axis=0)
    return columns


def _rerouted(analysis: Analysis) -> Columns:
    """What flips when every question token is cut, beside the knockout as its control, paired.

    `question_only`, the share that flips so and not under the knockout: what the exact tokens leave
    to others, or finders miss; `question_more`, less those that flip under the knockout alone. The
    probes are held fixed.
    """
    effects = analysis.readout.effects
    if not {"question", "knockout"} <= effects.keys():
        return {}
    question, knockout = effects["question"], effects["knockout"]
    members = question.measured & knockout.measured
    every, exact = question.flip[0], knockout.flip[0]
    columns: Columns = {}
    for name, values in (
        ("question_only", 1.0 * (every & ~exact)),
        ("question_more", 1.0 * every - exact),
    ):
        among = np.broadcast_to(members, values.shape)
        columns[name] = intervals.mean_members(values[None], among[None])
        columns |= intervals.ends(name, analysis.drawn.means(values, among), analysis.level)
    return columns


def _share(effects: Effects) -> np.ndarray:
    """Share of flips by layer among the samples that were measured; draws averaged."""
    some = effects.measured
    return ratio(effects.flip[..., some].mean(0).sum(-1), np.array(some.sum()))


def _null(readout: Readout, seed: int) -> Columns:
    """The share of flips that chance gives, with Δlogit dealt out among the samples.

    Means over `DEALS` permutations, which the seed decides.
    """
    if "knockout" not in readout.effects:
        return {}
    generator, n = np.random.default_rng(seed), readout.clean.shape[1]
    permutations = np.stack([generator.permutation(n) for _ in range(DEALS)])
    shares = []
    moved = readout.effects["knockout"].delta_logit[0]
    for clean, delta_logit in zip(readout.clean, moved, strict=True):  # of each layer
        wrong = clean > 0
        s = clean + np.where(wrong, 1.0, -1.0) * delta_logit[permutations]  # [permutations, n]
        shares.append(((s > 0) != wrong).mean())
    return {"null_share": shares}


def density(analysis: Analysis) -> pd.DataFrame:
    """How Δlogit is spread over the samples, at the layer of best clean AUC.

    For the knockout and for the random control (all draws together), see `density.density`, at 101
    points over what both span between their 1 and 99 % quantiles. Δlogit counts towards the class
    predicted on clean. Two humps are no two mechanisms.
    A row for each condition measured and point: `DENSITY`, per unit of `x`.
    """
    readout = analysis.readout
    layer = int(np.argmax(np.nan_to_num(readout.auc)))
    measured = [name for name in ("knockout", "random") if name in readout.effects]
    if not measured:
        return pd.DataFrame(columns=list(DENSITY))
    moved = {name: readout.effects[name].delta_logit[:, layer].ravel() for name in measured}
    low, high = np.quantile(np.concatenate([*moved.values()]), [0.01, 0.99])
    x = np.linspace(low, high, 101) if low < high else np.linspace(low - 1, high + 1, 101)
    frames = []
    for name, values in moved.items():
        columns = readout.key | {"condition": name, "layer": layer, "x": x}
        columns["density"] = density_at(values, x)
        frames.append(pd.DataFrame(columns)[list(DENSITY)])
    return pd.concat(frames, ignore_index=True)

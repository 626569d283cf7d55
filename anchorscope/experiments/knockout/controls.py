"""Controls: what else than the question could move a curve, layer by layer."""

import numpy as np
import pandas as pd
from scipy.stats import norm

from anchorscope.experiments import strength
from anchorscope.experiments.analysis import Analysis, Columns
from anchorscope.passes import interventions
from anchorscope.probes import intervals, samples
from anchorscope.probes.intervals import auc, mean_known, ratio
from anchorscope.probes.samples import Effects, Readout, sigmoid

CONTROLS = (
    "site", "position", "layer", "n", "n_clusters", "share_wrong", "headline", "probe_auc",
    "auc_low", "auc_high", "ece", "c", "t", "auc_knockout", "auc_refit", "auc_refit_low",
    "auc_refit_high", "auc_random", "auc_question", "flip_share", "random_flip_share",
    "offset_flip_share", "random_offset_flip_share", "question_flip_share",
    "replicate_flip_share", "null_share", "null_delta_p", "delta_p_q", "random_delta_p_q",
    "noise_floor", "auc_shuffled", "auc_shuffled_low", "auc_shuffled_high", "signal", "floor",
    "floor_auc", "gain", "gain_low", "gain_high", "cell_signal", "cell_auc", "cell_low",
    "cell_high", "cell_floor", "cell_floor_auc", "cell_gain", "cell_gain_low", "cell_gain_high",
    "answer_auc", "question_auc", "response_auc", "text_auc", "prompt_end_auc", "prompt_end_low",
    "prompt_end_high", "added_auc", "added_low", "added_high", "n_repeats",
    "repeats_flip_share",
)  # fmt: skip
FURTHER = ("auc_{}", "{}_flip_share", "{}_offset_flip_share")
"""Columns of each cut and control that `CONTROLS` does not name."""
CELL = {"probe_auc": "cell_auc", "auc_low": "cell_low", "auc_high": "cell_high"}
"""Columns of a strength that a cell's name otherwise than with `cell_` before them."""
DENSITY = ("site", "position", "condition", "layer", "x", "density")
BINS = 10


def columns() -> tuple[str, ...]:
    """The columns of the table: `CONTROLS`, and `FURTHER` of the other registered conditions."""
    further = [
        column.format(one.name)
        for one in interventions.of_role("cut", "control")
        if f"auc_{one.name}" not in CONTROLS
        for column in FURTHER
    ]
    return (*CONTROLS, *further)


def controls(
    analysis: Analysis, scores: pd.DataFrame, answers: pd.DataFrame, *, balanced: bool
) -> pd.DataFrame:
    """What flips by itself, and what the probes know, of one read-out.

    A row for each layer with these `columns`, see docs/products.md; NaN where not measured. Shares
    are fractions of the samples that the condition measured, ΔP percentage points; random
    draws are averaged.

    Args:
        analysis: its seed is also that of the permutations, and must be that of the run (for the
            shuffled labels).
        scores: the table of `anchorscope.probes.scores.score`, all read-outs and probes.
        answers: in the order in which they were scored (for the shuffled labels alone).
        balanced: whether s is at balanced classes (`scoring: calibrated`, `prior: balanced`).

    Raises:
        AnchorscopeError: scores, answers and floors are not of the same samples.
    """
    readout, whole = analysis.readout, analysis.cell_strength
    layers = np.arange(len(readout.clean))
    values: Columns = {
        **dict.fromkeys(columns(), np.nan),
        **readout.key,
        "layer": layers,
        "n": len(analysis.z),
        "n_clusters": analysis.drawn.weights.shape[1],
        "share_wrong": analysis.z.mean(),
        "headline": layers == readout.headline,
        **analysis.strength,
        **{CELL.get(name, f"cell_{name}"): values[0] for name, values in whole.items()},
        **_fitted(analysis, scores, balanced),
        **_quality(analysis, answers),
        **_before_the_answer(analysis, scores),
        **_flips(analysis),
        **_null(readout, analysis.drawn.seed),
    }
    return pd.DataFrame(values)[list(columns())]


def _clean(scores: pd.DataFrame, readout: str) -> pd.DataFrame:
    """The scores of the clean probe on the clean pass."""
    rows = scores[(scores["readout"] == readout) & (scores["condition"] == "clean")]
    return rows[rows["probe"] == "clean"]


def _fitted(analysis: Analysis, scores: pd.DataFrame, balanced: bool) -> Columns:
    """C and slope (medians over folds), and calibration error."""
    readout, z, fold = analysis.readout, analysis.z, analysis.readout.fold
    rows = _clean(scores, readout.name)
    by_fold = rows.groupby(["layer", "fold"])[["c", "t"]].first().groupby("layer").median()
    medians = {name: by_fold[name].to_numpy(dtype=np.float64) for name in ("c", "t")}
    prior: np.ndarray | float = 0.0
    if balanced:  # the scores have been freed of the log odds outside each sample's fold
        share = np.array([z[fold != k].mean() for k in range(fold.max() + 1)])[fold]
        prior = np.log(share / (1 - share))
    return medians | {"ece": [ece(sigmoid(s + prior), z) for s in readout.clean]}


def ece(p: np.ndarray, z: np.ndarray) -> float:
    """Expected calibration error of p = P(z = 1) [n]: mean |share of z = 1 − mean p| over bins.

    Ten bins of p of equal width, by their size (Naeini et al., 2015, for one class).
    """
    bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, weights=z - p, minlength=BINS)
    return float(np.abs(gaps).sum() / len(p))


def _quality(analysis: Analysis, answers: pd.DataFrame) -> Columns:
    """What floors and probes know: the clean probe under each condition, and probes fitted anew."""
    readout, z = analysis.readout, analysis.z
    found: Columns = {}
    if analysis.floors is not None:
        known = strength.scores(analysis.floors, analysis.answers)
        found |= {f"{name}_auc": auc(s, z) for name, s in known.items()}
    for condition, effects in readout.effects.items():
        if interventions.REGISTRY[condition].role in ("cut", "control"):
            some = effects.measured
            each = [[auc(layer[some], z[some]) for layer in draw] for draw in effects.s]
            found[f"auc_{condition}"] = np.mean(each, axis=0)
    for key in {("refit", "knockout"), ("shuffled", "clean")} & readout.others.keys():
        s, name = readout.others[key], f"auc_{key[0]}"
        learned = _shuffled(answers, analysis) if key[0] == "shuffled" else z
        found[name] = [auc(layer, learned) for layer in s]
        found |= _ends(name, analysis.drawn.aucs(s, learned), analysis.level)
    return found


def _ends(name: str, replicates: np.ndarray, level: float) -> Columns:
    low, high = intervals.percentile(replicates, level)
    return {f"{name}_low": low, f"{name}_high": high}


def _shuffled(answers: pd.DataFrame, analysis: Analysis) -> np.ndarray:
    """The shuffled labels of the samples, [n]: dealt out in the order of scoring."""
    scored = samples.kept(answers)
    labels = scored["label"].to_numpy(dtype=np.int64)
    dealt = scored.assign(dealt=samples.shuffled(labels, analysis.drawn.seed))
    return samples.aligned(dealt, analysis.answers, "dealt", "answers").astype(np.int64)


def _before_the_answer(analysis: Analysis, scores: pd.DataFrame) -> Columns:
    """AUC at the same site before the answer is read, and what reading it adds, paired."""
    readout, drawn, level = analysis.readout, analysis.drawn, analysis.level
    rows = _clean(scores, f"{readout.site}/prompt_end")
    if rows.empty or readout.position == "prompt_end":
        return {}
    before = next(samples.readouts(rows, analysis.answers))
    earlier, now = (drawn.aucs(one.clean, analysis.z) for one in (before, readout))
    found: Columns = {"prompt_end_auc": before.auc, "added_auc": readout.auc - before.auc}
    return found | _ends("prompt_end", earlier, level) | _ends("added", now - earlier, level)


def _flips(analysis: Analysis) -> Columns:
    readout, answers, effects = analysis.readout, analysis.answers, analysis.readout.effects
    found: Columns = {}
    for cut in interventions.of_role("cut", "control"):
        prefix = "" if cut.name == "knockout" else f"{cut.name}_"
        if one := effects.get(cut.name):
            found[f"{prefix}flip_share"] = _share(one)
            found[f"{prefix}delta_p_q"] = intervals.mean_members(one.delta_p, one.flip)
        if ("offset", cut.name) in readout.others:
            flips = (readout.others["offset", cut.name] > 0) != (readout.clean > 0)
            found[f"{prefix}offset_flip_share"] = flips.mean(-1)
    if "knockout" in readout.replicate:
        found["replicate_flip_share"] = _share(readout.replicate["knockout"])
    noise = [one.name for one in interventions.of_role("noise") if one.name in effects]
    if noise:
        moved = [np.abs(effects[name].delta_p).max((0, 2)) for name in noise]
        found["noise_floor"] = np.max(moved, axis=0)
    if "repeats_subject" in answers:
        repeats = answers["repeats_subject"].to_numpy(dtype=bool)
        found["n_repeats"] = int(repeats.sum())
        if "knockout" in effects:
            found["repeats_flip_share"] = _share(effects["knockout"], repeats)
    return found


def _share(effects: Effects, among: np.ndarray | bool = True) -> np.ndarray:
    """Share of flips by layer among some of the samples that were measured; draws averaged."""
    some = effects.measured & among
    return ratio(effects.flip[..., some].mean(0).sum(-1), np.array(some.sum()))


def _null(readout: Readout, seed: int) -> Columns:
    """Flips, and mean ΔP among them, when Δlogit is dealt out among the samples, 100 times."""
    if "knockout" not in readout.effects:
        return {}
    generator, n = np.random.default_rng(seed), readout.clean.shape[1]
    dealt = np.stack([generator.permutation(n) for _ in range(100)])
    moved = readout.effects["knockout"].delta_logit[0]
    shares, depths = [], []
    for clean, delta_logit in zip(readout.clean, moved, strict=True):
        sign = np.where(clean > 0, 1.0, -1.0)
        s = clean + sign * delta_logit[dealt]
        flip = (s > 0) != (clean > 0)
        points = 100 * sign * (sigmoid(s) - sigmoid(clean))
        shares.append(flip.mean())
        depths.append(float(mean_known(ratio((flip * points).sum(-1), flip.sum(-1)), axis=0)))
    return {"null_share": shares, "null_delta_p": depths}


def density(analysis: Analysis) -> pd.DataFrame:
    """How Δlogit is spread over the samples, at the layer of best clean AUC.

    A Gaussian kernel of Silverman's width (1986, eq. 3.31), for the knockout and for the random
    control (all draws together), at 101 points over what both span between their 1 and 99 %
    quantiles. Δlogit counts towards the class predicted on clean. Two humps are no two mechanisms.
    A row for each condition measured and point: `DENSITY`, per unit of `x`.
    """
    readout = analysis.readout
    layer = int(np.argmax(np.nan_to_num(readout.auc)))
    run = [name for name in ("knockout", "random") if name in readout.effects]
    found = {name: readout.effects[name].delta_logit[:, layer].ravel() for name in run}
    if not found:
        return pd.DataFrame(columns=list(DENSITY))
    low, high = np.quantile(np.concatenate([*found.values()]), [0.01, 0.99])
    x = np.linspace(low, high, 101) if low < high else np.linspace(low - 1, high + 1, 101)
    frames = []
    for name, values in found.items():
        quartiles = np.quantile(values, [0.25, 0.75])
        spread = min(values.std(), np.ptp(quartiles) / 1.34) or values.std()
        # narrower than two points lie apart, a kernel would make a spike and no line
        width = max(0.9 * spread * len(values) ** -0.2, x[1] - x[0])
        columns = readout.key | {"condition": name, "layer": layer, "x": x}
        columns["density"] = norm.pdf(x[:, None], values, width).mean(1)
        frames.append(pd.DataFrame(columns)[list(DENSITY)])
    return pd.concat(frames, ignore_index=True)

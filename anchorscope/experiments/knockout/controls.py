"""Controls: what else than the question could move a curve, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from anchorscope.experiments.knockout import strength
from anchorscope.probes import intervals, samples
from anchorscope.probes.intervals import Bootstrap, auc, mean_known, ratio
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
DENSITY = ("site", "position", "condition", "layer", "x", "density")
DENSITY_CONDITIONS = ("knockout", "random")
SHUFFLES = 100
BINS = 10
POINTS = 101


@dataclass(frozen=True)
class _Cell:
    """What the rows of all read-outs have in common; samples in the order of `in_order`.

    Attributes:
        answers: the samples.
        z: labels, [n].
        shuffled: the labels that the probes `shuffled` learned, [n].
        floors: the table of `anchorscope.probes.floors.floors`; None: not known.
        strengths: of the read-outs; None: not known.
        drawn: the bootstrap.
        level: of the intervals.
        seed: of the permutations.
    """

    answers: pd.DataFrame
    z: np.ndarray
    shuffled: np.ndarray
    floors: pd.DataFrame | None
    strengths: strength.Found | None
    drawn: Bootstrap
    level: float
    seed: int

    def interval(self, s: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the AUC of s [layers, n]."""
        return intervals.percentile(self.drawn.aucs(s, z), self.level)


def controls(
    scores: pd.DataFrame,
    floors: pd.DataFrame | None,
    answers: pd.DataFrame,
    *,
    before: pd.DataFrame | None = None,
    strengths: strength.Found | None = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    balanced: bool = True,
) -> pd.DataFrame:
    """What flips by itself, and what the probes know, of one cell.

    Args:
        scores: the table of `anchorscope.probes.scores.score`, all its probes.
        floors: the table of `anchorscope.probes.floors.floors`; None leaves them out.
        answers: as for `curve.curve`, and where known `repeats_subject`. Their order is that
            in which they were scored (for the shuffled labels alone: nothing else depends on it).
        before: `before_the_answer` of all read-outs' scores.
        strengths, draws, level: see `curve.curve`.
        seed: of the bootstrap, of the permutations, and of the run (the shuffled labels).
        balanced: whether s is at balanced classes (`scoring: calibrated`, `prior: balanced`).

    Returns:
        A row for each read-out and layer with the columns `CONTROLS`; NaN where not measured.
        Shares are fractions of the samples that the condition measured, ΔP percentage points;
        random draws are averaged.
        `headline`: the headline layer. `ece`: expected calibration error of p at natural prior,
        10 bins of equal width. `c`, `t`: medians over the folds. `auc_knockout`, `auc_random`,
        `auc_question`: the clean probe under the condition; `auc_refit`: the one that learned
        knocked-out activations. `flip_share`, `delta_p_q`: of the knockout and its own flips;
        `offset_…`: after its offset is refitted; `replicate_…`: behind the second prompt, against
        its own clean pass. `null_share`, `null_delta_p`: flips, and mean ΔP among them, when the
        knockout's Δlogit (towards the class predicted on clean) is dealt out among the samples at
        random, mean of 100 times. `noise_floor`: largest |ΔP| of noop. `auc_shuffled`: the probe
        that learned shuffled labels, against these. `n_repeats`, `repeats_flip_share`: answers
        that repeat the subject, and the knockout's flips among them. `signal` … `gain_high`: see
        `strength.Strength`, by layer; `cell_…`: of the read-out as a whole, each
        sample scored at the layer that its own outer fold chose. `answer_auc` … `text_auc`: of
        the floors. `prompt_end_…`: AUC at the same site and layer before the answer is read;
        `added_…`: the AUC above it, paired.

    Raises:
        AnchorscopeError: scores, answers and floors are not of the same samples.
    """
    ordered = samples.in_order(answers)
    drawn = samples.bootstrap(ordered, draws, seed)
    z = ordered["label"].to_numpy(dtype=np.int64)
    dealt = _shuffled(answers, ordered, seed)
    cell = _Cell(ordered, z, dealt, floors, strengths, drawn, level, seed)
    common = _sizes(cell) | _floors(cell)
    fitted = _fitted(scores, cell, balanced)
    at_end = [] if before is None else samples.readouts(before, ordered)
    beside = {one.site: one for one in at_end}
    frames = []
    for readout in samples.readouts(scores, ordered):
        columns = readout.key | common | fitted[readout.site, readout.position]
        columns |= _strength(readout, cell) | _added(readout, beside.get(readout.site), cell)
        columns |= _quality(readout, cell) | _flips(readout, cell) | _null(readout, cell)
        layers = np.arange(len(readout.auc))
        frames.append(pd.DataFrame({"layer": layers, **columns})[list(CONTROLS)])
    return pd.concat(frames or [pd.DataFrame(columns=list(CONTROLS))], ignore_index=True)


def _shuffled(answers: pd.DataFrame, ordered: pd.DataFrame, seed: int) -> np.ndarray:
    """The shuffled labels of the ordered samples, [n]: dealt out in the order of scoring."""
    scored = samples.kept(answers)
    dealt = samples.shuffled(scored["label"].to_numpy(dtype=np.int64), seed)
    return samples.aligned(scored.assign(dealt=dealt), ordered, "dealt", "answers").astype(np.int64)


def _sizes(cell: _Cell) -> dict[str, object]:
    return {
        "n": len(cell.z),
        "n_clusters": cell.drawn.weights.shape[1],
        "share_wrong": cell.z.mean(),
    }


def _floors(cell: _Cell) -> dict[str, object]:
    """AUC of each floor."""
    known = {} if cell.floors is None else strength.scores(cell.floors, cell.answers)
    return {
        f"{name}_auc": auc(known[name], cell.z) if name in known else np.nan
        for name in ("answer", "question", "response", "text")
    }


def _strength(readout: Readout, cell: _Cell) -> dict[str, object]:
    """The probe beside the hardest floor, by layer and as a whole."""
    given = (cell.answers, cell.floors, cell.drawn, cell.level)
    at, whole = strength.look_up(cell.strengths, readout, *given)
    found: dict[str, object] = {"probe_auc": at.auc, "auc_low": at.low, "auc_high": at.high}
    for name in ("signal", "floor", "floor_auc", "gain", "gain_low", "gain_high"):
        found |= {name: getattr(at, name), f"cell_{name}": getattr(whole, name)[0]}
    return found | {f"cell_{name}": getattr(whole, name)[0] for name in ("auc", "low", "high")}


def before_the_answer(scores: pd.DataFrame) -> pd.DataFrame:
    """The clean scores at `prompt_end`, of every site."""
    at_end = scores["readout"].astype(str).str.endswith("/prompt_end")
    return scores[at_end & (scores["condition"] == "clean") & (scores["probe"] == "clean")]


def _added(readout: Readout, before: Readout | None, cell: _Cell) -> dict[str, object]:
    """What reading the answer adds to what the probe knows at the prompt's end."""
    if before is None or readout.position == "prompt_end":
        ends = ("auc", "low", "high")
        return {f"{name}_{end}": np.nan for name in ("prompt_end", "added") for end in ends}
    return dict(strength.added(readout, before, cell.z, cell.drawn, cell.level))


def _fitted(
    scores: pd.DataFrame, cell: _Cell, balanced: bool
) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """Read-out → C, slope (medians over folds) and calibration error of each layer, [layers]."""
    rows = scores[scores["condition"] == "clean"]
    rows = rows[rows["probe"] == "clean"] if "probe" in rows else rows
    label = pd.Series(cell.z, cell.answers["id"].astype(str))
    found = {}
    for name, part in rows.groupby("readout", observed=True):
        site, position = str(name).split("/")
        z = label.reindex(part["id"].astype(str)).to_numpy(dtype=np.float64)
        fold = part["fold"].to_numpy()
        logit = part["s"].to_numpy(dtype=np.float64)
        logit = logit + (_prior_logit(fold, z) if balanced else 0.0)
        by_fold = part.groupby(["layer", "fold"])[["c", "t"]].first().groupby("layer").median()
        layer = part["layer"].to_numpy()
        errors = [ece(sigmoid(logit[layer == k]), z[layer == k]) for k in by_fold.index]
        found[site, position] = {
            **{column: by_fold[column].to_numpy(dtype=np.float64) for column in ("c", "t")},
            "ece": np.array(errors),
        }
    return found


def _prior_logit(fold: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Log odds of z = 1 outside each row's fold: what balanced scores have been freed of."""
    shift = np.empty(len(z))
    for k in np.unique(fold):
        share = z[fold != k].mean()
        shift[fold == k] = np.log(share / (1 - share))
    return shift


def ece(p: np.ndarray, z: np.ndarray) -> float:
    """Expected calibration error: mean |share of z = 1 − mean p| over bins of p, by their size.

    Ten bins of equal width (Naeini et al., 2015, for the probability of one class).

    Args:
        p: probability that z = 1, [n].
        z: labels, [n].
    """
    order = np.lexsort((z, p))  # equal rows in any order: the sums do not depend on it
    p, z = p[order], z[order]
    bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, weights=z - p, minlength=BINS)
    return float(np.abs(gaps).sum() / len(p))


def _quality(readout: Readout, cell: _Cell) -> dict[str, object]:
    """What the probes know: clean, under each condition, and fitted anew."""
    layers = len(readout.auc)
    found: dict[str, object] = {
        "headline": np.arange(layers) == readout.headline,
    }
    for condition in ("knockout", "random", "question"):
        effects = readout.effects.get(condition)
        found[f"auc_{condition}"] = np.nan if effects is None else _auc_under(effects, cell.z)
    for name, key, z in (
        ("auc_refit", ("refit", "knockout"), cell.z),
        ("auc_shuffled", ("shuffled", "clean"), cell.shuffled),
    ):
        s = readout.others.get(key)
        low = high = at = np.full(layers, np.nan)
        if s is not None:
            at, (low, high) = np.array([auc(layer, z) for layer in s]), cell.interval(s, z)
        found |= {name: at, f"{name}_low": low, f"{name}_high": high}
    return found


def _auc_under(effects: Effects, z: np.ndarray) -> np.ndarray:
    """AUC of the clean probe under a condition, [layers]; draws averaged."""
    some = effects.measured
    by_draw = [[auc(layer[some], z[some]) for layer in draw] for draw in effects.s]
    return np.mean(by_draw, axis=0)


def _flips(readout: Readout, cell: _Cell) -> dict[str, object]:
    """What flips, and how deep."""
    effects, blank = readout.effects, np.full(len(readout.auc), np.nan)
    everyone = np.ones(len(cell.z), dtype=bool)
    repeats = np.zeros(len(cell.z), dtype=bool)
    if "repeats_subject" in cell.answers:
        repeats = cell.answers["repeats_subject"].to_numpy(dtype=bool)
    knockout, random = effects.get("knockout"), effects.get("random")
    noop = effects.get("noop")
    return {
        "flip_share": _share(knockout, everyone, blank),
        "random_flip_share": _share(random, everyone, blank),
        "question_flip_share": _share(effects.get("question"), everyone, blank),
        "replicate_flip_share": _share(readout.replicate.get("knockout"), everyone, blank),
        "offset_flip_share": _offset_share(readout, "knockout", blank),
        "random_offset_flip_share": _offset_share(readout, "random", blank),
        "delta_p_q": _depth(knockout, blank),
        "random_delta_p_q": _depth(random, blank),
        "noise_floor": blank if noop is None else np.abs(noop.delta_p).max((0, 2)),
        "n_repeats": int(repeats.sum()) if "repeats_subject" in cell.answers else np.nan,
        "repeats_flip_share": _share(knockout, repeats, blank),
    }


def _share(effects: Effects | None, among: np.ndarray, blank: np.ndarray) -> np.ndarray:
    """Share of flips by layer among some of the samples that were measured; draws averaged."""
    if effects is None:
        return blank
    some = effects.measured & among
    return ratio(effects.flip[..., some].mean(0).sum(-1), np.array(some.sum()))


def _depth(effects: Effects | None, blank: np.ndarray) -> np.ndarray:
    """Mean ΔP of the flips by layer, for each draw first."""
    if effects is None:
        return blank
    sums = np.where(effects.flip, effects.delta_p, 0.0).sum(-1)
    return mean_known(ratio(sums, effects.flip.sum(-1)), axis=0)


def _offset_share(readout: Readout, condition: str, blank: np.ndarray) -> np.ndarray:
    s = readout.others.get(("offset", condition))
    return blank if s is None else ((s > 0) != (readout.clean > 0)).mean(-1)


def _null(readout: Readout, cell: _Cell) -> dict[str, object]:
    """Flips, and mean ΔP among them, when Δlogit is dealt out among the samples, [layers]."""
    if "knockout" not in readout.effects:
        return dict.fromkeys(("null_share", "null_delta_p"), np.nan)
    generator = np.random.default_rng(cell.seed)
    dealt = np.stack([generator.permutation(len(cell.z)) for _ in range(SHUFFLES)])
    moved = readout.effects["knockout"].delta_logit[0]
    rows = [_null_layer(s, d[dealt]) for s, d in zip(readout.clean, moved, strict=True)]
    share, points = np.array(rows).T
    return {"null_share": share, "null_delta_p": points}


def _null_layer(clean: np.ndarray, delta_logit: np.ndarray) -> tuple[float, float]:
    """Share of flips and mean ΔP among them; `delta_logit` [times, n]."""
    wrong = clean > 0
    sign = np.where(wrong, 1.0, -1.0)
    s = clean + sign * delta_logit
    flip = (s > 0) != wrong
    points = 100 * sign * (sigmoid(s) - sigmoid(clean))
    depth = ratio(np.where(flip, points, 0.0).sum(-1), flip.sum(-1))
    return float(flip.mean()), float(mean_known(depth, axis=0))


def density(scores: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """How Δlogit is spread over the samples, at the layer of best clean AUC.

    A Gaussian kernel of Silverman's width (1986, eq. 3.31), for the knockout and for the random
    control (all draws together), at 101 points over what both span between their 1 and 99 %
    quantiles. Δlogit counts towards the class predicted on clean. Two humps are no two mechanisms.

    Args:
        scores, answers: see `curve.curve`.

    Returns:
        A row for each read-out, condition and point, with the columns `DENSITY`; `density` is
        per unit of `x`. No rows where neither condition was measured.

    Raises:
        AnchorscopeError: scores and answers are not of the same samples.
    """
    ordered = samples.in_order(answers)
    records: list[pd.DataFrame] = []
    for readout in samples.readouts(scores, ordered):
        layer = int(np.argmax(np.nan_to_num(readout.auc)))
        found = {
            name: readout.effects[name].delta_logit[:, layer].ravel()
            for name in DENSITY_CONDITIONS
            if name in readout.effects
        }
        if not found:
            continue
        x = _span(np.concatenate(list(found.values())))
        for name, values in found.items():
            fixed = {**readout.key, "condition": name, "layer": layer, "x": x}
            records.append(pd.DataFrame(fixed | {"density": kernel_density(values, x)}))
    if not records:
        return pd.DataFrame(columns=list(DENSITY))
    return pd.concat(records, ignore_index=True)[list(DENSITY)]


def _span(values: np.ndarray) -> np.ndarray:
    low, high = np.quantile(values, [0.01, 0.99])
    if high == low:
        low, high = low - 1, high + 1
    return np.linspace(low, high, POINTS)


def kernel_density(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Density at `x` [points] of values [n]; a kernel is at least as wide as two points lie apart.

    Values that are all but equal would else make a spike between two points, and no line.
    """
    low, high = np.quantile(values, [0.25, 0.75])
    spread = min(values.std(), (high - low) / 1.34) or values.std()
    width = max(0.9 * spread * len(values) ** -0.2, x[1] - x[0])
    t = (x[:, None] - values) / width
    return np.exp(-0.5 * t**2).mean(1) / (width * np.sqrt(2 * np.pi))

"""Refits: how much wider intervals are when the probes are fitted anew in every bootstrap draw.

The intervals of a curve hold its probes fixed: a draw changes who is averaged, not who was learned
from. Here both change, at a few layers and for a few draws; the ratio of the two standard
deviations is the inflation that the other intervals lack.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from anchorscope.passes import features
from anchorscope.probes import fitting, intervals, samples, scores
from anchorscope.probes.intervals import Bootstrap
from anchorscope.probes.samples import sigmoid
from anchorscope.storage.errors import AnchorscopeError

COLUMNS = (
    "site", "position", "layer", "quantity", "estimate", "sd_fixed", "sd_refit", "inflation",
    "draws",
)  # fmt: skip
QUANTITIES = ("share", "delta_p_q", "delta_p_all", "probe_auc")
PROBLEMS_AT_ONCE = 250


def refit(
    read: scores.Activations,
    answers: pd.DataFrame,
    readout: str,
    settings: fitting.Settings,
    fitted: fitting.Fitted,
    *,
    draws: int,
    device: str | torch.device = "cpu",
) -> pd.DataFrame:
    """Bootstrap one read-out's quantities with the probes held fixed, and fitted anew.

    Clusters of samples are drawn as for every interval. In a refit, a sample drawn twice is
    learned from twice; folds and penalties stay those of all samples, slope, offset and shift
    are found anew, and the drawn samples are predicted out of fold.

    Args:
        read, answers: as of `scores.score`; `clean` and `knockout` are read.
        readout: such as `mlp/final`.
        settings, fitted: of the clean pass's probes, of all layers; their seed is also that of the
            draws.
        draws: bootstrap draws. One that leaves some probe a single class is not used.
        device: where probes are fitted.

    Returns:
        A row for each quantity at one and two thirds of the depth and at the headline layer, with
        the columns `COLUMNS`: `share` of samples that flip under knockout (a fraction), their mean
        ΔP `delta_p_q` and that of all samples `delta_p_all` (percentage points), and the clean
        `probe_auc`. `estimate` is of all samples; `draws` counts those in which the quantity exists
        both ways; inflation is sd_refit / sd_fixed, NaN where nothing varies.

    Raises:
        AnchorscopeError: a probe cannot be fitted, or no draw is usable.
    """
    plan = fitting.design(samples.kept(answers), settings, readout)
    passes = [scores.of_everyone(read, which, plan) for which in (scores.CLEAN, ("knockout", 0))]
    layers = _layers(passes[0], fitted, plan)
    passes, fitted = [features.at(x, layers) for x in passes], fitted.at(layers)
    drawn = _draw(answers, draws, plan)
    once = replace(drawn, weights=np.ones_like(drawn.weights[:1]))
    own = [fitting.out_of_fold(fitted, x, plan.fold) for x in passes]
    anew = zip(drawn.weights, _again(passes, plan, fitted.c, drawn, device), strict=True)
    refitted = [quantities(s, plan.z, replace(drawn, weights=one[None])) for one, s in anew]
    estimate, fixed = (quantities(own, plan.z, draw) for draw in (once, drawn))
    where = pd.MultiIndex.from_product([layers, QUANTITIES], names=["layer", "quantity"])
    both = (pd.DataFrame(one.reshape(len(one), -1)) for one in (fixed, np.concatenate(refitted)))
    found = _spreads(*both).assign(estimate=estimate.ravel()).set_index(where).reset_index()
    found["site"], found["position"] = readout.split("/")
    return found[list(COLUMNS)]


def _spreads(fixed: pd.DataFrame, refitted: pd.DataFrame) -> pd.DataFrame:
    """Standard deviations over the draws (rows) in which a quantity (column) exists both ways."""
    known = fixed.notna() & refitted.notna()
    found = pd.DataFrame({"draws": known.sum()})
    found["sd_fixed"], found["sd_refit"] = fixed.where(known).std(), refitted.where(known).std()
    varies = found["sd_fixed"].where(found["sd_fixed"] > 0)
    return found.assign(inflation=found["sd_refit"] / varies)


def _again(
    passes: Sequence[features.Features],
    plan: fitting.Design,
    c: np.ndarray,
    drawn: Bootstrap,
    device: str | torch.device,
) -> Iterator[list[np.ndarray]]:
    """Scores on the passes by the probes of each draw, [layers, n]; a few draws at once."""
    weights = drawn.weights[:, drawn.clusters].astype(np.int64)
    at_once = max(1, PROBLEMS_AT_ONCE // len(fitting.training_rows(plan)[0]))
    for some in np.split(weights, range(at_once, len(weights), at_once)):
        again = fitting.fit(passes[0], plan, c, some, device=device)
        where = plan.of_draws(len(some))
        moved = [fitting.out_of_fold(again, x, where) for x in passes]
        yield from ([s[:, number] for s in moved] for number in range(len(some)))


def _layers(clean: features.Features, fitted: fitting.Fitted, plan: fitting.Design) -> list[int]:
    """Those at one and two thirds of the depth, and the headline layer."""
    inner, depth = fitted.inner_auc, len(clean)
    if np.isnan(inner).any():
        s = fitting.out_of_fold(fitted, clean, plan.fold)
        own = samples.deepest_layer(np.array([intervals.auc(layer, plan.z) for layer in s]))
    else:
        own = samples.median_layer(samples.layer_of_fold(inner))
    return sorted({depth // 3, 2 * depth // 3, own})


def _draw(answers: pd.DataFrame, draws: int, plan: fitting.Design) -> Bootstrap:
    """The draws that leave every probe both classes; the table tells how many these are."""
    drawn = samples.bootstrap(samples.kept(answers), draws, plan.settings.seed)
    usable = fitting.usable(plan, drawn.weights[:, drawn.clusters].astype(np.int64))
    if not usable.any():
        what = f"none of {len(usable)} bootstrap draws leaves every fold both classes"
        do = "sample more questions: one class is too rare to be learned from again and again"
        raise AnchorscopeError(what, f"refits of {plan.where}", do, see="too-few-samples")
    return replace(drawn, weights=drawn.weights[usable])


def quantities(passes: Sequence[np.ndarray], z: np.ndarray, drawn: Bootstrap) -> np.ndarray:
    """`QUANTITIES` of scores on the two passes, each [layers, n], in each draw.

    float64 [draws, layers, quantities]; NaN where nothing flips, or z [n] is of one class.
    """
    clean, cut = passes
    wrong = clean > 0
    flip = (cut > 0) != wrong
    delta_p = 100 * np.where(wrong, 1, -1) * (sigmoid(cut) - sigmoid(clean))
    everyone = np.ones_like(flip)
    means = [(flip, everyone), (delta_p, flip), (delta_p, everyone)]
    found = [drawn.means(values, members) for values, members in means]
    return np.stack([*found, drawn.aucs(clean, z)], axis=-1)

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

from anchorscope.config.readouts import Pair
from anchorscope.passes import features
from anchorscope.probes import fitting, intervals, samples, scores
from anchorscope.probes.intervals import Bootstrap
from anchorscope.probes.samples import sigmoid
from anchorscope.probes.stored import Stored
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
    probes: Stored,
    *,
    draws: int,
    device: str | torch.device = "cpu",
) -> pd.DataFrame:
    """Bootstrap one read-out's quantities with the probes held fixed, and fitted anew.

    Clusters of samples are drawn as for every interval. In a refit, a sample drawn twice is
    learned from twice; folds and penalties stay those of the stored probes, slope, offset and shift
    are found anew, and the drawn samples are predicted out of fold.

    Args:
        read, answers: as of `scores.score`; `clean` and `knockout` are read.
        readout: such as `mlp/final`.
        settings, probes: the stored probes, and how they were fitted; their seed is also that of
            the draws.
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
    design = probes.design(samples.kept(answers), settings, f"read-out {readout}")
    conditions = (scores.CLEAN, ("knockout", 0))
    passes = [scores.of_everyone(read, one, readout, design) for one in conditions]
    layers = _layers(passes[0], probes.fitted[readout], design)
    fitted = probes.fitted[readout].at(layers)
    states = [features.at(x, layers) for x in passes]
    drawn = _draw(design.in_order(samples.kept(answers)), draws, design)
    everyone = replace(drawn, weights=np.ones_like(drawn.weights[:1]))
    s = [fitting.out_of_fold(fitted, x, design.fold) for x in states]
    refitted = [
        quantities(again, design.z, replace(drawn, weights=weights[None]))
        for weights, again in zip(
            drawn.weights, _again(states, design, fitted.c, drawn, device), strict=True
        )
    ]
    where = pd.MultiIndex.from_product([layers, QUANTITIES], names=["layer", "quantity"])
    table = _spreads(quantities(s, design.z, drawn), np.concatenate(refitted))
    table["estimate"] = quantities(s, design.z, everyone).ravel()
    table = table.set_index(where).reset_index()
    return table.assign(**Pair.of(readout)._asdict())[list(COLUMNS)]


def _spreads(fixed: np.ndarray, refitted: np.ndarray) -> pd.DataFrame:
    """Standard deviations over the draws in which a quantity exists both ways.

    Of quantities [draws, layers, quantities]; a row for each layer and quantity.
    """
    held, anew = (pd.DataFrame(each.reshape(len(each), -1)) for each in (fixed, refitted))
    both = held.notna() & anew.notna()
    table = pd.DataFrame({"draws": both.sum()})
    table["sd_fixed"], table["sd_refit"] = held.where(both).std(), anew.where(both).std()
    varies = table["sd_fixed"].where(table["sd_fixed"] > 0)
    return table.assign(inflation=table["sd_refit"] / varies)


def _again(
    passes: Sequence[features.Features],
    design: fitting.Design,
    c: np.ndarray,
    drawn: Bootstrap,
    device: str | torch.device,
) -> Iterator[list[np.ndarray]]:
    """Scores on the passes by the probes of each draw, [layers, n]; a few draws at once."""
    weights = drawn.weights[:, drawn.clusters].astype(np.int64)
    at_once = max(1, PROBLEMS_AT_ONCE // len(fitting.training_rows(design)[0]))
    for some in np.split(weights, range(at_once, len(weights), at_once)):
        again = fitting.fit(passes[0], design, c, some, device=device)
        scoring_probe = design.of_draws(len(some))
        moved = [fitting.out_of_fold(again, x, scoring_probe) for x in passes]
        yield from ([s[:, number] for s in moved] for number in range(len(some)))


def _layers(clean: features.Features, fitted: fitting.Fitted, design: fitting.Design) -> list[int]:
    """Those at one and two thirds of the depth, and the headline layer."""
    inner, depth = fitted.inner_auc, len(clean)
    if np.isnan(inner).any():
        s = fitting.out_of_fold(fitted, clean, design.fold)
        auc = np.array([intervals.auc(layer, design.z) for layer in s])
        headline = samples.deepest_layer(auc)
    else:
        headline = samples.median_layer(samples.layer_of_fold(inner))
    return sorted({depth // 3, 2 * depth // 3, headline})


def _draw(ordered: pd.DataFrame, draws: int, design: fitting.Design) -> Bootstrap:
    """The draws that leave every probe both classes; the table tells how many these are.

    `ordered` are the answers in the order of the design.
    """
    drawn = samples.bootstrap(ordered, draws, design.settings.seed)
    usable = fitting.usable(design, drawn.weights[:, drawn.clusters].astype(np.int64))
    if not usable.any():
        what = f"none of {len(usable)} bootstrap draws leaves every fold both classes"
        do = "sample more questions: one class is too rare to be learned from again and again"
        raise AnchorscopeError(what, f"refits of {design.where}", do, see="too-few-samples")
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
    averages = [drawn.means(values, members) for values, members in means]
    return np.stack([*averages, drawn.aucs(clean, z)[1:]], axis=-1)

"""Calibration: compare the instrument's results with known pathways to truth."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.statistics import intervals, samples
from anchorscope.statistics.columns import recurring, with_interval
from anchorscope.statistics.intervals import Estimate, auc
from anchorscope.statistics.samples import Readout
from anchorscope.statistics.scores import Scores
from validation import world
from validation.checks import rows_where
from validation.world import UNSEEN

CROSSED = (
    "pair_right", "pair_right_low", "pair_wrong", "pair_wrong_high", "pair_gold", "share_right",
)  # fmt: skip
"""Columns with quantities of the crossing table, and with bounds of their intervals."""
COLUMNS = {
    **recurring("model", "dataset"),
    "seed": "training seed of the model",
    **recurring("site", "position", "layer"),
    "grouping": "as in the curve",
    "z": "answers that are counted: `all`, `0` (right) or `1` (wrong)",
    "kind": "a kind of the world, `all` or `against-prior`",
    **recurring("n"),
    "n_truth_q": "number of samples whose truth is Q",
    "n_truth_a": "number of samples whose truth is A",
    **recurring("probe_auc"),
    "verdict_accuracy": "accuracy of the model's own verdict",
    **with_interval("pathway_auc", "AUC of −ΔP, truth Q against truth A"),
    "sensitivity": "share of the samples with truth Q that flip",
    "specificity": "share of the samples with truth A that do not flip",
    **recurring("flip_share", "random_flip_share"),
    "answer_auc": "AUC of the text model `answer`",
    **recurring("headline"),
    **dict.fromkeys(CROSSED, "as in [crossing](#crossing)"),
    **recurring("predicts"),
}
"""Column of the table → what it holds."""
AGAINST_PRIOR = "against-prior"
DEFAULT_READOUT = "mlp/final"


def cell(
    scores: Scores,
    truth: pd.DataFrame,
    answers: pd.DataFrame,
    curve: pd.DataFrame,
    crossing: pd.DataFrame,
    *,
    fixed: Mapping[str, Any],
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare the tables of one cell with the swap truth, see `validation.truth`.

    Dropped `answers` are ignored. `fixed`: `model`, `dataset`, `seed`. Subjects are resampled.

    Returns:
        One row per read-out, layer, kind (`all`, each kind that is present, and `against-prior`)
        and z (`all`, `0`, `1`), with the columns `COLUMNS`, blank where unknown. In rows of kind
        `all`, columns that compare truth Q and A cover the scored kinds only, and `probe_auc`,
        `verdict_accuracy` and `answer_auc` cover the trained facts only.

    Raises:
        AnchorscopeError: The tables have different samples.
    """
    answers = scores.matching(answers)
    facts = _known(answers, truth, scores)
    planned = dict.fromkeys(kind.name for kind in world.KINDS)
    present = [kind for kind in (*planned, UNSEEN) if kind in set(facts["kind"])]
    resamples = samples.bootstrap(answers, draws, seed)
    frames = []
    for readout in map(scores.readout, scores.readouts):
        here = {**fixed, **_of_readout(readout, curve, crossing)}
        cut = readout.effects["knockout"]
        flip, random_flip = _flips(readout, "knockout"), _flips(readout, "random")
        drop = np.where(cut.measured, -cut.delta_p[0], np.nan)
        covered = ~np.isnan(flip + drop).any(0)
        for kind, z in product(("all", *present, AGAINST_PRIOR), ("all", "0", "1")):
            row, learned, q, a = _groups(facts, kind, z, covered)
            known = facts[["z", "answer", "verdict_right"]].to_numpy()[learned].T
            compared = resamples.aucs(np.where(q | a, drop, np.nan), q.astype(int))
            rows = {
                "grouping": "per_layer",
                "z": z,
                "kind": kind,
                "n": row.sum(),
                "n_truth_q": q.sum(),
                "n_truth_a": a.sum(),
                "probe_auc": [auc(s[learned], known[0]) for s in readout.clean],
                "answer_auc": auc(known[1], known[0]),
                "verdict_accuracy": intervals.mean_known(known[2], 0),
                "flip_share": intervals.mean_known(flip[:, row], -1),
                "random_flip_share": intervals.mean_known(random_flip[:, row], -1),
                "sensitivity": intervals.mean_known(flip[:, q], -1),
                "specificity": 1 - intervals.mean_known(flip[:, a], -1),
                **Estimate.of_resamples(compared, level).columns("pathway_auc"),
            }
            frames.append(pd.DataFrame(here | rows))
    return pd.concat(frames, ignore_index=True)[list(COLUMNS)]


def _known(answers: pd.DataFrame, truth: pd.DataFrame, scores: Scores) -> pd.DataFrame:
    """Return the facts of each sample that do not depend on the read-out, a row per sample."""
    # the truth also covers answers that are not measured
    truth = samples.select_rows(truth, answers["id"], "truth", "truth")
    truth = truth.astype({"kind": object, "truth": object})
    return pd.DataFrame(
        {
            "z": answers["label"].astype(np.int64),
            "kind": truth["kind"],
            "truth": truth["truth"].fillna(""),
            "answer": scores.floors["answer"][0],
            "verdict_right": (truth["verdict"] == answers["label"]).astype(float),
        }
    )


def _of_readout(readout: Readout, curve: pd.DataFrame, crossing: pd.DataFrame) -> dict[str, object]:
    """Return the columns that all rows of a read-out share: arrays [layers] or single values."""
    layers = np.arange(len(readout.clean))
    predicts = rows_where(curve, **readout.key).groupby("layer")["predicts"].first()
    crossed = rows_where(crossing, **readout.key).set_index(["layer", "quantity"])
    ends = crossed[["estimate", "ci_low", "ci_high"]].set_axis(["", "_low", "_high"], axis=1)
    wide: Any = ends.unstack().reindex(layers)
    wide.columns = [f"{quantity}{end}" for end, quantity in wide.columns]
    return {
        **readout.key,
        "predicts": predicts.reindex(layers).to_numpy(),
        "layer": layers,
        "headline": layers == readout.headline,
        **wide.reindex(columns=list(CROSSED)),
    }


def _groups(facts: pd.DataFrame, kind: str, z: str, covered: np.ndarray) -> list[np.ndarray]:
    """Return masks [n] that select a row's samples: all, learned, of truth Q, and of truth A."""
    named = world.AGAINST_PRIOR_KINDS if kind == AGAINST_PRIOR else (kind,)
    row = facts["kind"].isin(named) | (kind == "all")
    row &= ((facts["z"].astype(str) == z) | (z == "all")) & covered
    learned = row & (facts["kind"] != UNSEEN) if kind == "all" else row
    compared = row & facts["kind"].isin(world.SCORED_KINDS) if kind == "all" else row
    pathways = [compared & (facts["truth"] == name) for name in ("Q", "A")]
    return [group.to_numpy() for group in (row, learned, *pathways)]


def _flips(readout: Readout, condition: str) -> np.ndarray:
    """Return the share of a condition's draws that flip a sample, [layers, n], NaN if unknown."""
    effects = readout.effects.get(condition)
    if effects is None:
        return np.full(readout.clean.shape, np.nan)
    return np.where(effects.measured, effects.flip.mean(0), np.nan)

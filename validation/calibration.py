"""Calibration: compare the instrument's results with known pathways to truth."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.experiments.experiment import recurring, with_interval
from anchorscope.experiments.tables import rows_where
from anchorscope.probes import intervals, samples, strength
from anchorscope.probes.intervals import auc
from anchorscope.probes.samples import Effects, Readout
from anchorscope.questions import world

CROSSED = (
    "pair_right", "pair_right_low", "pair_wrong", "pair_wrong_high", "pair_gold", "share_pair",
)  # fmt: skip
"""Quantities of the table of crossing, and bounds of their intervals."""
COLUMNS = {
    **recurring("model", "dataset"),
    "seed": "training seed of the model",
    **recurring("site", "position", "layer"),
    "grouping": "as in the curve",
    "z": "`all`, `0` right or `1` wrong answers",
    "kind": "a kind of the world, `all` or `against-prior`",
    **recurring("n"),
    "n_truth_q": "samples whose truth is Q",
    "n_truth_a": "samples whose truth is A",
    **recurring("probe_auc"),
    "verdict_accuracy": "accuracy of the model's own verdict",
    **with_interval("pathway_auc", "AUC of −ΔP, truth Q against truth A"),
    "sensitivity": "share of truth Q that flips",
    "specificity": "share of truth A that does not flip",
    **dict.fromkeys(
        ("sensitivity_offset", "specificity_offset"),
        "sensitivity and specificity with the probe's offset refitted",
    ),
    **recurring("flip_share", "random_flip_share"),
    "verdict_flip": "share of flips of the model's own verdict",
    "answer_auc": "AUC of the floor `answer`",
    **recurring("headline"),
    **dict.fromkeys(CROSSED, "as in [crossing](#crossing)"),
    **recurring("signal"),
    "seal": "how much of E_Q still reaches later tokens under the knockout; 0",
}
"""Column of the table → what it holds."""
AGAINST_PRIOR = "against-prior"
DEFAULT_READOUT = "mlp/final"


@dataclass(frozen=True)
class Mean:
    """A column of the table: the mean of a quantity over some samples."""

    of: str  # the quantity, a key of `_moved` or a column of `_known`
    among: str  # the samples, a key of `_groups`
    inverted: bool = False  # whether the column is 1 minus the mean


MEANS = {
    "flip_share": Mean("flip", "row"),
    "random_flip_share": Mean("random_flip", "row"),
    "verdict_flip": Mean("verdict_flip", "row"),
    "verdict_accuracy": Mean("verdict_right", "learned"),
    "sensitivity": Mean("flip", "q"),
    "sensitivity_offset": Mean("offset_flip", "q"),
    "specificity": Mean("flip", "a", inverted=True),
    "specificity_offset": Mean("offset_flip", "a", inverted=True),
}
"""Column → the mean that it holds."""

Values = dict[str, np.ndarray]
"""Name → value of each sample, [n] or [layers, n], NaN where unknown."""


def cell(
    scores: pd.DataFrame,
    truth: pd.DataFrame,
    answers: pd.DataFrame,
    curve: pd.DataFrame,
    crossing: pd.DataFrame,
    floors: pd.DataFrame,
    *,
    fixed: Mapping[str, Any],
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare one cell with the truth.

    Args:
        scores: Table of `anchorscope.probes.scores`, with at least the clean and knockout passes.
        truth: Table of `truth.truth`, with every sample that counts.
        answers: Answers of the cell, without dropped answers.
        curve: Curve of the cell.
        crossing: Table of crossing of the cell.
        floors: Table of `probes.floors`, with every sample that counts.
        fixed: Column → value in every row: `model`, `dataset`, `seed` and `seal`.
        draws: Number of bootstrap draws over subjects.
        level: Level of the bootstrap intervals.
        seed: Seed of the bootstrap.

    Returns:
        One row per read-out, layer, kind (`all`, each kind that is present, and `against-prior`)
        and z (`all`, `0`, `1`), with the columns `COLUMNS` (docs/products.md). Shares and AUCs are
        fractions, ΔP is in percentage points. Unknown values are blank.

        If `kind` is `all`, truth Q is compared with truth A over the scored kinds. The verdict
        accuracy and the AUCs of probe and answer floor then cover the trained facts only. The
        columns `CROSSED` belong to the read-out and layer and do not depend on the kind.

    Raises:
        AnchorscopeError: The tables have different samples.
    """
    answers = samples.in_order(answers)
    facts = _known(answers, truth, floors)
    planned = dict.fromkeys(kind.name for kind in world.KINDS)
    present = [kind for kind in (*planned, world.UNSEEN) if kind in set(facts["kind"])]
    kinds = ("all", *present, AGAINST_PRIOR)
    drawn = samples.bootstrap(answers, draws, seed)
    frames = []
    for readout in samples.readouts(scores, answers):
        here = {**fixed, **_of_readout(readout, curve, crossing)}
        moved = _moved(readout)
        covered = ~np.isnan(moved["flip"] + moved["delta_p"]).any(0)
        for kind, z in product(kinds, ("all", "0", "1")):
            groups = _groups(facts, kind, z, covered)
            rows = here | _statistics(readout, moved, facts, groups)
            compared = np.where(groups["q"] | groups["a"], -moved["delta_p"], np.nan)
            aucs = drawn.aucs(compared, groups["q"].astype(int))
            rows |= intervals.estimate("pathway_auc", aucs, level)
            rows |= {"grouping": "per_layer", "z": z, "kind": kind}
            frames.append(pd.DataFrame(rows))
    return pd.concat(frames, ignore_index=True)[list(COLUMNS)]


def _known(answers: pd.DataFrame, truth: pd.DataFrame, floors: pd.DataFrame) -> pd.DataFrame:
    """Return the facts of each answer that do not depend on the read-out, NaN where unknown.

    `truth` is Q, A or empty. `answer` is the score of the answer floor.
    """
    rows = samples.places(truth["id"], answers["id"], "truth", "truth")
    truth = truth.iloc[rows].reset_index(drop=True).astype({"kind": object, "truth": object})
    verdict, cut = truth["verdict"].astype(float), truth["verdict_knockout"].astype(float)
    z = answers["label"].astype(np.int64)
    return pd.DataFrame(
        {
            "z": z,
            "kind": truth["kind"],
            "truth": truth["truth"].fillna(""),
            "answer": strength.scores(floors, answers)["answer"],
            "verdict_right": (verdict == z).where(verdict.notna()).astype(float),
            "verdict_flip": (verdict != cut).where((verdict + cut).notna()).astype(float),
        }
    )


def _of_readout(readout: Readout, curve: pd.DataFrame, crossing: pd.DataFrame) -> dict[str, object]:
    """Return the columns that all rows of a read-out share, as arrays [layers] or values."""
    layers = np.arange(len(readout.clean))
    signal = rows_where(curve, **readout.key)["cell_signal"]
    crossed = by_quantity(rows_where(crossing, **readout.key), layers)
    return {
        **readout.key,
        "signal": bool(signal.any()) if len(signal) else None,
        "layer": layers,
        "headline": layers == readout.headline,
        **{name: crossed[name].to_numpy() for name in CROSSED},
    }


def by_quantity(crossing: pd.DataFrame, layers: np.ndarray) -> pd.DataFrame:
    """Return one row per layer with the columns `CROSSED`, from a read-out's rows of crossing."""
    wide = {
        f"{name}{end}": rows.set_index("layer")[column]
        for name, rows in crossing[crossing["quantity"].isin(CROSSED)].groupby("quantity")
        for end, column in (("", "estimate"), ("_low", "ci_low"), ("_high", "ci_high"))
    }
    return pd.DataFrame(wide, index=layers).reindex(columns=list(CROSSED))


def _groups(facts: pd.DataFrame, kind: str, z: str, covered: np.ndarray) -> dict[str, np.ndarray]:
    """Return the samples of a row and the groups that its columns use, as masks, bool [n]."""
    named = world.AGAINST_PRIOR_KINDS if kind == AGAINST_PRIOR else (kind,)
    row = facts["kind"].isin(named) | (kind == "all")
    row &= (facts["z"].astype(str) == z) | (z == "all")
    row &= covered
    learned = row & (facts["kind"] != world.UNSEEN) if kind == "all" else row
    compared = row & facts["kind"].isin(world.SCORED_KINDS) if kind == "all" else row
    groups = {"row": row, "learned": learned}
    for name in ("q", "a"):
        groups[name] = compared & (facts["truth"] == name.upper())
    return {name: members.to_numpy() for name, members in groups.items()}


def _moved(readout: Readout) -> Values:
    """Return flips and ΔP of each sample at each layer."""
    cut = readout.effects["knockout"]
    blank = np.full(readout.clean.shape, np.nan)
    offset = readout.others.get(("offset", "knockout"))
    again = blank if offset is None else (offset > 0) != (readout.clean > 0)
    return {
        "flip": _flips(cut),
        "random_flip": _flips(random) if (random := readout.effects.get("random")) else blank,
        "offset_flip": again,
        "delta_p": np.where(cut.measured, cut.delta_p[0], np.nan),
    }


def _flips(effects: Effects) -> np.ndarray:
    """Return the share of a condition's draws that flip a sample, [layers, n], NaN if unknown."""
    return np.where(effects.measured, effects.flip.mean(0), np.nan)


def _statistics(
    readout: Readout, moved: Values, facts: pd.DataFrame, groups: Mapping[str, np.ndarray]
) -> dict[str, object]:
    """Return a row's columns except the AUC of −ΔP, as arrays [layers] or numbers."""
    means: dict[str, object] = {}
    for column, one in MEANS.items():
        values = moved[one.of] if one.of in moved else facts[one.of].to_numpy()
        mean = intervals.mean_known(values[..., groups[one.among]] * 1.0, axis=-1)
        means[column] = 1 - mean if one.inverted else mean
    learned = groups["learned"]
    z, answer = (facts[name].to_numpy()[learned] for name in ("z", "answer"))
    return means | {
        "n": groups["row"].sum(),
        "n_truth_q": groups["q"].sum(),
        "n_truth_a": groups["a"].sum(),
        "probe_auc": [auc(layer[learned], z) for layer in readout.clean],
        "answer_auc": auc(answer, z),
    }

"""Calibration: what the instrument says of samples whose pathway to truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from anchorscope.experiments import strength
from anchorscope.experiments.interchange import table as interchange
from anchorscope.experiments.pairs import Arm
from anchorscope.probes import intervals, samples
from anchorscope.probes.intervals import Bootstrap, auc
from anchorscope.probes.samples import Effects, Readout
from anchorscope.questions import world
from anchorscope.storage.errors import AnchorscopeError

COLUMNS = (
    "model", "dataset", "seed", "site", "position", "layer", "grouping", "z", "kind", "n",
    "n_truth_q", "n_truth_a", "probe_auc", "verdict_accuracy", "pathway_auc", "sensitivity",
    "specificity", "flip_share", "random_flip_share", "headline", "pathway_auc_low",
    "pathway_auc_high", "sensitivity_offset", "specificity_offset", "pathway_auc_planted",
    "sensitivity_planted", "specificity_planted", "verdict_flip", "verdict_random_flip",
    "verdict_sensitivity", "verdict_specificity", "answer_auc", "follows", "follows_trained",
    "n_none", "why_none", "delta_p_q", "delta_p_a", "delta_p_truth_q", "delta_p_truth_a",
    "matched_follows", "matched_truth_q", "matched_truth_a", "placebo_follows", "signal", "seal",
)  # fmt: skip
AGAINST_PRIOR = "against-prior"
PLANTED_Q = (*world.AGAINST_PRIOR_KINDS, "neutral")
DEFAULT_READOUT = "mlp/final"

MEANS = {
    "flip_share": ("flip", "row"),
    "random_flip_share": ("random_flip", "row"),
    "matched_follows": ("matched", "row"),
    "placebo_follows": ("placebo", "row"),
    "follows": ("follows", "row"),
    "follows_trained": ("follows_trained", "row"),
    "verdict_flip": ("verdict_flip", "row"),
    "verdict_random_flip": ("verdict_random", "row"),
    "delta_p_q": ("delta_p_flipped", "row"),
    "delta_p_a": ("delta_p_unflipped", "row"),
    "verdict_accuracy": ("verdict_right", "learned"),
    "sensitivity": ("flip", "q"),
    "specificity": ("flip", "a"),
    "sensitivity_offset": ("offset_flip", "q"),
    "specificity_offset": ("offset_flip", "a"),
    "sensitivity_planted": ("flip", "planted_q"),
    "specificity_planted": ("flip", "planted_a"),
    "verdict_sensitivity": ("verdict_flip", "q"),
    "verdict_specificity": ("verdict_flip", "a"),
    "matched_truth_q": ("matched", "q"),
    "matched_truth_a": ("matched", "a"),
    "delta_p_truth_q": ("delta_p", "q"),
    "delta_p_truth_a": ("delta_p", "a"),
}
"""Column → what it is the mean of, over which samples of a row; a specificity is one minus it."""

Values = dict[str, np.ndarray]
"""By name, of each sample, [n] or [layers, n]; NaN where unknown."""


@dataclass(frozen=True)
class _Known:
    """What is known of each sample, whatever the read-out; all [n].

    Attributes:
        z: label.
        kind: planted kind.
        truth: `Q`, `A` or empty.
        planted: the same by the planted kind, with the same samples left out.
        none: why there is no truth; empty where there is.
        answer: score of the floor `answer`.
        values: further ones, of which `MEANS` are.
    """

    z: np.ndarray
    kind: np.ndarray
    truth: np.ndarray
    planted: np.ndarray
    none: np.ndarray
    answer: np.ndarray
    values: Values

    def groups(self, kind: str, z: str, covered: np.ndarray) -> dict[str, np.ndarray]:
        """The samples of a row, and those of them that its columns are about, bool [n]."""
        named = world.AGAINST_PRIOR_KINDS if kind == AGAINST_PRIOR else (kind,)
        row = covered & ((kind == "all") | np.isin(self.kind, named))
        row &= (z == "all") | (self.z.astype(str) == z)
        learned = row & (self.kind != world.UNSEEN) if kind == "all" else row
        compared = row & np.isin(self.kind, world.SCORED_KINDS) if kind == "all" else row
        found = {"row": row, "learned": learned}
        for name in ("Q", "A"):
            found[name.lower()] = compared & (self.truth == name)
            found[f"planted_{name.lower()}"] = compared & (self.planted == name)
        return found


def cell(
    scores: pd.DataFrame,
    truth: pd.DataFrame,
    answers: pd.DataFrame,
    controls: pd.DataFrame,
    floors: pd.DataFrame,
    *,
    model: str,
    dataset: str,
    training_seed: int,
    seal: float,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Hold one cell against the truth.

    Args:
        scores: the table of `anchorscope.probes.scores.score`, at least clean and knockout.
        truth: the table of `anchorscope.calibration.truth.truth`, of every sample that counts.
        answers: the samples; dropped rows are left out.
        controls: the cell's controls, for `signal` of each read-out.
        floors: the table of `anchorscope.probes.floors.floors`.
        model, dataset, training_seed, seal: written into every row.
        draws, level, seed: of the bootstrap over subjects.

    Returns:
        A row for each read-out, grouping, layer, kind (`all`, each that is present, and
        `against-prior`) and z (`all`, `0`, `1`), with the columns `COLUMNS` (docs/products.md);
        shares and AUCs are fractions, ΔP percentage points, blank where nothing tells.

        Where `kind` is `all`, truth Q is compared with truth A over the scored kinds, and what is
        learned (`learned` in `MEANS`, the AUCs of probe and answer floor) covers the trained facts.
        `*_planted` take the planted kind for the truth, of answers that came as planned and whose
        own verdict is right. A flip is, by `grouping`: that of the layer; of the headline layer; of
        the same layer behind a second prompt for the same answer (ΔP stays that of the first).

    Raises:
        AnchorscopeError: the tables are not of the same samples, or the knockout was not scored.
    """
    answers = samples.in_order(answers)
    known = _known(answers, truth, floors)
    drawn = samples.bootstrap(answers, draws, seed)
    fixed = {"model": model, "dataset": dataset, "seed": training_seed, "seal": seal}
    frames = []
    for readout in samples.readouts(scores, answers):
        layers = np.arange(len(readout.clean))
        fixed |= readout.key | {"signal": _signal(controls, readout)}
        fixed |= {"layer": layers, "headline": layers == readout.headline}
        for grouping, moved in _moved(readout, interchange.arms(readout, answers)).items():
            covered = ~np.isnan(moved["flip"] + moved["delta_p"]).any(0)
            for kind, z in product(_kinds(known.kind), ("all", "0", "1")):
                groups = known.groups(kind, z, covered)
                found = _statistics(readout, moved, known, groups)
                found |= _interval(moved, groups["q"], groups["a"], drawn, level)
                key = {"grouping": grouping, "z": z, "kind": kind}
                frames.append(pd.DataFrame(fixed | key | found))
    return pd.concat(frames, ignore_index=True)[list(COLUMNS)]


def _signal(controls: pd.DataFrame, readout: Readout) -> bool | None:
    own = (controls["site"] == readout.site) & (controls["position"] == readout.position)
    return bool(controls.loc[own, "cell_signal"].any()) if own.any() else None


def _known(answers: pd.DataFrame, truth: pd.DataFrame, floors: pd.DataFrame) -> _Known:
    rows = samples.places(truth, answers)
    if rows is None:
        raise AnchorscopeError(
            f"the truth of {len(truth)} samples is not that of {len(answers)} answers",
            "truth",
            "delete the cell's truth and run snakemake again",
            see="stale-product",
        )
    truth = truth.iloc[rows].reset_index(drop=True)
    z = answers["label"].to_numpy(dtype=np.int64)
    kind = truth["kind"].astype(object).to_numpy()
    told = truth["truth"].notna().to_numpy()
    verdict, cut = (truth[name].to_numpy(np.float64) for name in ("verdict", "verdict_knockout"))
    right = np.where(np.isnan(verdict), np.nan, verdict == z)
    fair = truth["as_planned"].eq(True).to_numpy() & (right == 1)
    planted = np.select(
        [np.isin(kind, PLANTED_Q), np.isin(kind, world.ANSWER_KINDS)], ["Q", "A"], ""
    )
    names = ("follows", "follows_trained", "verdict_random")
    values = {name: truth[name].to_numpy(np.float64) for name in names}
    values["verdict_right"] = right
    values["verdict_flip"] = np.where(np.isnan(verdict + cut), np.nan, verdict != cut)
    return _Known(
        z=z,
        kind=kind,
        truth=np.where(told, truth["truth"].astype(object), ""),
        planted=np.where(fair, planted, ""),
        none=truth["why_none"].fillna("no reason given").mask(told, "").to_numpy(dtype=object),
        answer=strength.scores(floors, answers)["answer"],
        values=values,
    )


def _moved(readout: Readout, arms: Mapping[str, Arm]) -> dict[str, Values]:
    """Grouping → what the probes do by it; `replicate` only where it was measured.

    Raises:
        AnchorscopeError: the knockout was not scored.
    """
    cut = readout.effects.get("knockout")
    if cut is None:
        raise samples.mismatch("the knockout has no scores", f"read-out {readout.name}")
    blank = np.full(readout.clean.shape, np.nan)
    offset = readout.others.get(("offset", "knockout"))
    flips = {"flip": _share(cut, blank)}
    flips |= {"random_flip": _share(readout.effects.get("random"), blank)}
    flips |= {"offset_flip": blank if offset is None else (offset > 0) != (readout.clean > 0)}
    found = {"per_layer": flips}
    at_one = {name: one[readout.headline] for name, one in flips.items()}
    found["reference_layer"] = {n: np.broadcast_to(one, blank.shape) for n, one in at_one.items()}
    if second := readout.replicate.get("knockout"):
        found["replicate"] = {"flip": _share(second, blank), "offset_flip": blank}
        found["replicate"]["random_flip"] = _share(readout.replicate.get("random"), blank)
    same = {"delta_p": np.where(cut.measured, cut.delta_p[0], np.nan)}
    for name in ("matched", "placebo"):
        arm = arms.get(name)
        same[name] = blank if arm is None else np.where(arm.counted, arm.values["follows"], np.nan)
    for own in found.values():
        own |= same
        own["delta_p_flipped"] = np.where(own["flip"] == 1, own["delta_p"], np.nan)
        own["delta_p_unflipped"] = np.where(own["flip"] == 0, own["delta_p"], np.nan)
    return found


def _share(effects: Effects | None, blank: np.ndarray) -> np.ndarray:
    """Share of a condition's draws that flip a sample, [layers, n]; blank where not measured."""
    return blank if effects is None else np.where(effects.measured, effects.flip.mean(0), np.nan)


def _kinds(kind: np.ndarray) -> list[str]:
    """The rows' kinds: all, those present in the world's order, and the two against the prior."""
    present = {name for name in kind if name is not None}
    order = [*dict.fromkeys(planted.name for planted in world.KINDS), world.UNSEEN]
    named = [name for name in order if name in present] + sorted(present - set(order))
    return ["all", *named, AGAINST_PRIOR]


def _statistics(
    readout: Readout, moved: Values, known: _Known, groups: Mapping[str, np.ndarray]
) -> dict[str, object]:
    """The columns of a row; arrays [layers] or numbers."""
    learned, reasons = groups["learned"], known.none[groups["row"] & (known.none != "")]
    counted = pd.Series(reasons, dtype=object).value_counts()
    values = known.values | moved
    found: dict[str, object] = {}
    for column, (name, who) in MEANS.items():
        mean = intervals.mean_known(values[name][..., groups[who]] * 1.0, axis=-1)
        found[column] = 1 - mean if "specificity" in column else mean
    return found | {
        "n": int(groups["row"].sum()),
        "n_none": len(reasons),
        "why_none": ", ".join(f"{count} {why}" for why, count in sorted(counted.items())),
        "probe_auc": [auc(layer[learned], known.z[learned]) for layer in readout.clean],
        "answer_auc": auc(known.answer[learned], known.z[learned]),
        "n_truth_q": int(groups["q"].sum()),
        "n_truth_a": int(groups["a"].sum()),
        "pathway_auc": _pathway_auc(moved, groups["q"], groups["a"]),
        "pathway_auc_planted": _pathway_auc(moved, groups["planted_q"], groups["planted_a"]),
    }


def _pathway_auc(moved: Values, q: np.ndarray, a: np.ndarray) -> list[float]:
    """AUC of −ΔP for q against a, [layers]."""
    either = q | a
    return [auc(-layer[either], q[either].astype(int)) for layer in moved["delta_p"]]


def _interval(
    moved: Values, q: np.ndarray, a: np.ndarray, drawn: Bootstrap, level: float
) -> dict[str, np.ndarray]:
    """Percentile interval of the pathway AUC, [layers] each."""
    low = high = np.full(len(moved["delta_p"]), np.nan)
    if q.any() and a.any():
        replicates = drawn.aucs(np.where(q | a, -moved["delta_p"], np.nan), q.astype(int))
        low, high = intervals.percentile(replicates, level)
    return {"pathway_auc_low": low, "pathway_auc_high": high}

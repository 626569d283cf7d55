"""Calibration: what the instrument says of samples whose pathway to truth is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class _Known:
    """What is known of each sample, whatever the read-out; all [n].

    Attributes:
        z: label.
        kind: planted kind.
        truth: `Q`, `A` or empty.
        planted: the same by the planted kind, with the same samples left out.
        none: why there is no truth; empty where there is.
        averages: column of the table → the value that its rows average, NaN where unknown.
        answer: score of the floor `answer`.
    """

    z: np.ndarray
    kind: np.ndarray
    truth: np.ndarray
    planted: np.ndarray
    none: np.ndarray
    averages: dict[str, np.ndarray]
    answer: np.ndarray

    @property
    def trained(self) -> np.ndarray:
        return self.kind != world.UNSEEN

    @property
    def scored(self) -> np.ndarray:
        return np.isin(self.kind, world.SCORED_KINDS)


@dataclass(frozen=True)
class _Moved:
    """What the probes of one read-out do, by one grouping; float64 [layers, n], NaN unknown.

    Attributes:
        s: clean score.
        delta_p: of the knockout, percentage points.
        flip: 1 where the knockout flips the predicted class.
        offset_flip: the same after the refit of the offset.
        random_flip: share of the random draws that flip it.
        matched_flip, placebo_flip: 1 where it flips behind the partner's question; NaN where the
            pair does not count.
        covered: samples that the grouping is known of, bool [n].
    """

    s: np.ndarray
    delta_p: np.ndarray
    flip: np.ndarray
    offset_flip: np.ndarray
    random_flip: np.ndarray
    matched_flip: np.ndarray
    placebo_flip: np.ndarray
    covered: np.ndarray


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
        model, dataset, training_seed, seal: written into every row; `seal` is the largest change
            that other ids in place of E_Q make anywhere after it.
        draws, level, seed: of the bootstrap over subjects.

    Returns:
        A row for each read-out, grouping, layer, kind (`all`, each that is present, and
        `against-prior`) and z (`all`, `0`, `1`), with the columns `COLUMNS`; shares and AUCs are
        fractions, ΔP percentage points, blank where nothing tells.

        `pathway_auc` is the AUC of −ΔP for truth Q against truth A, `sensitivity` the flips among
        truth Q, `specificity` the non-flips among truth A, over samples whose answer came as
        planned and whose own verdict is right; where `kind` is `all`, over the scored kinds.
        `*_planted` take the planted kind for the truth, `*_offset` the flips after the offset was
        refitted, `verdict_*` the flips of the model's own verdict. `probe_auc`, `answer_auc` and
        `verdict_accuracy` cover the row's samples, where `kind` is `all` the trained facts; all
        else covers the row's samples. `delta_p_q` and `delta_p_a` are means over the samples that
        flip and that do not, `delta_p_truth_*` over those whose truth is Q and A; `matched_follows`
        and `placebo_follows` shares of flips behind the partner's question, of the samples whose
        pair counts at the layer, `matched_truth_*` the same by truth. Any other flip is, by
        `grouping`: that of the layer; of the headline layer; of the same layer behind a second
        prompt for the same answer (ΔP stays that of the first; its samples only).

    Raises:
        AnchorscopeError: the tables are not of the same samples, or the knockout was not scored.
    """
    answers = samples.in_order(answers)
    known = _known(answers, truth, floors)
    drawn = samples.bootstrap(answers, draws, seed)
    fixed = {"model": model, "dataset": dataset, "seed": training_seed, "seal": seal}
    frames = []
    for readout in samples.readouts(scores, answers):
        fixed |= readout.key | {"signal": _signal(controls, readout)}
        arms = interchange.arms(readout, answers)
        rows = _readout_rows(readout, arms, known, drawn, level)
        frames += [pd.DataFrame(fixed | columns) for columns in rows]
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
    averages = {name: truth[name].to_numpy(np.float64) for name in ("follows", "follows_trained")}
    averages["verdict_accuracy"] = right
    averages["verdict_flip"] = np.where(np.isnan(verdict + cut), np.nan, verdict != cut)
    averages["verdict_random_flip"] = truth["verdict_random"].to_numpy(np.float64)
    return _Known(
        z=z,
        kind=kind,
        truth=np.where(told, truth["truth"].astype(object), ""),
        planted=np.where(fair, planted, ""),
        none=truth["why_none"].fillna("no reason given").mask(told, "").to_numpy(dtype=object),
        averages=averages,
        answer=strength.scores(floors, answers)["answer"],
    )


def _moved(readout: Readout, arms: Mapping[str, Arm], headline: int) -> dict[str, _Moved]:
    """Grouping → what moves by it; `replicate` only where it was measured.

    Raises:
        AnchorscopeError: the knockout was not scored.
    """
    cut = readout.effects.get("knockout")
    if cut is None:
        where = f"read-out {readout.site}/{readout.position}"
        raise samples.mismatch("the knockout has no scores", where)
    blank = np.full(readout.clean.shape, np.nan)
    offset = readout.others.get(("offset", "knockout"))
    own = _Moved(
        s=readout.clean,
        delta_p=np.where(cut.measured, cut.delta_p[0], np.nan),
        flip=_share(cut, blank),
        offset_flip=blank if offset is None else 1.0 * ((offset > 0) != (readout.clean > 0)),
        random_flip=_share(readout.effects.get("random"), blank),
        matched_flip=_followed(arms.get("matched"), blank),
        placebo_flip=_followed(arms.get("placebo"), blank),
        covered=cut.measured,
    )
    found = {"per_layer": own, "reference_layer": _at_one_layer(own, headline)}
    if "knockout" in readout.replicate:
        found["replicate"] = _replicated(own, readout.replicate, blank)
    return found


def _share(effects: Effects | None, blank: np.ndarray) -> np.ndarray:
    """Share of a condition's draws that flip a sample, [layers, n]; blank where not measured."""
    return blank if effects is None else np.where(effects.measured, effects.flip.mean(0), np.nan)


def _followed(arm: Arm | None, blank: np.ndarray) -> np.ndarray:
    return blank if arm is None else np.where(arm.counted, arm.values["follows"], np.nan)


def _at_one_layer(own: _Moved, layer: int) -> _Moved:
    names = ("flip", "offset_flip", "random_flip")
    spread = {name: np.broadcast_to(getattr(own, name)[layer], own.s.shape) for name in names}
    return replace(own, **spread)


def _replicated(own: _Moved, second: dict[str, Effects], blank: np.ndarray) -> _Moved:
    """Flips behind the second prompt; the depth stays that of the first."""
    return replace(
        own,
        flip=_share(second["knockout"], blank),
        offset_flip=blank,
        random_flip=_share(second.get("random"), blank),
        covered=own.covered & second["knockout"].measured,
    )


def _readout_rows(
    readout: Readout, arms: Mapping[str, Arm], known: _Known, drawn: Bootstrap, level: float
) -> Iterator[dict[str, object]]:
    """The columns of each grouping, kind and z; arrays [layers]."""
    headline = readout.headline
    layers = np.arange(len(readout.clean))
    for grouping, moved in _moved(readout, arms, headline).items():
        for kind, z in product(_kinds(known.kind), ("all", "0", "1")):
            members = moved.covered & _of_kind(known.kind, kind)
            members &= (z == "all") | (known.z.astype(str) == z)
            fixed = {"layer": layers, "grouping": grouping, "z": z, "kind": kind}
            fixed |= {"headline": layers == headline} | _statistics(moved, known, members, kind)
            yield fixed | _pathway(moved, known, members, kind, drawn, level)


def _kinds(kind: np.ndarray) -> list[str]:
    """The rows' kinds: all, those present in the world's order, and the two against the prior."""
    present = {name for name in kind if name is not None}
    order = [*dict.fromkeys(planted.name for planted in world.KINDS), world.UNSEEN]
    named = [name for name in order if name in present] + sorted(present - set(order))
    return ["all", *named, AGAINST_PRIOR]


def _of_kind(kind: np.ndarray, name: str) -> np.ndarray:
    if name == "all":
        return np.ones(len(kind), dtype=bool)
    return np.isin(kind, world.AGAINST_PRIOR_KINDS if name == AGAINST_PRIOR else (name,))


def _statistics(moved: _Moved, known: _Known, members: np.ndarray, kind: str) -> dict[str, object]:
    """What is said of all samples of a row, or of its trained facts."""
    learned = members & known.trained if kind == "all" else members
    reasons = pd.Series(known.none[members & (known.none != "")], dtype=object).value_counts()
    averages = {name: _mean(values, members) for name, values in known.averages.items()}
    averages["verdict_accuracy"] = _mean(known.averages["verdict_accuracy"], learned)
    return averages | {
        "n": int(members.sum()),
        "n_none": int(reasons.sum()),
        "why_none": ", ".join(f"{count} {why}" for why, count in sorted(reasons.items())),
        "probe_auc": [auc(layer[learned], known.z[learned]) for layer in moved.s],
        "answer_auc": auc(known.answer[learned], known.z[learned]),
        "flip_share": _mean(moved.flip, members),
        "random_flip_share": _mean(moved.random_flip, members),
        "matched_follows": _mean(moved.matched_flip, members),
        "placebo_follows": _mean(moved.placebo_flip, members),
        "delta_p_q": _mean(np.where(moved.flip == 1, moved.delta_p, np.nan), members),
        "delta_p_a": _mean(np.where(moved.flip == 0, moved.delta_p, np.nan), members),
    }


def _pathway(
    moved: _Moved, known: _Known, members: np.ndarray, kind: str, drawn: Bootstrap, level: float
) -> dict[str, object]:
    """How well ΔP and flips tell truth Q from truth A."""
    compared = members & known.scored if kind == "all" else members
    q, a = (compared & (known.truth == name) for name in ("Q", "A"))
    planted_q, planted_a = (compared & (known.planted == name) for name in ("Q", "A"))
    low, high = _interval(-moved.delta_p, q, a, drawn, level)
    verdict = known.averages["verdict_flip"]
    return {
        "n_truth_q": int(q.sum()),
        "n_truth_a": int(a.sum()),
        "pathway_auc": _pathway_auc(moved, q, a),
        "pathway_auc_low": low,
        "pathway_auc_high": high,
        "sensitivity": _mean(moved.flip, q),
        "specificity": 1 - _mean(moved.flip, a),
        "sensitivity_offset": _mean(moved.offset_flip, q),
        "specificity_offset": 1 - _mean(moved.offset_flip, a),
        "pathway_auc_planted": _pathway_auc(moved, planted_q, planted_a),
        "sensitivity_planted": _mean(moved.flip, planted_q),
        "specificity_planted": 1 - _mean(moved.flip, planted_a),
        "verdict_sensitivity": _mean(verdict, q),
        "verdict_specificity": 1 - _mean(verdict, a),
        "matched_truth_q": _mean(moved.matched_flip, q),
        "matched_truth_a": _mean(moved.matched_flip, a),
        "delta_p_truth_q": _mean(moved.delta_p, q),
        "delta_p_truth_a": _mean(moved.delta_p, a),
    }


def _mean(values: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Means [...] over the members of whom something is known, of values [..., n]."""
    return intervals.mean_known(values[..., members], axis=-1)


def _pathway_auc(moved: _Moved, q: np.ndarray, a: np.ndarray) -> list[float]:
    either = q | a
    return [auc(-layer[either], q[either].astype(int)) for layer in moved.delta_p]


def _interval(
    values: np.ndarray, q: np.ndarray, a: np.ndarray, drawn: Bootstrap, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile interval of the AUC of values [layers, n] for q against a; [layers] each."""
    if not q.any() or not a.any():
        blank = np.full(len(values), np.nan)
        return blank, blank
    replicates = drawn.aucs(np.where(q | a, values, np.nan), q.astype(int))
    return intervals.percentile(replicates, level)

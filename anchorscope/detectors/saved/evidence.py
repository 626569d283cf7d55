"""What a detector is worth, out of fold: its quality, what it beats, what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.config.readouts import before_answer
from anchorscope.config.settings import Config
from anchorscope.detectors.saved import quality
from anchorscope.detectors.saved.binding import RESIDUAL
from anchorscope.detectors.saved.quality import Interval
from anchorscope.experiments.analysis import Analysis, analyses
from anchorscope.experiments.crossing import table as crossing
from anchorscope.passes import activations
from anchorscope.passes.features import Features, Part
from anchorscope.probes import fitting, floors, intervals, samples, scores, strength
from anchorscope.probes.bands import Draws
from anchorscope.probes.fitting import Design
from anchorscope.storage.errors import AnchorscopeError

LEAST_OF_A_PATHWAY = 20
"""Samples of either pathway from which on a detector tells them apart."""
LEAST_AUC = strength.LEAST_AUC


@dataclass(frozen=True)
class TrainingStates:
    """What was measured of the training samples."""

    folder: str  # of the activations
    answers: pd.DataFrame  # measured and labelled
    design: Design  # the folds, in the order of `answers`
    device: str | torch.device  # where probes are fitted

    def measured(self, readout: str, condition: str, draw: int) -> tuple[Any, Features]:
        """Ids and states of the layers from which a probe may be chosen, [layers, n, width].

        Of the residual stream without the last block: what engines give there is normed already.
        """
        ids, x = activations.read(self.folder, readout, condition, draw)
        return ids, Part(x, range(len(x) - 1)) if readout == RESIDUAL and len(x) > 1 else x

    def clean(self, readout: str) -> Features:
        """The clean states of all samples, in the order of the design."""
        return scores.of_everyone(
            partial(self.measured, readout), scores.CLEAN, readout, self.design
        )

    def scores(
        self, readout: str, conditions: list[scores.Condition], draws: Draws | None
    ) -> pd.DataFrame:
        """The table of scores of a read-out out of fold; `draws` takes those of refitted probes."""
        return scores.score_in_folds(
            partial(self.measured, readout),
            self.design,
            readout,
            conditions,
            extras=False,
            draws=draws,
            device=self.device,
        )


@dataclass(frozen=True)
class Evidence:
    """The evaluation of a detector that reads one layer of a read-out."""

    states: TrainingStates
    chosen: Config
    readout: str
    layer: int

    @cached_property
    def analyses(self) -> dict[str, Analysis]:
        """Read-out → its scores out of fold; its own also with refits, knockout and crossing."""
        answers, design = self.states.answers, self.states.design
        draws = scores.drawn(answers, design)
        own = self.states.scores(self.readout, [("knockout", 0), ("crossed", 0)], draws)
        others = [name for name in (before_answer(self.readout), RESIDUAL) if name != self.readout]
        tables = [own, *(self.states.scores(name, [], None) for name in others)]
        bootstrap = self.chosen.bootstrap
        by_readout = analyses(
            pd.concat(tables, ignore_index=True),
            answers,
            draws=bootstrap.draws,
            seed=self.chosen.seed,
            refits=draws,
            level=bootstrap.level,
            min_n=bootstrap.min_n,
            min_clusters=bootstrap.min_clusters,
        )
        return {one.readout.name: one for one in by_readout}

    @property
    def own(self) -> Analysis:
        """That of the detector's own read-out."""
        return self.analyses[self.readout]

    @cached_property
    def scores(self) -> dict[str, np.ndarray]:
        """What is compared → scores out of fold at equal classes, [n]; the probe first."""
        named = {"probe": self.own.readout.own}
        if self.readout != RESIDUAL:
            named["resid"] = self.analyses[RESIDUAL].readout.own
        named["before"] = self.analyses[before_answer(self.readout)].readout.own
        text = floors.floors(self.states.answers, self.states.design.settings)
        return named | strength.scores(text, self.own.answers)

    def report(self) -> dict[str, Any]:
        """What config.json holds, and the card tells.

        Raises AnchorscopeError: the probe gives all answers the same score.
        """
        z, drawn = self.own.z, self.own.drawn
        by_fold = pd.Series(self.scores["probe"]).groupby(self.own.readout.fold)
        if by_fold.nunique().max() == 1:
            what = "the probe gives every answer the same score: it has learned nothing"
            do = "give more rows, or read another site"
            raise AnchorscopeError(what, f"read-out {self.readout}", do, see="detector")
        gains = self._gains()
        report = {
            "n": len(z),
            "n_wrong": int(z.sum()),
            "n_clusters": int(drawn.clusters.max()) + 1,
            "level": self.own.level,
            "layers_of_folds": [int(layer) for layer in self.own.readout.layer_of_fold],
            "out_of_fold": {name: self._quality(name) for name in self.scores},
            "gains": {name: gain._asdict() for name, gain in gains.items()},
            "crossing": self._crossing(),
            "pathway": self._pathway(),
        }
        return without_nan(report | {"verdicts": verdicts(report)})

    def _quality(self, name: str) -> dict[str, Any]:
        """The measures of one of `scores`; AUROC alone of what is not calibrated."""
        s, z, drawn, level = self.scores[name], self.own.z, self.own.drawn, self.own.level
        # Folds have unlike shares of wrong answers: ranks are compared at equal classes.
        auc = quality.interval(intervals.auc(s, z), drawn.aucs(s[None], z)[1:, 0], level)
        measures: dict[str, Interval] = {}
        if name in ("probe", "resid"):
            measures = quality.estimates(samples.sigmoid(s + self._shift()), z, drawn, level)
        return {key: one._asdict() for key, one in {**measures, "auroc": auc}.items()}

    def _shift(self) -> np.ndarray:
        """Log odds of a wrong answer in the training fold of each sample, [n]."""
        design = self.states.design
        shift = fitting.prior_shift(design, np.ones(len(design.z)))
        return shift[self.own.readout.fold]

    def _gains(self) -> dict[str, Interval]:
        """The probe's AUC minus that of everything else, paired."""
        z, drawn = self.own.z, self.own.drawn
        names = list(self.scores)
        aucs = drawn.aucs(np.stack([self.scores[name] for name in names]), z)[1:]
        whole = [intervals.auc(self.scores[name], z) for name in names]
        return {
            name: quality.interval(whole[0] - whole[at], aucs[:, 0] - aucs[:, at], self.own.level)
            for at, name in enumerate(names)
            if at > 0
        }

    def _crossing(self) -> dict[str, Any] | None:
        """What the probe reads of question, answer and pair at the detector's layer."""
        table = crossing.report(self.own)
        rows = table[table["layer"] == self.layer]
        if rows.empty:
            return None
        row = rows.iloc[0]
        terms = {
            name: Interval(*(float(row[f"{name}{end}"]) for end in ("", "_low", "_high")))
            for name in ("pair_right", "truth")
        }
        counts = {name: int(row[name]) for name in ("n_right", "n_wrong")}
        shares = {name: float(row[f"share_{name}"]) for name in crossing.TERMS}
        named = {name: term._asdict() for name, term in terms.items()}
        return {"reads": str(row["reads"]), **counts, **named, "shares": shares}

    def pathway_labels(self) -> pd.Series | None:
        """Id → 1 if cutting E_Q flips the probe's verdict; None where few do, or few do not."""
        flip = self.own.readout.effects["knockout"].flip[0, self.layer].astype(np.int64)
        labels = pd.Series(flip, index=self.own.answers["id"].to_numpy())
        if min(flip.sum(), len(flip) - flip.sum()) < LEAST_OF_A_PATHWAY:
            return None
        answers = self.states.answers.assign(label=self.states.answers["id"].map(labels))
        return None if fitting.obstacle(answers, self.states.design.settings) else labels

    def _pathway(self) -> dict[str, Any] | None:
        """How well the pathway is told from clean states, beside the probe's own score."""
        labels = self.pathway_labels()
        if labels is None:
            return None
        answers = self.states.answers.assign(label=self.states.answers["id"].map(labels))
        design = fitting.design(answers, self.states.design.settings)
        x = self.states.clean(self.readout)[self.layer : self.layer + 1]
        fitted = fitting.fit(x, design, device=self.states.device)
        by_id = pd.Series(fitting.out_of_fold(fitted, x, design.fold)[0], index=design.ids)
        s, z = by_id[self.own.answers["id"]].to_numpy(), labels.to_numpy()
        unsure = -np.abs(self.own.readout.clean[self.layer])
        aucs = self.own.drawn.aucs(np.stack([s, unsure]), z)[1:]
        states, alone = intervals.auc(s, z), intervals.auc(unsure, z)
        level = self.own.level
        return {
            "share": float(z.mean()),
            "auroc": quality.interval(states, aucs[:, 0], level)._asdict(),
            "auroc_of_the_score": quality.interval(alone, aucs[:, 1], level)._asdict(),
            "gain": quality.interval(states - alone, aucs[:, 0] - aucs[:, 1], level)._asdict(),
        }


def without_nan(value: Any) -> Any:
    """Nested values with None in place of NaN, which JSON does not have."""
    if isinstance(value, Mapping):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def verdicts(report: Mapping[str, Any]) -> list[str]:
    """What the numbers say, in words: what it beats, what it reads."""
    gains, lines = report["gains"], []
    auc = report["out_of_fold"]["probe"]["auroc"]
    unbeaten = [name for name in floors.FLOORS if gains[name]["low"] <= 0]
    if auc["low"] <= LEAST_AUC:
        lines.append(f"It is not surely better than AUROC {LEAST_AUC}: do not use it.")
    if unbeaten:
        lines.append(
            f"It is not surely better than the text alone: {', '.join(unbeaten)} does as well. "
            "A classifier of the text is cheaper."
        )
    elif auc["low"] > LEAST_AUC:
        lines.append("It is surely better than every model of the text.")
    if gains["before"]["low"] <= 0:
        lines.append(
            "It only reads the question: at the end of the prompt, before the answer is read, a "
            "probe does as well. It tells hard questions, not wrong answers."
        )
    return [*lines, READS[crossing_verdict(report)]]


def crossing_verdict(report: Mapping[str, Any]) -> str:
    """What crossing says the probe reads: `truth`, `pair`, `not shown`, `too few`."""
    return (report["crossing"] or {"reads": crossing.TOO_FEW})["reads"]


READS = {
    crossing.TRUTH: "It compares the answer with the question, and tells truth by that.",
    crossing.PAIR: "It compares the answer with the question, but is not shown to tell truth by "
    "that.",
    crossing.NOT_SHOWN: "It is not shown to compare the answer with the question: what it reads "
    "may be the question and the answer, each for itself.",
    crossing.TOO_FEW: "Whether it compares the answer with the question cannot be said: too few "
    "answers could be exchanged between questions.",
}

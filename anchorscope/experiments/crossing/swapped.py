"""The pairs of a read-out whose answers were swapped, and their four scores in each arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from anchorscope.anchors.labels import squad_normalise
from anchorscope.experiments.analysis import Analysis
from anchorscope.experiments.crossing import imitator
from anchorscope.experiments.crossing.claims import Answers
from anchorscope.experiments.knockout.curve import complete
from anchorscope.experiments.pairs import places
from anchorscope.probes import samples
from anchorscope.probes.samples import Readout

OWN, GOLD = ("clean", "crossed"), ("gold", "crossed-gold")
CUT, RANDOM = ("knockout", "crossed-knockout"), ("random", "crossed-random")
"""Conditions of the answers behind their own question, and behind the partner's."""
Arm = tuple[str, str]


@dataclass(frozen=True)
class Swapped:
    """Pairs of samples that are each other's partners, of one label and one outer fold."""

    readout: Readout
    answers: pd.DataFrame  # the samples, see `samples.in_order`
    subjects: np.ndarray  # of every sample, int64 [n]; a question where it has none
    refits: Sequence[Readout]  # the read-out as refitted probes see it
    members: np.ndarray  # places of both samples of each pair, int64 [2, pairs]

    @classmethod
    def of(cls, analysis: Analysis) -> Swapped:
        """The pairs of a read-out.

        The answers have `crossed_partner`. A pair within a fold is scored by one probe; others are
        left out. Raises AnchorscopeError: scores and partners are not of the same samples.
        """
        partner, readout = partners_of(analysis), analysis.readout
        first = np.arange(len(partner))
        alike = (partner > first) & (readout.fold == readout.fold[partner])
        conditions = [name for arm in (OWN, CUT, RANDOM, GOLD) for name in arm]
        found = None
        if analysis.refits is not None:
            found = analysis.refits.refits(readout, analysis.answers, conditions)
        refits = list(found[1]) if found else []
        members = np.stack([first[alike], partner[alike]])
        return cls(readout, analysis.answers, analysis.drawn.clusters, refits, members)

    @cached_property
    def right(self) -> np.ndarray:
        """Whether both answers of a pair are right, bool [pairs]; both are wrong elsewhere."""
        return self.answers["label"].to_numpy(dtype=np.int64)[self.members[0]] == 0

    def measured(self, arm: Arm) -> bool:
        """Whether the conditions of an arm were measured."""
        return {name for name in arm if name != "clean"} <= self.readout.effects.keys()

    def scores(self, arm: Arm) -> np.ndarray:
        """The four scores of each pair, float64 [4, 1 + refits, layers, pairs].

        Logits towards *right*, in the order of `terms`; first the probe's, then each refit's. NaN
        where not measured, and with random tokens cut where that control is not complete; draws
        are averaged.
        """
        four = np.stack([self._four(one, arm) for one in (self.readout, *self.refits)], axis=1)
        return np.where(self.complete, four, np.nan) if arm == RANDOM else four

    @cached_property
    def complete(self) -> np.ndarray:
        """Where as many random tokens as E_Q has were cut in all four passes, bool [pairs]."""
        counts = [complete(self.readout, self.answers, name) for name in CUT]
        return np.all([one[self.members] for one in counts], axis=(0, 1))

    def _four(self, readout: Readout, arm: Arm) -> np.ndarray:
        own, moved = (
            readout.clean if name == "clean" else readout.effects[name].s.mean(0) for name in arm
        )
        one, other = self.members
        return -np.stack([own[:, one], moved[:, one], moved[:, other], own[:, other]])

    def log_p(self, arm: Arm) -> np.ndarray:
        """The summed log-probabilities of the same, [4, pairs]; NaN where they are not known."""
        blank = pd.Series(np.nan, index=self.answers.index)
        own, moved = (
            self.answers.get(f"logprob_{name}", blank).to_numpy(dtype=np.float64) for name in arm
        )
        one, other = self.members
        return np.stack([own[one], moved[one], moved[other], own[other]])

    def texts(self, arm: Arm) -> list[str]:
        """The answer of each sample in an arm, [n]."""
        if arm == GOLD:
            return [str(golds[0]) if len(golds) else "" for golds in self.answers["golds"]]
        return list(self.answers["ea_text"].astype(str))

    def answered(
        self, arm: Arm, rows: np.ndarray, scores: np.ndarray, imitated: np.ndarray
    ) -> Answers:
        """What `claims` takes of some pairs, bool [pairs], at all layers.

        `scores` and `imitated`, [layers, pairs], are of all pairs in the arm.
        """
        members, some = self.members[:, rows], scores[..., rows]
        return Answers(
            scores=some[:, 0],
            subjects=self.subjects[members],
            texts=_numbers(self.texts(arm))[members],
            imitated=imitated[:, rows],
            log_p=self.log_p(arm)[:, rows],
            refits=some[:, 1:] if some.shape[1] > 1 else None,
        )

    def imitated(self, scores: Mapping[Arm, np.ndarray]) -> dict[Arm, np.ndarray]:
        """Pair terms of the text imitator in each arm, [layers, pairs]; NaN without scores.

        It is fitted to own and gold answers together, see `imitator.pair_terms`.
        """
        known = {arm: np.isfinite(four[:, 0]).all((0, 1)) for arm, four in scores.items()}
        kinds = {arm: np.where(self.right, 0, 1) if arm == OWN else 2 for arm in scores}
        fold = self.readout.fold[self.members[0]]
        pair = imitator.pair_terms(
            np.concatenate([scores[arm][:, 0][..., some] for arm, some in known.items()], axis=-1),
            np.concatenate([self._features(arm, some) for arm, some in known.items()], axis=1),
            kind=np.concatenate(
                [np.broadcast_to(kinds[arm], some.shape)[some] for arm, some in known.items()]
            ),
            fold=np.concatenate([fold[some] for some in known.values()]),
        )
        found, start = {}, 0
        for arm, some in known.items():
            found[arm] = np.full((len(pair), len(some)), np.nan)
            found[arm][:, some] = pair[:, start : start + some.sum()]
            start += some.sum()
        return found

    def _features(self, arm: Arm, rows: np.ndarray) -> np.ndarray:
        """Overlap features of some pairs' four texts in an arm, [4, pairs, features]."""
        texts, questions = self.texts(arm), list(self.answers["question"].astype(str))
        one, other = self.members[:, rows]
        both = [(one, one), (other, one), (one, other), (other, other)]
        return np.stack(
            [
                imitator.features([questions[i] for i in asked], [texts[i] for i in said])
                for asked, said in both
            ]
        )


def partners_of(analysis: Analysis) -> np.ndarray:
    """The place of each sample's partner, int64 [n]; -1 for none."""
    readout, partners = analysis.readout, analysis.answers["crossed_partner"]
    partner, given = places(analysis.answers, partners), partners.notna().to_numpy()
    strange = (given != readout.effects["crossed"].measured) | (given & (partner < 0))
    paired = np.flatnonzero(partner >= 0)
    strange[paired] |= partner[partner[paired]] != paired
    if strange.any():
        what = f"{strange.sum()} samples have a partner and no scores, or scores and no partner"
        first = analysis.answers["id"][strange].iloc[0]
        raise samples.mismatch(f"{what}, id {first} first", f"read-out {readout.name}, crossed")
    return partner


def _numbers(texts: Sequence[str]) -> np.ndarray:
    """A number for each text, equal for texts that are equal once normalised, int64 [n]."""
    return pd.factorize(np.array([squad_normalise(text) for text in texts], dtype=object))[0]

"""Pairs of samples whose answers were swapped, and their four scores in each arm.

An arm is two conditions that block the same tokens: one after the answer's own question, one after
the partner's. For example, the arm `clean` consists of the conditions `clean` and `crossed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from anchorscope.anchors.labels import squad_normalise
from anchorscope.claims.claim import GOLD, OWN, Groups
from anchorscope.claims.estimates import Answers
from anchorscope.pairs import imitator
from anchorscope.passes import interventions
from anchorscope.questions import folds
from anchorscope.statistics import samples
from anchorscope.statistics.analysis import Analysis, partner_places
from anchorscope.statistics.samples import Readout


@dataclass(frozen=True)
class Swapped:
    """Pairs of samples that are each other's partners, with the same label and outer fold."""

    readout: Readout
    answers: pd.DataFrame  # the samples, see `Scores.matching`
    subjects: np.ndarray  # id of each sample's subject or, if unknown, question, int64 [n]
    refits: Sequence[Readout]  # the read-out as scored by each refit of the probes
    members: np.ndarray  # indices of the two samples of each pair, int64 [2, pairs]

    @classmethod
    def of(cls, analysis: Analysis) -> Swapped:
        """Form pairs from the column `crossed_partner` of the answers.

        Pairs across outer folds are left out, because no single probe scores both samples.

        Raises:
            AnchorscopeError: A `crossed` score lacks a mutual partner, or a partner lacks a score.
        """
        partner, readout = _partners_of(analysis), analysis.readout
        first = np.arange(len(partner))
        alike = (partner > first) & (readout.fold == readout.fold[partner])
        conditions = [one.name for arm in interventions.arms().values() for one in arm]
        refits = analysis.versions(readout, conditions)[1:]
        members = np.stack([first[alike], partner[alike]])
        return cls(readout, analysis.answers, analysis.resamples.clusters, refits, members)

    @cached_property
    def right(self) -> np.ndarray:
        """Whether the answers of each pair are right, bool [pairs]. Both have the same label."""
        return self.answers["label"].to_numpy(dtype=np.int64)[self.members[0]] == 0

    @property
    def sides(self) -> dict[str, np.ndarray]:
        """Map `right` and `wrong` to masks of their pairs, bool [pairs]."""
        return {"right": self.right, "wrong": ~self.right}

    @property
    def layer(self) -> np.ndarray:
        """The layer that each pair's outer fold chose, int64 [pairs]."""
        return self.readout.layer_of_fold[self.fold]

    @property
    def fold(self) -> np.ndarray:
        """Outer fold of each pair, int64 [pairs]."""
        return self.readout.fold[self.members[0]]

    @property
    def clusters(self) -> np.ndarray:
        """Cluster of each pair, int64 [pairs]; pairs that share a subject share a cluster."""
        pair = np.full(len(self.subjects), None)
        pair[self.members] = np.arange(self.members.shape[1])
        return folds.components(self.subjects.tolist(), pair.tolist())[self.members[0]]

    @cached_property
    def bound(self) -> tuple[np.ndarray, np.ndarray]:
        """Masks, bool [pairs]: pairs with equal frames; pairs on a cycle. See `bound_by_design`.

        A prompt whose frame is not known counts as different from all others.
        """
        frames = self.answers.get("frame", pd.Series(None, index=self.answers.index))
        numbered = pd.factorize(frames)[0]
        numbered = np.where(numbered < 0, len(frames) + np.arange(len(frames)), numbered)
        return bound_by_design(self.subjects[self.members], numbered[self.members])

    def groups(self) -> Groups:
        """Return the scored answers of each side in every measured arm, at all layers."""
        known = {OWN, *self.readout.effects}
        scores = {
            arm: self.scores(arm)
            for arm, both in interventions.arms().items()
            if known.issuperset(one.name for one in both)
        }
        imitated = self._imitated(scores)
        every = {
            arm: Answers(
                scores=of_arm,
                subjects=self.subjects[self.members],
                texts=_numbers(self._texts(arm))[self.members],
                fold=self.fold,
                imitated=imitated.get(arm, imitated[OWN]),
                bound=np.any(self.bound, axis=0),
            )
            for arm, of_arm in scores.items()
        }
        return {
            side: {arm: one.of(rows) for arm, one in every.items()}
            for side, rows in self.sides.items()
        }

    def scores(self, arm: str) -> np.ndarray:
        """Return the four scores of each pair in an arm, float64 [4, 1 + refits, layers, pairs].

        Scores are logits towards *right*, NaN where not measured. The module `estimates` gives
        the order of the four. On the axis [1 + refits], the probe comes first, then each refit.
        """
        probes = (self.readout, *self.refits)
        return np.stack([-self._four(arm, partial(_scores, one)) for one in probes], axis=1)

    def _four(self, arm: str, values: Callable[[str], np.ndarray]) -> np.ndarray:
        """Arrange each pair's four values, [4, ..., pairs]. `values` is condition → [..., n]."""
        own, moved = (values(condition.name) for condition in interventions.arms()[arm])
        one, other = self.members
        return np.stack([own[..., one], moved[..., one], moved[..., other], own[..., other]])

    def _texts(self, arm: str) -> list[str]:
        """Return the answer of each sample in an arm, [n]."""
        if arm == GOLD:
            return [str(golds[0]) if len(golds) else "" for golds in self.answers["golds"]]
        return list(self.answers["ea_text"])

    def _imitated(self, scores: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Map `OWN`, and `GOLD` if measured, to the text imitator's pair terms, [layers, pairs]."""
        names = [name for name in (OWN, GOLD) if name in scores]
        four = np.stack([scores[name][:, 0] for name in names], axis=2)
        arm, pair = np.nonzero(np.isfinite(four).all((0, 1)))
        questions = self.answers["question"].to_numpy(dtype=object)
        texts = np.array([self._texts(name) for name in names], dtype=object)
        one, other = self.members[:, pair]
        features = np.stack(
            [
                imitator.features(questions[asked], texts[arm, said])
                for said in (one, other)
                for asked in (one, other)
            ]
        )
        kind = np.where(arm == 0, 1 - self.right[pair], 2)  # right, wrong, gold
        found = np.full(four.shape[1:], np.nan)
        found[:, arm, pair] = imitator.pair_terms(
            four[:, :, arm, pair], features, kind=kind, fold=self.fold[pair]
        )
        return {name: found[:, number] for number, name in enumerate(names)}


def _scores(readout: Readout, condition: str) -> np.ndarray:
    """Return the scores under a condition, averaged over its draws, float64 [layers, n]."""
    return readout.clean if condition == OWN else readout.effects[condition].s.mean(0)


def _partners_of(analysis: Analysis) -> np.ndarray:
    """Check the partners, and return their rows as `partner_places` does."""
    readout, partners = analysis.readout, analysis.answers["crossed_partner"]
    partner, given = partner_places(analysis.answers, partners), partners.notna().to_numpy()
    strange = (given != readout.effects["crossed"].measured) | (given & (partner < 0))
    paired = np.flatnonzero(partner >= 0)
    strange[paired] |= partner[partner[paired]] != paired
    if strange.any():
        what = f"{strange.sum()} samples have a partner and no scores, or scores and no partner"
        first = analysis.answers["id"][strange].iloc[0]
        raise samples.mismatch(f"{what}, such as id {first}", f"read-out {readout.name}, crossed")
    return partner


def bound_by_design(subjects: np.ndarray, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the pairs whose pair terms must be 0, or add up to 0, once E_Q is blocked.

    A frame is a prompt without E_Q. With E_Q blocked, a score depends on frame and answer alone. So
    two questions with the same frame have a pair term of 0. Pairs of the same subjects, S and T,
    can form a cycle: one pair asks about S in wording A and about T in wording B, another about S
    in wording B and about T in wording A. The pair terms of a cycle add up to 0.

    `subjects` and `frames` are ids for both questions of a pair, int64 [2, pairs]. Return two
    masks, bool [pairs]: pairs with equal frames; other pairs that are on a cycle.
    """
    turned = np.where(subjects[0] > subjects[1], frames[::-1], frames)
    _, of_pair = np.unique(np.sort(subjects, axis=0), axis=1, return_inverse=True)
    size = 1 + max(frames.max(initial=0), 0)
    start, end = of_pair.ravel() * size + turned
    nodes, places = np.unique(np.concatenate([start, end]), return_inverse=True)
    start, end = np.split(places, 2)
    links = sparse.csr_array((np.ones(len(start)), (start, end)), shape=(len(nodes), len(nodes)))
    _, component = connected_components(links, connection="strong")
    same = frames[0] == frames[1]
    return same, (component[start] == component[end]) & ~same


def _numbers(texts: Sequence[str]) -> np.ndarray:
    """Return an id of each text, int64 [n]; texts that are equal after normalisation share it."""
    return pd.factorize(np.array([squad_normalise(text) for text in texts], dtype=object))[0]

"""Whether a probe follows when its answer is put behind another question.

Only *counted pairs* are compared at a layer: the sample has a partner in its own fold, and the
partner's own clean pass is classified as the sample's is. A probe that reads the question alone
then never follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.experiments.interchange import EXPERIMENT
from anchorscope.passes.interventions import ARMS
from anchorscope.probes import bands, intervals, samples
from anchorscope.probes.bands import Means, Spread
from anchorscope.probes.draws import Draws
from anchorscope.probes.samples import Readout

INTERCHANGE = EXPERIMENT.cell_columns
LABELS = ("all", "0", "1")
ANCHORS = ("Q", "A", "all")
DIFFERENCE = "-".join(ARMS)


@dataclass(frozen=True)
class Arm:
    """What an arm does to each sample at each layer; of two arms, their difference.

    Attributes:
        partner: whether the sample has a partner, bool [n].
        counted: whether the pair counts, bool [layers, n].
        follows: 1 where the predicted class flips against the clean pass, float64 [layers, n].
        delta_p: percentage points, float64 [layers, n].
    """

    partner: np.ndarray
    counted: np.ndarray
    follows: np.ndarray
    delta_p: np.ndarray

    def __sub__(self, other: Arm) -> Arm:
        """The difference, over the samples that count in both."""
        return Arm(
            self.partner & other.partner,
            self.counted & other.counted,
            self.follows - other.follows,
            self.delta_p - other.delta_p,
        )


def arms(readout: Readout, answers: pd.DataFrame) -> dict[str, Arm]:
    """The arms measured, and where both are, `matched-placebo`.

    Args:
        readout: one of `samples.readouts`.
        answers: as `samples.in_order` returns them, with `matched_partner` and `placebo_partner`.

    Raises:
        AnchorscopeError: scores and partners are not of the same samples.
    """
    found = {name: _arm(readout, answers, name) for name in ARMS if name in readout.effects}
    if len(found) == len(ARMS):
        matched, placebo = found.values()
        found[DIFFERENCE] = matched - placebo
    return found


def _arm(readout: Readout, answers: pd.DataFrame, name: str) -> Arm:
    effects = readout.effects[name]
    partners = answers[f"{name}_partner"]
    given = partners.notna().to_numpy()
    places = pd.Index(answers["id"].astype(str)).get_indexer(pd.Index(partners.astype(str)))
    strange = (given != effects.measured) | (given & (places < 0))
    if strange.any():
        what = f"{strange.sum()} samples have a partner and no scores, or scores and no partner"
        where = f"read-out {readout.site}/{readout.position}, {name}"
        raise samples.mismatch(f"{what}, id {answers['id'][strange].iloc[0]} first", where)
    wrong = readout.clean > 0
    return Arm(
        partner=given,
        # Another fold's probe has learned from the partner, or from the sample.
        counted=given & (wrong == wrong[:, places]) & (readout.fold == readout.fold[places]),
        follows=effects.flip[0].astype(np.float64),
        delta_p=effects.delta_p[0],
    )


def report(
    scores: pd.DataFrame,
    answers: pd.DataFrame,
    *,
    draws_of_refits: Draws | None = None,
    draws: int = 1000,
    level: float = 0.95,
    min_n: int = 20,
    min_clusters: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """Whether the probe follows when an answer is put behind another question.

    Args:
        scores: the table of `anchorscope.probes.scores.score`; only the probe as defined counts.
        answers: as for `curve.curve`, with `<arm>_partner` and `partner_source`.
        draws_of_refits, draws, level, min_n, min_clusters, seed: see `curve.curve`.

    Returns:
        A row for each read-out, layer, arm (`matched`: behind its partner's question the answer has
        the other label; `placebo`: its own; `matched-placebo`: the paired difference), label
        (`all`; `0` right, `1` wrong answers) and anchor (`Q`, `A`, `all`, by the knockout's flips
        at that layer), with the columns `INTERCHANGE`. Of the group's `n` samples `n_partner` have
        a partner and `n_paired` count (see the module), `coverage` of them. `follows` is the share
        of these whose predicted class flips against the clean pass, `delta_p` their mean in
        percentage points, both with clustered bootstrap intervals; blanks where none count. `thin`:
        fewer than `min_n` pairs or `min_clusters` clusters. `source`: where subjects and relations
        come from, see `partners.Interchange`. No rows where no sample has a partner.

    Raises:
        AnchorscopeError: scores and answers are not of the same samples.
    """
    ordered = samples.in_order(answers)
    drawn = samples.bootstrap(ordered, draws, seed)
    source = ordered["partner_source"].iloc[0] if "partner_source" in ordered else None
    frames = [pd.DataFrame(columns=list(INTERCHANGE))]
    for readout in samples.readouts(scores, ordered):
        refits = None
        if draws_of_refits is not None:
            refits = draws_of_refits.refits(readout, ordered, ("knockout", *ARMS))
        spreads = iter(bands.spreads(partial(_means, ordered), readout, drawn, refits))
        layers = np.arange(len(readout.clean))
        fixed = readout.key | {"layer": layers, "headline": layers == readout.headline}
        for group in _groups(ordered, readout):
            found = group.columns(next(spreads), next(spreads), level)
            n_clusters = drawn.clusters_in(group.members)
            found["thin"] = (found["n_paired"] < min_n) | (n_clusters < min_clusters)
            frames.append(pd.DataFrame(fixed | found | {"source": source})[list(INTERCHANGE)])
    return pd.concat(frames[1:] or frames, ignore_index=True)


@dataclass(frozen=True)
class _Group:
    """Some samples in an arm.

    Attributes:
        arm, label, anchor: which, see `report`.
        moved: what the arm does.
        whole: who belongs to the group, bool [layers, n].
    """

    arm: str
    label: str
    anchor: str
    moved: Arm
    whole: np.ndarray

    @property
    def members(self) -> np.ndarray:
        """Whose pair counts, bool [layers, n]."""
        return self.whole & self.moved.counted

    def columns(self, follows: Spread, delta_p: Spread, level: float) -> dict[str, Any]:
        """The group's columns of the table, each [layers]."""
        n, n_paired = self.whole.sum(-1), self.members.sum(-1)
        found: dict[str, Any] = {"arm": self.arm, "label": self.label, "anchor": self.anchor}
        found |= {"n": n, "n_partner": (self.whole & self.moved.partner).sum(-1)}
        found |= {"n_paired": n_paired, "coverage": intervals.ratio(n_paired, n)}
        least = -1 if self.arm == DIFFERENCE else 0
        for name, spread in (("follows", follows), ("delta_p", delta_p)):
            low, high = spread.interval(level)
            if name == "follows":
                low, high = np.clip(low, least, 1), np.clip(high, least, 1)
            found |= {name: spread.estimate, f"{name}_low": low, f"{name}_high": high}
        return found


def _groups(answers: pd.DataFrame, readout: Readout) -> list[_Group]:
    """Every arm, label and anchor."""
    flips = readout.effects["knockout"].flip[0]
    anchored = {"Q": flips, "A": ~flips, "all": np.ones_like(flips)}
    label = answers["label"].astype(str).to_numpy()
    return [
        _Group(name, z, anchor, arm, ((z == "all") | (label == z)) & anchored[anchor])
        for (name, arm), z, anchor in product(arms(readout, answers).items(), LABELS, ANCHORS)
    ]


def _means(answers: pd.DataFrame, readout: Readout) -> list[Means]:
    """Share that follows and mean ΔP of each group."""
    return [
        Means(values[None], group.members[None])
        for group in _groups(answers, readout)
        for values in (group.moved.follows, group.moved.delta_p)
    ]


def contrasts(
    readout: Readout, answers: pd.DataFrame
) -> Iterator[tuple[dict[str, object], np.ndarray, np.ndarray]]:
    """Contrast and quantity, values in percentage points, and members; arrays [layers, n].

    Over the right answers that count in both arms: behind any other question a wrong answer's
    verdict falls back to the default, so that wrong ones prove little.
    """
    found = arms(readout, answers)
    if DIFFERENCE not in found:
        return
    members = found[DIFFERENCE].counted & (answers["label"].to_numpy(dtype=np.int64) == 0)
    for quantity, (name, arm) in product(("share", "delta_p"), found.items()):
        values = 100.0 * arm.follows if quantity == "share" else arm.delta_p
        yield {"contrast": name, "quantity": quantity}, values, members

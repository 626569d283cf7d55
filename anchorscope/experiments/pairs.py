"""Tables of arms: what a sample does beside its partner, by label and by the knockout's flips."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import ANCHORS, Analysis, Group, Quantity, count
from anchorscope.probes import intervals
from anchorscope.probes.bands import Means
from anchorscope.probes.samples import Readout

LABELS = ("all", "0", "1")


@dataclass(frozen=True)
class Arm:
    """What an arm does to each sample at each layer.

    Attributes:
        partner: whether the sample has a partner, bool [n].
        counted: whether the pair counts, bool [layers, n].
        values: column → what is averaged over them, [layers, n]: percentage points of `delta_p`,
            else 0 or 1, or a difference of these.
        averages: column → the same, told without an interval.
    """

    partner: np.ndarray
    counted: np.ndarray
    values: Mapping[str, np.ndarray]
    averages: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __sub__(self, other: Arm) -> Arm:
        """The difference, over the samples that count in both."""
        return Arm(
            self.partner & other.partner,
            self.counted & other.counted,
            {name: self.values[name] - other.values[name] for name in self.values},
        )


def table(
    analysis: Analysis,
    columns: Sequence[str],
    arms: Callable[[Readout], Mapping[str, Arm]],
    source: str | None,
    refitted: Sequence[str] = (),
) -> pd.DataFrame:
    """A row for each layer, arm, label (`all`, `0` right, `1` wrong) and anchor.

    Args:
        analysis, columns, refitted: see `Analysis.table`.
        arms: of a read-out.
        source: where relations come from, see `partners.Interchange`.
    """
    label = analysis.answers["label"].astype(str).to_numpy()
    here = arms(analysis.readout)

    def groups(readout: Readout) -> list[Group]:
        flips = readout.effects["knockout"].flip[0]
        anchored = {"Q": flips, "A": ~flips, "all": np.ones_like(flips)}
        return [
            _group(name, arm, z, anchor, ((z == "all") | (label == z)) & anchored[anchor])
            for (name, arm), z, anchor in product(arms(readout).items(), LABELS, ANCHORS)
        ]

    def describe(group: Group, found: Mapping[str, Any], _: object) -> dict[str, Any]:
        n_paired = count(group.support)
        return {
            "n_partner": count(group.members & here[str(group.key["arm"])].partner),
            "n_paired": n_paired,
            "coverage": intervals.ratio(n_paired, found["n"]),
            "source": source,
        }

    return analysis.table(columns, groups, describe, refitted)


def _group(name: str, arm: Arm, label: str, anchor: str, whole: np.ndarray) -> Group:
    """Some samples [layers, n] in an arm."""
    counted = (whole & arm.counted)[None]
    quantities = {
        column: Quantity(Means(values[None], counted), column, _bounds(name, column))
        for column, values in arm.values.items()
    }
    averages = {column: Means(values, counted) for column, values in arm.averages.items()}
    key = {"arm": name, "label": label, "anchor": anchor}
    return Group(key, whole[None], counted, quantities, averages)


def _bounds(arm: str, column: str) -> tuple[float, float]:
    if column == "delta_p":
        return -np.inf, np.inf
    return (-1, 1) if column == "contrast" or "-" in arm else (0, 1)

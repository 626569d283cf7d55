"""Tables of arms: what a sample does beside its partner, by label and by the knockout's flips."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import SHARE, Analysis, Group, Quantity, anchored, count
from anchorscope.probes import intervals
from anchorscope.probes.bands import ANY, Means
from anchorscope.probes.samples import Readout


@dataclass(frozen=True)
class Arm:
    """What an arm does to each sample at each layer."""

    partner: np.ndarray  # whether the sample has a partner, bool [n]
    counted: np.ndarray  # whether the pair counts, bool [layers, n]
    # averaged over the pairs that count, [layers, n] or [n]: percentage points of `delta_p`, else 0
    # or 1 (`changed`: a share), or a difference of these
    values: Mapping[str, np.ndarray]


def places(answers: pd.DataFrame, partners: pd.Series | np.ndarray) -> np.ndarray:
    """Where each sample's partner stands among the answers, int64 [n]; -1 where it has none."""
    ids = pd.Index(answers["id"].astype(str))
    return ids.get_indexer(pd.Index(partners.astype(str)))


def table(
    analysis: Analysis,
    columns: Sequence[str],
    arms: Callable[[Readout], Mapping[str, Arm]],
    source: str | None,
    refitted: Sequence[str] = (),
) -> pd.DataFrame:
    """A row for each layer, arm, label (`all`, `0` right, `1` wrong) and anchor.

    `source`: see `partners.Interchange`; for the other arguments see `Analysis.table`.
    """
    z = analysis.answers["label"].astype(str).to_numpy()

    def groups(readout: Readout) -> list[Group]:
        flips = anchored(readout.effects["knockout"].flip[0])
        found = []
        for (name, arm), label, anchor in product(arms(readout).items(), ("all", "0", "1"), flips):
            whole = ((label == "all") | (z == label)) & flips[anchor]
            named = {"arm": name, "label": label, "anchor": anchor, "source": source}
            found.append(_group(named, arm, whole[None]))
        return found

    return analysis.table(columns, groups, refitted)


def _group(named: dict[str, object], arm: Arm, whole: np.ndarray) -> Group:
    """Some samples [1, layers, n] in an arm."""
    counted = whole & arm.counted
    known = {"n_partner": count(whole & arm.partner), "n_paired": count(counted)}
    known["coverage"] = intervals.ratio(known["n_paired"], count(whole))
    bounds = {"delta_p": ANY, "contrast": (-1.0, 1.0)}
    shares = (-1.0, 1.0) if "-" in str(named["arm"]) else SHARE
    quantities = {
        column: Quantity(Means(values[None], counted), column, bounds.get(column, shares))
        for column, values in arm.values.items()
    }
    return Group(named | known, whole, counted, quantities)

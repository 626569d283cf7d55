"""The table of patching: shares of predictions that flip, by arm, group and layer."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.experiments.patching import ARMS, EXPERIMENT, RANDOM
from anchorscope.experiments.scored import matrices
from anchorscope.probes import bands, intervals, samples
from anchorscope.probes.bands import Means
from anchorscope.probes.samples import Readout

LABELS = ("all", "0", "1")
ANCHORS = ("Q", "A", "all")
COLUMNS = EXPERIMENT.cell_columns


def table(
    scores: pd.DataFrame,
    answers: pd.DataFrame,
    rows: pd.DataFrame,
    *,
    draws: int = 1000,
    level: float = 0.95,
    min_n: int = 20,
    min_clusters: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """How often replaced tokens flip what the probes predict.

    Args:
        scores: of the main run, which form the groups.
        answers: of the cell; those without scores were not measured.
        rows: what `measure` found.
        draws, level, min_n, min_clusters, seed: see `curve.curve`. Intervals hold the probes
            fixed.

    Returns:
        A row for each read-out, layer, arm, label and anchor, see `EXPERIMENT.columns`.
    """
    ordered = samples.in_order(answers[answers["id"].isin(scores["id"].unique())])
    drawn = samples.bootstrap(ordered, draws, seed)
    frames = [pd.DataFrame(columns=list(COLUMNS))]
    names = set(rows["readout"])
    for readout in samples.readouts(scores, ordered):
        if f"{readout.site}/{readout.position}" not in names:
            continue
        groups = _groups(readout, ordered, rows)
        means = [one for group in groups for one in group["means"]]
        spreads = iter(bands.spreads(partial(_fixed, means), readout, drawn))
        layers = np.arange(len(readout.clean))
        for group in groups:
            found: dict[str, Any] = readout.key | {"layer": layers} | group["fixed"]
            for name in ("flips", "random", "contrast"):
                spread = next(spreads)
                low, high = spread.interval(level)
                found |= {name: spread.estimate, f"{name}_low": low, f"{name}_high": high}
            members = group["members"]
            thin = members.sum(-1) < min_n
            found["thin"] = thin | (drawn.clusters_in(members) < min_clusters)
            found["headline"] = layers == readout.headline
            frames.append(pd.DataFrame(found)[list(COLUMNS)])
    return pd.concat(frames[1:] or frames, ignore_index=True)


def per_sample(scores: pd.DataFrame, answers: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Whether each sample flips at the headline layer, under each arm and under the control.

    Returns:
        `id`, `site`, `position`, `layer`, `arm`, `measure` (`flip`), `value`, `control`; NaN where
        the pair does not count.
    """
    ordered = samples.in_order(answers[answers["id"].isin(scores["id"].unique())])
    frames = [pd.DataFrame(columns=["id", "site", "position", "layer", "arm", "measure"])]
    for readout in samples.readouts(scores, ordered):
        if f"{readout.site}/{readout.position}" not in set(rows["readout"]):
            continue
        layer = readout.headline
        for group in _groups(readout, ordered, rows):
            if (group["fixed"]["label"], group["fixed"]["anchor"]) != ("all", "all"):
                continue
            exact, control, _ = (one.values[0, layer] for one in group["means"])
            counted = group["members"][layer]
            columns = {name: np.where(counted, v, np.nan) for name, v in
                       (("value", exact), ("control", control))}  # fmt: skip
            fixed = {"layer": layer, "arm": group["fixed"]["arm"], "measure": "flip"}
            frames.append(pd.DataFrame({"id": ordered["id"]} | readout.key | fixed | columns))
    return pd.concat(frames[1:] or frames, ignore_index=True)


def _fixed(means: list[Means], _: Readout) -> list[Means]:
    return means


def _groups(readout: Readout, answers: pd.DataFrame, rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Every arm, label and anchor of a read-out: its samples, and the three means."""
    ids = answers["id"].astype(str)
    s = matrices(rows, f"{readout.site}/{readout.position}", ids.tolist())
    if RANDOM.name not in s:
        return []  # no prompt with replaced tokens was short enough for the model
    own = s["clean"] > 0
    facts = rows.drop_duplicates(["id", "condition"]).set_index(["condition", "id"])
    flips = readout.effects["knockout"].flip[0]
    anchored = {"Q": flips, "A": ~flips, "all": np.ones_like(flips)}
    label = answers["label"].astype(str).to_numpy()
    changed = _fact(facts, RANDOM.name, "changed", ids).astype(np.float64)
    under_control = (s[RANDOM.name] > 0) != own
    found = []
    for arm, one in ARMS.items():
        if one.name not in s:
            continue
        exact = (s[one.name] > 0) != own
        counted = _counted(arm, readout, s[one.name], _fact(facts, one.name, "partner", ids), ids)
        counted &= ~np.isnan(s[RANDOM.name]) & (changed > 0)
        if arm == "published":
            counted &= ~own  # right answers that the probe calls right
        for z, anchor in product(LABELS, ANCHORS):
            whole = ((z == "all") | (label == z)) & anchored[anchor]
            members = whole & counted
            values = [exact, under_control, exact.astype(np.float64) - under_control]
            fixed = {
                "arm": arm,
                "label": z,
                "anchor": anchor,
                "n": whole.sum(-1),
                "n_paired": members.sum(-1),
                "changed": intervals.mean_members(
                    np.broadcast_to(np.nan_to_num(changed), members.shape)[None], members[None]
                ),
                "source": facts["source"].iloc[0],
            }
            means = [Means(one.astype(np.float64)[None], members[None]) for one in values]
            found.append({"fixed": fixed, "members": members, "means": means})
    return found


def _counted(
    arm: str, readout: Readout, s: np.ndarray, partner: np.ndarray, ids: pd.Series
) -> np.ndarray:
    """Whose pair counts, bool [layers, n]."""
    places = pd.Index(ids).get_indexer(pd.Index(partner.astype(str)))
    given = ~np.isnan(s) & (places >= 0)
    if arm == "published":
        return given
    wrong = readout.clean > 0
    return given & (wrong == wrong[:, places])


def _fact(facts: pd.DataFrame, condition: str, column: str, ids: pd.Series) -> np.ndarray:
    """A column of one condition's rows, in the order of `ids`; NaN where not measured, [n]."""
    if condition not in facts.index.get_level_values(0):
        return np.full(len(ids), np.nan, dtype=object)
    return facts.loc[condition][column].reindex(ids).to_numpy()

"""The table of patching: shares of predictions that flip, by arm, group and layer."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.experiments import pairs
from anchorscope.experiments.analysis import Analysis, analyses, stacked
from anchorscope.experiments.pairs import Arm
from anchorscope.experiments.patching import ARMS, EXPERIMENT, RANDOM
from anchorscope.experiments.scored import matrices
from anchorscope.probes.samples import Readout

COLUMNS = EXPERIMENT.columns
PER_SAMPLE = ("id", "site", "position", "layer", "arm", "measure", "value", "control")


def table(
    scores: pd.DataFrame, answers: pd.DataFrame, rows: pd.DataFrame, **settings: Any
) -> pd.DataFrame:
    """How often replaced tokens flip what the probes predict.

    A row for each read-out, layer, arm, label and anchor, with the columns `COLUMNS`; intervals
    hold the probes fixed. The main run's scores form the groups, `rows` are what `measure` found,
    `settings` are of `analyses`; answers without scores were not measured.
    """
    source = next(iter(rows["source"].dropna()), None)
    frames = [
        pairs.table(one, COLUMNS, partial(arms, answers=one.answers, rows=rows), source)
        for one in _analyses(scores, answers, rows, **settings)
    ]
    return stacked(frames, COLUMNS)


def per_sample(scores: pd.DataFrame, answers: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Whether each sample flips at the headline layer, under each arm and under the control.

    `PER_SAMPLE`; `value` and `control` are NaN where the pair does not count.
    """
    frames = []
    for analysis in _analyses(scores, answers, rows, draws=1):
        layer, ids = analysis.readout.headline, analysis.answers["id"]
        for name, arm in arms(analysis.readout, analysis.answers, rows).items():
            fixed = analysis.readout.key | {"layer": layer, "arm": name, "measure": "flip"}
            for column, of in (("value", "flips"), ("control", "random")):
                fixed[column] = np.where(arm.counted[layer], arm.values[of][layer], np.nan)
            frames.append(pd.DataFrame({"id": ids} | fixed))
    return stacked(frames, PER_SAMPLE)


def _analyses(
    scores: pd.DataFrame, answers: pd.DataFrame, rows: pd.DataFrame, **settings: Any
) -> Iterator[Analysis]:
    """The read-outs that the experiment measured."""
    measured = answers[answers["id"].isin(scores["id"].unique())]
    scores = scores[scores["readout"].isin(rows["readout"].unique())]
    return analyses(scores, measured, **settings)


def arms(readout: Readout, answers: pd.DataFrame, rows: pd.DataFrame) -> dict[str, Arm]:
    """Each arm measured; the values are `flips`, `random` (the control), `contrast`, and
    `changed`, what share of the control's replaced ids really changed.
    """
    ids = answers["id"].astype(str).tolist()
    s = matrices(rows, readout.name, ids)
    if RANDOM.name not in s:
        return {}  # no prompt with replaced tokens was short enough for the model
    facts = rows.drop_duplicates(["id", "condition"]).set_index(["condition", "id"])
    own, wrong, control = s["clean"] > 0, readout.clean > 0, s[RANDOM.name]
    random = 1.0 * ((control > 0) != own)
    changed = facts.loc[RANDOM.name]["changed"].reindex(ids).to_numpy(dtype=np.float64)
    found = {}
    measured = {arm: one for arm, one in ARMS.items() if one.name in s}
    for arm, one in measured.items():
        flips = 1.0 * ((s[one.name] > 0) != own)
        places = pairs.places(answers, facts.loc[one.name]["partner"].reindex(ids))
        counted = ~np.isnan(s[one.name] + control) & (places >= 0) & (changed > 0)
        # of `published`, right answers that the probe calls right
        counted &= ~own if arm == "published" else wrong == wrong[:, places]
        values = {"flips": flips, "random": random, "contrast": flips - random}
        found[arm] = Arm(places >= 0, counted, values | {"changed": np.nan_to_num(changed)})
    return found

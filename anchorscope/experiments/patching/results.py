"""Results of patching: flips by arm, group and layer, and pictures of them.

Only right answers are drawn. After another question, whichever it is, the predicted class of a
wrong answer falls back to the default class. So wrong answers prove little.
"""

import numpy as np
import pandas as pd

from anchorscope.experiments import flips
from anchorscope.experiments.flips import Arm, Words
from anchorscope.experiments.measured import Arrays, PerSample
from anchorscope.experiments.patching import ARMS, COLUMNS, RANDOM
from anchorscope.figures.picture import Picture, Request, as_chart
from anchorscope.statistics.analysis import Analysis

WORDS = Words(
    arms={
        "matched": "matched: tokens from a question to which the answer is wrong",
        "published": "published: right answers, tokens from a question answered wrongly",
        "placebo": "placebo: tokens from another question to which the answer is right",
    },
    columns=COLUMNS,
    what="Right answers that flip when question tokens are replaced",
)


def table(analysis: Analysis, measured: Arrays) -> pd.DataFrame:
    """Return a row per layer, arm, label and anchor, with the share of predictions that flip."""
    return flips.table(analysis, COLUMNS, arms(analysis, measured))


def per_sample(analysis: Analysis, measured: Arrays) -> PerSample:
    """Return whether each sample flips under each arm and under the control."""
    return flips.per_sample(analysis, arms(analysis, measured))


def arms(analysis: Analysis, measured: Arrays) -> dict[str, Arm]:
    """Return the measured arms by name.

    Their values are those of `flips.against_control`, and `changed`: the share of the control's
    new tokens that differ from the tokens they replace.
    """
    if RANDOM.name not in measured:
        return {}  # no sample has both a partner and a prompt that is short enough
    complete = flips.enough_other_tokens(analysis.answers) & (measured["changed"] > 0)
    facts = {"source": "wording" if measured["by_wording"] else "relations"}
    called_wrong, found = analysis.readout.clean > 0, {}
    for name, one in ARMS.items():
        if one.name not in measured:
            continue
        arm = flips.against_control(measured, one.name, RANDOM.name, complete)
        if name == "published":  # right answers that the probe calls right
            like_partner = measured["clean"][0] <= 0
        else:
            like_partner = called_wrong == called_wrong[:, measured[f"{name}/partner"]]
        values = {**arm.values, "changed": np.nan_to_num(measured["changed"])}
        found[name] = Arm(arm.counted & like_partner, values, facts)
    return found


@as_chart
def bars(table: pd.DataFrame, request: Request) -> Picture:
    """Draw each dataset's groups at its headline layer."""
    return flips.bars(_rows(table, request), request, WORDS)


@as_chart
def layers(table: pd.DataFrame, request: Request) -> Picture:
    """Draw each dataset's groups by layer."""
    return flips.by_layer(_rows(table, request), request, WORDS)


def _rows(table: pd.DataFrame, request: Request) -> pd.DataFrame:
    return flips.rows_of(table, request, WORDS, label="0")

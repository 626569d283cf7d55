"""A row for each sample: what was asked and answered, its label, its group, p and ΔP."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import stacked
from anchorscope.experiments.experiment import recurring
from anchorscope.probes import samples
from anchorscope.probes.samples import Readout, sigmoid

AS_ANSWERED = "as in the answers"
COLUMNS = {
    **recurring("site", "position", "layer", "id"),
    "question": AS_ANSWERED,
    "answer": AS_ANSWERED,
    "answer_anchor": "the exact answer tokens, as text",
    "label": AS_ANSWERED,
    "outcome": AS_ANSWERED,
    "group": "`Q` if the predicted class flips under the knockout, else `A`",
    "p": "clean probability that the answer is wrong, out of fold",
    "delta_p": "ΔP under the knockout",
}
"""Column of the table → what it holds."""
CONDITION = "knockout"
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a cell begins with that a spreadsheet takes for a formula."""


def per_sample(
    scores: pd.DataFrame, answers: pd.DataFrame, readouts: Sequence[str] | None = None
) -> pd.DataFrame:
    """Every sample at the headline layer of each read-out, by default of all; see docs/products.md.

    `p` is the clean probability at balanced classes, out of fold; `group` is `Q` where the
    predicted class flips under the knockout, else `A`, and `delta_p` is by how much p of that class
    moves.

    Args:
        scores: the table of `anchorscope.probes.scores`.
        answers: those without scores were not measured.

    Raises:
        AnchorscopeError: scores and answers are not of the same samples.
    """
    used = (scores["probe"] == "clean") & scores["condition"].isin(["clean", CONDITION])
    if readouts is not None:
        used &= scores["readout"].isin(list(readouts))
    rows = scores[used]
    measured = samples.in_order(answers[answers["id"].isin(scores["id"].unique())])
    frames = [_of_readout(one, measured) for one in samples.readouts(rows, measured)]
    return stacked(frames, COLUMNS)


def _of_readout(readout: Readout, answers: pd.DataFrame) -> pd.DataFrame:
    layer, effects = readout.headline, readout.effects[CONDITION]
    columns = {
        **readout.key,
        "layer": layer,
        "id": answers["id"],
        "question": answers["question"],
        "answer": answers["answer"],
        "answer_anchor": answers["ea_text"],
        "label": answers["label"].astype(np.int64),
        "outcome": answers["outcome"],
        "group": np.where(effects.flip[0, layer], "Q", "A"),
        "p": sigmoid(readout.clean[layer]),
        "delta_p": effects.delta_p[0, layer],
    }
    return pd.DataFrame(columns)[list(COLUMNS)]


def for_spreadsheets(table: pd.DataFrame) -> pd.DataFrame:
    """The table with an apostrophe before texts that a spreadsheet would take for formulas."""
    texts = ("id", "question", "answer", "answer_anchor")
    return table.assign(**{name: table[name].map(_no_formula) for name in texts})


def _no_formula(text: object) -> object:
    return f"'{text}" if isinstance(text, str) and text.startswith(FORMULA) else text

"""Table of samples: question, answer, label, group, p and ΔP."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from anchorscope.statistics.analysis import stacked
from anchorscope.statistics.columns import recurring
from anchorscope.statistics.samples import Readout, sigmoid
from anchorscope.statistics.scores import Scores

COLUMNS = {
    **recurring("site", "position", "layer", "id"),
    **dict.fromkeys(("question", "answer"), "as in the answers"),
    "answer_anchor": "the exact answer tokens, as text",
    **dict.fromkeys(("label", "outcome"), "as in the answers"),
    "group": "`Q` if the predicted class flips under the knockout, else `A`",
    "p": "clean probability that the answer is wrong, out of fold",
    "delta_p": "ΔP under the knockout",
    "stands_for": "answers of the [pool](method.md#pool) that the sample stands for",
}
"""Column of the table → content."""
CONDITION = "knockout"
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of texts that a spreadsheet would read as formulas."""


def per_sample(
    scores: Scores, answers: pd.DataFrame, readouts: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return a row for each sample at the headline layer of each read-out, with `COLUMNS`.

    Answers without scores are left out. `readouts` are names such as `mlp/final`; the default is
    all.

    Raises:
        AnchorscopeError: Scores and answers have different samples, or a read-out was not measured.
    """
    measured, chosen = scores.matching(answers), scores.readouts if readouts is None else readouts
    return stacked([_of_readout(scores.readout(name), measured) for name in chosen], COLUMNS)


def _of_readout(readout: Readout, answers: pd.DataFrame) -> pd.DataFrame:
    layer, effects = readout.headline, readout.effects[CONDITION]
    table = answers.assign(
        site=readout.site,
        position=readout.position,
        layer=layer,
        answer_anchor=answers["ea_text"],
        label=answers["label"].astype(np.int64),
        group=np.where(effects.flip[0, layer], "Q", "A"),
        p=sigmoid(readout.clean[layer]),
        delta_p=effects.delta_p[0, layer],
    )
    return table[list(COLUMNS)]


def for_spreadsheets(table: pd.DataFrame) -> pd.DataFrame:
    """Put an apostrophe before texts that a spreadsheet would read as formulas."""
    texts = table[["id", "question", "answer", "answer_anchor"]]
    escaped = texts.map(lambda x: f"'{x}" if isinstance(x, str) and x.startswith(FORMULA) else x)
    return table.assign(**{str(name): escaped[name] for name in escaped})

"""Pictures of patching: flips as bars at the headline layer, and by layer.

Only right answers are drawn. After another question, whichever it is, the predicted class of a
wrong answer falls back to the default class. So wrong answers prove little.
"""

import pandas as pd

from anchorscope.experiments import flip_figure
from anchorscope.experiments.flip_figure import Words
from anchorscope.experiments.patching import COLUMNS
from anchorscope.figures.picture import Picture, Request, as_chart

WORDS = Words(
    arms={
        "matched": "matched: tokens from a question to which the answer is wrong",
        "published": "published: right answers, tokens from a question answered wrongly",
        "placebo": "placebo: tokens from another question to which the answer is right",
    },
    columns=COLUMNS,
    what="Right answers that flip when question tokens are replaced",
)


@as_chart
def bars(table: pd.DataFrame, request: Request) -> Picture:
    """Draw each dataset's groups at its headline layer."""
    return flip_figure.bars(_rows(table, request), request, WORDS)


@as_chart
def layers(table: pd.DataFrame, request: Request) -> Picture:
    """Draw each dataset's groups by layer."""
    return flip_figure.by_layer(_rows(table, request), request, WORDS)


def _rows(table: pd.DataFrame, request: Request) -> pd.DataFrame:
    return flip_figure.rows_of(table, request, WORDS, label="0")

"""The pictures of patching: flips as bars at the headline layer, and by layer.

Right answers only: behind any other question a wrong answer's verdict falls back to the default, so
that wrong ones prove little.
"""

import pandas as pd

from anchorscope.experiments import flip_figure
from anchorscope.experiments.flip_figure import Words
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_style import Figure

WORDS = Words(
    arms={
        "matched": "matched: the answer's truth turns",
        "published": "published: right answers, tokens of a wrong one",
        "placebo": "placebo: the answer's truth stays",
    },
    what="Right answers whose predicted class flips when question tokens before the same answer "
    "are replaced: the exact question tokens by a partner's, or as many others by those of an "
    "unlike question",
    counted="The probe must class the partner's own clean pass as it classes the sample's, or in "
    "`published` call the sample right.",
)


@fitted
def bars(table: pd.DataFrame, request: Request) -> Figure:
    """Each dataset's groups at its headline layer; `grouping` tells nothing here."""
    return flip_figure.bars(_right_answers(table, request), request, WORDS)


@fitted
def layers(table: pd.DataFrame, request: Request) -> Figure:
    """The same by layer."""
    return flip_figure.by_layer(_right_answers(table, request), request, WORDS)


def _right_answers(table: pd.DataFrame, request: Request) -> pd.DataFrame:
    rows = flip_figure.rows_of(table, request)
    return rows[rows["label"].astype(str) == "0"]


CHARTS = {"bars": bars, "layers": layers}
"""View → what draws it."""

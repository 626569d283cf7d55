"""Text of a figure: a caption of at most four lines, and further details on its page.

The text gives the number of samples, and says what is thin, grey or missing.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd

from anchorscope.figures.figure_data import Pair, Request, cells_of
from anchorscope.figures.figure_style import balanced
from anchorscope.storage.counts import NO_ANSWER

LINES = 4
"""Maximum number of lines in a caption."""
NO_SIGNAL = "No signal"
NO_CONCLUSION = "Without a signal, nothing can be concluded from ΔP or flips."
NO_MORE_THAN_TEXT = (
    "At layers without a signal, the probe does not significantly beat the text models. "
    f"{NO_CONCLUSION}"
)
REFITTED = "bootstrap intervals, widened by the variance of refitted probes"
FIXED = "bootstrap intervals, probes held fixed"
GREY = "Thin grey: layers without a signal"
CLUSTERED = f"clustered {FIXED}"
GROUPS = "groups formed anew at each layer, by the flips there"
Records = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Caption:
    """Text of a figure."""

    sentences: Sequence[str]  # of the caption; those that do not fit move to the details
    details: Sequence[str] = ()  # further sentences, for the figure's page

    def wrapped(self, characters: int) -> tuple[list[str], list[str]]:
        """Wrap the caption to at most `LINES` lines, and return them and the details."""
        kept: list[str] = []
        left: list[str] = []
        for sentence in filter(None, self.sentences):
            fits = len(textwrap.wrap(" ".join([*kept, sentence]), characters)) <= LINES
            (kept if fits else left).append(sentence)
        return balanced(" ".join(kept), characters), [*left, *self.details]


def caption(
    request: Request,
    rows: pd.DataFrame,
    what: str,
    size: str = "",
    sentences: Sequence[str] = (),
    details: Sequence[str] = (),
    *,
    claims: Sequence[str] = (),
    intervals: str = CLUSTERED,
    grey: str = GREY,
    thin: str = "Crosses: too few samples to rely on.",
) -> Caption:
    """Write a picture's caption, with the sentences that all pictures share.

    `rows` are drawn rows of `figure_data.labelled`; without any, the caption says that nothing was
    measured. `what` and `size` begin the first sentence, `claims` come before the sentence on grey
    marks, `sentences` after it, and `details` are for the page. `grey` is used if rows lack a
    signal, `thin` if some are thin. `intervals` is their kind, or "" without any.
    """
    cells = cells_of(rows, request)
    empty = [name for name, cell in cells.items() if cell.empty]
    missing = [f"Not measured: {'; '.join(empty)}."] if empty else []
    if rows.empty:
        return Caption(["Not measured: no sample has what this picture needs."], missing)
    level = f"{100 * request.level:g}\u00a0%"
    weak = "signal" in rows and not rows["signal"].all()
    return Caption(
        [
            "; ".join(filter(None, [what, size, intervals and f"{level} intervals"])) + ".",
            *claims,
            f"{grey}." if weak else "",
            thin if "thin" in rows and rows["thin"].any() else "",
            *sentences,
        ],
        [
            *filter(None, details),
            *([f"Intervals: pointwise {level} {intervals}."] if intervals else []),
            *([NO_MORE_THAN_TEXT] if weak else []),
            *missing,
        ],
    )


def delta_p_caption(
    request: Request, rows: pd.DataFrame, subject: str, claims: Sequence[str] = ()
) -> Caption:
    """Write the caption of a picture of ΔP: subject, groups, n, claims and shared sentences.

    `rows` are labelled rows of `figure_data.select`, of one condition.
    """
    cells = cells_of(rows, request)
    measured = [cell for cell in cells.values() if len(cell)]
    refitted = "inflation" not in rows or (rows["inflation"] > 1).any()
    return caption(
        request,
        rows,
        f"{subject}; {GROUPS}",
        f"{size_note(map(sample_size, measured))} samples per cell",
        claims=[*claims, request.no_answers],
        intervals=REFITTED if refitted else FIXED,
    )


def left_out(rows: pd.DataFrame, of: str) -> str:
    """Write the sentence on samples that are left out, from rows with `n` and `n_paired`."""
    return f"Left out: {span(rows['n'] - rows['n_paired'])} of {span(rows['n'])} samples per {of}."


def sample_size(cell: pd.DataFrame) -> int:
    """Return the number of samples of a cell, at the layer with most."""
    counts = cell["n"][cell["anchor"] == "all"].dropna()
    return int(counts.max()) if len(counts) else 0


def span(values: Iterable[float], factor: float = 1) -> str:
    """Return the smallest and largest absolute value: `900`, `812 to 1,000`, `−75 to −88`."""
    by_size = sorted((factor * value for value in values), key=abs) or [0]
    ends = dict.fromkeys(f"{end:,.0f}" for end in (by_size[0], by_size[-1]))
    return " to ".join(ends).replace("-", "\u2212")


def size_note(counts: Iterable[float]) -> str:
    """Return the range of sample sizes, such as `n = 812 to 1,000`."""
    return f"n\u00a0=\u00a0{span(counts)}"


def no_answer_note(records: Records, models: Sequence[Pair], datasets: Sequence[Pair]) -> str:
    """Write the sentence on responses that were left out as no answer, or "" without any.

    `models` and `datasets` hold key and label of each.
    """
    reasons, answers = Counter[str](), 0
    cells = [
        f"/answers/{model}/{dataset}.parquet"
        for (model, _), (dataset, _) in product(models, datasets)
    ]
    for path, record in records.items():
        if f"/{path}".endswith(tuple(cells)) and "counts" in record:
            answers += record["counts"]["kept"]
            for reason, count in record["counts"]["dropped"].items():
                if reason.startswith(f"{NO_ANSWER}: "):
                    reasons[reason.removeprefix(f"{NO_ANSWER}: ")] += count
    if not reasons:
        return ""
    share = 100 * reasons.total() / (answers + reasons.total())
    percent = f"{share:.0f}" if share >= 1 else "less than 1"
    listed = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
    return f"Non-answers left out: {percent}\u00a0% of the responses ({listed})."

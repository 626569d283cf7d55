"""Text of a figure: a caption of at most six lines, and further details on its page.

The text gives the number of samples, and says what crosses and grey marks mean and what is missing.
"""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd

from anchorscope.claims import keys
from anchorscope.claims.claim import NO, YES
from anchorscope.figures.data import KeyLabel, Request, cells_of
from anchorscope.figures.style import balanced
from anchorscope.statements import say
from anchorscope.storage.counts import NO_ANSWER

LINES = 6
"""Maximum number of lines in a caption."""
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
    intervals: str = say.clustered,
    grey: str = say.grey,
    thin: str = say.crosses,
) -> Caption:
    """Write a picture's caption, with the sentences that all pictures share.

    `rows` are the drawn rows of `data.labelled`; without rows, the caption says that nothing
    was measured. The order is: `what` and `size` (first sentence), `claims`, `grey` if a probe does
    not predict, `thin` if a row is thin, and `sentences`. `details` are for the page. `intervals`
    says how intervals were made; "" means that there are none.
    """
    cells = cells_of(rows, request)
    empty = [name for name, cell in cells.items() if cell.empty]
    missing = [say.not_measured(empty)] if empty else []
    if rows.empty:
        return Caption([say.nothing_measured], missing)
    weak = "predicts" in rows and not rows["predicts"].all()
    return Caption(
        [
            say.drawn(what, size, request.level, intervals),
            *claims,
            f"{grey}." if weak else "",
            thin if "thin" in rows and rows["thin"].any() else "",
            *sentences,
        ],
        [
            *filter(None, details),
            *([say.intervals(request.level, intervals)] if intervals else []),
            *([say.weak_layers] if weak else []),
            *missing,
        ],
    )


def delta_p_caption(
    request: Request,
    rows: pd.DataFrame,
    subject: str,
    claims: Sequence[str] = (),
    sentences: Sequence[str] = (),
) -> Caption:
    """Write the caption of a picture of ΔP: subject, groups, n, claims and further sentences.

    `rows` are labelled rows of `data.select`, of one condition.
    """
    cells = cells_of(rows, request)
    measured = [cell for cell in cells.values() if len(cell)]
    refitted = "inflation" not in rows or (rows["inflation"] > 1).any()
    return caption(
        request,
        rows,
        f"{subject}; {say.groups}",
        say.size(map(sample_size, measured), "samples per cell"),
        [*sentences, chosen_note(measured), request.no_answers],
        claims=claims,
        intervals=say.refitted if refitted else say.fixed,
    )


def chosen_note(cells: Sequence[pd.DataFrame]) -> str:
    """Return the sentence on answers that were chosen by label, or "" if all were measured."""
    everyone = [cell[cell["anchor"] == "all"] for cell in cells if "n_answers" in cell]
    counts = [int(of["n"].max()) for of in everyone if len(of)]
    answers = [round(of["n_answers"].max()) for of in everyone if len(of)]
    return str(say.chosen_in_caption(counts, answers)) if sum(answers) > sum(counts) else ""


def unjudged(claims: pd.DataFrame, key: str, of: Mapping[str, str]) -> str:
    """Return why a claim cannot be judged in the cells of a column, in the words of all texts.

    `claims` are rows of `data.labelled`, and `of` are the values that select the column.
    Cells whose reasons differ have a line each.
    """
    rows = claims[(keys(claims) == key) & ~claims["verdict"].isin([YES, NO])]
    for name, value in of.items():
        rows = rows[rows[name] == value]
    reasons = {row["dataset"]: str(say.short(key, row)) for row in rows.to_dict("records")}
    if len({*reasons.values()}) < 2:
        return next(iter(reasons.values()), "not measured")
    return "\n".join(f"{dataset}: {reason}" for dataset, reason in reasons.items())


def left_out(rows: pd.DataFrame, of: str) -> str:
    """Write how many samples are left out per group or cell (`of`): `n` minus `n_paired`."""
    return str(say.left_out(rows["n"] - rows["n_paired"], rows["n"], of))


def sample_size(cell: pd.DataFrame) -> int:
    """Return the number of samples of a cell at the layer that has the most."""
    counts = cell["n"][cell["anchor"] == "all"].dropna()
    return int(counts.max()) if len(counts) else 0


def no_answer_note(
    records: Records, models: Sequence[KeyLabel], datasets: Sequence[KeyLabel]
) -> str:
    """Return the sentence on responses left out for being no answers, or "" if there are none.

    `records` maps paths to provenance. `models` and `datasets` hold pairs of key and label.
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
    share = reasons.total() / (answers + reasons.total())
    return str(say.no_answers(share, reasons.most_common()))

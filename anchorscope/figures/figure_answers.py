"""What a figure says of responses: how many were no answers, how sure their spans are, and whether
answers whose exact tokens are sure say the same as all."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd

from anchorscope.figures.figure_data import cells_of, labelled, rows_at
from anchorscope.figures.figure_request import Pair, Request
from anchorscope.storage.counts import COPIED, NO_ANSWER, UNSURE

PROBE_TELLS = 0.6  # least AUC of a signal


@dataclass(frozen=True)
class Responses:
    """The responses of one cell."""

    name: str  # of the cell, in a caption
    reasons: Mapping[str, int]  # why some were no answers and left out → how many
    answers: int  # those that were kept
    unsure: int  # of these: the finder is not sure of the exact answer tokens
    copied: int = 0  # of these: a worked example's answer again

    @property
    def left_out(self) -> int:
        return sum(self.reasons.values())

    @property
    def total(self) -> int:
        """All responses in which the finder looked for an answer."""
        return self.answers + self.left_out


def responses_of(
    records: Mapping[str, Mapping[str, Any]], models: Sequence[Pair], datasets: Sequence[Pair]
) -> list[Responses]:
    """The responses of every cell that has a record of them.

    Args:
        records: those of all products that a figure was made from, by path.
        models, datasets: key and label of each.
    """
    cells = []
    for (model, label), (dataset, name) in product(models, datasets):
        for path, record in records.items():
            if f"/{path}".endswith(f"/answers/{model}/{dataset}.parquet") and "counts" in record:
                counts = record["counts"]
                reasons = {
                    reason.removeprefix(f"{NO_ANSWER}: "): count
                    for reason, count in counts["dropped"].items()
                    if reason.startswith(f"{NO_ANSWER}: ")
                }
                unsure, copied = (counts["notes"].get(note, 0) for note in (UNSURE, COPIED))
                cell = f"{label} on {name}"
                cells.append(Responses(cell, reasons, counts["kept"], unsure, copied))
    return cells


def no_answer_note(cells: Sequence[Responses]) -> str:
    """The caption's words on all that was left out as no answer; none where nothing was."""
    reasons = sum((Counter(cell.reasons) for cell in cells), Counter[str]())
    if not reasons:
        return ""
    share = reasons.total() / sum(cell.total for cell in cells)
    return f"Non-answers left out: {_percent(share)} of the responses ({_listed(reasons)})."


def answer_details(cells: Sequence[Responses]) -> list[str]:
    """The details on each cell: no answers by reason, unsure spans, and copied examples."""
    left_out = [
        f"{cell.name}, {cell.left_out:,} of {cell.total:,} ({_listed(cell.reasons)})"
        for cell in cells
        if cell.left_out
    ]
    unsure = [f"{cell.name}, {cell.unsure:,} of {cell.answers:,}" for cell in cells if cell.unsure]
    copied = [f"{cell.name}, {cell.copied:,} of {cell.answers:,}" for cell in cells if cell.copied]
    notes = {
        "Non-answers, left out": left_out,
        "Answers whose exact tokens are uncertain": unsure,
        "Answers copied from a worked example": copied,
    }
    return [f"{about}: {'; '.join(found)}." for about, found in notes.items() if found]


def _listed(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in Counter(reasons).most_common())


def _percent(share: float) -> str:
    return "less than 1\u00a0%" if share < 0.01 else f"{100 * share:.0f}\u00a0%"


def sure_note(table: pd.DataFrame, strata: pd.DataFrame, request: Request) -> str:
    """The caption's words on cells in which a verdict is another among sure samples; else none.

    `table` and `strata` hold rows of `results/tables/<figure>.csv` and of `<figure>.strata.csv`.
    The verdicts, at the headline layer: whether the probe's AUC is above .6, and whether the
    knockout flips more samples than random tokens do, interval apart from interval.
    """
    heads, sure = (labelled(rows_at(one, request.readout), request) for one in (table, strata))
    heads = heads[heads["headline"] & (heads["anchor"] == "all")]
    heads = heads.assign(auc=heads["probe_auc"])
    sure = sure[(sure["stratum"] == "sure") & (sure["value"] == "sure") & ~sure["thin"]]
    of_sure = cells_of(sure, request)
    changed = []
    for name, rows in cells_of(heads, request).items():
        verdicts = _verdicts(rows), _verdicts(of_sure[name])
        if None not in verdicts and verdicts[0] != verdicts[1]:
            changed.append(name)
    if not changed:
        return ""
    cells = "; ".join(changed)
    return f"The verdict changes when only answers with certain exact tokens are used: {cells}."


def _verdicts(rows: pd.DataFrame) -> tuple[bool, bool] | None:
    """Whether the probe tells, and the knockout flips more than its control; None: unknown."""
    by_condition = rows.drop_duplicates("condition").set_index("condition")
    if not {"knockout", "random"} <= set(by_condition.index):
        return None
    cut, control = by_condition.loc["knockout"], by_condition.loc["random"]
    if pd.isna([cut["auc"], cut["flip_low"], control["flip_high"]]).any():
        return None
    return bool(cut["auc"] > PROBE_TELLS), bool(cut["flip_low"] > control["flip_high"])

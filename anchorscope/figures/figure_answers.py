"""What a figure says of responses: how many were no answers, and how sure their spans are."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from anchorscope.figures.figure_request import Pair
from anchorscope.storage.counts import COPIED, NO_ANSWER, UNSURE


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
    return list(_cells(records, models, datasets))


def _cells(
    records: Mapping[str, Mapping[str, Any]], models: Sequence[Pair], datasets: Sequence[Pair]
) -> Iterator[Responses]:
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
                yield Responses(cell, reasons, counts["kept"], unsure, copied)


def no_answer_note(cells: Sequence[Responses]) -> str:
    """The caption's words on all that was left out as no answer; none where nothing was."""
    reasons = sum((Counter(cell.reasons) for cell in cells), Counter[str]())
    if not reasons:
        return ""
    share = reasons.total() / sum(cell.total for cell in cells)
    return f"Left out as no answers: {_percent(share)} of the responses ({_listed(reasons)})."


def answer_details(cells: Sequence[Responses]) -> list[str]:
    """The details on each cell: no answers by reason, unsure spans, and copied examples."""
    left_out = [
        f"{cell.name}, {cell.left_out:,} of {cell.total:,} ({_listed(cell.reasons)})"
        for cell in cells
        if cell.left_out
    ]
    unsure = [f"{cell.name}, {cell.unsure:,} of {cell.answers:,}" for cell in cells if cell.unsure]
    notes = [f"No answers, left out: {'; '.join(left_out)}."] if left_out else []
    if unsure:
        notes.append(f"Exact answer tokens that the finder is not sure of: {'; '.join(unsure)}.")
    copied = [f"{cell.name}, {cell.copied:,} of {cell.answers:,}" for cell in cells if cell.copied]
    if copied:
        notes.append(f"Answers that a worked example of the prompt has, too: {'; '.join(copied)}.")
    return notes


def _listed(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in Counter(reasons).most_common())


def _percent(share: float) -> str:
    return "less than 1\u00a0%" if share < 0.01 else f"{100 * share:.0f}\u00a0%"

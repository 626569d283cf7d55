"""Sentences about the detection tables: which methods beat which, and what they read."""

from collections.abc import Iterable

import pandas as pd

from anchorscope.claims.claim import YES
from anchorscope.detectors.registry import in_order, label_of
from anchorscope.passes.partners import LEAST_PAIRS
from anchorscope.statements import say
from anchorscope.statistics.strength import FLOORS

REFERENCES = {
    "every text model": tuple(FLOORS),
    "the token probabilities, which are the model's own confidence": ("output",),
    "the question alone, as text and in the states": ("question", "before"),
    "the plain probe": ("probe",),
}
"""Phrase → methods. The phrase's sentence lists methods that significantly beat all of these."""
IN_CAPTION = ("every text model", "the plain probe")
ALONE = 0.9
"""A method reads the question alone if the lower end of its question share is above this."""


def in_words(detection: pd.DataFrame, reads: pd.DataFrame) -> list[str]:
    """Say which methods beat which, and which read only the question.

    The tables hold the rows of one figure at its read-out.
    """
    auc = detection[detection["metric"] == "auroc"]
    if auc.empty:
        return []
    return [*beating(auc), *_only_question(auc, reads)]


def beating(auc: pd.DataFrame, what: Iterable[str] = REFERENCES) -> list[str]:
    """Say which methods beat each reference, and in how many cells.

    A cell counts if all methods of the reference were measured there. `auc` holds the rows of the
    detection table whose metric is `auroc`. Rows that are `thin` are left out.
    """
    sentences, reliable = [], auc[~auc["thin"].astype(bool)]
    for name in what:
        lows = reliable[[f"vs_{reference}_low" for reference in REFERENCES[name]]]
        compared = reliable[lows.notna().all(axis=1)]
        if len(compared):
            winners = compared["detector"][(lows.loc[compared.index] > 0).all(axis=1)]
            sentences.append(say.beating(name, *_counted(winners, compared), len(compared)))
    return sentences


def _counted(detectors: pd.Series, table: pd.DataFrame) -> tuple[list[tuple[int, list[str]]], int]:
    """Return (count in `detectors`, methods) pairs, largest first, and `table`'s cell count."""
    counts = detectors.value_counts()
    by_number = [
        (number, [label_of(name) for name in in_order(counts.index[counts == number])])
        for number in sorted({*counts}, reverse=True)
    ]
    return by_number, _cells(table)


def _cells(table: pd.DataFrame) -> int:
    return table.groupby(["model", "dataset"]).ngroups


def comparing(reads: pd.DataFrame) -> str:
    """Say which methods compare question and answer in most cells."""
    held = reads[reads["comparison_right"] == YES].groupby("detector").size()
    names = [label_of(name) for name in in_order(held.index) if held[name] > _cells(reads) / 2]
    return str(say.comparing(names))


def _only_question(auc: pd.DataFrame, reads: pd.DataFrame) -> list[str]:
    """Say which methods are above chance and read the question alone."""
    if reads.empty:
        return []
    keys = ["model", "dataset", "detector"]
    reliable = auc.loc[~auc["thin"].astype(bool), [*keys, "ci_low"]]
    both = reads[reads["n_right"] >= LEAST_PAIRS].merge(reliable, on=keys)
    if both.empty:
        return []
    alone = both["detector"][(both["ci_low"] > 0.5) & (both["share_question_low"] > ALONE)]
    return [say.reading_the_question(*_counted(alone, both))]

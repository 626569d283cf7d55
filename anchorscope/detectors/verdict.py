"""Sentences that state the results of the detection tables."""

from collections.abc import Iterable

import pandas as pd

from anchorscope.detectors.registry import in_order, label_of
from anchorscope.experiments.crossing.claims import YES
from anchorscope.probes.strength import FLOORS

REFERENCES = {
    "every text model": tuple(FLOORS),
    "the token probabilities, which are the model's own confidence": ("output",),
    "the question alone, as text and in the states": ("question", "before"),
    "the plain probe": ("probe",),
}
"""Phrase → the methods that another one must significantly beat for it."""
IN_CAPTION = ("every text model", "the plain probe")
ALONE = 0.9
"""A method reads the question alone if the lower end of its question share is above this."""


def in_words(detection: pd.DataFrame, reads: pd.DataFrame, transfer: pd.DataFrame) -> list[str]:
    """Say which methods beat which, how the probe transfers, and which read only the question.

    The tables belong to one figure, at its read-out.
    """
    auc = detection[detection["metric"] == "auroc"]
    if auc.empty:
        return []
    return [*beating(auc), *transferred(transfer), *_only_question(auc, reads)]


def beating(auc: pd.DataFrame, what: Iterable[str] = REFERENCES) -> list[str]:
    """Say which methods beat the `REFERENCES` that were measured, and in how many cells.

    `auc` holds the rows of `auroc` in the table of detection.
    """
    sentences = []
    for name in what:
        references = REFERENCES[name]
        if {*references} & {*auc["detector"]}:
            lowest = auc[[f"vs_{reference}_low" for reference in references]].min(axis=1)
            winners = auc["detector"][(lowest > 0) & ~auc["detector"].isin(references)]
            sentences.append(f"Methods significantly above {name}: {_counted(winners, auc)}.")
    return sentences


def _counted(detectors: pd.Series, table: pd.DataFrame) -> str:
    """List methods by their number of cells, the most first: `probe, text (2 of 2 cells)`."""
    cells, counts = _cells(table), detectors.value_counts()
    parts = []
    for number in sorted({*counts}, reverse=True):
        names = map(label_of, in_order(counts.index[counts == number]))
        parts.append(f"{', '.join(names)} ({number} of {cells} cell{'s' if cells > 1 else ''})")
    return "; ".join(parts) or "none"


def _cells(table: pd.DataFrame) -> int:
    return table.groupby(["model", "dataset"]).ngroups


def comparing(reads: pd.DataFrame) -> str:
    """Say which methods compare question and answer in most cells."""
    held = reads[reads["interaction"] == YES].groupby("detector").size()
    names = [label_of(name) for name in in_order(held.index) if held[name] > _cells(reads) / 2]
    listed = "; ".join(names) or "none"
    return f"Methods that compare question and answer in most cells (dot): {listed}."


def transferred(transfer: pd.DataFrame) -> list[str]:
    """Say how often the probe is worse on datasets it was not trained on, thin rows left out."""
    probe = transfer[(transfer["detector"] == "probe") & ~transfer["thin"].astype(bool)]
    away = probe[probe["dataset"] != probe["trained_on"]].dropna(subset="auroc")
    if away.empty:
        return []
    worse, chance = (away["vs_own_high"] < 0).sum(), (away["auroc_low"] <= 0.5).sum()
    return [
        "On another dataset the probe is significantly worse than the probe of that dataset in "
        f"{worse} of {len(away)} combinations, and not significantly above chance in {chance}."
    ]


def _only_question(auc: pd.DataFrame, reads: pd.DataFrame) -> list[str]:
    """Say which methods are above chance and read the question alone."""
    if reads.empty:
        return []
    keys = ["model", "dataset", "detector"]
    both = reads.merge(auc[[*keys, "ci_low"]], on=keys)
    alone = both["detector"][(both["ci_low"] > 0.5) & (both["share_question_low"] > ALONE)]
    return [f"Methods above chance that read the question alone: {_counted(alone, auc)}."]

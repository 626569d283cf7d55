"""Sentences that state the results of the detection tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from anchorscope.detectors.registry import in_order, label_of
from anchorscope.experiments.crossing.claims import YES
from anchorscope.probes.strength import FLOORS

TEXTS = tuple(FLOORS)
OUTPUT, PROBE = ("output",), ("probe",)
QUESTION = ("question", "before")
MARGIN = 0.02
"""A paired difference of AUC counts as nothing if its interval lies within this of 0."""
ALONE = 0.9
"""A method reads the question alone if the lower end of its question share is above this."""
Names = Mapping[str, str]


def of_picture(auc: pd.DataFrame) -> list[str]:
    """Say which methods beat every text model, and which the plain probe."""
    return [*_beating(auc, TEXTS, "every text model"), *_beating(auc, PROBE, "the plain probe")]


def comparing(reads: pd.DataFrame) -> str:
    """Say which methods compare question and answer in most cells."""
    held = reads[reads["interaction"] == YES].groupby("detector").size()
    names = [label_of(name) for name in in_order(held.index) if held[name] > _cells(reads) / 2]
    return f"Interaction holds (dot) in most cells: {'; '.join(names) or 'none'}."


def _cells(table: pd.DataFrame) -> int:
    return table.groupby(["model", "dataset"]).ngroups


def _among(table: pd.DataFrame) -> str:
    """Return a phrase such as `of 4 cells`."""
    cells = _cells(table)
    return f"of {cells} cell{'s' if cells > 1 else ''}"


def in_words(
    detection: pd.DataFrame,
    reads: pd.DataFrame,
    transfer: pd.DataFrame,
    models: Names,
    datasets: Names,
) -> list[str]:
    """Say which methods beat which, what does not transfer, and which read only the question.

    Args:
        detection: Table of detection of one figure, at its read-out.
        reads: Table of what the methods read, likewise.
        transfer: Table of transfer, likewise.
        models: Key → label of a model.
        datasets: Key → label of a dataset.
    """
    auc = detection[detection["metric"] == "auroc"]
    if auc.empty:
        return []
    return [
        *_beating(auc, TEXTS, "every text model"),
        *_beating(auc, OUTPUT, "the token probabilities, which are the model's own confidence"),
        *_beating(auc, QUESTION, "the question alone, as text and in the states"),
        *_beating(auc, PROBE, "the plain probe"),
        *_added(auc),
        *_transfer(transfer, models, datasets),
        *_only_question(auc, reads),
    ]


def beats(row: Mapping[Any, Any], references: Sequence[str]) -> bool:
    """Return whether the AUC of a row is significantly above every reference that was measured."""
    lows = [row[f"vs_{name}_low"] for name in references]
    measured = [low for low in lows if not pd.isna(low)]
    return bool(measured) and min(measured) > 0


def _beating(auc: pd.DataFrame, references: Sequence[str], what: str) -> list[str]:
    """Say which methods beat some references, and in how many cells."""
    if not {*references} & {*auc["detector"]}:
        return []
    wins: dict[str, int] = {}
    for row in auc.to_dict("records"):
        if row["detector"] not in references and beats(row, references):
            wins[row["detector"]] = wins.get(row["detector"], 0) + 1
    return [f"Methods significantly above {what}: {_counted(wins, _among(auc))}."]


def _counted(cells: Mapping[str, int], where: str) -> str:
    """List methods by number of cells, the most first: `probe, text (2 of 2 cells)`."""
    parts = []
    for number in sorted(set(cells.values()), reverse=True):
        names = [label_of(name) for name in in_order(cells) if cells[name] == number]
        parts.append(f"{', '.join(names)} ({number} {where})")
    return "; ".join(parts) or "none"


def _added(auc: pd.DataFrame) -> list[str]:
    """Say what the states add to the token probabilities, and these to the probe."""
    both = auc[auc["detector"] == "output+probe"]
    sentences = []
    for reference, words in (
        ("output", "The states add significantly to the token probabilities"),
        ("probe", "The token probabilities add significantly to the probe"),
    ):
        low, high = both[f"vs_{reference}_low"], both[f"vs_{reference}_high"]
        if low.isna().all():
            continue
        something = int((low > 0).sum())
        nothing = int(((low > -MARGIN) & (high < MARGIN)).sum())
        sentences.append(
            f"{words} in {something} {_among(auc)}, and nothing (at most {MARGIN:g} of AUC) in "
            f"{nothing}."
        )
    return sentences


def _transfer(transfer: pd.DataFrame, models: Names, datasets: Names) -> list[str]:
    """Say between which datasets the probe's AUC is not significantly above chance."""
    from anchorscope.figures.figure_notes import few  # loads altair

    away = _away(transfer)
    if away.empty:
        return []
    lost = away[away["auroc_low"] <= 0.5]
    names = [
        f"{models.get(row['model'], row['model'])}, "
        f"{datasets.get(row['trained_on'], row['trained_on'])} → "
        f"{datasets.get(row['dataset'], row['dataset'])}"
        for row in lost.to_dict("records")
    ]
    text = transferred(transfer)
    return [f"{text}: {few(names)}." if names else f"{text}."]


def transferred(transfer: pd.DataFrame) -> str:
    """Say how often the probe is worse on a dataset it was not trained on; empty without one."""
    away = _away(transfer)
    if away.empty:
        return ""
    worse, chance = (away["vs_own_high"] < 0).sum(), (away["auroc_low"] <= 0.5).sum()
    return (
        "On another dataset the probe is significantly worse than the probe of that dataset in "
        f"{worse} of {len(away)} pairs, and not significantly above chance in {chance}"
    )


def _away(transfer: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the probe on datasets it was not trained on, except rows marked thin."""
    probe = transfer[(transfer["detector"] == "probe") & ~transfer["thin"].astype(bool)]
    return probe[probe["dataset"] != probe["trained_on"]].dropna(subset="auroc")


def _only_question(auc: pd.DataFrame, reads: pd.DataFrame) -> list[str]:
    """Say which methods are above chance and read the question alone."""
    if reads.empty:
        return []
    keys = ["model", "dataset", "detector"]
    both = reads.merge(auc[[*keys, "ci_low"]], on=keys)
    alone = both[(both["ci_low"] > 0.5) & (both["share_question_low"] > ALONE)]
    sizes = {str(name): len(part) for name, part in alone.groupby("detector")}
    return [f"Methods above chance that read the question alone: {_counted(sizes, _among(auc))}."]

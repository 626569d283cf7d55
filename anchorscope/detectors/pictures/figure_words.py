"""What the pictures of detection say: names of methods, and captions."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from anchorscope.detectors.registry import METHODS
from anchorscope.figures import figure_data as data, figure_notes as notes, figure_style as draw
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import Pair, Row
from anchorscope.figures.figure_fit import Request

PARTS = (("miscalibration", draw.RED), ("discrimination", "#8c8c8c"))
"""The Brier score's parts that are drawn, and their colours."""


@dataclass(frozen=True)
class Cell:
    """A model on a dataset, by key and label, and where its panel stands."""

    place: int
    first: bool  # of a row of panels: its axes are labelled
    model: Pair
    dataset: Pair

    @property
    def labels(self) -> Row:
        """For tooltips."""
        return {"model": self.model[1], "dataset": self.dataset[1]}

    def of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Its rows of a table."""
        return data.cell_of(rows, self.model[0], self.dataset[0])


def label_of(detector: str) -> str:
    """What a method is called in pictures; a given detector by its own name."""
    return METHODS[detector].label if detector in METHODS else str(detector)


def in_order(detectors: Iterable[str]) -> list[str]:
    """Each name once: the methods in the order of the registry, then given detectors."""
    there = list(dict.fromkeys(map(str, detectors)))
    return [name for name in METHODS if name in there] + [n for n in there if n not in METHODS]


def forest_caption(table: pd.DataFrame, request: Request) -> Caption:
    """What is drawn, n, intervals, and what beats the text, the output and the probe."""
    rows = data.rows_at(table, request.readout)
    rows = rows[rows["metric"] == "auroc"]
    cells = rows.groupby(["model", "dataset"]).ngroups
    beaten = [
        f"{label} in {_wins(rows, 'probe', name)} of {cells} cells"
        for name, label in (("text", "the text"), ("output", "token probabilities"))
        if name in set(rows["detector"]) and "probe" in set(rows["detector"])
    ]
    better = [
        label_of(name)
        for name in in_order(rows["detector"])
        if name != "probe" and _wins(rows, name, "probe") > cells / 2
    ]
    return Caption(
        [
            f"Read-out {'/'.join(request.readout)}; AUC of wrong against right answers, out of "
            f"fold; {notes.size_note(rows['n'])} samples a cell; {_level(request)} intervals.",
            f"The probe is surely above {' and '.join(beaten)}." if beaten else "",
            f"Above the probe in most cells: {'; '.join(better) or 'nothing'}.",
        ],
        [
            "No method, penalty, layer, gate or sign was chosen on what it scores.",
            f"Intervals: {_level(request)} clustered bootstrap, methods held fixed.",
            *request.notes,
        ],
    )


def _wins(rows: pd.DataFrame, detector: str, reference: str) -> int:
    """In how many cells a detector is surely above another."""
    low = rows[rows["detector"] == detector][f"vs_{reference}_low"]
    return int((low > 0).sum())


def reliability_caption(rows: pd.DataFrame, request: Request) -> Caption:
    """What the curves and the bars are."""
    return Caption(
        [
            f"Read-out {'/'.join(request.readout)}; ten bins of equal number; a calibrated method "
            f"lies on the diagonal; {_level(request)} intervals.",
            "Below: what isotonic regression would take off the Brier score (miscalibration), and "
            "by how much it beats the share of wrong answers (discrimination).",
        ],
        [
            "Probabilities at the share of wrong answers in the training fold. Brier score = "
            "miscalibration − discrimination + uncertainty.",
            *_thin(rows),
            *request.notes,
        ],
    )


def risk_caption(rows: pd.DataFrame, request: Request) -> Caption:
    """What the curves are."""
    return Caption(
        [
            f"Read-out {'/'.join(request.readout)}; answers are kept from the least likely wrong "
            f"on; at 1 all are; {_level(request)} intervals."
        ],
        [*_thin(rows), *request.notes],
    )


def layers_caption(rows: pd.DataFrame, request: Request) -> Caption:
    """What the lines are, and where a group has the higher AUC."""
    heads = rows[data.true(rows["headline"])]
    surely = 0
    for _, cell in heads.groupby(["model", "dataset"]):
        low = cell[cell["anchor"] == "Q"]["auc_low"]
        high = cell[cell["anchor"] == "A"]["auc_high"]
        surely += bool(len(low) and len(high) and low.iloc[0] > high.iloc[0])
    cells = heads.groupby(["model", "dataset"]).ngroups
    return Caption(
        [
            f"Read-out {'/'.join(request.readout)}; the probe of each layer; groups by flips at "
            f"the headline layer; {_level(request)} intervals.",
            f"There Q-Anchored answers have an AUC above that of A-Anchored ones, intervals apart, "
            f"in {surely} of {cells} cells.",
        ],
        [*_thin(rows), *request.notes],
    )


def reads_caption(rows: pd.DataFrame, request: Request) -> Caption:
    """What the bars are, and which methods read the pair."""
    cells = rows.groupby(["model", "dataset"]).ngroups
    truth = rows[rows["reads"] == "truth"].groupby("detector").size()
    reading = [label_of(name) for name in in_order(truth.index) if truth[name] > cells / 2]
    pairs = notes.size_note([*rows["n_right"], *rows["n_wrong"]]) if len(rows) else "no"
    return Caption(
        [
            f"Read-out {'/'.join(request.readout)}; two answers exchanged between their questions, "
            f"{pairs} pairs a cell; whiskers: {_level(request)} interval of the pair's share.",
            f"Shown to read truth by comparing both (dot) in most cells: "
            f"{'; '.join(reading) or 'none'}.",
        ],
        [
            "Shares of the mean squares of each term of the logit, right answers only. A method "
            "that adds something read off the question to something read off the answer has no "
            "share of the pair. Token probabilities have one without reading truth: an answer is "
            "unlikely behind another question, right or wrong.",
            *request.notes,
        ],
    )


def transfer_caption(rows: pd.DataFrame, request: Request) -> Caption:
    """What the cells are, and how much is lost."""
    probe = rows[rows["detector"] == "probe"]
    away = probe[probe["dataset"] != probe["trained_on"]]
    lost = int((away["vs_own_high"] < 0).sum())
    return Caption(
        [
            f"Read-out {'/'.join(request.readout)}; AUC; on the diagonal out of fold.",
            f"The probe is surely worse than the tested dataset's own in {lost} of {len(away)} "
            "pairs of datasets."
            if len(away)
            else "",
        ],
        [
            "Layer, penalty and calibration are learned from the dataset that is trained on. "
            "Answers that share question or subject with it are left out.",
            *request.notes,
        ],
    )


def _level(request: Request) -> str:
    return f"{100 * request.level:g}\u00a0%"


def _thin(rows: pd.DataFrame) -> list[str]:
    """Says that points were left out, where some were."""
    left = int(data.true(rows["thin"]).sum())
    return [f"{left} points of too few samples are not drawn."] if left else []

"""The tables and pictures of detection, by name. Read whenever Snakemake starts."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anchorscope.figures.figure_request import Chart

TABLES = ("detection", "detection-reads", "detection-curves", "detection-layers", "self-awareness")
"""What stands behind a figure's name in those of its tables that are joined from cells."""


@dataclass(frozen=True)
class DetectionView:
    """One picture."""

    tables: tuple[str, ...]  # that it draws, see `TABLES`; and `transfer`
    title: str
    drawn_by: str  # module and function

    @property
    def chart(self) -> Chart:
        """What draws it of its tables."""
        module, _, function = self.drawn_by.partition(":")
        chart: Chart = getattr(import_module(f"anchorscope.detectors.pictures.{module}"), function)
        return chart


VIEWS = {
    "detection": DetectionView(
        ("detection",), "How well each method detects wrong answers", "comparisons:forest"
    ),
    "detection-reliability": DetectionView(
        ("detection-curves", "detection"),
        "Wrong answers by predicted probability",
        "curves:reliability",
    ),
    "detection-risk": DetectionView(
        ("detection-curves",), "Wrong answers among those that are kept", "curves:risk"
    ),
    "detection-layers": DetectionView(
        ("detection-layers",), "AUC by layer and pathway", "curves:layers"
    ),
    "detection-reads": DetectionView(
        ("detection-reads",), "What each method reads", "comparisons:reads"
    ),
    "detection-transfer": DetectionView(
        ("transfer",), "Trained on one dataset, tried on another", "comparisons:transfer"
    ),
}
"""What stands behind a figure's name in a picture's → the picture, in the order of the report."""

"""The tables and pictures of detection, by name. Read whenever Snakemake starts."""

from dataclasses import dataclass

TABLES = ("detection", "detection-reads", "detection-curves", "detection-layers", "self-awareness")
"""What stands behind a figure's name in those of its tables that are joined from cells."""


@dataclass(frozen=True)
class DetectionView:
    """One picture."""

    tables: tuple[str, ...]  # that it draws, see `TABLES`; and `transfer`
    title: str


VIEWS = {
    "detection": DetectionView(("detection",), "How well each method detects wrong answers"),
    "detection-reliability": DetectionView(
        ("detection-curves", "detection"), "Wrong answers by predicted probability"
    ),
    "detection-risk": DetectionView(
        ("detection-curves",), "Wrong answers among those that are kept"
    ),
    "detection-layers": DetectionView(("detection-layers",), "AUC by layer and pathway"),
    "detection-reads": DetectionView(("detection-reads",), "What each method reads"),
    "detection-transfer": DetectionView(("transfer",), "Trained on one dataset, tried on another"),
}
"""What stands behind a figure's name in a picture's → the picture, in the order of the report."""

"""The tables and pictures of detection, by name. Read whenever Snakemake starts."""

from dataclasses import dataclass

TABLES = ("detection", "detection-reads", "detection-curves", "detection-layers", "self-awareness")
"""What stands behind a figure's name in those of its tables that are joined from cells."""


@dataclass(frozen=True)
class View:
    """One picture."""

    tables: tuple[str, ...]  # that it draws, see `TABLES`; and `transfer`
    title: str


VIEWS = {
    "detection": View(("detection",), "How well each method detects wrong answers"),
    "detection-reliability": View(
        ("detection-curves", "detection"), "Wrong answers by predicted probability"
    ),
    "detection-risk": View(("detection-curves",), "Wrong answers among those that are kept"),
    "detection-layers": View(("detection-layers",), "AUC by layer and pathway"),
    "detection-reads": View(("detection-reads",), "What each method reads"),
    "detection-transfer": View(("transfer",), "Trained on one dataset, tried on another"),
}
"""What stands behind a figure's name in a picture's → the picture, in the order of the report."""

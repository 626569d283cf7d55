"""The tables and pictures of detection, by name. Read whenever Snakemake starts."""

from anchorscope.figures.figure_view import View

TABLES = ("detection", "detection-reads", "self-awareness")
"""What stands behind a figure's name in those of its tables that are joined from cells."""
COMPARISONS = "detectors.pictures.comparisons"

VIEWS = {
    "detection": View(
        "How well each method detects wrong answers", f"{COMPARISONS}:forest", ("detection",)
    ),
    "detection-reads": View("What each method reads", f"{COMPARISONS}:reads", ("detection-reads",)),
    "detection-transfer": View(
        "Trained on one dataset, tried on another", f"{COMPARISONS}:transfer", ("transfer",)
    ),
}
"""What stands behind a figure's name in a picture's → the picture, in the order of the report."""

"""The tables and pictures of detection, by name. Snakemake reads them at every start."""

from anchorscope.figures.figure_view import View

TABLES = ("detection", "detection-reads", "self-awareness")
"""Suffixes of the file names of tables that are joined from cells."""
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
"""Suffix of a picture's file name → the picture, in the order of the report."""

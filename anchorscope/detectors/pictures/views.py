"""The tables and pictures of detection, by name. Read whenever Snakemake starts."""

from anchorscope.figures.figure_view import View

TABLES = ("detection", "detection-reads", "detection-curves", "detection-layers", "self-awareness")
"""What stands behind a figure's name in those of its tables that are joined from cells."""
COMPARISONS, CURVES = "detectors.pictures.comparisons", "detectors.pictures.curves"

VIEWS = {
    "detection": View(
        "How well each method detects wrong answers", f"{COMPARISONS}:forest", ("detection",)
    ),
    "detection-reliability": View(
        "Wrong answers by predicted probability", f"{CURVES}:reliability", ("detection-curves",)
    ),
    "detection-risk": View(
        "Wrong answers among those that are kept", f"{CURVES}:risk", ("detection-curves",)
    ),
    "detection-layers": View("AUC by layer and pathway", f"{CURVES}:layers", ("detection-layers",)),
    "detection-reads": View("What each method reads", f"{COMPARISONS}:reads", ("detection-reads",)),
    "detection-transfer": View(
        "Trained on one dataset, tried on another", f"{COMPARISONS}:transfer", ("transfer",)
    ),
}
"""What stands behind a figure's name in a picture's → the picture, in the order of the report."""

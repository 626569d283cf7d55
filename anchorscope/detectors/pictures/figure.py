"""The pictures of detection, by name."""

from anchorscope.detectors.pictures.comparisons import forest, reads, transfer
from anchorscope.detectors.pictures.curves import layers, reliability, risk
from anchorscope.figures.figure_request import Chart

CHARTS: dict[str, Chart] = {
    "detection": forest,
    "detection-reliability": reliability,
    "detection-risk": risk,
    "detection-layers": layers,
    "detection-reads": reads,
    "detection-transfer": transfer,
}
"""Picture → what draws it of its tables."""

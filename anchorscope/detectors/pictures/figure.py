"""The pictures of detection, by name."""

from anchorscope.detectors.pictures.curves import layers, reliability, risk
from anchorscope.detectors.pictures.forest import forest
from anchorscope.detectors.pictures.reads import reads
from anchorscope.detectors.pictures.transfer import transfer
from anchorscope.figures.figure_fit import Chart

CHARTS: dict[str, Chart] = {
    "detection": forest,
    "detection-reliability": reliability,
    "detection-risk": risk,
    "detection-layers": layers,
    "detection-reads": reads,
    "detection-transfer": transfer,
}
"""Picture → what draws it of its tables."""

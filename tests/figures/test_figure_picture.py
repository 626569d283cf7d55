"""The static picture is the stored one, within a tolerance."""

from __future__ import annotations

import numpy as np
import pytest
import vl_convert
from figure_picture import STORED, difference, drawn, pixels

TOLERANCE = 0.005


def test_the_reader_of_pictures_reads_pixels() -> None:
    """Colours, edges and gradients, as the renderer packs them with its own filters."""
    svg = """<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">
      <rect width="40" height="20" fill="white"/><rect x="10" width="10" height="20" fill="red"/>
      <rect x="20" y="5" width="10" height="15" fill="#0080ff"/></svg>"""
    found = pixels(vl_convert.svg_to_png(svg, scale=1))
    assert found.shape[:2] == (20, 40)
    assert found[10, 5, :3].tolist() == [255, 255, 255]
    assert found[10, 15, :3].tolist() == [255, 0, 0]
    assert found[10, 25, :3].tolist() == [0, 128, 255]
    assert found[2, 25, :3].tolist() == [255, 255, 255]


def test_the_picture_is_the_stored_one() -> None:
    stored, new = pixels(STORED.read_bytes()), pixels(drawn())
    assert difference(new, stored) <= TOLERANCE, (
        "the figure looks different: see both, then run python tests/figure_picture.py"
    )


def test_a_line_moved_or_a_legend_lost_would_be_seen() -> None:
    stored = pixels(STORED.read_bytes())
    cut = stored.copy()
    cut[-90:] = 255
    moved = stored.copy()
    area = moved[120:230, 60:280]
    moved[120:230, 60:280] = np.roll(area, 4, axis=0)
    assert difference(cut, stored) > TOLERANCE
    assert difference(moved, stored) > TOLERANCE
    assert difference(stored[:-5], stored) == 1.0
    assert difference(stored, stored) == pytest.approx(0)

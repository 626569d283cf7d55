"""Figures in print: their look, their width, their fonts, and what tells series apart."""

import json
import re
import zlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import vl_convert
from figure_tables import (
    CHECKED,
    DATASETS,
    MODELS,
    READOUTS,
    claims_of,
    crossing_of,
    curve_of,
    views,
)

from anchorscope.figures.figure_fit import VERSION, as_pdf, as_svg, printed_width, size_of
from anchorscope.figures.figure_main import chart
from anchorscope.figures.figure_style import style_of

STORED = Path(__file__).parents[1] / "data" / "figure.png"
MANY = [(f"d{i}", f"Data {i}") for i in range(8)]
TITLE = "ΔP when attention to the exact question tokens is blocked"
LOOKS: Any = {"title": TITLE, "panels": MODELS, "datasets": DATASETS[:2], "readout": READOUTS[3]}
PAPER = {"theme": "paper"}


@lru_cache
def table() -> pd.DataFrame:
    return curve_of(MODELS, DATASETS[:2], 4)


@lru_cache
def swapped() -> tuple[pd.DataFrame, pd.DataFrame]:
    return crossing_of(MODELS, DATASETS[:2], 4), claims_of(MODELS, DATASETS[:2], 4)


def draw(**kwargs: Any) -> dict[str, Any]:
    return chart(table(), *swapped(), **(LOOKS | kwargs)).to_dict(validate=CHECKED)


def pixels(png: bytes) -> np.ndarray:
    """What a PNG shows, int64 [height, width, channels]; of the filters that are in use here."""
    body, at = b"", 8
    while at < len(png):
        length = int.from_bytes(png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            body += png[at + 8 : at + 8 + length]
        at += length + 12
    width, height = (int.from_bytes(png[k : k + 4]) for k in (16, 20))
    lines = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, -1)
    assert set(lines[:, 0]) <= {0, 1}, "a PNG of another kind"
    raw = lines[:, 1:].reshape(height, width, -1)
    # filter 1: each pixel as what it differs from the one to its left
    summed = np.cumsum(raw, axis=1, dtype=np.uint8)
    return np.where(lines[:, 0][:, None, None] == 1, summed, raw).astype(np.int64)


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Share of pixels that differ by more than a quarter of the range in any channel."""
    # a font may change a size by a pixel or two
    if max(abs(a - b) for a, b in zip(one.shape[:2], other.shape[:2], strict=True)) > 2:
        return 1.0
    height, width = np.minimum(one.shape[:2], other.shape[:2])
    apart = np.abs(one[:height, :width, :3] - other[:height, :width, :3])
    return float((apart.max(axis=2) > 64).mean())


def test_the_picture_is_the_stored_one(tmp_path: Path) -> None:
    style = replace(
        style_of({"font": "Liberation Sans"}), panel_width=230, panel_height=120, share_height=110
    )
    looks = LOOKS | {"datasets": DATASETS, "style": style}
    cells: Any = (MODELS, DATASETS, 12)
    tables = curve_of(*cells, blind=2), crossing_of(*cells), claims_of(*cells)
    spec = chart(*tables, **looks).to_dict()
    new = tmp_path / "figure.png"
    new.write_bytes(vl_convert.svg_to_png(as_svg(spec), scale=1))
    stored = pixels(STORED.read_bytes())
    moved = stored.copy()
    moved[120:230, 60:280] = np.roll(moved[120:230, 60:280], 4, axis=0)
    assert difference(moved, stored) > 0.005, "a line that moved would be seen"
    assert difference(pixels(new.read_bytes()), stored) <= 0.005, f"look at {new}, then store it"


def test_marks_that_nobody_sees_leave_the_file_and_no_pixel_of_the_picture() -> None:
    spec = draw(style=replace(style_of(), panel_width=120, panel_height=80))
    whole, small = vl_convert.vegalite_to_svg(spec, vl_version=VERSION), as_svg(spec)
    assert len(small) < 0.7 * len(whole)
    before, after = (pixels(vl_convert.svg_to_png(svg, scale=1)) for svg in (whole, small))
    assert np.array_equal(before, after)


@pytest.mark.parametrize(
    ("panels", "width", "wanted", "columns"),
    [(MODELS, None, 180, 2), (MODELS[:1], None, 85, 1), (MODELS, 85, 85, 1)],
)
def test_paper_is_as_wide_as_asked_with_panels_below_one_another_where_narrow(
    panels: Any, width: int | None, wanted: int, columns: int
) -> None:
    spec = draw(panels=panels, style=PAPER | {"width": width})
    svg = as_svg(spec)
    assert f'width="{wanted}mm"' in svg and printed_width(spec) == wanted
    assert spec["columns"] == columns
    assert size_of(svg)[0] == pytest.approx(wanted * 96 / 25.4, rel=0.015)
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+)", as_pdf(svg, wanted))
    assert box and float(box[1]) == pytest.approx(wanted * 72 / 25.4, abs=0.1)


@pytest.mark.parametrize("layers", [2, 80])
def test_dash_and_marker_tell_all_series_apart_at_any_depth(layers: int) -> None:
    looks = LOOKS | {"panels": MODELS[:1], "datasets": MANY}
    spec = chart(curve_of(MODELS[:1], MANY, layers), *swapped(), **looks).to_dict()
    key = next(v["encoding"] for v in views(spec, "point") if "strokeDash" in v["encoding"])
    dashes, shapes = (key[name]["scale"]["range"] for name in ("strokeDash", "shape"))
    pairs = {(json.dumps(dash), shape) for dash, shape in zip(dashes, shapes, strict=True)}
    assert len(pairs) == len(dashes) == 16
    drawn = pd.DataFrame([row for rows in spec["datasets"].values() for row in rows])
    drawn = drawn[drawn["probe_auc"].notna()]
    assert drawn["marker"].nunique() == 8
    marks = drawn.groupby("series")["mark"].sum()
    assert len(marks) == 16 and marks.between(min(layers, 7), 9).all()

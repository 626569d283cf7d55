"""Figures in print: their width, fonts, and what tells series apart without colour."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import vl_convert
from figure_picture import pixels
from figure_tables import READOUTS, calibration_of, contrasts_of, controls_of, curve_of, views

from anchorscope.calibration.figure_calibration import calibration_chart
from anchorscope.experiments.figure_controls import controls_chart
from anchorscope.figures.figure_fit import VERSION, as_pdf, as_svg, printed_width, size_of
from anchorscope.figures.figure_readouts import readouts_chart
from anchorscope.figures.figures import chart, delta_range

MODELS = [("one", "Model One"), ("two", "Model Two")]
DATASETS = [("a", "Alpha"), ("b", "Beta")]
MANY = [(f"d{i}", f"Data {i}") for i in range(8)]
LOOKS: Any = {"title": "ΔP when attention to the exact question tokens is cut"}
LOOKS |= {"panels": MODELS, "datasets": DATASETS}
PAPER = {"theme": "paper"}


@lru_cache
def table(layers: int = 4) -> pd.DataFrame:
    return curve_of(MODELS, DATASETS, layers)


def draw(**kwargs: Any) -> dict[str, Any]:
    return chart(table(), **(LOOKS | {"readout": READOUTS[3]} | kwargs)).to_dict()


def test_marks_that_nobody_sees_leave_the_file_and_no_pixel_of_the_picture() -> None:
    spec = draw(style={"panel_width": 120, "panel_height": 80})
    whole = vl_convert.vegalite_to_svg(spec, vl_version=VERSION)
    small = as_svg(spec)
    assert ' opacity="0"/>' in whole and ' opacity="0"/>' not in small
    assert len(small) < 0.7 * len(whole)
    before, after = (pixels(vl_convert.svg_to_png(svg, scale=1)) for svg in (whole, small))
    assert np.array_equal(before, after)


@pytest.mark.parametrize(
    ("panels", "width", "wanted"), [(MODELS, None, 180), (MODELS[:1], None, 85), (MODELS, 85, 85)]
)
def test_paper_is_as_wide_as_asked_with_text_at_its_own_size(
    panels: Any, width: int | None, wanted: int
) -> None:
    spec = draw(panels=panels, style=PAPER | {"width_mm": width})
    svg = as_svg(spec)
    assert f'width="{wanted}mm"' in svg and printed_width(spec) == wanted
    assert size_of(svg)[0] == pytest.approx(wanted * 96 / 25.4, rel=0.015)
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+)", as_pdf(svg, wanted))
    assert box and float(box[1]) == pytest.approx(wanted * 72 / 25.4, abs=0.1)


def test_narrow_paper_puts_panels_below_one_another_before_they_get_too_narrow() -> None:
    wide, narrow = draw(style=PAPER), draw(style=PAPER | {"width_mm": 85})
    assert (wide["columns"], narrow["columns"]) == (2, 1)
    assert min(view["width"] for view in narrow["concat"][0]["vconcat"]) >= 150


def test_a_panel_width_of_ones_own_leaves_the_figures_width_open() -> None:
    spec = draw(style=PAPER | {"panel_width": 200})
    assert "usermeta" not in spec and 'mm"' not in as_svg(spec).split(">", 1)[0]
    assert spec["concat"][0]["vconcat"][0]["width"] == 200


def test_every_figure_can_be_printed_that_wide() -> None:
    named: Any = {"panels": MODELS, "datasets": DATASETS, "style": PAPER, "title": "T"}
    at: Any = named | {"readout": READOUTS[3]}
    pair = controls_of(MODELS, DATASETS, 3), contrasts_of(MODELS, DATASETS, 3)
    for figure in (
        controls_chart(*pair, **at),
        readouts_chart(curve_of(MODELS, DATASETS, 3, READOUTS), **named),
        calibration_chart(calibration_of(MODELS, DATASETS), **named),
    ):
        assert size_of(as_svg(figure.to_dict()))[0] == pytest.approx(180 * 96 / 25.4, rel=0.03)


def test_pdf_embeds_its_fonts_and_svg_names_a_common_family() -> None:
    svg = as_svg(draw(style=PAPER))
    families = set(re.findall(r'font-family="([^"]*)"', svg))
    assert families and all("Arial" in family and "sans-serif" in family for family in families)
    pdf = as_pdf(svg, 180)
    fonts = pdf.count(b"/FontDescriptor") and pdf.count(b"/Type /FontDescriptor")
    assert fonts and len(re.findall(rb"/FontFile[23]?", pdf)) >= fonts


@pytest.mark.parametrize("theme", ["screen", "paper"])
def test_dash_and_shape_tell_all_series_apart(theme: str) -> None:
    figure = chart(
        curve_of(MODELS[:1], MANY, 2),
        title="T",
        panels=MODELS[:1],
        datasets=MANY,
        readout=READOUTS[3],
        style={"theme": theme, "width_mm": 0},
    )
    spec = figure.to_dict()
    key = next(v["encoding"] for v in views(spec, "point") if "strokeDash" in v["encoding"])
    dashes, shapes = (key[name]["scale"]["range"] for name in ("strokeDash", "shape"))
    pairs = {(json.dumps(dash), shape) for dash, shape in zip(dashes, shapes, strict=True)}
    assert len(pairs) == len(dashes) == 16
    drawn = {(row["series"], row["marker"]) for rows in spec["datasets"].values() for row in rows}
    assert len({marker for _, marker in drawn}) == 8


@pytest.mark.parametrize("layers", [16, 80])
def test_lines_keep_markers_at_any_depth_and_ticks_few(layers: int) -> None:
    spec = chart(table(layers), **LOOKS, readout=READOUTS[3]).to_dict()
    marked: dict[tuple[str, str], int] = {}
    for rows in spec["datasets"].values():
        for row in rows:
            if row.get("mark") and "delta_p" in row:
                name = row["model"], row["series"]
                marked[name] = marked.get(name, 0) + 1
    assert len(marked) == 8 and all(7 <= count <= 9 for count in marked.values())
    axis = next(views(spec, "line"))["encoding"]["x"]["axis"]
    assert 4 <= len(axis["values"]) <= 6


def test_a_long_title_wraps_within_one_panel() -> None:
    spec = draw(panels=MODELS[:1], style={"theme": "screen"})
    lines, size = spec["title"]["text"], spec["title"]["fontSize"]
    assert " ".join(lines) == LOOKS["title"] and len(lines) > 1
    assert max(map(len, lines)) * 0.6 * size <= size_of(as_svg(spec))[0]


def test_a_long_model_name_wraps_above_its_panel_and_widens_nothing() -> None:
    long = "A model whose name takes sixty characters, of version 1.0-Instruct"
    spec = draw(panels=[("one", long), MODELS[1]])
    shown = spec["concat"][0]["vconcat"][0]["title"]["text"]
    assert " ".join(shown) == long and len(shown) == 2
    assert size_of(as_svg(spec))[0] == pytest.approx(size_of(as_svg(draw()))[0], abs=1)


def test_panel_titles_stand_in_line_whatever_their_ranges() -> None:
    raised = table().copy()
    first = raised["model"] == "one"
    raised.loc[first, "ci_high"] = raised.loc[first, "ci_high"].clip(lower=19.5)
    svg = as_svg(chart(raised, **LOOKS, readout=READOUTS[3]).to_dict())
    tops = re.findall(
        r'concat_\d_concat_0_group"[^>]*><g transform="translate\([^,]*,([^)]*)\)', svg
    )
    assert len(tops) == 2 and len(set(tops)) == 1
    curves = [{"delta_p": 0, "ci_low": -3, "ci_high": top} for top in (14, 19.5, 20, 39, -1)]
    assert all(delta_range([row])[1] % 20 for row in curves)

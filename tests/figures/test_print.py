"""Figures in print: their width, and what tells series apart."""

import re
from dataclasses import replace
from typing import Any

import pytest
import vl_convert
from figure_tables import CHECKED, DATASETS, MODELS, claims_of, controls_of, crossing_of, curve_of

from anchorscope.figures.fit import VERSION, as_pdf, as_svg, printed_width, size_of
from anchorscope.figures.main import chart
from anchorscope.figures.style import style_of


def draw(
    layers: int = 4, models: Any = MODELS, datasets: Any = DATASETS[:2], **looks: Any
) -> dict[str, Any]:
    tables = [
        made(models, datasets, layers) for made in (curve_of, controls_of, crossing_of, claims_of)
    ]
    figure = chart(*tables, title="T", panels=models, datasets=datasets, **looks)
    return figure.to_dict(validate=CHECKED)


def test_marks_that_nobody_sees_leave_the_file_and_no_pixel_of_the_picture() -> None:
    spec = draw(style=replace(style_of(), panel_width=120, panel_height=80))
    whole, small = vl_convert.vegalite_to_svg(spec, vl_version=VERSION), as_svg(spec)
    assert len(small) < 0.7 * len(whole)
    assert vl_convert.svg_to_png(whole) == vl_convert.svg_to_png(small)


@pytest.mark.parametrize(
    ("models", "width", "wanted", "columns"),
    [(MODELS, None, 180, 2), (MODELS[:1], None, 85, 1), (MODELS, 85, 85, 1)],
)
def test_paper_is_as_wide_as_asked_with_panels_below_one_another_where_narrow(
    models: Any, width: int | None, wanted: int, columns: int
) -> None:
    spec = draw(models=models, style={"theme": "paper", "width": width})
    svg = as_svg(spec)
    assert f'width="{wanted}mm"' in svg and printed_width(spec) == wanted
    assert spec["columns"] == columns
    assert size_of(svg)[0] == pytest.approx(wanted * 96 / 25.4, rel=0.015)
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+)", as_pdf(svg, wanted))
    assert box and float(box[1]) == pytest.approx(wanted * 72 / 25.4, abs=0.1)

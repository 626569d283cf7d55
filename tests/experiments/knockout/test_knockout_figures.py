"""The picture of the evidence: every line as in the tables, and what its caption says."""

from typing import Any

import figure_tables
import pandas as pd
import pytest
from figure_tables import caption, drawing, points, views
from handmade import drawn

from anchorscope.experiments.knockout.figure_evidence import (
    AUC_HEADING,
    AUCS,
    FLIPS_HEADING,
    evidence_chart,
    flips,
)

MODELS = [("m", "Model")]
DATASETS = [("a", "Alpha"), ("b", "Beta")]
LAYERS = 4
Spec = dict[str, Any]


def draw(controls: pd.DataFrame, curve: pd.DataFrame) -> Spec:
    return drawn(evidence_chart, controls, curve, panels=MODELS, datasets=DATASETS)


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Controls and curve."""
    cells = (MODELS, DATASETS, LAYERS)
    return figure_tables.controls_of(*cells), figure_tables.curve_of(*cells)


def test_every_line_has_the_tables_values_and_the_headline_is_an_upright_line() -> None:
    controls, curve = tables()
    spec = draw(controls, curve)
    assert len(spec["concat"]) == len(DATASETS)
    rules = list(views(spec["concat"][0]["vconcat"][1], "rule"))
    (rule,) = (one for one in rules if "data" in one)
    assert spec["datasets"][rule["data"]["name"]] == [{"layer": LAYERS - 3}]
    for cell, (dataset, _) in zip(spec["concat"], DATASETS, strict=True):
        rows = controls[controls["dataset"] == dataset]
        for panel, lines, factor in zip(cell["vconcat"], (AUCS, flips()), (1, 100), strict=True):
            rows_drawn = pd.DataFrame(points(spec, panel))
            assert set(rows_drawn["series"]) == {series.name for series in lines.values()}
            for column, series in lines.items():
                got = rows_drawn[rows_drawn["series"] == series.name]["value"]
                assert list(got) == pytest.approx(list(factor * rows[column]), abs=6e-5)
                held = next(views(panel, "line"))["encoding"]["y"]["scale"]["domain"]
                assert held[0] <= got.min() and got.max() <= held[1]
    assert list(views(spec["concat"][0]["vconcat"][0], "area")), "the probe's AUC has a band"


def test_each_row_says_what_it_shows_and_one_legend_names_what_was_measured() -> None:
    controls, curve = tables()
    svg = drawing(draw(controls.assign(rest_flip_share=float("nan")), curve))
    assert svg.count('aria-roledescription="legend"') == 1
    for heading in (AUC_HEADING, FLIPS_HEADING):
        assert heading.split()[0] in svg
    assert ">Flips: every question token<" in svg and ">AUC: hardest text model<" in svg
    assert ">AUC<" in svg and ">Flips (%)<" in svg
    assert "Flips: every other question token" not in svg


def test_without_a_signal_the_probes_lines_are_grey_and_the_others_keep_their_colour() -> None:
    controls, curve = tables()
    curve["signal"] = curve["cell_signal"] = curve["dataset"] != "b"
    spec = draw(controls, curve)
    for panel in spec["concat"][1]["vconcat"]:
        rows = pd.DataFrame(points(spec, panel))
        kept = {AUCS[name].name for name in ("prompt_end_auc", "floor_auc")}
        assert set(rows[rows["signal"]]["series"]) == kept & set(rows["series"])
    assert "Thin grey: layers without a signal" in caption(spec)

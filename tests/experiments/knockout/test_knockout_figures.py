"""The picture of the evidence: every line as in the tables, and what its caption says."""

from typing import Any

import figure_tables
import pandas as pd
import pytest
from figure_tables import points, views
from handmade import drawn

from anchorscope.experiments.knockout.figure_evidence import AUCS, evidence_chart, flips

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

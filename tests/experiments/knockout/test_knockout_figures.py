"""The picture of the evidence: every line as in the tables, and what its caption says."""

import pandas as pd
import pytest
from figure_tables import controls_of, curve_of, points, views
from handmade import drawn

from anchorscope.experiments.knockout.figure_evidence import AUCS, evidence_chart, flips

MODELS = [("m", "Model")]
DATASETS = [("a", "Alpha"), ("b", "Beta")]
LAYERS = 4


def test_every_line_has_the_tables_values_and_the_headline_is_an_upright_line() -> None:
    cells = (MODELS, DATASETS, LAYERS)
    controls, curve = controls_of(*cells), curve_of(*cells)
    spec = drawn(evidence_chart, controls, curve, panels=MODELS, datasets=DATASETS)
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

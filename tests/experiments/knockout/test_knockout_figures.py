"""The picture of the evidence: every line as in the tables."""

import pandas as pd
import pytest
from figure_tables import controls_of, crossing_of, curve_of, points, views
from handmade import drawn

from anchorscope.experiments.knockout.figure_evidence import SWAPS, evidence_chart, flips

MODELS = [("m", "Model")]
DATASETS = [("a", "Alpha"), ("b", "Beta")]
LAYERS = 4


def test_every_line_has_the_tables_values_and_the_headline_is_an_upright_line() -> None:
    cells = (MODELS, DATASETS, LAYERS)
    controls, crossing, curve = (made(*cells) for made in (controls_of, crossing_of, curve_of))
    spec = drawn(evidence_chart, controls, crossing, curve, panels=MODELS, datasets=DATASETS)
    rules = list(views(spec["concat"][0]["vconcat"][1], "rule"))
    (rule,) = (one for one in rules if "data" in one)
    assert spec["datasets"][rule["data"]["name"]] == [{"layer": LAYERS - 3}]
    for cell, (dataset, _) in zip(spec["concat"], DATASETS, strict=True):
        here = controls[controls["dataset"] == dataset]
        flipped = {one.name: here[column] for column, one in flips().items()}
        swaps = crossing[crossing["dataset"] == dataset].set_index("quantity")["estimate"]
        swapped = {one.name: swaps[quantity] for quantity, one in SWAPS.items()}
        for panel, lines in zip(cell["vconcat"], (swapped, flipped), strict=True):
            rows = pd.DataFrame(points(spec, panel))
            assert set(rows["series"]) == {*lines}
            for name, values in lines.items():
                got = rows[rows["series"] == name]["value"]
                assert list(got) == pytest.approx(list(100 * values), abs=6e-5)

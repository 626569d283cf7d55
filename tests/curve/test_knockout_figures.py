"""The picture of the evidence: every line as in the tables."""

import pandas as pd
import pytest
from figure_tables import claims_of, controls_of, crossing_of, curve_of, judged, points, views
from handmade import drawn

from anchorscope.curve.evidence import SWAPS, evidence_chart, flips

MODELS = [("m", "Model")]
DATASETS = [("a", "Alpha"), ("b", "Beta")]
LAYERS = 4


def test_without_swaps_the_reason_is_the_one_of_the_claim_about_wrong_answers() -> None:
    cells = (MODELS, DATASETS, LAYERS)
    told = judged(claims_of(*cells), "not measured", "comparison_wrong")
    tables = controls_of(*cells), crossing_of(*cells).head(0), curve_of(*cells), told
    spec = drawn(evidence_chart, *tables, panels=MODELS, datasets=DATASETS)
    for cell in spec["concat"]:
        (note,) = [
            view["mark"]["text"]
            for view in views(cell["vconcat"][0], "text")
            if "".join(view["mark"]["text"]).startswith("not measured")
        ]
        assert " ".join(note) == "not measured: no answers were swapped"


def test_every_line_has_the_tables_values_and_the_headline_is_an_upright_line() -> None:
    cells = (MODELS, DATASETS, LAYERS)
    made = [make(*cells) for make in (controls_of, crossing_of, curve_of, claims_of)]
    spec = drawn(evidence_chart, *made, panels=MODELS, datasets=DATASETS)
    controls, crossing, _, _ = made
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

"""The figure of the calibration: headline rows, requirements, default read-out, blanks told."""

from typing import Any

import pandas as pd
import pytest
from figure_tables import CHECKED, calibration_of, points, words

from validation.figure_calibration import MEASURES, calibration_chart

MODELS = [("m", "Model")]
DATASETS = [("a", "Alpha"), ("b", "Beta")]


def draw(table: pd.DataFrame) -> dict[str, Any]:
    settings: dict[str, Any] = {"title": "Calibration", "panels": MODELS, "datasets": DATASETS}
    return calibration_chart(table, **settings).to_dict(validate=CHECKED)


def test_points_are_the_rows_of_all_kinds_at_the_headline_layer() -> None:
    table = calibration_of(MODELS, DATASETS)
    chosen = table[(table["kind"] == "all") & (table["z"] == "all") & table["headline"]]
    assert len(chosen) == 18
    spec = draw(table)
    for column, panel in zip(MEASURES, spec["concat"][0]["vconcat"], strict=True):
        drawn = pd.DataFrame(points(spec, panel, "point"))
        found = drawn.set_index(["series", "readout"])["value"]
        for row in chosen.to_dict("records"):
            place = (dict(DATASETS)[row["dataset"]], f"{row['site']}/{row['position']}")
            assert found[place] == pytest.approx(row[column], abs=6e-5)
        assert len(drawn) == len(chosen)


def test_no_signal_blanks_and_missing_cells_are_told() -> None:
    table = calibration_of(MODELS, DATASETS)
    table["predicts"] = table["site"] != "attn"
    here = (table["site"] == "mlp") & (table["position"] == "final")
    table.loc[here, "sensitivity"] = float("nan")
    said = words(draw(table[table["dataset"] == "a"]))
    assert "Not predicted (hollow grey): Model on Alpha at attn/final;" in said
    assert "Not measured: Model on Beta." in said
    assert "Left out: 1 values of cells without samples of that truth." in said

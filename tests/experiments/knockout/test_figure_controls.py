"""The figure of controls: every line of the table, one legend, and what the caption claims."""

from functools import lru_cache
from typing import Any

import pandas as pd
import pytest
from figure_tables import caption, contrasts_of, controls_of, drawing, points

from anchorscope.experiments.knockout.figure_controls import AUCS, FLIPS, FOLLOWS, controls_chart
from anchorscope.storage.errors import AnchorscopeError

MODELS = [("m", "Model")]
DATASETS = [("a", "Alpha"), ("b", "Beta")]
LAYERS = 4


def draw(controls: pd.DataFrame, contrasts: pd.DataFrame, **kwargs: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"title": "Controls", "panels": MODELS, "datasets": DATASETS}
    settings |= {"readout": ("mlp", "final")} | kwargs
    return controls_chart(controls, contrasts, **settings).to_dict()


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    return controls_of(MODELS, DATASETS, LAYERS), contrasts_of(MODELS, DATASETS, LAYERS)


@lru_cache
def usual() -> dict[str, Any]:
    return draw(*tables())


def test_every_measured_control_is_a_line_with_the_tables_values() -> None:
    controls, contrasts = tables()
    spec = usual()
    assert len(spec["concat"]) == 2
    for cell, (dataset, _) in zip(spec["concat"], DATASETS, strict=True):
        rows = controls[controls["dataset"] == dataset]
        flips, follow, aucs = cell["vconcat"]
        for panel, lines, factor in ((flips, FLIPS, 100), (aucs, AUCS, 1)):
            drawn = pd.DataFrame(points(spec, panel))
            assert set(drawn["series"]) == {series.name for series in lines.values()}
            for column, series in lines.items():
                got = drawn[drawn["series"] == series.name]["value"]
                assert list(got) == pytest.approx(list(factor * rows[column]), abs=6e-5)
        drawn = pd.DataFrame(points(spec, follow))
        for contrast, series in FOLLOWS.items():
            wanted = contrasts[
                (contrasts["contrast"] == contrast) & (contrasts["dataset"] == dataset)
            ]
            wanted = wanted[wanted["quantity"] == "share"]["estimate"]
            got = drawn[drawn["series"] == series.name]["value"]
            assert list(got) == pytest.approx(list(wanted), abs=6e-5)


def test_without_matched_questions_there_is_no_panel_of_what_follows() -> None:
    controls, contrasts = tables()
    spec = draw(controls, contrasts[~contrasts["contrast"].str.contains("matched|placebo")])
    assert {len(cell["vconcat"]) for cell in spec["concat"]} == {2}
    assert "Follow" not in drawing(spec)


def test_series_differ_in_dash_or_marker_so_that_print_in_grey_tells_them_apart() -> None:
    for lines in (FLIPS, AUCS, FOLLOWS):
        looks = [(tuple(series.dash), series.marker) for series in lines.values()]
        assert len(set(looks)) == len(lines)
        assert len({marker for _, marker in looks}) == len(lines)


def test_one_legend_holds_what_was_measured_and_nothing_else() -> None:
    controls, contrasts = tables()
    controls["replicate_flip_share"] = float("nan")
    svg = drawing(draw(controls.drop(columns="null_share"), contrasts))
    assert svg.count('aria-roledescription="legend"') == 1
    assert ">Flips: question<" in svg and ">AUC: hardest floor<" in svg
    assert ">Flips: replicate<" not in svg and ">Flips: by chance<" not in svg


def test_caption_names_noise_floor_and_equivalence() -> None:
    said = caption(usual())
    assert "Noise floor (largest |ΔP| with nothing cut): 0.002 points." in said
    assert "(90 % interval within ±5 points) at every layer with a signal in 2 of 2 cells." in said
    assert "turns surely more than a placebo in 2 of 2 cells with a signal." in said
    assert said.startswith("Read-out mlp/final; n = 980 to 1,000 samples a cell; ")


def test_no_effect_is_never_claimed_where_the_table_does_not() -> None:
    controls, contrasts = tables()
    open_ = (contrasts["dataset"] == "b") & contrasts["layer"].isin([1, 2])
    contrasts.loc[open_ & (contrasts["contrast"] == "random"), "no_effect"] = False
    said = caption(draw(controls.drop(columns="noise_floor"), contrasts))
    assert "in 1 of 2 cells; not shown for Model on Beta at layers 1–2." in said
    assert "Noise floor: not measured." in said
    none = draw(controls, contrasts[contrasts["contrast"] != "random"])
    assert "Effect of random tokens: not measured." in caption(none)


def test_where_there_is_no_signal_no_effect_is_neither_shown_nor_claimed() -> None:
    controls, contrasts = tables()
    contrasts["signal"] = contrasts["dataset"] != "b"
    contrasts.loc[contrasts["dataset"] == "b", "no_effect"] = False
    said = caption(draw(controls, contrasts))
    assert "at every layer with a signal in 1 of 1 cells." in said
    assert "a placebo in 1 of 1 cells with a signal." in said
    said = caption(draw(controls, contrasts.assign(signal=False)))
    assert "Effect of random tokens: not interpretable" in said and "placebo in" not in said


def test_layers_without_a_signal_are_grey_and_floors_stay_in_colour() -> None:
    controls = controls_of(MODELS, DATASETS, LAYERS, blind=2)
    spec = draw(controls, contrasts_of(MODELS, DATASETS, LAYERS, blind=2))
    for cell in spec["concat"]:
        for panel in cell["vconcat"]:
            for row in points(spec, panel):
                grey = row["layer"] < 2 or row["edge"]
                apart = row["series"] in ("AUC: hardest floor", "AUC: prompt's end")
                apart |= row["series"] == "AUC: shuffled labels"
                assert row["signal"] == (apart or not grey)
    assert "No signal (hollow grey): every cell at layers 0–1." in caption(spec)


def test_cells_without_signal_and_unmeasured_cells_are_named() -> None:
    controls, contrasts = tables()
    controls["signal"] = controls["cell_signal"] = controls["dataset"] != "a"
    spec = draw(controls[controls["dataset"] == "a"], contrasts)
    first, second = (cell["vconcat"][0] for cell in spec["concat"])
    assert first["title"]["subtitle"] == "Model, no signal"
    assert second["layer"][0]["mark"]["text"] == "not measured"
    said = caption(spec)
    assert "No signal (hollow grey): Model on Alpha at every layer." in said
    assert said.endswith("Not measured: Model on Beta.")


def test_the_headline_layer_is_marked() -> None:
    panel, *_ = usual()["concat"][0]["vconcat"]
    rule = panel["layer"][0]
    assert rule["mark"]["type"] == "rule" and rule["data"]["values"] == [{"layer": LAYERS - 3}]


def test_bad_tables_are_refused_by_name() -> None:
    controls, contrasts = tables()
    with pytest.raises(AnchorscopeError, match="lacks the columns signal"):
        draw(controls.drop(columns="signal"), contrasts)
    with pytest.raises(AnchorscopeError, match="lacks the columns no_effect"):
        draw(controls, contrasts.drop(columns="no_effect"))
    with pytest.raises(AnchorscopeError, match="no rows at the read-out attn/final"):
        draw(controls, contrasts, readout=("attn", "final"))

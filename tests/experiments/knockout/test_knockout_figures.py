"""The figures of controls and probes: every line as in the tables, and what the captions claim."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import figure_tables
import pandas as pd
import pytest
from figure_tables import CHECKED, caption, details, drawing, points, views, words

from anchorscope.experiments.knockout.figure_controls import AUCS, FLIPS, controls_chart
from anchorscope.experiments.knockout.figure_probes import probes_chart

MODELS = [("m", "Model")]
DATASETS = [("a", "Alpha"), ("b", "Beta")]
LAYERS = 4
Spec = dict[str, Any]


def draw(chart: Callable[..., Any], tables: Sequence[pd.DataFrame], **kwargs: Any) -> Spec:
    settings = {"title": "T", "panels": MODELS, "datasets": DATASETS, "readout": ("mlp", "final")}
    return dict(chart(*tables, **settings | kwargs).to_dict(validate=CHECKED))


def tables() -> tuple[pd.DataFrame, ...]:
    """Controls, curve, density."""
    by_layer = (figure_tables.controls_of, figure_tables.curve_of)
    made = (make(MODELS, DATASETS, LAYERS) for make in by_layer)
    return *made, figure_tables.density_of(MODELS, DATASETS)


@lru_cache
def usual() -> Spec:
    return draw(probes_chart, tables())


def test_every_measured_control_is_a_line_with_the_tables_values_and_the_headline_a_rule() -> None:
    controls = tables()[0]
    spec = draw(controls_chart, (controls,))
    assert len(spec["concat"]) == 2
    rule = spec["concat"][0]["vconcat"][0]["layer"][0]
    assert rule["mark"]["type"] == "rule"
    assert spec["datasets"][rule["data"]["name"]] == [{"layer": LAYERS - 3}]
    for cell, (dataset, _) in zip(spec["concat"], DATASETS, strict=True):
        rows = controls[controls["dataset"] == dataset]
        flips, aucs = cell["vconcat"]
        for panel, lines, factor in ((flips, FLIPS, 100), (aucs, AUCS, 1)):
            drawn = pd.DataFrame(points(spec, panel))
            assert set(drawn["series"]) == {series.name for series in lines.values()}
            for column, series in lines.items():
                got = drawn[drawn["series"] == series.name]["value"]
                assert list(got) == pytest.approx(list(factor * rows[column]), abs=6e-5)


def test_panels_and_one_legend_hold_what_was_measured_and_nothing_else() -> None:
    controls = tables()[0].assign(offset_flip_share=float("nan")).drop(columns="null_share")
    spec = draw(controls_chart, (controls,))
    assert {len(cell["vconcat"]) for cell in spec["concat"]} == {2}
    svg = drawing(spec)
    assert svg.count('aria-roledescription="legend"') == 1
    assert ">Flips: question<" in svg and ">AUC: hardest floor<" in svg
    gone = ("Flips: offset refitted", "Flips: Δlogit permuted")
    assert not any(f">{name}" in svg for name in gone)


def test_the_caption_says_where_and_how_many_and_that_flips_claim_nothing() -> None:
    controls, *_ = tables()
    spec = draw(controls_chart, (controls,))
    text = words(spec)
    said = [
        "Read-out mlp/final; n = 980 to 1,000 samples per cell; upright line: headline layer",
        "Flips describe. They carry no claim.",
        "Noise floor (largest |ΔP| with nothing blocked): 0.002 points.",
        "Intervals of AUCs: the probes held fixed.",
    ]
    assert [sentence for sentence in said if sentence not in text] == []
    assert "partner's question" not in text and "effect" not in text
    without = draw(controls_chart, (controls.drop(columns="noise_floor"),))
    assert "Noise floor: not measured." in details(without)


def panel(spec: Spec, title: str) -> Spec:
    """The panel whose y axis has that title."""
    panels: list[Spec] = spec["concat"][0]["vconcat"]
    axes = [next(views(view, "line"))["encoding"]["y"]["axis"]["title"] for view in panels]
    return panels[axes.index(title)]


def drawn(spec: Spec, title: str) -> pd.DataFrame:
    """The rows of its lines; of the AUC those of the read-out's own."""
    rows = pd.DataFrame(points(spec, panel(spec, title)))
    return rows[~rows["chance"].astype(bool)] if title == "Probe AUC" else rows


def test_auc_and_its_band_are_the_tables() -> None:
    controls, *_ = tables()
    got = drawn(usual(), "Probe AUC")
    for name, column in (("value", "probe_auc"), ("low", "auc_low"), ("high", "auc_high")):
        assert list(got[name]) == pytest.approx(list(controls[column]), abs=6e-5)
    assert list(views(panel(usual(), "Probe AUC"), "area"))
    low, high = next(views(panel(usual(), "Probe AUC"), "line"))["encoding"]["y"]["scale"]["domain"]
    assert low <= controls["auc_low"].min() and controls["auc_high"].max() <= high


def test_the_prompts_end_and_the_hardest_floor_stand_beside_the_auc() -> None:
    controls, _, _ = tables()
    spec = usual()
    rows = pd.DataFrame(points(spec, panel(spec, "Probe AUC")))
    for said, column in (("prompt's end", "prompt_end_auc"), ("hardest floor", "floor_auc")):
        got = rows[rows["measure"].str.endswith(said)]["value"]
        assert list(got) == pytest.approx(list(controls[column]), abs=6e-5)
    added = sorted(f"{one:.2f}" for one in controls["added_auc"][controls["headline"]])
    assert f"reading the answer adds {' to '.join(dict.fromkeys(added))} to the AUC" in words(spec)
    assert "hollow markers: probe at the prompt's end" in caption(spec)


def test_groups_are_those_of_the_knockout_and_thin_ones_are_crosses() -> None:
    controls, curve, density = tables()
    few = (curve["anchor"] == "Q") & (curve["layer"] == 2) & (curve["dataset"] == "a")
    curve.loc[few, "thin"] = True
    spec = draw(probes_chart, (controls, curve, density))
    got = drawn(spec, "Right (%)")
    assert set(got["series"]) == {f"{a}-Anchored ({d})" for a in "QA" for _, d in DATASETS}
    wanted = curve[(curve["condition"] == "knockout") & (curve["anchor"] == "Q")]
    for key, label in DATASETS:
        rows = wanted[wanted["dataset"] == key]
        mine = got[got["series"] == f"Q-Anchored ({label})"]["value"]
        assert list(mine) == pytest.approx(list(100 * rows["answer_accuracy"]), abs=6e-5)
    thin = got[got["thin"]]
    assert list(thin["series"]) == ["Q-Anchored (Alpha)"] and list(thin["layer"]) == [2]
    assert "Crosses: too few samples to rely on." in caption(spec)
    assert "to rely on: Model on Alpha, Q-Anchored at layer 2" in details(spec)


def test_density_sets_knockout_against_random_and_claims_no_mechanisms() -> None:
    *_, density = tables()
    got = drawn(usual(), "Density (√)")
    assert set(got["condition"]) == {"knockout", "random"} and len(got) == len(density)
    assert sorted(got["value"]) == pytest.approx(sorted(density["density"]), abs=6e-6)
    assert list(got["chance"]) == list(got["condition"] == "random"), "random tokens are dotted"
    assert "A bimodal density is not evidence of two mechanisms." in details(usual())


def test_no_signal_is_grey_and_named_and_a_missing_model_says_so() -> None:
    controls, curve, density = tables()
    controls["signal"] = controls["cell_signal"] = controls["dataset"] != "b"
    controls.loc[0, "ece"] = 0.37
    blank = [name for name in controls if name.startswith(("prompt_end", "added"))]
    controls[blank] = float("nan")
    two = [*MODELS, ("other", "Other")]
    given = (controls, curve.drop(columns="popularity"), density.iloc[:0])
    spec = draw(probes_chart, given, panels=two)
    got = drawn(spec, "Probe AUC")
    assert set(got[~got["signal"]]["dataset"]) == {"Beta"}
    said = words(spec)
    assert "Hollow grey: layers without a signal" in caption(spec)
    assert "No signal (hollow grey): Model on Beta at every layer." in said
    assert "Not measured: Other on Alpha; Other on Beta." in said
    assert "prompt's end" not in said and "adds" not in said and "hardest text model" in said
    notes = [one["mark"].get("text") for one in views(spec["concat"][1], "text")]
    assert list(filter(None, notes)) == ["not measured"] * 4
    axis = next(views(panel(spec, "Error"), "line"))["encoding"]["y"]
    assert axis["scale"]["domain"][1] >= 0.37 >= axis["axis"]["values"][-1] > 0


def test_places_along_a_density_are_written_as_whole_numbers() -> None:
    controls, curve, density = tables()
    wide = density.assign(x=5 * density["x"])
    svg = drawing(draw(probes_chart, (controls, curve, wide)))
    assert ">−10<" in svg and "e+1" not in svg

"""The overview of read-outs: a panel for each, comparable by eye, in the main figure's look."""

from functools import lru_cache
from typing import Any

import pytest
from figure_tables import READOUTS, caption, curve_of, points, views

from anchorscope.figures.figure_readouts import readouts_chart
from anchorscope.figures.figures import chart
from anchorscope.storage.errors import AnchorscopeError

MODELS = [("m", "Model")]
DATASETS = [("a", "Alpha")]
LAYERS = 3


def draw(curve: Any, **kwargs: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"title": "Read-outs", "panels": MODELS, "datasets": DATASETS}
    return readouts_chart(curve, **(settings | kwargs)).to_dict()


@lru_cache
def usual() -> dict[str, Any]:
    return draw(curve_of(MODELS, DATASETS, LAYERS, READOUTS))


def test_the_nine_readouts_stand_in_a_grid_of_sites_by_positions() -> None:
    (model,) = usual()["concat"]
    assert model["columns"] == 3 and model["title"]["text"] == "Model"
    titles = [cell["vconcat"][0]["title"]["text"] for cell in model["concat"]]
    assert titles == [f"{site}/{position}" for site, position in READOUTS]


def test_a_models_name_may_hold_the_words_that_the_caption_uses() -> None:
    spec = draw(curve_of(MODELS, DATASETS, LAYERS), panels=[("m", "Model at home")])
    (model,) = spec["concat"]
    assert model["concat"][0]["vconcat"][0]["title"]["text"] == "mlp/final"
    assert caption(spec).startswith("1 read-out;")


def test_each_panel_draws_its_own_readouts_rows() -> None:
    curve = curve_of(MODELS, DATASETS, LAYERS, READOUTS)
    for cell, (site, position) in zip(usual()["concat"][0]["concat"], READOUTS, strict=True):
        here = curve[(curve["site"] == site) & (curve["position"] == position)]
        wanted = here[(here["condition"] == "knockout") & (here["anchor"] != "all")]
        got = [row["delta_p"] for row in points(usual(), cell["vconcat"][0])]
        assert sorted(got) == pytest.approx(sorted(wanted["delta_p"]), abs=0.006)
        flips = [row["flips"] for row in points(usual(), cell["vconcat"][1])]
        wanted = here[(here["anchor"] == "all") & here["condition"].isin(["knockout", "random"])]
        assert sorted(flips) == pytest.approx(sorted(100 * wanted["flip_share"]), abs=0.06)


def test_panels_of_a_model_share_one_range_and_the_main_figures_colours() -> None:
    main = chart(
        curve_of(MODELS, DATASETS, LAYERS),
        title="T",
        panels=MODELS,
        datasets=DATASETS,
        readout=("mlp", "final"),
    ).to_dict()
    lines = [next(views(cell["vconcat"][0], "line")) for cell in usual()["concat"][0]["concat"]]
    assert len({tuple(line["encoding"]["y"]["scale"]["domain"]) for line in lines}) == 1
    colours = next(views(main, "line"))["encoding"]["color"]["condition"]["scale"]
    assert all(line["encoding"]["color"]["condition"]["scale"] == colours for line in lines)


def test_only_measured_sites_and_positions_have_panels_and_gaps_are_named() -> None:
    some = [("attn", "final"), ("mlp", "final"), ("mlp", "last_answer")]
    spec = draw(curve_of(MODELS, DATASETS, LAYERS, some))
    (model,) = spec["concat"]
    assert len(model["concat"]) == 4 and model["columns"] == 2
    said = caption(spec)
    assert said.startswith("3 read-outs; flips among paired samples (dotted: random tokens);")
    assert said.endswith("Not measured: Model at attn/last_answer.")


def test_a_readout_without_signal_is_named() -> None:
    curve = curve_of(MODELS, DATASETS, LAYERS, [("attn", "final"), ("mlp", "final")])
    curve["signal"] = curve["cell_signal"] = curve["site"] == "mlp"
    said = "No signal (hollow grey): Model at attn/final on Alpha at every layer."
    assert said in caption(draw(curve))


def test_bad_tables_are_refused_by_name() -> None:
    curve = curve_of(MODELS, DATASETS, LAYERS)
    with pytest.raises(AnchorscopeError, match="lacks the columns thin"):
        draw(curve.drop(columns="thin"))
    with pytest.raises(AnchorscopeError, match="no rows with the grouping replicate"):
        draw(curve, grouping="replicate")

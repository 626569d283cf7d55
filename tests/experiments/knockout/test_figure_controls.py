"""The figure of controls: every line of the table, one legend, and what the caption claims."""

from functools import lru_cache
from typing import Any

import pandas as pd
import pytest
from figure_tables import caption, contrasts_of, controls_of, drawing, points

from anchorscope.experiments.knockout.figure_controls import AUCS, FLIPS, FOLLOWS, controls_chart

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


def test_every_measured_control_is_a_line_with_the_tables_values_and_the_headline_a_rule() -> None:
    controls, contrasts = tables()
    spec = usual()
    assert len(spec["concat"]) == 2
    rule = spec["concat"][0]["vconcat"][0]["layer"][0]
    assert rule["mark"]["type"] == "rule" and rule["data"]["values"] == [{"layer": LAYERS - 3}]
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


def test_panels_and_one_legend_hold_what_was_measured_and_nothing_else() -> None:
    controls, contrasts = tables()
    controls["replicate_flip_share"] = float("nan")
    contrasts = contrasts[~contrasts["contrast"].str.contains("matched|placebo")]
    spec = draw(controls.drop(columns="null_share"), contrasts)
    assert {len(cell["vconcat"]) for cell in spec["concat"]} == {2}
    svg = drawing(spec)
    assert svg.count('aria-roledescription="legend"') == 1
    assert ">Flips: question<" in svg and ">AUC: hardest floor<" in svg
    assert not any(
        f">{gone}" in svg for gone in ("Flips: replicate", "Flips: Δlogit permuted", "Follow")
    )


QUIET = "layer not in [1, 2] or dataset != 'b' or contrast != 'random'"
EVERYWHERE = [
    "Read-out mlp/final; n = 980 to 1,000 samples a cell; ",
    "Noise floor (largest |ΔP| with nothing cut): 0.002 points.",
    "(90 % interval within ±5 points) at every layer with a signal in 2 of 2 cells, over the 900 ",
    "turns surely more than a placebo in 2 of 2 cells with a signal.",
]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t, EVERYWHERE),
        (
            lambda t: t.assign(effect=t["effect"].where(t.eval(QUIET), "unclear")),
            ["in 1 of 2 cells, ", "; not shown for Model on Beta at layers 1–2."],
        ),
        (
            lambda t: t.assign(signal=t["dataset"] != "b"),
            ["a placebo in 1 of 1 cells with a signal."],
        ),
        (lambda t: t.assign(signal=False), ["Effect of random tokens: not interpretable"]),
        (lambda t: t[t["contrast"] != "random"], ["Effect of random tokens: not measured."]),
    ],
)
def test_the_caption_claims_what_the_tables_show_and_no_more(change: Any, said: list[str]) -> None:
    controls, contrasts = tables()
    found = caption(draw(controls, change(contrasts)))
    assert [words for words in said if words not in found] == []
    assert ("placebo in" in found) == ("not interpretable" not in found)
    without = draw(controls.drop(columns="noise_floor"), contrasts)
    assert "Noise floor: not measured." in caption(without)

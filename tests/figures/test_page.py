"""A figure's page: what it can switch to, and what a reader does with it in a browser."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import driven, needs_browser
from figure_tables import (
    DATASETS,
    MODELS,
    READOUTS,
    claims_of,
    controls_of,
    crossing_of,
    curve_of,
    points as drawn_points,
)

from anchorscope.figures.files import save
from anchorscope.figures.main import choices, title_of
from anchorscope.figures.style import Chart
from anchorscope.passes.interventions import REGISTRY
from anchorscope.workflow import pictures

TWO, LAYERS = DATASETS[:2], 4
LOOKS: Any = {"title": "T", "panels": MODELS, "datasets": TWO, "readout": READOUTS[3]}


@lru_cache
def table() -> pd.DataFrame:
    """Two read-outs, four conditions."""
    return curve_of(MODELS, TWO, LAYERS, [READOUTS[0], READOUTS[3]], blind=1)


@lru_cache
def figures() -> dict[str, Chart]:
    """The figure of each condition at one of the read-outs."""
    at = {"site": READOUTS[3][0], "position": READOUTS[3][1]}
    swapped = (made(MODELS, TWO, LAYERS, [READOUTS[3]]) for made in (crossing_of, claims_of))
    return choices(table(), controls_of(MODELS, TWO, LAYERS).assign(**at), *swapped, **LOOKS)


def test_every_condition_measured_can_be_chosen_and_draws_its_own_numbers() -> None:
    here = table()[(table()["site"] == "mlp") & (table()["anchor"] != "all")]
    names = {one.label: name for name, one in REGISTRY.items()}
    assert next(iter(figures())) == REGISTRY["knockout"].label
    assert {names[label] for label in figures()} == set(here["condition"])
    for label, figure in figures().items():
        spec = figure.to_dict(validate=False)
        name = names[label]
        assert spec["title"]["text"] == ("T" if name == "knockout" else title_of(name))
        for (model, _), column in zip(MODELS, spec["concat"], strict=True):
            rows = here[(here["model"] == model) & (here["condition"] == name)]
            got = [row["value"] for row in drawn_points(spec, column["vconcat"][0])]
            assert sorted(got) == pytest.approx(sorted(rows["delta_p"]), abs=0.006)


def test_the_figure_and_the_evidence_switch_read_outs() -> None:
    cells = (MODELS, TWO, LAYERS)
    names = ["/".join(READOUTS[3]), "/".join(READOUTS[0])]
    drawn = {"": table(), "crossing": crossing_of(*cells), "claims": claims_of(*cells)}
    drawn["controls"] = controls_of(*cells)
    evidence, every = (pictures.draw("", one, drawn, {**LOOKS}, {})
                       for one in (pictures.EVIDENCE, pictures.FIGURE))  # fmt: skip
    assert list(evidence) == names
    assert [*every] == [*figures(), names[1]]
    assert every[names[1]].to_dict()["title"]["subtitle"][0].startswith(f"Read-out {names[1]};")


def test_a_model_without_an_mlp_shows_its_blocks_in_the_panel_of_the_mlp() -> None:
    """No other read-out is offered twice, and the caption says what the panel shows."""
    (_, (lacks, label)), places = MODELS, [("mlp", "final"), ("mlp", "prompt_end")]
    tables = {"": curve_of, "crossing": crossing_of, "claims": claims_of}
    made = {name: of(MODELS, TWO, LAYERS, places) for name, of in tables.items()}
    aucs = controls_of(MODELS, TWO, LAYERS)
    made["controls"] = pd.concat([aucs.assign(site=site, position=at) for site, at in places])
    drawn = {
        name: one.assign(site=one["site"].where(one["model"] != lacks, "resid"))
        for name, one in made.items()
    }
    looks = {**LOOKS, "readout": places[0]}
    every = pictures.draw("", pictures.FIGURE, drawn, looks, {})
    first = next(iter(every.values())).to_dict(validate=False)
    assert f"Read-out mlp/final (resid/final in {label});" in " ".join(first["title"]["subtitle"])
    assert all(drawn_points(first, column["vconcat"][0]) for column in first["concat"])
    assert [name for name in every if "/" in name] == ["mlp/prompt_end"]
    alone = {name: one[one["model"] == lacks] for name, one in drawn.items()}
    spec = pictures.draw("evidence", pictures.FIGURE, alone, {**looks, "panels": MODELS[1:]}, {})
    subtitle = next(iter(spec.values())).to_dict(validate=False)["title"]["subtitle"]
    assert subtitle[0].startswith("Read-out resid/final;")


STRENGTHS = """() => Object.fromEntries([...document.querySelectorAll("#figure .mark-line path")]
  .map((e) => [e.__data__?.mark?.items?.[0]?.datum, Number(e.getAttribute("opacity") ?? 1)])
  .filter(([datum]) => datum?.probe_auc !== undefined)
  .map(([d, one]) => [d.series, one]))"""


@needs_browser
def test_a_reader_switches_points_and_singles_out(tmp_path: Path) -> None:
    with driven(save(figures(), tmp_path / "f")[1]) as opened:
        page = opened.page
        page.set_default_timeout(20_000)
        page.evaluate("window.drawn.then(() => 0)")
        words = page.locator("#figure text")
        assert words.filter(has_text="higher after their").count() == len(MODELS)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.select_option("#switch select", label=REGISTRY["random"].label)
        words.filter(has_text=title_of("random")).wait_for()
        page.select_option("#switch select", "0")
        words.filter(has_text=re.compile("^T$")).wait_for()
        page.evaluate("window.drawn.then(() => 0)")

        label = words.filter(has_text="A-Anchored (Beta)")
        label.scroll_into_view_if_needed()  # the picture is as wide as the page, and higher
        entry = label.bounding_box()
        assert entry
        page.mouse.click(entry["x"] + 9, entry["y"] + 5)
        page.wait_for_function(f"() => Object.values(({STRENGTHS})()).some((one) => one < 1)")
        found = page.evaluate(STRENGTHS)
        assert {name for name, one in found.items() if one == 1} == {"A-Anchored (Beta)"}

        point = page.locator("#figure .mark-symbol path[aria-roledescription=point]").last
        point.hover(force=True)
        tip = page.locator("#vg-tooltip-element.visible")
        tip.wait_for()
        assert {"model", "layer", "from", "to", "n"} < {*tip.locator("td").all_text_contents()}
        assert opened.wrong == opened.asked == []

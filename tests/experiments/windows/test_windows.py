"""Windows: which layers they have, and that all layers together are the knockout."""

from typing import Any

import numpy as np
import pandas as pd
from conftest import CORPUS, LAYERS
from handmade import MeanProbes, labelled, measured, scores_of
from hypothesis import given, strategies as st
from instrument import answers_table

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments.measured import of_cell
from anchorscope.experiments.scored import Cell
from anchorscope.experiments.windows import CONTROLS, EXPERIMENT, MOST, WINDOWS, Windows
from anchorscope.experiments.windows.measure import measure, windows
from anchorscope.models import loading
from anchorscope.passes.interventions import REGISTRY

CUTS = REGISTRY["knockout"], REGISTRY["random"]


@given(st.integers(1, 100), st.none() | st.integers(1, 120))
def test_windows_are_evenly_spaced_and_clipped_at_the_ends(layers: int, width: int | None) -> None:
    made = windows(layers, width)
    centres = [one.centre for one in made]
    assert len(made) == min(MOST, layers) and centres == sorted({*centres})
    assert {centres[0], centres[-1]} == {0, layers - 1}
    steps = np.diff(centres)
    assert len(steps) == 0 or steps.max() - steps.min() <= 1
    for one in made:
        assert 0 <= one.first <= one.centre <= one.last < layers
        if not width:  # the odd number nearest a fifth of the layers
            widest = max(one.last - one.first + 1 for one in made)
            odd = [n for n in range(1, 10, 2) if n <= max(layers, 1)]
            assert abs(widest - layers / 5) == min(abs(n - layers / 5) for n in odd)
        else:
            inside = range(one.centre - (width - 1) // 2, one.centre + width // 2 + 1)
            assert [*range(one.first, one.last + 1)] == [k for k in inside if 0 <= k < layers]


def test_all_layers_in_one_window_score_as_the_knockout_and_one_draw_of_its_control(
    checkpoint: Any,
) -> None:
    loaded = loading.load(checkpoint("llama", "metaspace"))
    answers = answers_table(loaded.tokenizer, CORPUS[:4])
    cell = Cell(loaded, answers, MeanProbes(list(answers["id"])), ["resid/final"], {}, draws=2)
    cut = cell.score([*cell.samples.values()], CUTS).at("resid/final")
    found = measure(cell, Windows(width=2 * LAYERS)).at("resid/final")
    names = {one.name for group in (WINDOWS, CONTROLS) for one in group[:LAYERS]}
    assert found.keys() == {"clean", "windows"} | names
    assert (found["windows"][:, :2] == [0, LAYERS - 1]).all()
    for one, group in zip(CUTS, (WINDOWS, CONTROLS), strict=True):
        for window in group[:LAYERS]:
            np.testing.assert_allclose(found[window.name], cut[one.name][:1], atol=1e-6)
    single = measure(cell, Windows()).arrays["windows"]
    assert (single == np.arange(LAYERS)[:, None]).all()


IDS = ["a", "b", "c", "d"]
FLIPPED = {(0, 0): "ab", (0, 1): "abc", (1, 1): "d"}
"""Window and layer read → whose predictions flip; nobody's elsewhere."""


def signs(flipped: dict[int, str]) -> list[list[float]]:
    """Scores [layers, n]: 1 for the samples whose prediction flips, else -1."""
    return [[1.0 if id_ in flipped.get(layer, "") else -1.0 for id_ in IDS] for layer in (0, 1)]


def by_hand() -> pd.DataFrame:
    scores = scores_of({"clean": signs({}), "knockout": signs({0: "ab", 1: "abc"})}, IDS)
    s = {"clean": signs({})}
    for number in (0, 1):
        flipped = {layer: ids for (window, layer), ids in FLIPPED.items() if window == number}
        s[WINDOWS[number].name] = signs(flipped)
        s[CONTROLS[number].name] = signs({1: "a"} if number == 0 else {})
    found, answers = measured(s, IDS, windows=[[0] * 3, [1] * 3]), labelled(IDS, [0, 0, 1, 1])
    bootstrap = Bootstrap(draws=50, min_n=1, min_clusters=1)
    return of_cell(EXPERIMENT, found, scores, answers, bootstrap)


def test_flips_by_window_and_layer_are_those_worked_out_by_hand() -> None:
    table = by_hand()
    everyone = table[(table["label"].astype(str) == "all") & (table["anchor"] == "all")]
    rows = everyone.set_index(["window", "layer"])
    assert rows["flips"].to_dict() == {(0, 0): 0.5, (0, 1): 0.75, (1, 0): 0.0, (1, 1): 0.25}
    assert rows["random"].to_dict() == {(0, 0): 0.0, (0, 1): 0.25, (1, 0): 0.0, (1, 1): 0.0}
    assert rows["contrast"].to_dict() == {(0, 0): 0.5, (0, 1): 0.5, (1, 0): 0.0, (1, 1): 0.25}
    assert rows["first"].tolist() == rows["centre"].tolist() == [0, 0, 1, 1]

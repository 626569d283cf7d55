"""Captions: four lines at any width, the essentials first, and nothing lost."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from figure_tables import (
    DATASETS,
    MODELS,
    READOUTS,
    calibration_of,
    claims_of,
    controls_of,
    crossing_of,
    curve_of,
    pictured,
)

from anchorscope.experiments.knockout.figure_evidence import evidence_chart
from anchorscope.figures.figure_files import keywords
from anchorscope.figures.figure_main import chart, readouts_chart
from anchorscope.figures.figure_notes import LINES, Caption
from anchorscope.storage.identity import identity
from validation.figure_calibration import calibration_chart

LAYERS = 3
SENTENCES = [f"Sentence {k} of a caption, with some words more." for k in range(9)]


@lru_cache
def tables() -> dict[str, pd.DataFrame]:
    """A cell without a signal, layers without one, and groups that are too thin."""
    curve = curve_of(MODELS, DATASETS, LAYERS, READOUTS[:4], blind=1)
    curve.loc[curve["dataset"] == "b", ["signal", "cell_signal"]] = False
    curve.loc[(curve["anchor"] == "Q") & (curve["layer"] == 1), "thin"] = True
    return {
        "curve": curve,
        "crossing": crossing_of(MODELS, DATASETS, LAYERS, READOUTS[:4]),
        "claims": claims_of(MODELS, DATASETS, LAYERS, READOUTS[:4]),
        "controls": controls_of(MODELS, DATASETS, LAYERS),
        "calibration": calibration_of(MODELS, DATASETS, LAYERS),
    }


VIEWS: dict[str, tuple[Callable[..., Any], Sequence[str]]] = {
    "figure": (chart, ["curve", "crossing", "claims"]),
    "evidence": (evidence_chart, ["controls", "curve"]),
    "readouts": (readouts_chart, ["curve"]),
    "calibration": (calibration_chart, ["calibration"]),
}


@pytest.mark.parametrize("view", list(VIEWS))
def test_no_view_has_a_caption_of_more_than_four_lines(view: str) -> None:
    draw, names = VIEWS[view]
    for panels, theme in product((MODELS[:1], MODELS), ("screen", "paper")):
        keywords = {"title": "T", "panels": panels, "datasets": DATASETS, "style": {"theme": theme}}
        lines, _ = pictured(draw, *(tables()[name] for name in names), **keywords).words
        assert 1 <= len(lines) <= LINES
        assert any(word in lines[0] for word in ("Read-out", "read-outs", "Headline"))


@pytest.mark.parametrize("characters", [30, 60, 100, 240])
def test_what_a_caption_has_no_room_for_opens_the_details(characters: int) -> None:
    lines, details = Caption(SENTENCES, ["Further."]).wrapped(characters)
    assert len(lines) <= LINES and max(map(len, lines)) <= characters
    moved = details[: details.index("Further.")]
    kept = [sentence for sentence in SENTENCES if sentence not in moved]
    assert " ".join(lines) == " ".join(kept) and kept == SENTENCES[: len(kept)]


class Params(SimpleNamespace):
    """Parameters of a rule, as far as a chart reads them."""

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


def test_a_title_of_the_config_replaces_the_figures_own_and_changes_no_identity() -> None:
    label = {"models": {"m": "Model"}, "datasets": {"d": "Data"}}
    common = {"models": ["m"], "datasets": ["d"], "label": label, "level": 0.9, "chart": {}}
    titles = [keywords(Params(**common, **own), "T")["title"] for own in ({}, {"title": "Mine"})]
    assert titles == ["T", "Mine"]
    assert keywords(Params(**common, title=None), "T")["title"] == "T"
    figures = [{"figures": {"f": {"readout": "mlp/final", "title": one}}} for one in (None, "A")]
    assert identity(figures[0]) == identity(figures[1])

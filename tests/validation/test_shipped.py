"""The shipped calibration models know their world, and the instrument finds what was planted."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from workflow import PROJECT, SHIPPED

from anchorscope import Measured, measure
from anchorscope.config.readouts import Location
from anchorscope.models import loading
from anchorscope.questions import datasets
from anchorscope.workflow import config
from tools import ship
from validation import cells, recipes, rows
from validation.checks import rows_where
from validation.world import SCORED_KINDS

MODELS, WORLDS = PROJECT / "resources" / "models", PROJECT / "resources" / "worlds"
CONFIG = config.load(SHIPPED)
RUN = config.read([PROJECT / "config.yaml", PROJECT / "validation/calibration.yaml"])
KNOWN = cells.read(PROJECT / "validation/cells.yaml", RUN)
DEMO = CONFIG.figures["demo"]
CELLS = [
    pytest.param(
        cell, id="-".join(cell), marks=() if cell[1] == DEMO.datasets[0] else pytest.mark.long
    )
    for cell in CONFIG.cells("demo")
]
"""Of each model one dataset, and all with the long tests."""


@pytest.fixture(scope="module", params=CELLS)
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


@pytest.fixture(scope="module")
def questions(place: tuple[str, str]) -> pd.DataFrame:
    entry = CONFIG.datasets[place[1]].model_dump(mode="json")
    local = str(WORLDS / f"{place[1]}.jsonl")
    return datasets.prepare(
        entry | {"local": local}, sample_size=CONFIG.sample_size, seed=CONFIG.seed
    ).sampled


@pytest.fixture(scope="module")
def cell(place: tuple[str, str], questions: pd.DataFrame) -> Measured:
    """What the demo makes of one model on one dataset, its intervals apart."""
    loaded = loading.load(MODELS / place[0], dtype="float32")
    return measure(
        loaded.model,
        loaded.tokenizer,
        questions,
        prompt=CONFIG.models[place[0]].prompt,
        readouts=[DEMO.readout],
        bootstrap={"draws": 20},
        probe={"refits": 0},
    )


def _rows(cell: Measured, condition: str, anchor: str) -> pd.DataFrame:
    """The deepest half of the layers."""
    site, position = Location.of(DEMO.readout)
    where = {"site": site, "position": position, "condition": condition, "anchor": anchor}
    rows = rows_where(cell.table, **where)
    return rows[rows["layer"] >= (rows["layer"].max() + 1) / 2]


@pytest.mark.parametrize("model", KNOWN.shipped)
def test_a_shipped_checkpoint_is_of_todays_recipe_and_small(model: str) -> None:
    assert recipes.fits(MODELS / model, KNOWN.recipe(model))
    assert sum(path.stat().st_size for path in (MODELS / model).iterdir()) <= ship.LARGEST


@pytest.mark.parametrize("name", [path.stem for path in sorted(WORLDS.iterdir())])
def test_shipped_rows_are_those_of_todays_worlds(name: str, tmp_path: Path) -> None:
    rows.write(rows.of_world(KNOWN.worlds[name]), tmp_path / "made.jsonl")
    assert (tmp_path / "made.jsonl").read_bytes() == (WORLDS / f"{name}.jsonl").read_bytes()


def test_the_model_answers_as_planted_and_enough_samples_of_each_scored_kind_stay(
    cell: Measured, place: tuple[str, str]
) -> None:
    known = rows.read(WORLDS / f"{place[1]}.jsonl").set_index("question")[["kind", "planned"]]
    answered = cell.answers.join(known, on="question")
    trained = answered[answered["planned"].notna()]
    as_planted = trained["ea_text"] == trained["planned"]
    assert as_planted.mean() >= 0.85
    counts = trained[as_planted].groupby("kind").size()
    assert (counts[list(SCORED_KINDS)] >= 50).all()


def test_question_anchored_samples_fall_and_the_others_and_the_control_do_not(
    cell: Measured,
) -> None:
    assert _rows(cell, "knockout", "Q")["delta_p"].min() <= -50
    assert _rows(cell, "knockout", "A")["delta_p"].abs().mean() <= 15
    assert _rows(cell, "random", "all")["delta_p"].abs().max() <= 6
    by_knockout = _rows(cell, "knockout", "Q")["share"].to_numpy()
    by_chance = _rows(cell, "random", "Q")["share"].to_numpy()
    assert np.all(by_chance <= by_knockout / 4)

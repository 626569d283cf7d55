"""The shipped calibration models know their world, and the instrument finds what was planted."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from anchorscope import Measured, measure
from anchorscope.experiments.tables import rows_where
from anchorscope.models import loading
from anchorscope.models.families import Loaded
from anchorscope.questions import datasets
from anchorscope.questions.world import SCORED_KINDS
from anchorscope.workflow import config
from tools import ship

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "resources" / "models"
CONFIG = config.load(yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8")))
DEMO = CONFIG.figures["demo"]
CELLS = [pytest.param(*cell, id="-".join(cell)) for cell in CONFIG.cells("demo")]


@cache
def loaded(model: str) -> Loaded:
    return loading.load(SHIPPED / model, dtype="float32")


@cache
def questions_of(dataset: str) -> pd.DataFrame:
    entry = CONFIG.datasets[dataset].model_dump(mode="json")
    return datasets.prepare(entry, sample_size=CONFIG.sample_size, seed=CONFIG.seed).sampled


@cache
def measured(model: str, dataset: str) -> Measured:
    """What the demo makes of one model on one dataset, its intervals apart."""
    return measure(
        loaded(model).model,
        loaded(model).tokenizer,
        questions_of(dataset),
        style=CONFIG.models[model].prompt,
        readouts=[DEMO.readout],
        bootstrap={"draws": 20},
        probe={"refits": 0},
    )


def _rows(cell: Measured, condition: str, anchor: str) -> pd.DataFrame:
    """The deepest half of the layers."""
    rows = rows_where(cell.table, condition=condition, anchor=anchor, grouping="per_layer")
    return rows[rows["layer"] >= (rows["layer"].max() + 1) / 2]


@pytest.mark.parametrize("model", DEMO.models)
def test_a_shipped_checkpoint_is_of_todays_recipe_and_small(model: str) -> None:
    assert loading.fits(SHIPPED / model, CONFIG.recipe_hash(model))
    assert sum(path.stat().st_size for path in (SHIPPED / model).iterdir()) <= ship.LARGEST


@pytest.mark.parametrize(("model", "dataset"), CELLS)
def test_the_model_answers_as_planted_and_enough_samples_of_each_scored_kind_stay(
    model: str, dataset: str
) -> None:
    known = questions_of(dataset).set_index("question")[["kind", "planned"]]
    answered = measured(model, dataset).answers.drop(columns="kind", errors="ignore")
    answered = answered.join(known, on="question")
    trained = answered[answered["planned"].notna()]
    as_planted = trained["ea_text"] == trained["planned"]
    assert as_planted.mean() >= 0.85
    counts = trained[as_planted].groupby("kind").size()
    assert (counts[list(SCORED_KINDS)] >= 50).all()


@pytest.mark.parametrize(("model", "dataset"), CELLS)
def test_as_many_question_tokens_stay_outside_the_anchors_as_inside(
    model: str, dataset: str
) -> None:
    answered = measured(model, dataset).answers
    inside = answered["eq_tokens"].map(len)
    outside = answered["question_tokens"].map(len) - inside
    assert (outside >= inside).mean() >= 0.95
    assert inside.mean() > 2, "spans should cover several tokens"


@pytest.mark.parametrize(("model", "dataset"), CELLS)
def test_question_anchored_samples_fall_and_the_others_and_the_control_do_not(
    model: str, dataset: str
) -> None:
    cell = measured(model, dataset)
    assert _rows(cell, "knockout", "Q")["delta_p"].min() <= -50
    assert _rows(cell, "knockout", "A")["delta_p"].abs().mean() <= 15
    assert _rows(cell, "random", "all")["delta_p"].abs().max() <= 6
    by_knockout = _rows(cell, "knockout", "Q")["share"].to_numpy()
    by_chance = _rows(cell, "random", "Q")["share"].to_numpy()
    assert np.all(by_chance <= by_knockout / 4)

"""The shipped calibration models know their world, and the instrument finds what was planted."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from anchorscope.experiments import analysis
from anchorscope.experiments.knockout import curve
from anchorscope.models import answers, checkpoints, loading
from anchorscope.models.families import Loaded
from anchorscope.passes import activations, planning
from anchorscope.probes import scores as scores_module
from anchorscope.questions import datasets
from anchorscope.questions import prompts as prompts_module
from anchorscope.questions.world import SCORED_KINDS
from anchorscope.workflow import config
from tools import ship

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "resources" / "models"
CONFIG = config.load(yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8")))
DEMO = CONFIG.figures["demo"]
CELLS = [pytest.param(*cell, id="-".join(cell)) for cell in CONFIG.cells("demo")]


@dataclass(frozen=True)
class Cell:
    """All that the demo makes of one model on one dataset."""

    questions: pd.DataFrame
    answers: pd.DataFrame
    curve: pd.DataFrame
    passes: dict


@cache
def loaded(model: str) -> Loaded:
    return loading.load(SHIPPED / model, dtype="float32")


@cache
def questions_of(dataset: str) -> pd.DataFrame:
    entry = CONFIG.datasets[dataset].model_dump(mode="json")
    return datasets.prepare(entry, sample_size=CONFIG.sample_size, seed=CONFIG.seed).sampled


@pytest.fixture(scope="session")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Cell]:
    folder = tmp_path_factory.mktemp("demo")
    return {cell: _measure(*cell, folder / "-".join(cell)) for cell in CONFIG.cells("demo")}


def _measure(model: str, dataset: str, folder: Path) -> Cell:
    questions = questions_of(dataset)
    prompts, _ = prompts_module.build(questions, style=CONFIG.models[model].prompt)
    settings = answers.Settings(
        style=CONFIG.models[model].prompt,
        max_new_tokens=CONFIG.generation.max_new_tokens,
        max_prompt_tokens=CONFIG.max_prompt_tokens,
        batch_tokens=CONFIG.batch_tokens,
    )
    answered, _ = answers.answer(
        prompts, questions, loaded(model).model, loaded(model).tokenizer, settings
    )
    conditions = CONFIG.conditions.model_dump(mode="json")
    planned = planning.plan(answered, conditions=conditions, batch_tokens=CONFIG.batch_tokens)
    passes = activations.write(folder, loaded(model), planned, [DEMO.readout])
    measured = activations.measured(answered, folder)
    scored = scores_module.score(
        lambda condition, draw: activations.read(folder, DEMO.readout, condition, draw),
        measured,
        DEMO.readout,
        planning.conditions_of(conditions),
        {**CONFIG.probe.model_dump(), "seed": CONFIG.seed},
    )
    table = analysis.table(curve.curve, scored, measured, draws=20, seed=CONFIG.seed)
    planted = questions[["id", "planned"]]
    return Cell(questions, measured.merge(planted, on="id"), table, passes)


def _rows(cell: Cell, condition: str, anchor: str) -> pd.DataFrame:
    """The deepest half of the layers."""
    rows = cell.curve[
        (cell.curve["condition"] == condition)
        & (cell.curve["anchor"] == anchor)
        & (cell.curve["grouping"] == "per_layer")
    ]
    return rows[rows["layer"] >= (rows["layer"].max() + 1) / 2]


@pytest.mark.parametrize("model", DEMO.models)
def test_a_shipped_checkpoint_is_of_todays_recipe_and_small(model: str) -> None:
    assert checkpoints.fits(SHIPPED / model, CONFIG.recipe_hash(model))
    assert sum(path.stat().st_size for path in (SHIPPED / model).iterdir()) <= ship.LARGEST


@pytest.mark.parametrize(("model", "dataset"), CELLS)
def test_the_model_answers_as_planted_and_enough_samples_of_each_scored_kind_stay(
    cells: dict[tuple[str, str], Cell], model: str, dataset: str
) -> None:
    answered = cells[model, dataset].answers
    trained = answered[answered["planned"].notna()]
    as_planted = trained["ea_text"] == trained["planned"]
    assert as_planted.mean() >= 0.85
    counts = trained[as_planted].groupby("kind").size()
    assert (counts[list(SCORED_KINDS)] >= 50).all()


@pytest.mark.parametrize(("model", "dataset"), CELLS)
def test_as_many_question_tokens_stay_outside_the_anchors_as_inside(
    cells: dict[tuple[str, str], Cell], model: str, dataset: str
) -> None:
    answered = cells[model, dataset].answers
    inside = answered["eq_tokens"].map(len)
    outside = answered["question_tokens"].map(len) - inside
    assert (outside >= inside).mean() >= 0.95
    assert inside.mean() > 2, "spans should cover several tokens"


@pytest.mark.parametrize(("model", "dataset"), CELLS)
def test_question_anchored_samples_fall_and_the_others_and_the_control_do_not(
    cells: dict[tuple[str, str], Cell], model: str, dataset: str
) -> None:
    cell = cells[model, dataset]
    assert _rows(cell, "knockout", "Q")["delta_p"].min() <= -50
    assert _rows(cell, "knockout", "A")["delta_p"].abs().mean() <= 15
    assert _rows(cell, "random", "all")["delta_p"].abs().max() <= 6
    by_knockout = _rows(cell, "knockout", "Q")["share"].to_numpy()
    by_chance = _rows(cell, "random", "Q")["share"].to_numpy()
    assert np.all(by_chance <= by_knockout / 4)


@pytest.mark.parametrize(("model", "dataset"), CELLS)
def test_every_layer_costs_one_row_a_sample_and_condition_together(
    cells: dict[tuple[str, str], Cell], model: str, dataset: str
) -> None:
    cell = cells[model, dataset]
    n = len(cell.answers)
    rows = dict(cell.passes["rows_by_condition"])
    assert n / 2 < rows.pop("matched") <= n and n / 2 < rows.pop("placebo") <= n
    expected = dict.fromkeys(("clean", "knockout", "question"), n) | {"random": 3 * n, "noop": 64}
    assert rows == expected

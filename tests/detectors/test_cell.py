"""A cell of detection is what the files of a run hold, in the order of the folds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_cell import answers_of

from anchorscope.config.readouts import before_answer
from anchorscope.detectors import cell as cells, out_of_fold, token_probabilities
from anchorscope.detectors.registry import METHODS
from anchorscope.passes import activations
from anchorscope.probes import fitting
from anchorscope.probes.stored import Stored
from anchorscope.storage.errors import AnchorscopeError

READOUT = "mlp/final"
READOUTS = (READOUT, before_answer(READOUT))
SETTINGS = fitting.ProbeSettings(folds=3, inner_folds=2, grid=[0.01])


@pytest.fixture(scope="module")
def measured(load: Callable[..., Any], tmp_path_factory: Any) -> tuple[Path, pd.DataFrame]:
    """A folder of activations, and the answers that were measured."""
    loaded, folder = load("llama"), tmp_path_factory.mktemp("cell")
    answers = answers_of(loaded.tokenizer, 60)
    conditions: dict[str, dict[str, int]] = {"knockout": {}, "crossed": {}}
    plan = fitting.plan_passes(loaded, answers, "here", conditions=conditions, probe=SETTINGS)
    activations.write(folder, loaded, plan, READOUTS)
    return folder, activations.measured(answers, folder)


def probes_of(folder: Path, answers: pd.DataFrame, settings: fitting.ProbeSettings) -> Stored:
    """The probes of the clean pass."""
    design = fitting.design(answers, settings)
    states = {name: activations.read(folder, name, "clean")[1] for name in READOUTS}
    return Stored.of(design, {name: fitting.fit(x, design) for name, x in states.items()})


@pytest.mark.parametrize("scoring", ["calibrated", "published"])
def test_rows_are_sorted_by_id_and_answers_behind_their_partners_questions(
    measured: tuple[Path, pd.DataFrame], scoring: str
) -> None:
    folder, answers = measured
    settings = SETTINGS.model_copy(update={"scoring": scoring})
    probes = probes_of(folder, answers, settings)
    outputs = [token_probabilities.features(activations.outputs(folder))]
    cell = cells.read(folder, answers, probes, settings, READOUT, outputs)
    assert list(cell.design.ids) == list(probes.ids) and (cell.design.fold == probes.fold).all()
    assert list(cell.clean.answers["id"]) == list(cell.answers["id"]) == list(cell.design.ids)
    assert (cell.design.inner.max(1) > 0).all()
    for name, of_calibrated in probes_of(folder, answers, SETTINGS).fitted.items():
        np.testing.assert_allclose(cell.fitted[name].t, of_calibrated.t)
        assert np.isfinite(cell.fitted[name].inner_auc).all()
    by_id = cell.answers.set_index("id")
    swapped = cell.crossed.answers
    fold = dict(zip(probes.ids, probes.fold, strict=True))
    assert all(fold[one] == fold[by_id.loc[one, "crossed_partner"]] for one in swapped["id"])
    assert 0 < len(swapped) == by_id["crossed_partner"].notna().sum()
    partners = by_id.loc[by_id.loc[swapped["id"], "crossed_partner"]]
    assert list(swapped["question"]) == list(partners["question"])
    assert list(swapped["ea_text"]) == list(by_id.loc[swapped["id"], "ea_text"])
    table = out_of_fold.scores(cell, [METHODS["probe"], METHODS["before"]])
    assert list(table["id"]) == list(cell.design.ids) and (table["fold"] == cell.design.fold).all()
    for name in ("probe", "before"):
        assert np.isfinite(table[[f"s/{name}", f"rank/{name}"]]).all(axis=None)
        moved = np.isfinite(table[f"crossed/{name}"])
        assert list(moved) == list(by_id["crossed_partner"].notna())


def test_a_read_out_that_was_not_measured_is_named(measured: tuple[Path, pd.DataFrame]) -> None:
    folder, answers = measured
    probes = Stored.of(fitting.design(answers, SETTINGS), {})
    with pytest.raises(AnchorscopeError, match=r"attn\.final was not measured"):
        cells.read(folder, answers, probes, SETTINGS, "attn/final", [])

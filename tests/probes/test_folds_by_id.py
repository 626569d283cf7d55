"""The samples of a cell have one order, whatever the order of the stored answers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from instrument import answers_table

from anchorscope.passes import activations
from anchorscope.probes import fitting, stored
from anchorscope.probes.fitting import ProbeSettings
from anchorscope.statistics.scores import Scores
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_parquet
from anchorscope.workflow.jobs import write_scores

SETTINGS = ProbeSettings(folds=3, inner_folds=2, refits=2, grid=[0.1])
CONDITIONS: dict[str, dict[str, int]] = {"knockout": {}, "random": {"draws": 1}}
READOUTS = ["mlp/final"]
NAMES = ("scores", "table", "probes")


def cell(tokenizer: Any) -> pd.DataFrame:
    """Answers of which two share a subject."""
    table = pd.concat([answers_table(tokenizer, seed=seed) for seed in range(6)], ignore_index=True)
    number = np.arange(len(table))
    table["id"] = [f"q{i:02}" for i in number]
    table["question"] = [f"What is {i * i}?" for i in number]
    table["subject"] = [f"s{i // 2}" for i in number]
    table["label"] = np.random.default_rng(0).integers(0, 2, len(table))
    return table.assign(ea_text="x", response=[f"word {i % 7}" for i in number], relation=None)


def mixed(answers: pd.DataFrame) -> pd.DataFrame:
    return answers.sample(frac=1, random_state=1)


def by_id(ids: Any, fold: Any) -> dict[str, int]:
    return dict(zip(map(str, ids), map(int, fold), strict=True))


def written(folder: Path, name: str, answers: pd.DataFrame) -> dict[str, Path]:
    """The products of scores, of the measured answers in any order."""
    paths = {product: folder / f"{name}.{product}" for product in NAMES}
    measured = activations.measured(answers, folder)
    chosen: dict[str, Any] = {"readouts": READOUTS, "conditions": CONDITIONS, "device": "cpu"}
    write_scores(SimpleNamespace(**paths), str(folder), measured, SETTINGS, **chosen)
    return paths


def test_the_order_of_the_answers_changes_no_byte_of_what_is_fitted_to_a_cell(
    load: Any, tmp_path: Path
) -> None:
    loaded = load("llama")
    answers = cell(loaded.tokenizer)
    plan = fitting.plan_passes(loaded, answers, "answers", conditions=CONDITIONS, probe=SETTINGS)
    activations.write(tmp_path, loaded, plan, READOUTS)
    one, other = (written(tmp_path, str(n), of) for n, of in enumerate((answers, mixed(answers))))
    for product in NAMES:
        assert one[product].read_bytes() == other[product].read_bytes(), product
    probes, scores = stored.read(one["probes"]), Scores.read(one["scores"])
    fold, table = by_id(probes.ids, probes.fold), read_parquet(one["table"])
    assert by_id(table["id"], table["fold"]) == fold == by_id(scores.ids, scores.fold)


def test_stored_probes_give_their_folds_to_their_own_answers_alone(byte_level: Any) -> None:
    answers = cell(byte_level)
    design = fitting.design(answers, SETTINGS)
    probes = stored.Stored.of(design, {})
    given = probes.design(answers, SETTINGS, "here")
    for name in ("ids", "z", "fold", "inner"):
        assert np.array_equal(getattr(given, name), getattr(design, name))
    for others in (answers[1:], answers.assign(id="x" + answers["id"]), answers.iloc[[0] * 48]):
        with pytest.raises(AnchorscopeError, match="48 samples of the stored probes do not match"):
            probes.design(others, SETTINGS, "here")

"""The figure's table: order of rows and columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from anchorscope.experiments import controls, delta_p, interchange, tables
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError


def frame(share: float) -> pd.DataFrame:
    """Two rows of a curve."""
    row = dict.fromkeys(delta_p.CURVE, 0) | {"share": share}
    return pd.DataFrame([row | {"layer": 1}, row | {"layer": 0}])


CELLS = [("z-model", "popqa"), ("z-model", "nq"), ("a-model", "popqa")]


def test_cells_come_in_the_figures_order_and_rows_in_the_cells() -> None:
    table = tables.join(CELLS, [frame(0.1), frame(0.2), frame(0.3)])
    assert list(zip(table["model"], table["dataset"], strict=True))[::2] == CELLS
    assert table["layer"].tolist() == [1, 0] * 3
    assert table["share"].tolist() == [0.1, 0.1, 0.2, 0.2, 0.3, 0.3]


def test_the_contracts_columns_come_first() -> None:
    table = tables.join(CELLS[:1], [frame(0.1)])
    assert tuple(table.columns[: len(tables.COLUMNS)]) == tables.COLUMNS


def test_a_cell_without_rows_keeps_the_others() -> None:
    empty = frame(0.1)[:0]
    table = tables.join(CELLS[:2], [empty, frame(0.2)])
    assert table["dataset"].tolist() == ["nq", "nq"]
    assert tables.join(CELLS[:1], [empty]).empty


@pytest.mark.parametrize(
    "columns", [delta_p.CONTRASTS, controls.CONTROLS, controls.DENSITY, interchange.INTERCHANGE]
)
def test_every_kind_of_table_is_joined_with_the_cell_first(columns: tuple[str, ...]) -> None:
    one = pd.DataFrame([dict.fromkeys(columns, 0.5)])
    table = tables.join(CELLS, [one, one[:0], one])
    assert list(table.columns) == ["model", "dataset", *columns]
    assert table["model"].tolist() == ["z-model", "a-model"]


def test_joining_leaves_the_cells_tables_as_they_were() -> None:
    one = frame(0.1)
    tables.join(CELLS[:1], [one])
    assert list(one.columns) == list(delta_p.CURVE)


@pytest.mark.parametrize(
    ("cells", "frames", "message"),
    [
        (CELLS[:2], [frame(0.1)], "2 cells but 1 tables"),
        ([], [], "0 cells"),
        ([CELLS[0], CELLS[0]], [frame(0.1), frame(0.1)], "comes twice"),
        (CELLS[:2], [frame(0.1), frame(0.1).drop(columns="share")], "different columns: share"),
    ],
)
def test_tables_that_do_not_belong_together_are_refused(
    cells: list[tuple[str, str]], frames: list[pd.DataFrame], message: str
) -> None:
    with pytest.raises(AnchorscopeError, match=message):
        tables.join(cells, frames)


PROBE = {"folds": 10, "prior": "balanced"}
SETTINGS: dict[str, dict[str, Any]] = {
    "dataset": {"dataset": {"hub": "a/b"}, "local": None, "sample_size": 1000, "seed": 0},
    "prompts": {"style": "plain", "finder": "rules", "limit": None, "seed": 0},
    "answers": {"style": "plain", "dtype": "float32", "max_new_tokens": 32, "batch_tokens": 8192},
    "activations": {
        "dtype": "float32",
        "conditions": {"knockout": {}, "question": None},
        "seed": 0,
    },
    "scores": {"probe": PROBE, "readouts": ["mlp/final"], "seed": 0},
    "delta_p": {"bootstrap": {"draws": 1000}, "seed": 0},
    "model": {"model": {"hub": "a/b"}, "recipe": None},
}


def cell(folder: Path, **changed: dict[str, Any]) -> Path:
    """A curve whose record holds every rule on its way, some settings changed."""
    folder.mkdir()
    every = {rule: {**given, **changed.get(rule, {})} for rule, given in SETTINGS.items()}
    inputs = {
        str(folder / rule): {"rule": rule, "settings": given}
        for rule, given in every.items()
        if rule != "delta_p"
    }
    curve = folder / "popqa.csv"
    provenance.record(curve, identity="i", settings=every["delta_p"], rule="delta_p", inputs=inputs)
    return curve


DIFFERING = [
    ("scores", {"probe": {**PROBE, "prior": "natural"}}, "`probe.prior` of scores"),
    ("scores", {"readouts": ["mlp/final", "attn/final"]}, "`readouts` of scores"),
    (
        "activations",
        {"conditions": {"knockout": {}, "question": {"draws": 1}}},
        "`conditions.question",
    ),
    ("answers", {"max_new_tokens": 16}, "`max_new_tokens` of answers"),
    ("prompts", {"limit": 100}, "`limit` of prompts"),
    ("delta_p", {"bootstrap": {"draws": 20}}, "`bootstrap.draws` of delta_p"),
    ("dataset", {"seed": 1}, "`seed` of dataset"),
]


@pytest.mark.parametrize(("rule", "changed", "named"), DIFFERING)
def test_cells_of_different_configs_are_not_put_into_one_table(
    tmp_path: Path, rule: str, changed: dict[str, Any], named: str
) -> None:
    made = [cell(tmp_path / "a"), cell(tmp_path / "b"), cell(tmp_path / "c", **{rule: changed})]
    tables.check_settings(made[:2])
    with pytest.raises(AnchorscopeError, match="different settings") as caught:
        tables.check_settings(made)
    assert named in caught.value.what
    where = [str(tmp_path / name) for name in ("a", "c")]
    assert all(part in str(caught.value.where) for part in where)


def test_what_models_and_datasets_have_of_their_own_may_differ(tmp_path: Path) -> None:
    others = {
        "dataset": {"dataset": {"hub": "c/d"}, "local": "x.csv", "sample_size": 50},
        "prompts": {"style": "chat"},
        "answers": {"style": "chat", "dtype": "bfloat16", "batch_tokens": 100},
        "activations": {"dtype": "bfloat16"},
        "model": {"model": {"local": "m"}, "recipe": "1"},
    }
    bare = tmp_path / "without a record.csv"
    tables.check_settings([cell(tmp_path / "a"), cell(tmp_path / "b", **others), bare])

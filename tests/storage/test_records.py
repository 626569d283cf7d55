"""Cells of one table were made with one config."""

from pathlib import Path
from typing import Any

import pytest

from anchorscope.storage import provenance, records
from anchorscope.storage.errors import AnchorscopeError

PROBE = {"folds": 10, "prior": "balanced"}
SETTINGS: dict[str, dict[str, Any]] = {
    "dataset": {"dataset": {"hub": "a/b"}, "local": None, "sample_size": 1000, "seed": 0},
    "answers": {"style": "plain", "dtype": "float32", "max_new_tokens": 32, "batch_tokens": 8192},
    "activations": {"dtype": "float32", "conditions": {"knockout": {}, "question": None}},
    "scores": {"probe": PROBE, "readouts": ["mlp/final"], "seed": 0},
    "delta_p": {"bootstrap": {"draws": 1000}, "seed": 0},
    "model": {"model": {"hub": "a/b"}, "recipe": None},
}


def cell(curve: Path, **changed: dict[str, Any]) -> Path:
    """A curve whose record holds every rule on its way, some settings changed."""
    every = {rule: {**given, **changed.get(rule, {})} for rule, given in SETTINGS.items()}
    own = every.pop("delta_p")
    inputs = {f"{curve}/{rule}": {"rule": rule, "settings": of} for rule, of in every.items()}
    provenance.record(curve, identity="i", settings=own, rule="delta_p", inputs=inputs)
    return curve


@pytest.mark.parametrize(
    ("rule", "changed", "named"),
    [
        ("scores", {"probe": {**PROBE, "prior": "natural"}}, "`probe.prior` of scores"),
        ("activations", {"conditions": {"question": {"draws": 1}}}, "`conditions.knockout"),
        ("delta_p", {"bootstrap": {"draws": 20}}, "`bootstrap.draws` of delta_p"),
    ],
)
def test_cells_of_different_configs_are_not_put_into_one_table(
    tmp_path: Path, rule: str, changed: dict[str, Any], named: str
) -> None:
    alike = [cell(tmp_path / "a"), cell(tmp_path / "b")]
    records.check_settings(alike)
    with pytest.raises(AnchorscopeError, match="different settings") as caught:
        records.check_settings([*alike, cell(tmp_path / "c", **{rule: changed})])
    assert named in caught.value.what
    assert all(str(tmp_path / name) in str(caught.value.where) for name in "ac")


def test_what_models_and_datasets_have_of_their_own_may_differ(tmp_path: Path) -> None:
    others = {
        "dataset": {"dataset": {"hub": "c/d"}, "local": "x.csv", "sample_size": 50},
        "answers": {"style": "chat", "dtype": "bfloat16", "batch_tokens": 100},
        "activations": {"dtype": "bfloat16"},
        "model": {"model": {"local": "m"}, "recipe": "1"},
    }
    bare = tmp_path / "without a record"
    records.check_settings([cell(tmp_path / "a"), cell(tmp_path / "b", **others), bare])

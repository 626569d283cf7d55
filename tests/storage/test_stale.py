"""A finished product of another config is refused before anything is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from workflow import Workspace

from anchorscope.storage import checksums, files, provenance, stale
from anchorscope.storage.errors import AnchorscopeError

SETTINGS: dict[str, Any] = {
    "probe": {"prior": "balanced", "grid": (0.01, 1.0)},
    "local": "here",
    "dataset": {"hub": "a/b", "fields": {"question": "q", "label": "z"}},
    "seed": 0,
}


def made(folder: Path, rule: str = "scores", **changed: Any) -> Path:
    """The record of a product."""
    provenance.record(folder / "x", identity="i", settings=SETTINGS | changed, rule=rule)
    return provenance.beside(folder / "x")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"probe": {"prior": "natural", "grid": [0.01, 1.0]}}, "`probe.prior` was 'natural'"),
        ({"probe": {"prior": "balanced", "grid": [0.01]}}, "`probe.grid` was [0.01]"),
        ({"seed": 1}, "`seed` was 1 when it was made and is 0 now"),
        ({"limit": 5}, "`limit` was 5 when it was made and is None now"),
        (
            {"dataset": SETTINGS["dataset"] | {"fields": {"question": "q"}}},
            "`dataset.fields.label`",
        ),
    ],
)
def test_a_product_of_other_settings_is_refused_with_both_values(
    tmp_path: Path, changed: dict[str, Any], named: str
) -> None:
    with pytest.raises(AnchorscopeError, match="of another config") as caught:
        stale.refuse(made(tmp_path, **changed), SETTINGS)
    assert named in caught.value.what and caught.value.see == "stale-product"


def test_what_changes_no_number_may_differ(tmp_path: Path) -> None:
    dataset = {**SETTINGS["dataset"], "label": "Another"}
    stale.refuse(made(tmp_path, local="elsewhere", label="x", dataset=dataset), SETTINGS)
    stale.refuse(made(tmp_path, rule="figure", seed=1), SETTINGS)
    stale.refuse(tmp_path / "no record", SETTINGS)


def test_a_product_copied_from_a_run_of_another_config_stops_the_run(
    tiny_run: Workspace, tmp_path: Path
) -> None:
    """Snakemake alone takes it: to it the file is what it made itself, only newer."""
    clone = tiny_run.copy(tmp_path / "clone")
    scores = clone.results / "scores/tiny-llama/tiny-world.parquet"
    table = files.read_parquet(scores)
    files.write_parquet(table.assign(s=table["s"] * 0.5), scores)
    target = "results/tables/tiny.csv"
    assert set(clone.planned(target)) == {"delta_p", "table"}
    record = files.read_json(provenance.beside(scores))
    record["settings"]["probe"]["prior"] = "natural"
    files.write_json(record, provenance.beside(scores))
    checksums.seal([scores, provenance.beside(scores)])
    before = (clone.root / target).read_bytes()
    done = clone.run(target)
    assert done.returncode != 0 and "`probe.prior` was 'natural'" in done.stdout + done.stderr
    assert (clone.root / target).read_bytes() == before

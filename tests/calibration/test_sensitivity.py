"""Sensitivity: which variants a config has, and what the table makes of them."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from anchorscope.calibration import sensitivity
from anchorscope.experiments.knockout import cell_tables
from anchorscope.probes import draws, floors, scores
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_parquet, write_csv, write_parquet
from anchorscope.workflow.config import load

ROOT = Path(__file__).parents[2]
CONFIG = load(yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))).model_dump()
NAMES = (
    "penalty-0.1", "penalty-10", "prior-natural", "scoring-published", "disjoint-subject-answer",
    "anchors-subject", "blocks-answer", "finder-offline",
)  # fmt: skip


def changed(**sections: Any) -> dict[str, Any]:
    merged = {name: CONFIG[name] | value for name, value in sections.items() if name == "probe"}
    return CONFIG | sections | merged


def test_every_variant_of_the_shipped_config_changes_one_key_and_says_so() -> None:
    found = sensitivity.variants(CONFIG)
    assert tuple(found) == NAMES
    for name, overrides in found.items():
        ((section, value),) = overrides.items()
        assert value != CONFIG[section] and sensitivity.in_words(name) != name
        assert not isinstance(value, dict) or len(value) == 1
    assert found["penalty-0.1"] == {"probe": {"penalty": 0.1}}
    assert sensitivity.in_words("penalty-0.1") == "penalty × 0.1 (the C chosen × 10)"
    assert sensitivity.in_words("blocks-answer") == "tokens blocked: answer"
    assert [sensitivity.in_words(name) for name in ("base", "mine")] == ["nothing", "mine"]


def test_what_a_config_has_already_is_no_variant_and_what_it_left_is_one() -> None:
    found = sensitivity.variants(changed(anchors="subject", finder="offline"))
    assert found["anchors-subject-property"] == {"anchors": "subject+property"}
    assert found["finder-metadata"] == {"finder": "metadata"}
    assert not {"anchors-subject", "finder-offline"} & set(found)
    published = sensitivity.variants(changed(probe={"scoring": "published"}))
    assert tuple(published) == ("scoring-calibrated", *NAMES[4:])


def study(seed: int, datasets: str = "xy") -> dict[str, pd.DataFrame]:
    """Random tables of two read-outs and three layers, headline 1; and rows of no concern."""
    random = np.random.default_rng(seed)
    key = {"model": ["m"], "dataset": [*datasets], "site": ["attn", "mlp"], "position": ["final"]}
    key |= {"layer": [0, 1, 2]}
    more: dict[str, dict[str, list[Any]]] = {
        "curve": {"condition": ["knockout", "random"], "anchor": ["Q", "all"]}
        | {"grouping": ["per_layer", "reference_layer"]},
        "contrasts": {"contrast": ["knockout-random", "random"], "quantity": ["share", "delta_p"]},
        "controls": {},
    }
    numbers = {"curve": ["n", "delta_p"], "contrasts": ["estimate", "ci_low", "ci_high"]}
    numbers |= {"controls": sensitivity.CONTROLS}
    tables = {}
    for name, columns in numbers.items():
        keys = key | more[name]
        table = pd.DataFrame(product(*keys.values()), columns=list(keys))
        tables[name] = table.assign(**{one: random.normal(size=len(table)) for one in columns})
    tables["controls"]["headline"] = tables["controls"]["layer"] == 1
    return tables


def compared(base: Any, variants: dict[str, Any], **settings: Any) -> pd.DataFrame:
    others = {name: sensitivity.values(**one) for name, one in variants.items()}
    return sensitivity.table(sensitivity.values(**base), others, **settings)


def slow(tables: dict[str, pd.DataFrame], dataset: str) -> dict[str, float]:
    """What is compared of a study, by looking up one row after the other."""
    here = f"site == 'mlp' and layer == 1 and dataset == '{dataset}'"
    found = tables["controls"].query(here).iloc[0][sensitivity.CONTROLS].to_dict()
    own = "condition == 'knockout' and anchor == 'all' and grouping == 'per_layer'"
    curve = tables["curve"].query(f"{here} and {own}").iloc[0]
    paired = "contrast == 'knockout-random' and quantity == 'share'"
    share = tables["contrasts"].query(f"{here} and {paired}").iloc[0]
    ends = {"contrast_low": share["ci_low"], "contrast_high": share["ci_high"]}
    found |= {"contrast": share["estimate"], "n": curve["n"], "delta_p_all": curve["delta_p"]}
    return found | ends


def test_every_cell_and_variant_is_read_at_the_base_s_headline_layer() -> None:
    base, other = study(0), study(1)
    other["controls"]["headline"] = other["controls"]["layer"] == 2
    table = compared(base, {"prior-natural": other})
    assert list(table.columns) == list(sensitivity.COLUMNS)
    keys = table[["dataset", "variant", "site", "layer"]].to_numpy().tolist()
    names = ("base", "prior-natural")
    assert keys == [[dataset, name, "mlp", 1] for dataset in "xy" for name in names]
    for row in table.to_dict("records"):
        first, own = slow(base, row["dataset"]), slow(base, row["dataset"])
        if row["variant"] != "base":
            own = slow(other, row["dataset"])
        assert {name: row[name] for name in own} == pytest.approx(own)
        for name in sensitivity.COMPARED:
            assert row[f"{name}_difference"] == pytest.approx(own[name] - first[name])


def test_tables_in_files_are_taken_study_by_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitivity, "check_studies", lambda *_: None)
    files: dict[str, list[str]] = {"curve": [], "contrasts": [], "controls": []}
    for seed, (name, paths) in product((0, 1), files.items()):
        for dataset, rows in study(seed)[name].groupby("dataset"):
            paths.append(str(tmp_path / f"{seed}.{name}.{dataset}.csv"))
            write_csv(rows.drop(columns=["model", "dataset"]), paths[-1])
    cells = [("m", "x"), ("m", "y")]
    found = sensitivity.of_files(files, cells, ["prior-natural"], readout="mlp/final")
    expected = compared(study(0), {"prior-natural": study(1)})
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, atol=1e-5)


def test_what_was_not_measured_is_blank_and_a_read_out_without_headline_is_named() -> None:
    base = study(0)
    found = compared(base | {"contrasts": base["contrasts"][:0]}, {})
    assert found[["contrast", "contrast_low", "contrast_difference"]].isna().all(axis=None)
    assert found["delta_p_all"].notna().all()
    found = compared(base, {"mine": study(1, "x")})
    here, missing = (row for _, row in found[found["variant"] == "mine"].iterrows())
    assert missing["changed"] == "mine (cannot be measured)" and pd.notna(here["flip_share"])
    assert missing[["n", "probe_auc", "contrast", "flip_share_difference"]].isna().all()
    with pytest.raises(AnchorscopeError, match="no headline layer of the read-out resid/final"):
        compared(base, {}, readout="resid/final")


PROBE = {"folds": 10, "penalty": 1.0, "prior": "balanced"}


def curve_file(path: Path, dataset: str, **probe: Any) -> str:
    """The curve of a cell, whose record holds the settings of its scores."""
    scores = {"rule": "scores", "settings": {"probe": PROBE | probe, "seed": 0}}
    questions = {"rule": "dataset", "settings": {"dataset": {"hub": dataset}, "seed": 0}}
    inputs = {str(path / "scores"): scores, str(path / "data"): questions}
    path.mkdir(parents=True)
    provenance.record(path / "curve.csv", identity="i", settings={}, rule="delta_p", inputs=inputs)
    return str(path / "curve.csv")


def test_a_variant_differs_from_the_main_study_in_its_own_choice_and_nothing_else(
    tmp_path: Path,
) -> None:
    base = [curve_file(tmp_path / name, name) for name in "xy"]
    other = [curve_file(tmp_path / "other" / name, name, prior="natural") for name in "xy"]
    sensitivity.check_studies(base, {"prior-natural": other})
    for given, said in (
        ({"prior-natural": base}, "prior-natural differs from the main study in nothing"),
        ({"penalty-10": other}, "penalty-10 differs from the main study in scores.probe.prior"),
        ({"prior-natural": [other[0], base[1]]}, "`probe.prior` of scores is 'natural'"),
    ):
        with pytest.raises(AnchorscopeError, match=re.escape(said)) as caught:
            sensitivity.check_studies(base, given)
        assert caught.value.see == "stale-product"
    both = [curve_file(tmp_path / "both" / name, name, prior="natural", folds=2) for name in "xy"]
    with pytest.raises(AnchorscopeError, match=r"in scores\.probe\.folds, scores\.probe\.prior"):
        sensitivity.check_studies(base, {"prior-natural": both})
    with pytest.raises(AnchorscopeError, match="different settings"):
        sensitivity.check_studies([base[0], other[1]], {})


def test_without_scores_every_table_of_a_cell_is_empty_and_keeps_its_columns(
    tmp_path: Path,
) -> None:
    ids = [f"{i}" for i in range(20)]
    answers = pd.DataFrame({"id": ids, "question": ids, "label": [0, 1] * 10})
    write_parquet(pd.DataFrame(columns=list(scores.COLUMNS)), tmp_path / "scores.parquet")
    write_parquet(pd.DataFrame(columns=list(floors.COLUMNS)), tmp_path / "floors.parquet")
    none, text = (read_parquet(tmp_path / f"{name}.parquet") for name in ("scores", "floors"))
    made = cell_tables.tables(
        none,
        text,
        answers,
        draws.none(),
        probe={"scoring": "calibrated", "prior": "balanced"},
        bootstrap={"draws": 5},
        seed=0,
    )
    for name, table in made.items():
        assert table.empty and tuple(table.columns) == cell_tables.COLUMNS[name]

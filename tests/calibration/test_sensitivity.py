"""Sensitivity: which variants a config has, and what the table makes of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from anchorscope.calibration import sensitivity
from anchorscope.calibration.sensitivity import Study
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


def study(shift: float = 0.0, datasets: tuple[str, ...] = ("x", "y")) -> Study:
    """Two cells, two read-outs, three layers, headline 1; every number moved by `shift`."""
    keys = [
        {"model": "m", "dataset": dataset, "site": site, "position": "final", "layer": layer}
        for dataset in datasets
        for site in ("attn", "mlp")
        for layer in range(3)
    ]
    right = [key["site"] == "mlp" and key["layer"] == 1 for key in keys]
    numbers = {"probe_auc": 0.8, "auc_low": 0.75, "auc_high": 0.85, "flip_share": 0.3}
    numbers |= {"random_flip_share": 0.02, "delta_p_q": -40.0, "c": 0.01, "t": 1.2}
    controls = [
        key
        | {name: value + shift if at else 9.0 for name, value in numbers.items()}
        | {"headline": key["layer"] == 1, "signal": True}
        for key, at in zip(keys, right, strict=True)
    ]
    curve = [
        key
        | {"condition": condition, "anchor": anchor, "grouping": grouping, "n": 200}
        | {"delta_p": -13.0 + shift if wanted == (True, "knockout", "all", "per_layer") else 9.0}
        for key, at in zip(keys, right, strict=True)
        for condition in ("knockout", "random")
        for anchor in ("Q", "A", "all")
        for grouping in ("per_layer", "reference_layer")
        if (wanted := (at, condition, anchor, grouping))
    ]
    contrasts = [
        key
        | {"contrast": contrast, "quantity": quantity}
        | {"estimate": value + shift, "ci_low": value - 2, "ci_high": value + 2}
        for key, at in zip(keys, right, strict=True)
        for contrast in ("knockout-random", "knockout", "random")
        for quantity in ("share", "delta_p")
        if (value := 28.0 if at and (contrast, quantity) == ("knockout-random", "share") else 90.0)
    ]
    return Study(*map(pd.DataFrame, (curve, contrasts, controls)))


def test_every_cell_and_variant_is_read_at_the_base_s_headline_layer() -> None:
    moved = study(0.125)
    moved.controls["headline"] = moved.controls["layer"] == 2
    table = sensitivity.table(study(), {"prior-natural": moved})
    assert list(table.columns) == list(sensitivity.COLUMNS)
    keys = table[["dataset", "variant", "site", "layer"]].to_numpy().tolist()
    names = ("base", "prior-natural")
    assert keys == [[dataset, name, "mlp", 1] for dataset in ("x", "y") for name in names]
    base, other = (row for _, row in table[table["dataset"] == "x"].iterrows())
    assert (base["flip_share"], base["delta_p_q"], base["delta_p_all"]) == (0.3, -40, -13)
    assert [base[f"contrast{end}"] for end in ("", "_low", "_high")] == [28, 26, 30]
    assert base["n"] == 200 and base["changed"] == "nothing"
    for name in sensitivity.COMPARED:
        assert base[f"{name}_difference"] == 0
        assert other[f"{name}_difference"] == pytest.approx(0.125)
        assert other[name] == pytest.approx(base[name] + 0.125)


def test_tables_in_files_are_taken_study_by_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitivity, "check_studies", lambda *_: None)
    files: dict[str, list[str]] = {"curve": [], "contrasts": [], "controls": []}
    for number, tables in enumerate((study(), study(0.125))):
        for name, paths in files.items():
            for dataset, rows in getattr(tables, name).groupby("dataset"):
                paths.append(str(tmp_path / f"{number}.{name}.{dataset}.csv"))
                write_csv(rows.drop(columns=["model", "dataset"]), paths[-1])
    cells = [("m", "x"), ("m", "y")]
    found = sensitivity.of_files(files, cells, ["prior-natural"], readout="mlp/final")
    expected = sensitivity.table(study(), {"prior-natural": study(0.125)})
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_what_was_not_measured_is_blank_and_what_is_missing_is_named() -> None:
    base = study()
    table = sensitivity.table(Study(base.curve, base.contrasts[:0], base.controls), {})
    assert table[["contrast", "contrast_low", "contrast_difference"]].isna().all(axis=None)
    assert table["delta_p_all"].notna().all()
    table = sensitivity.table(base, {"mine": study(datasets=("x",))})
    found, missing = (row for _, row in table[table["variant"] == "mine"].iterrows())
    assert missing["changed"] == "mine (cannot be measured)" and found["flip_share"] == 0.3
    assert missing[["n", "probe_auc", "contrast", "flip_share_difference"]].isna().all()
    short = Study(base.curve, base.contrasts, base.controls[base.controls["layer"] != 1])
    with pytest.raises(AnchorscopeError, match="0 rows in the controls of mine(.|\n)*dataset x"):
        sensitivity.table(base, {"mine": short})
    with pytest.raises(AnchorscopeError, match="no headline layer of the read-out resid/final"):
        sensitivity.table(base, {}, readout="resid/final")
    twice = Study(pd.concat([base.curve, base.curve]), base.contrasts, base.controls)
    with pytest.raises(AnchorscopeError, match="2 rows in the curve of base"):
        sensitivity.table(twice, {})


PROBE = {"folds": 10, "penalty": 1.0, "prior": "balanced"}


def curve_file(path: Path, dataset: str, **probe: Any) -> Path:
    """The curve of a cell, whose record holds the settings of its scores."""
    scores = {"rule": "scores", "settings": {"probe": PROBE | probe, "seed": 0}}
    questions = {"rule": "dataset", "settings": {"dataset": {"hub": dataset}, "seed": 0}}
    inputs = {str(path / "scores"): scores, str(path / "data"): questions}
    path.mkdir(parents=True)
    provenance.record(path / "curve.csv", identity="i", settings={}, rule="delta_p", inputs=inputs)
    return path / "curve.csv"


def test_a_variant_differs_from_the_main_study_in_its_own_choice_and_nothing_else(
    tmp_path: Path,
) -> None:
    base = [curve_file(tmp_path / name, name) for name in "xy"]
    other = [curve_file(tmp_path / "other" / name, name, prior="natural") for name in "xy"]
    sensitivity.check_studies(base, {"prior-natural": other})
    for given, said in (
        ({"prior-natural": base}, "made with the settings of the main study"),
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

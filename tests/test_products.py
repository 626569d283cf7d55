"""Products are whole or absent, unchanged by the trip, and say what they were made from."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from anchorscope import checkpoints, files, provenance, revisions, ship
from anchorscope.errors import AnchorscopeError


def test_a_file_that_fails_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "product.csv"
    target.write_text("old")
    with pytest.raises(RuntimeError), files.atomic(target) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["product.csv"]


def test_a_folder_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), files.atomic(tmp_path / "folder") as draft:
        draft.mkdir()
        (draft / "part").write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_finished_folder_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").touch()
    with files.atomic(tmp_path / "folder") as draft:
        draft.mkdir()
        (draft / "new").touch()
    assert [p.name for p in (tmp_path / "folder").iterdir()] == ["new"]


def test_lists_and_missing_text_survive_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"ids": [[1, 2], []], "why": [None, "NA"], "n": [1, 2]})
    files.write_parquet(frame, tmp_path / "t.parquet")
    back = files.read_parquet(tmp_path / "t.parquet")
    assert back["ids"].tolist() == [[1, 2], []] and isinstance(back["ids"][0], list)
    assert back["why"].tolist() == [None, "NA"]


def test_the_answer_na_survives_csv(tmp_path: Path) -> None:
    files.write_csv(
        pd.DataFrame({"answer": ["NA", "nan", None], "x": [1.5, None, 2]}), tmp_path / "t.csv"
    )
    back = files.read_csv(tmp_path / "t.csv")
    assert back["answer"].tolist()[:2] == ["NA", "nan"] and pd.isna(back["answer"][2])


def test_a_broken_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"no table")
    with pytest.raises(AnchorscopeError, match="t.parquet"):
        files.read_parquet(tmp_path / "t.parquet")


def test_counts_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match="do not add up"):
        provenance.Counts(10, 8, {"empty": 1})


def _snakemake(rule: str, inputs: list[Path], **settings: object) -> SimpleNamespace:
    return SimpleNamespace(rule=rule, input=inputs, params=settings)


def test_an_identity_changes_with_a_setting_and_with_what_it_was_made_from(tmp_path: Path) -> None:
    def identity(product: str, *inputs: str, seed: int) -> str:
        job = _snakemake("scores", [tmp_path / name for name in inputs], seed=seed)
        provenance.of_stage(job, tmp_path / product)
        return provenance.read(tmp_path / product)["identity"]

    first = identity("a", seed=0)
    assert identity("a2", seed=0) == first
    assert identity("b", seed=1) != first
    assert identity("c", "a", seed=5) != identity("d", "b", seed=5)
    assert identity("e", "a", seed=5) == identity("f", "a2", seed=5)


def test_a_label_changes_no_identity(tmp_path: Path) -> None:
    found = []
    for label in ("one", "two"):
        job = _snakemake("figure", [], model={"hub": "a/b", "label": label})
        provenance.of_stage(job, tmp_path / label)
        found.append(provenance.read(tmp_path / label)["identity"])
    assert found[0] == found[1]


def test_the_first_commit_found_is_kept_and_one_asked_for_wins(tmp_path: Path) -> None:
    lock = tmp_path / "revisions.lock.yaml"
    assert revisions.wanted("models", "a/b", None, lock) is None
    revisions.keep("models", "a/b", "c0ffee", lock)
    revisions.keep("models", "a/b", "later", lock)
    revisions.keep("datasets", "a/b", None, lock)
    assert revisions.wanted("models", "a/b", None, lock) == "c0ffee"
    assert revisions.wanted("models", "a/b", "v2", lock) == "v2"
    assert revisions.wanted("datasets", "a/b", None, lock) is None


def _trained(folder: Path, recipe: str, size: int = 10) -> Path:
    folder.mkdir(parents=True)
    files.write_json({"recipe": recipe}, folder / checkpoints.RECIPE)
    (folder / "model.safetensors").write_bytes(bytes(size))
    return folder


def test_a_trained_checkpoint_fits_its_own_recipe_only(tmp_path: Path) -> None:
    folder = _trained(tmp_path / "m", "abc")
    assert checkpoints.fits(folder, "abc")
    assert not checkpoints.fits(folder, "abd")
    assert not checkpoints.fits(tmp_path / "absent", "abc")


def test_a_local_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AnchorscopeError, match="nowhere") as caught:
        checkpoints.locate({"local": str(tmp_path / "nowhere")})
    assert caught.value.do and "local" in caught.value.do


def test_shipping_copies_trained_checkpoints_and_nothing_else(tmp_path: Path) -> None:
    _trained(tmp_path / "models" / "small", "abc")
    (tmp_path / "models" / "hub-model.json").touch()
    (tmp_path / "models" / "small" / ".snakemake_timestamp").touch()
    assert ship.ship(tmp_path / "models", tmp_path / "shipped") == ["small"]
    assert sorted(p.name for p in (tmp_path / "shipped" / "small").iterdir()) == [
        "model.safetensors",
        "recipe.json",
    ]


def test_shipping_refuses_nothing_to_ship_and_what_is_too_large(tmp_path: Path) -> None:
    with pytest.raises(AnchorscopeError, match="no trained checkpoint"):
        ship.ship(tmp_path / "models", tmp_path / "shipped")
    _trained(tmp_path / "models" / "large", "abc", size=ship.LARGEST + 1)
    with pytest.raises(AnchorscopeError, match="large"):
        ship.ship(tmp_path / "models", tmp_path / "shipped")

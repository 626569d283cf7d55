"""Finished batches of an unfinished job: kept, checked, and dropped when they fit no longer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from anchorscope.storage import partial

STATES = {
    "clean.0/mlp.final": torch.arange(12.0).reshape(2, 3, 2),
    "knockout.0/mlp.final": torch.arange(12.0).reshape(2, 3, 2).to(torch.bfloat16),
}


def batch(folder: Path, number: int = 0) -> Path:
    path = folder / f"batch-{number:05d}.safetensors"
    partial.save(STATES, path, device="cpu", halved="0")
    return path


def flipped(path: Path, place: int) -> None:
    """Turn one bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def test_a_batch_comes_back_bit_for_bit_with_its_notes(tmp_path: Path) -> None:
    path = batch(tmp_path)
    found = partial.read(path)
    assert found.keys() == STATES.keys()
    assert all(torch.equal(found[name], STATES[name]) for name in STATES)
    assert {tensor.dtype for tensor in found.values()} == {torch.float32, torch.bfloat16}
    assert partial.notes(path) == {"device": "cpu", "halved": "0"}
    assert partial.devices(tmp_path) == "cpu"
    assert [*partial.read(path, ["clean.0/mlp.final", "other"])] == ["clean.0/mlp.final"]


def test_every_flipped_bit_and_every_cut_is_found(tmp_path: Path) -> None:
    path = batch(tmp_path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        flipped(path, place)
        try:
            # The notes alone hold no number; whatever else is touched must be found.
            same = partial.read(path)
            assert all(torch.equal(same[name], STATES[name]) for name in STATES)
        except partial.Damaged as error:
            assert error.path == path
        path.write_bytes(whole)
    data = len(whole) - sum(tensor.nbytes for tensor in STATES.values())
    for place in range(data, len(whole)):
        flipped(path, place)
        with pytest.raises(partial.Damaged, match="another checksum"):
            partial.read(path)
        path.write_bytes(whole)
    for length in (0, 7, data, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(partial.Damaged, match=path.name):
            partial.read(path)


def test_a_damaged_batch_of_an_earlier_try_is_named_and_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = batch(tmp_path)
    assert partial.finished(path) is not None
    flipped(path, len(path.read_bytes()) - 1)
    assert partial.finished(path) is None
    assert not path.exists()
    assert path.name in caplog.text
    assert partial.finished(path) is None  # none there: nothing to say


def test_batches_wait_where_the_job_died_and_go_when_it_is_done(tmp_path: Path) -> None:
    waits = partial.place(tmp_path, tmp_path / "activations/m/d", "f1")
    with pytest.raises(KeyboardInterrupt), partial.kept(waits) as folder:
        batch(folder)
        raise KeyboardInterrupt
    with partial.kept(waits) as folder:
        assert partial.finished(folder / "batch-00000.safetensors") is not None
    assert waits.exists()
    product = tmp_path / "activations/m/d"
    partial.linked(waits, product)
    product.with_name("d.provenance.json").write_text(f'{{"waits": "{waits}"}}')
    partial.drop([product])
    assert not waits.exists()
    assert partial.finished(product / "batch-00000.safetensors") is not None


def test_what_waits_for_a_product_goes_once_it_is_read_and_nothing_else(tmp_path: Path) -> None:
    read = ["models/tiny", "scores/m/d.parquet"]
    others = ["models/tiny2", "scores/m/d.text.parquet", "activations/m/d"]
    places = {
        name: partial.place(tmp_path, tmp_path / name, fit)
        for name in (*read, *others)
        for fit in ("one", "two")
    }
    for waits in places.values():
        (waits / "stage-0").mkdir(parents=True)
    partial.drop(tmp_path / name for name in read)
    assert {name for name, waits in places.items() if waits.exists()} == set(others)


def test_work_is_done_once_and_again_for_others(tmp_path: Path) -> None:
    path = partial.named(tmp_path, "mlp/final-clean")
    assert path.parent == tmp_path and partial.is_batch(path)
    made: list[int] = []

    def work() -> dict[str, torch.Tensor]:
        made.append(1)
        return {"done": torch.tensor(len(made))}

    said = [
        int(partial.once(where, work, samples)["done"])
        for where, samples in [(path, "a"), (path, "a"), (path, "b"), (path, "b"), (None, "b")]
    ]
    assert said == [1, 1, 2, 2, 3]


def test_batches_that_fit_no_longer_are_dropped_those_of_others_are_not(tmp_path: Path) -> None:
    places = {
        (product, fit): partial.place(tmp_path, tmp_path / product, fit)
        for product in ("activations/m/d", "activations/m/d2")
        for fit in ("old", "new")
    }
    for (_, fit), place in places.items():
        if fit == "old":
            place.mkdir(parents=True)
    with partial.kept(places["activations/m/d", "new"]):
        there = {key for key, place in places.items() if place.exists()}
    assert there == {
        ("activations/m/d", "new"),
        ("activations/m/d2", "old"),
    }


def test_a_product_with_a_damaged_batch_waits_again_without_it(tmp_path: Path) -> None:
    product, waits = tmp_path / "activations/m/d", tmp_path / ".partial/activations+m+d+f"
    product.mkdir(parents=True)
    for number in (0, 1):
        batch(product, number)
    product.with_name("d.provenance.json").write_text(f'{{"waits": "{waits}"}}')
    flipped(product / "batch-00001.safetensors", -1)
    with pytest.raises(partial.Damaged), partial.given_back(product):
        partial.read(product / "batch-00000.safetensors")
        partial.read(product / "batch-00001.safetensors")
    assert not product.exists()
    assert [path.name for path in waits.iterdir()] == ["batch-00000.safetensors"]


def test_another_device_library_or_plan_fits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    def job(rule: str = "activations", **params: object) -> SimpleNamespace:
        return SimpleNamespace(rule=rule, params=params, input=[])

    fits = {
        "same": partial.fit(job(seed=1), "cpu", [1]),
        "device": partial.fit(job(seed=1), "cuda", [1]),
        "plan": partial.fit(job(seed=1), "cpu", [2]),
        "setting": partial.fit(job(seed=2), "cpu", [1]),
    }
    monkeypatch.setattr(partial.provenance, "libraries", lambda: {"torch": "other"})
    fits["library"] = partial.fit(job(seed=1), "cpu", [1])
    assert len(set(fits.values())) == len(fits)

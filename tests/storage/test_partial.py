"""Finished batches of an unfinished job: written whole, of what they say."""

import logging
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from anchorscope.storage import partial
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.progress import Progress

STATES = {
    "clean.0/mlp.final": torch.arange(12.0).reshape(2, 3, 2),
    "knockout.0/mlp.final": torch.arange(12.0).reshape(2, 3, 2).to(torch.bfloat16),
}
OF = partial.signature(["a", "b"])


def batch(folder: Path) -> Path:
    path = partial.batch(folder, 0)
    partial.save(STATES, path, samples=OF, halved="0")
    return path


def job(**params: object) -> SimpleNamespace:
    return SimpleNamespace(rule="activations", params=params, input=[])


def test_a_batch_comes_back_bit_for_bit_with_its_notes(tmp_path: Path) -> None:
    path = batch(tmp_path)
    found = partial.once(path, dict, OF)
    assert found.keys() == STATES.keys()
    assert all(torch.equal(found[name], STATES[name]) for name in STATES)
    assert {tensor.dtype for tensor in found.values()} == {torch.float32, torch.bfloat16}
    assert partial.notes(path) == {"samples": OF, "halved": "0"}
    assert partial.finished(path, OF)
    assert not partial.finished(path, partial.signature(["b", "a"]))
    assert not partial.finished(partial.batch(tmp_path, 1), OF)
    for where in (path, None):  # of other samples, it is made again
        assert partial.once(where, lambda: {"x": torch.ones(1)}, "other").keys() == {"x"}


def test_after_a_resume_rate_and_time_left_are_of_what_this_process_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])

    def made() -> dict[str, torch.Tensor]:
        now[0] += 2
        return {"x": torch.zeros(1)}

    for number in range(20):  # by the process before
        partial.once(partial.batch(tmp_path, number), made, OF)
    with caplog.at_level(logging.INFO), Progress(total=300) as progress:
        for number in range(25):
            partial.once(partial.batch(tmp_path, number), made, OF)
            progress.update(10)
    assert "250 of 300 samples, 5.00 samples/s, 00:10 left" in caplog.text


@pytest.mark.parametrize("length", [0, 7, -1])
def test_a_batch_that_was_cut_short_is_refused_by_name(tmp_path: Path, length: int) -> None:
    path = batch(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(AnchorscopeError, match="cannot read the batch") as caught:
        partial.finished(path, OF)
    assert caught.value.where == path


def test_batches_become_their_product_and_are_found_again_when_it_was_deleted(
    tmp_path: Path,
) -> None:
    product = tmp_path / "activations/m/d"
    waits = partial.folder_for(job(), product, "cpu", "plan")
    batch(waits)
    (waits / ".batch-00001.safetensors.12@node.draft").touch()
    assert partial.folder_for(job(), product, "cpu", "plan") == waits
    partial.publish(waits, product)
    shutil.rmtree(product)
    partial.publish(waits, product)
    assert partial.batch(product, 0).samefile(partial.batch(waits, 0)), "takes no room"
    assert [path.name for path in product.iterdir()] == [partial.batch(product, 0).name]
    partial.drop([product])
    assert not waits.exists()
    assert partial.finished(partial.batch(product, 0), OF)


def test_a_file_system_without_links_gets_the_batches_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial.os, "link", Mock(side_effect=OSError))
    product = tmp_path / "activations/m/d"
    waits = partial.folder_for(job(), product, "cpu", "plan")
    batch(waits)
    partial.publish(waits, product)
    assert not waits.exists()
    assert partial.finished(partial.batch(product, 0), OF)


def test_batches_made_under_other_settings_stay_until_the_product_is_made_anew(
    tmp_path: Path,
) -> None:
    one, other = tmp_path / "activations/m/d", tmp_path / "activations/m/d2"
    old = [partial.folder_for(job(seed=1), name, "cpu", 1) for name in (one, other)]
    new = partial.folder_for(job(seed=2), one, "cpu", 1)
    assert all(folder.exists() for folder in (new, *old))
    partial.publish(new, one)
    assert [new.exists(), *(folder.exists() for folder in old)] == [True, False, True]
    partial.drop([one])
    assert [new.exists(), old[1].exists()] == [False, True]


def test_another_device_library_or_plan_waits_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    product = tmp_path / "activations/m/d"
    given = [("cpu", 1, 0), ("cuda", 1, 0), ("cpu", 2, 0), ("cpu", 1, 2)]
    found = {
        partial.folder_for(job(seed=seed), product, device, plan) for device, plan, seed in given
    }
    monkeypatch.setattr(partial.provenance, "libraries", lambda: {"torch": "other"})
    found.add(partial.folder_for(job(seed=0), product, "cpu", 1))
    assert len(found) == 5

"""Products are whole or absent, unchanged by the trip, and say what they were made from."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from anchorscope.models import checkpoints
from anchorscope.questions import revisions
from anchorscope.storage import files, provenance
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import devices, stage
from tools import ship


def test_a_file_that_fails_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "product.csv"
    target.write_text("old")
    with pytest.raises(RuntimeError), files.atomic(target) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["product.csv"]


def test_lists_and_missing_text_survive_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"ids": [[1, 2], []], "why": [None, "NA"], "n": [1, 2]})
    files.write_parquet(frame, tmp_path / "t.parquet")
    back = files.read_parquet(tmp_path / "t.parquet")
    assert back["ids"].tolist() == [[1, 2], []] and isinstance(back["ids"][0], list)
    assert back["why"].tolist() == [None, "NA"]


def test_a_broken_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"no table")
    with pytest.raises(AnchorscopeError, match="t.parquet"):
        files.read_parquet(tmp_path / "t.parquet")


def test_counts_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match="do not add up"):
        Counts(10, 8, {"empty": 1})


def _snakemake(rule: str, inputs: list[Path], **settings: object) -> SimpleNamespace:
    return SimpleNamespace(rule=rule, input=inputs, output=[], params=settings)


def test_an_identity_follows_settings_content_and_inputs_and_no_label_or_place(
    tmp_path: Path,
) -> None:
    def identity(product: str, *inputs: str, content: str = "c0ffee", **settings: object) -> str:
        job = _snakemake("dataset", [tmp_path / name for name in inputs], **settings)
        provenance.of_stage(job, tmp_path / product, content=[content])
        return provenance.read(tmp_path / product)["identity"]

    first = identity("a", seed=0, local="/here/rows.csv", model={"label": "one"})
    same = identity("b", seed=0, local="/there/rows.csv", model={"label": "two"})
    other = identity("c", seed=1)
    assert first == same != other
    assert identity("d", seed=0, content="decade") != identity("e", seed=0)
    assert identity("f", "a", seed=5) == identity("g", "b", seed=5) != identity("h", "c", seed=5)


def test_a_record_holds_every_record_before_it_once(tmp_path: Path) -> None:
    def made(product: str, *inputs: str, **settings: object) -> None:
        job = _snakemake(product, [tmp_path / name for name in inputs], **settings)
        provenance.of_stage(job, tmp_path / product, counts=Counts(2, 1, {"empty": 1}))

    made("dataset", dataset={"world": {"seed": 7}}, seed=0)
    made("answers", "dataset", max_new_tokens=3)
    made("scores", "dataset", "answers", seed=1)
    record = provenance.read(tmp_path / "scores")
    assert record["seeds"] == {"seed": 1}
    before = {Path(path).name: found for path, found in record["inputs"].items()}
    assert set(before) == {"dataset", "answers"}
    assert before["dataset"]["seeds"] == {"seed": 0, "dataset.world.seed": 7}
    assert before["answers"]["settings"] == {"max_new_tokens": 3}
    assert before["answers"]["counts"]["dropped"] == {"empty": 1}
    assert not any("inputs" in found for found in before.values())


def test_other_weights_are_another_revision_of_a_local_model(
    tmp_path: Path, checkpoint: Callable[..., Path]
) -> None:
    folder, moved = tmp_path / "one", tmp_path / "two"
    shutil.copytree(checkpoint("llama"), folder)
    first = checkpoints.locate({"local": str(folder)})["revision"]
    shutil.copytree(folder, moved)
    assert checkpoints.locate({"local": str(moved)})["revision"] == first
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1  # of the same size, and with the time it had
    before = weights.stat()
    weights.write_bytes(content)
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert checkpoints.locate({"local": str(folder)})["revision"] != first


def test_an_error_names_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = _snakemake("scores", [])
    job.log, job.wildcards = [str(tmp_path / "log")], {"model": "m", "dataset": "d"}
    for error in (AnchorscopeError("too few", "here", "sample more"), KeyError("bug")):
        with pytest.raises(SystemExit), stage.stage(job):
            raise error
        assert "rule scores, model m, dataset d" in capsys.readouterr().err
        assert "rule scores, model m, dataset d" in (tmp_path / "log").read_text("utf-8")


@pytest.mark.parametrize(
    ("nodes", "visible", "expected"),
    [(2, None, 2), (2, "", 0), (2, "-1", 0), (2, "1", 1), (4, "0,2,3", 3), (0, "0", 0)],
)
def test_gpus_are_counted_as_cuda_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: int, visible: str | None, expected: int
) -> None:
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{i}" for i in range(nodes))):
        (tmp_path / name).touch()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert devices.gpus_here(tmp_path) == expected


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three GPUs, the last with the most free memory."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda i: ((5, 4, 9)[i], 10))
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda i: SimpleNamespace(uuid=f"gpu-{i}")
    )
    monkeypatch.setattr(devices.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(devices, "_held", [])


@pytest.mark.usefixtures("gpus")
def test_jobs_that_start_together_take_different_gpus() -> None:
    taken = [devices.best_device("cuda") for _ in range(3)]
    assert taken == ["cuda:2", "cuda:0", "cuda:1"]
    assert devices.best_device("cuda") == "cuda:2"  # all are taken: the most free memory
    assert devices.best_device("cpu") == "cpu"
    for lock in devices._held:
        lock.release()
    assert devices.best_device("auto", 2) == "auto:0,2"
    assert devices.best_device("cuda") == "cuda:1", "a job of several leaves the others alone"
    assert devices.best_device("auto", 3) == devices.best_device("auto", 4) == "auto"


@pytest.mark.usefixtures("gpus")
def test_layers_are_spread_over_the_chosen_gpus_alone() -> None:
    from anchorscope.models import loading

    plan, room = loading._spread("auto:0,2")
    assert plan == "auto" and room is not None
    assert room == {0: 5, 2: 9, "cpu": room["cpu"]} and room["cpu"] > 0
    assert loading._spread("auto") == ("auto", None)
    assert loading._spread("cuda:1") == loading._spread("cpu") == (None, None)
    assert loading._spread({"model": 0, "lm_head": "disk"}) == (
        {"model": 0, "lm_head": "disk"},
        None,
    )


@pytest.mark.parametrize("wanted", ["cuda", "auto"])
def test_a_gpu_that_was_due_and_cannot_be_used_is_refused(
    monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv(devices.ON_CPU, raising=False)
    for here, job in ((0, "17"), (2, None)):
        monkeypatch.setattr(devices, "gpus_here", lambda here=here: here)
        monkeypatch.setenv("SLURM_JOB_ID", job) if job else monkeypatch.delenv("SLURM_JOB_ID")
        with pytest.raises(AnchorscopeError, match="asks for a GPU.*finds none") as caught:
            devices.best_device(wanted)
        assert "gpus: 0" in str(caught.value) and devices.ON_CPU in str(caught.value)
        assert ("SLURM job 17" in str(caught.value)) == (job is not None)
        assert devices.best_device("cpu") == "cpu"
    monkeypatch.setenv(devices.ON_CPU, "1")
    assert devices.best_device(wanted) == "cpu"


def test_the_first_commit_found_is_kept_and_one_asked_for_wins(tmp_path: Path) -> None:
    lock = tmp_path / "revisions.lock.yaml"
    assert revisions.wanted("models", "a/b", None, lock) is None
    revisions.keep("models", "a/b", "c0ffee", None, lock)
    revisions.keep("models", "a/b", "later", None, lock)
    assert revisions.wanted("models", "a/b", None, lock) == "c0ffee"
    assert revisions.wanted("models", "a/b", "v2", lock) == "v2"
    assert revisions.wanted("datasets", "a/b", None, lock) is None


def _trained(folder: Path, recipe: str, size: int = 10) -> Path:
    folder.mkdir(parents=True)
    files.write_json({"recipe": recipe}, folder / checkpoints.RECIPE)
    (folder / "model.safetensors").write_bytes(bytes(size))
    return folder


def test_shipping_copies_trained_checkpoints_and_nothing_else(tmp_path: Path) -> None:
    _trained(tmp_path / "models" / "small", "abc")
    (tmp_path / "models" / "hub-model.json").touch()
    (tmp_path / "models" / "small" / ".snakemake_timestamp").touch()
    assert ship.ship(tmp_path / "models", tmp_path / "shipped", {"small": "abc"}) == ["small"]
    assert sorted(p.name for p in (tmp_path / "shipped" / "small").iterdir()) == [
        "model.safetensors",
        "recipe.json",
    ]


def test_shipping_refuses_a_checkpoint_of_another_recipe(tmp_path: Path) -> None:
    for name in ("good", "old"):
        _trained(tmp_path / "models" / name, "abc")
    with pytest.raises(AnchorscopeError, match="present recipe"):
        ship.ship(tmp_path / "models", tmp_path / "shipped", {"good": "abc", "old": "of today"})
    assert not (tmp_path / "shipped").exists()

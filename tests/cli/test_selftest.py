"""The self-test: green here, red where the instrument is broken; and a model's shape tried."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import ALL_FAMILIES

from anchorscope.cli import like, main as cli, selftest
from anchorscope.models import loading
from anchorscope.passes import batches, runner
from anchorscope.storage.files import read_json
from anchorscope.workflow import trials

CPU = torch.device("cpu")


@pytest.fixture
def one_family(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = selftest.run
    monkeypatch.setattr(selftest, "run", lambda device: whole(device, ["llama"]))


@pytest.mark.usefixtures("one_family")
def test_it_is_green_on_a_cpu_and_writes_what_it_found(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    trials.write({"like": ["a trial"], "device": "cuda"})
    assert cli.main(["selftest"]) == 0
    found = read_json(trials.FILE)
    assert found["like"] == ["a trial"], "what `--like` measured stays"
    assert found["device"] == "cpu" and "torch" in found["libraries"]
    assert {one["verdict"] for one in found["verdicts"]} == {"pass", "skipped"}
    checks = "sites,plain model,one by one,determinism,noise,copies"
    assert {one["check"] for one in found["verdicts"]} == set(checks.split(","))
    said = capsys.readouterr().out
    assert all(one["measured"] and one["measured"] in said for one in found["verdicts"])


@pytest.mark.usefixtures("one_family")
def test_a_knockout_that_cuts_too_little_or_raises_makes_it_fail(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    right = batches.cut

    def leaky(one, *given, **more):
        tokens = right(one, *given, **more)
        return tokens[:2] if one.name == "knockout" else tokens

    for broken, check in ((leaky, "one by one"), (None, "error")):
        monkeypatch.setattr(batches, "cut", broken)
        assert cli.main(["selftest"]) == 1
        verdicts = read_json(trials.FILE)["verdicts"]
        assert {one["check"] for one in verdicts if one["verdict"] == "fail"} == {check}
        assert verdicts[-1]["check"] == "copies"


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_every_family_can_be_tried(family):
    found = list(selftest._family(family, CPU))
    assert [one.verdict for one in found] == ["pass"] * 4, found


QUICK = """
sample_size: 30
batch_tokens: 900
readouts: [mlp/final]
generation: {max_new_tokens: 4}
probe: {folds: 2, inner_folds: 2, refits: 2}
conditions: {rest: {}, crossed: {}, gold: {}}
"""


@pytest.fixture
def quick(clone: Path) -> Path:
    """The clone with a file of settings that take a moment."""
    path = clone / "quick.yaml"
    path.write_text(QUICK)
    return path


def test_a_model_of_the_catalogue_or_of_a_folder_is_tried_and_what_was_found_is_kept(run, quick):
    trials.write({"verdicts": []})
    for name in ("near", "checkpoint"):
        said = run("selftest", "--like", name, "--device", "cpu", "--configfile", str(quick))
        assert said.code == 0, said.err
        for line in (f"{name} on ", "memory ", "batch_tokens   900 fits;", "one dataset "):
            assert any(one.startswith(line) for one in said.out.splitlines()), said.out
    assert [one.model for one in trials.read()] == ["near", "checkpoint"]
    assert all(one.card == trials.processor() and one.time(1, 1) > 0 for one in trials.read())
    assert read_json(trials.FILE)["verdicts"] == []


@pytest.mark.parametrize(
    ("name", "code", "error", "do"),
    [
        ("llama-3-9b", 2, "no `llama-3-9b` in the catalogue", "did you mean `llama-3-8b`?"),
        ("llama-3-8b", 1, "there is no usable GPU", "`--device cpu`"),
        ("empty", 1, "no config.json", "name a folder with one"),
        ("open", 1, "the hub cannot be reached", "network"),
    ],
)
def test_what_cannot_be_tried_is_refused_in_one_message(
    run, clone, monkeypatch, name, code, error, do
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("anchorscope.questions.hub.PAUSE", 0.0)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (clone / "empty").mkdir()
    said = run("selftest", "--like", name)
    assert (said.code, said.out) == (code, "") and "Traceback" not in said.err
    assert error in said.err and do in said.err, said.err
    assert not trials.FILE.exists()
    assert run("selftest", "--device", "gpu").code == 2


def test_a_model_that_does_not_fit_is_refused_before_anything_is_allocated(run, monkeypatch):
    build = loading.build

    def counted(shape: Any, dtype: str, device: torch.device) -> Any:
        assert device.type == "meta", "memory was taken"
        return build(shape, dtype, device)

    monkeypatch.setattr(loading, "build", counted)
    memory = SimpleNamespace(available=16_500_000_000)
    monkeypatch.setattr(like.psutil, "virtual_memory", lambda: memory)
    said = run("selftest", "--like", "llama-3-8b", "--device", "cpu")
    assert said.code == 1 and "#out-of-memory" in said.err
    assert "16.1 GB of weights in bfloat16" in said.err and "16.5 GB are free" in said.err


@pytest.mark.parametrize("limit", [700, 3_000, 0])
def test_the_largest_batch_is_found_where_memory_is_short(run, quick, monkeypatch, limit):
    """Passes of more tokens than the limit run out of memory."""
    called = runner._pass_batch

    def passed(loaded: Any, batch: Any, *given: Any) -> Any:
        if batch.tokens(batch.samples) > limit:
            raise torch.OutOfMemoryError
        return called(loaded, batch, *given)

    monkeypatch.setattr(runner, "_pass_batch", passed)
    monkeypatch.setattr(like, "SOUGHT_ON", ("cpu",))
    said = run("selftest", "--like", "near", "--configfile", str(quick))
    if not limit:
        assert said.code == 1 and "one sample does not fit" in said.err
        return
    assert said.code == 0, said.err
    (trial,) = trials.read()
    assert trial.largest_batch_tokens is not None
    # A batch holds whole samples, so it may be a sample smaller than its budget.
    sample = 11 * 52
    assert 7 / 8 * limit - like.LEAST <= trial.largest_batch_tokens <= limit + sample
    assert trial.batch_tokens == min(900, trial.largest_batch_tokens)


def test_check_says_what_was_measured_here_and_warns_of_batches_that_do_not_fit(run):
    config = cli.read([])
    trials.keep(made(config))
    said = run("check", "mine", "remote")
    time = f"near: about 32 s, as measured on this machine ({trials.processor()})"
    assert said.about("time")[0] == ("ok", time)
    assert ["time unknown" in text for _, text in said.about("time")[1:]] == [True, True]
    assert ("warning", "near: batches of 98,304 tokens do not fit into memory, so they are "
            "halved; set `batch_tokens: 4096`") in said.about("gpu")  # fmt: skip
    trials.FILE.unlink()
    trials.keep(made(config, card="another card"))
    assert "time unknown" in run("check", "mine").about("time")[0][1]


def made(config: Any, **changes: Any) -> trials.Trial:
    """Make up a trial of the model `near` that takes three seconds for a sample."""
    stages = {"answers": 1, "activations": 1, "scores": 1}
    found = {
        "model": "near", "card": trials.processor(), "dtype": "float32",
        "settings": trials.settings_of(config, config.models["near"]), "batch_tokens": 4096,
        "largest_batch_tokens": 4096, "weights_gb": 0.1, "memory_gb": stages, "seconds": stages,
    }  # fmt: skip
    return trials.Trial.model_validate(found | changes)

"""The self-test: green here, red where the instrument is broken; and a model's shape tried."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import ALL_FAMILIES

from anchorscope.cli import cli_like, cli_selftest, main as cli
from anchorscope.models import loading
from anchorscope.passes import batches, interventions, runner

CPU = torch.device("cpu")


@pytest.fixture
def one_family(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cli_selftest.run
    monkeypatch.setattr(cli_selftest, "run", lambda device: whole(device, ["llama"]))


@pytest.mark.usefixtures("one_family")
def test_it_is_green_on_a_cpu_and_says_what_it_found(capsys):
    assert cli.main(["selftest"]) == 0
    about, *lines = capsys.readouterr().out.splitlines()
    assert about.startswith("cpu; ") and ", torch " in about
    rows = [line.split(maxsplit=1) for line in lines]
    assert {verdict for verdict, _ in rows} == {"pass", "skipped"}
    for check in ("plain model", "literal loop", "determinism", "noise", "copies"):
        assert any(measured.startswith(check) for _, measured in rows)


@pytest.mark.usefixtures("one_family")
def test_a_knockout_that_cuts_too_little_or_raises_makes_it_fail(monkeypatch, capsys):
    right = batches.cut

    def leaky(one, *given, **more):
        tokens = right(one, *given, **more)
        return tokens[:2] if one.name == "knockout" else tokens

    for broken, check in ((leaky, "literal loop"), (None, "error")):
        monkeypatch.setattr(batches, "cut", broken)
        assert cli.main(["selftest"]) == 1
        *lines, last = capsys.readouterr().out.splitlines()
        failed = [line for line in lines if line.startswith("fail ")]
        assert failed and all(check in line for line in failed) and "copies" in last


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_every_family_can_be_tried(family):
    found = list(cli_selftest._family(family, CPU))
    assert [one.verdict for one in found] == ["pass"] * 3, found


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


def test_a_model_of_the_catalogue_or_of_a_folder_is_tried_without_a_network(run, quick):
    for name, shown in (("near", True), ("checkpoint", False)):
        said = run("selftest", "--like", name, "--device", "cpu", "--configfile", str(quick))
        assert said.code == 0, said.err
        for line in (f"{name} on CPU, float32" if shown else name, "memory ", "one dataset "):
            assert any(one.startswith(line) for one in said.out.splitlines()), said.out
        assert "batch_tokens   900 fit\n" in said.out
        assert ("figure         mine: " in said.out) == shown


@pytest.mark.parametrize(
    ("name", "code", "error", "do"),
    [
        ("llama-3-9b", 2, "no `llama-3-9b` in the catalogue", "did you mean `llama-3-8b`?"),
        ("llama-3-8b", 1, "there is no usable GPU", "`--device cpu`"),
        ("empty", 1, "no config.json", "name a folder that has one"),
    ],
)
def test_what_cannot_be_tried_is_refused_in_one_message(
    run, clone, monkeypatch, name, code, error, do
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (clone / "empty").mkdir()
    said = run("selftest", "--like", name)
    assert (said.code, said.out) == (code, "") and "Traceback" not in said.err
    assert error in said.err and do in said.err, said.err
    assert run("selftest", "--device", "gpu").code == 2


def test_a_model_that_does_not_fit_is_refused_before_anything_is_allocated(run, monkeypatch):
    build = loading.build

    def counted(shape: Any, dtype: str, device: torch.device) -> Any:
        assert device.type == "meta", "memory was taken"
        return build(shape, dtype, device)

    monkeypatch.setattr(loading, "build", counted)
    memory = SimpleNamespace(available=16_500_000_000)
    monkeypatch.setattr(cli_like.psutil, "virtual_memory", lambda: memory)
    said = run("selftest", "--like", "llama-3-8b", "--device", "cpu")
    assert said.code == 1 and "#out-of-memory" in said.err
    assert "16.1 GB of weights in bfloat16" in said.err and "16.5 GB are free" in said.err


@pytest.mark.parametrize("limit", [700, 0])
def test_batches_that_do_not_fit_are_halved_as_in_a_run(run, quick, monkeypatch, limit):
    """Passes of more tokens than the limit run out of memory."""
    called = runner._called

    def passed(loaded: Any, planned: Any, batch: Any, *given: Any) -> Any:
        if batch.tokens(batch.samples) > limit:
            raise torch.OutOfMemoryError
        return called(loaded, planned, batch, *given)

    monkeypatch.setattr(runner, "_called", passed)
    quick.write_text(QUICK.replace("900", "2000"))
    said = run("selftest", "--like", "near", "--configfile", str(quick))
    if limit:
        assert "batch_tokens   2,000 do not fit and were halved: set fewer\n" in said.out
    else:
        assert said.code == 1 and "one sample of" in said.err and "#out-of-memory" in said.err


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_trial_passes_full_batches_under_every_condition(family, checkpoint, quick):
    shape = loading.read_config(checkpoint(family))
    loaded, config = loading.build(shape, "float32", CPU), cli.read([quick])
    work = cli_like._work(config, "few_shot", loaded)
    conditions = interventions.on(config.conditions.model_dump())
    rows = sum(not one.own_batch for one, _ in conditions)
    full = replace(work, tokens=3 * rows * (work.prompt + cli_like.ANSWER))
    assert cli_like.passes(loaded, full) == 3
    assert cli_like.answer(loaded, replace(work, tokens=5 * (work.prompt + 4))) == 5
    made = cli_like._samples(work, 4)
    plan = cli_like.batches.arrange(made, conditions, batch_tokens=10**6)
    measured = {row.condition for batch in plan.batches for row in batch.rows}
    assert measured == {one.name for one, _ in conditions} > {"crossed-gold", "knockout"}
    assert plan.head == work.shared


def test_the_time_of_a_figure_is_that_of_its_cells_of_the_model(clone):
    (clone / "two.yaml").write_text("figures: {two: {models: [near, taught], datasets: [rows]}}")
    seconds = {"answers": 1, "activations": 1, "scores": 1}
    trial = cli_like.Trial("near", "CPU", "float32", 4096, 0, 0.1, seconds, seconds)
    said = "\n".join(cli_like.lines(trial, cli.read([Path("two.yaml")])))
    assert "one dataset    100 min for 2,000 questions: answers 33 min, activations 33 min" in said
    assert "two: 30 s for this model" in said

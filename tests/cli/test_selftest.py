"""The self-test: green here, red where the instrument is broken; and a model's shape tried."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ALL_FAMILIES

from anchorscope.cli import cli_like, cli_selftest, main as cli
from anchorscope.models import generation, loading
from anchorscope.passes import batches, interventions, planning, runner
from anchorscope.workflow import trials
from tools import write_docs

CPU = torch.device("cpu")


@pytest.fixture
def one_family(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cli_selftest.run
    monkeypatch.setattr(cli_selftest, "run", lambda device: whole(device, ["llama"]))


@pytest.mark.usefixtures("one_family")
def test_it_is_green_on_a_cpu_and_writes_what_it_found(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "selftest.json").write_text('{"like": ["a trial"], "device": "cuda"}')
    assert cli.main(["selftest"]) == 0
    found = json.loads((tmp_path / "selftest.json").read_text())
    assert found["like"] == ["a trial"], "what `--like` measured stays"
    assert found["device"] == "cpu" and "torch" in found["libraries"]
    assert {one["verdict"] for one in found["verdicts"]} == {"pass", "skipped"}
    checks = "plain model,literal loop,determinism,noise,copies"
    assert {one["check"] for one in found["verdicts"]} == set(checks.split(","))
    skipped = [one for one in found["verdicts"] if one["verdict"] == "skipped"]
    said = capsys.readouterr().out
    assert all(one["measured"] and one["measured"] in said for one in skipped)
    *_, row = said.strip().splitlines()
    of_docs = next(
        line for line in write_docs.families().splitlines() if line.startswith("| `llama`")
    )
    cells, documented = (line.split(" | ") for line in (row, of_docs))
    assert cells[1].endswith(": pass") and documented[1] == "CPU"
    assert cells[0] == documented[0] and cells[-1] == documented[-1]


@pytest.mark.usefixtures("one_family")
def test_a_knockout_that_cuts_too_little_or_raises_makes_it_fail(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    right, out = batches.cut, tmp_path / "selftest.json"

    def leaky(one, *given, **more):
        tokens = right(one, *given, **more)
        return tokens[:2] if one.name == "knockout" else tokens

    for broken in (leaky, None):
        monkeypatch.setattr(batches, "cut", broken)
        assert cli.main(["selftest"]) == 1
        verdicts = json.loads(out.read_text())["verdicts"]
        failed = {one["check"] for one in verdicts if one["verdict"] == "fail"}
        assert failed == ({"literal loop"} if broken else {"error"})
        assert verdicts[-1]["check"] == "copies"


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


def test_a_small_model_is_tried_without_a_network_and_what_was_found_is_kept(run, clone, quick):
    trials.write({"verdicts": []})
    said = run("selftest", "--like", "near", "--configfile", str(quick))
    assert said.code == 0, said.err
    (trial,) = trials.read()
    assert (trial.model, trial.card, trial.dtype) == ("near", trials.processor(), "float32")
    assert all(seconds > 0 for seconds in trial.seconds.values()) and trial.weights_gb > 0
    for name in ("memory", "batch_tokens", "one dataset", "figure         mine:"):
        assert any(line.startswith(name) for line in said.out.splitlines()), said.out
    assert json.loads((clone / "selftest.json").read_text())["verdicts"] == []
    folder = run("selftest", "--like", "checkpoint", "--device", "cpu", "--configfile", str(quick))
    assert folder.code == 0 and "figure" not in folder.out, folder.err
    assert [one.model for one in trials.read()] == ["near", "checkpoint"]


@pytest.mark.parametrize(
    ("name", "code", "error", "do"),
    [
        ("llama-3-9b", 2, "no `llama-3-9b` in the catalogue", "did you mean `llama-3-8b`?"),
        ("llama-3-8b", 1, "there is no usable GPU", "`--device cpu`"),
        ("empty", 1, "no config.json", "check `local`"),
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
    assert not (clone / "selftest.json").exists()
    assert run("selftest", "--device", "gpu").code == 2


def test_a_model_that_does_not_fit_is_refused_before_anything_is_allocated(run, monkeypatch):
    build = loading.build

    def counted(shape: Any, dtype: str, device: torch.device) -> Any:
        assert device.type == "meta", "memory was taken"
        return build(shape, dtype, device)

    monkeypatch.setattr(loading, "build", counted)
    monkeypatch.setattr(cli_like, "free_bytes", lambda device: 16_500_000_000)
    said = run("selftest", "--like", "llama-3-8b", "--device", "cpu")
    assert said.code == 1 and "#out-of-memory" in said.err
    assert "16.1 GB of weights in bfloat16" in said.err and "16.5 GB are free" in said.err


@pytest.mark.parametrize("limit", [0, 200, 300, 1_000, 8_191, 8_192, 20_000, 100_000, 200_000])
def test_the_search_comes_within_an_eighth_of_the_limit_of_memory(limit):
    sizes: list[int] = []

    def fits(size: int) -> bool:
        sizes.append(size)
        return size <= limit

    found = cli_like.largest_batch(fits, start=8_192, most=131_072)
    best = min(limit, 131_072)
    assert found <= best <= found + max(found // 8, cli_like.LEAST)
    assert len(sizes) <= 10 and max(sizes) <= max(8_192, min(2 * limit, 131_072))


@pytest.mark.parametrize("limit", [700, 3_000, 0])
def test_the_largest_batch_is_found_where_memory_is_short(run, quick, monkeypatch, limit):
    """Calls of the model that pass more tokens than the limit run out of memory."""
    called, logits = runner._called, generation._Rows.logits

    def take(tokens: int) -> None:
        if tokens > limit:
            raise torch.OutOfMemoryError

    def passed(loaded: Any, batch: Any, *given: Any) -> Any:
        take(batch.tokens(batch.samples))
        return called(loaded, batch, *given)

    def generated(rows: Any, run: slice, width: int) -> Any:
        take(rows.padding.numel())
        return logits(rows, run, width)

    monkeypatch.setattr(runner, "_called", passed)
    monkeypatch.setattr(generation._Rows, "logits", generated)
    monkeypatch.setattr(cli_like, "SOUGHT_ON", ("cpu",))
    said = run("selftest", "--like", "near", "--configfile", str(quick))
    if not limit:
        assert said.code == 1 and "one sample does not fit" in said.err
        return
    assert said.code == 0, said.err
    (trial,) = trials.read()
    assert trial.largest_batch_tokens is not None
    # A batch holds whole samples, so it may be a sample smaller than its budget.
    sample = 11 * 52
    assert 7 / 8 * limit - cli_like.LEAST <= trial.largest_batch_tokens <= limit + sample
    assert trial.batch_tokens == min(900, trial.largest_batch_tokens)


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_every_family_is_built_from_its_config_and_passes_a_full_batch(family, checkpoint, quick):
    shape = loading.read_config(checkpoint(family))
    loaded, config = loading.build(shape, "float32", CPU), cli.read([quick])
    work = cli_like._work(config, "plain", loaded)
    conditions = interventions.on(config.conditions.model_dump())
    rows = sum(not one.own_batch for one, _ in conditions)
    tokens = 3 * rows * (work.prompt + cli_like.ANSWER)
    assert cli_like.passes(loaded, work, tokens) == 3
    assert cli_like.answer(loaded, work, 5 * (work.prompt + 4)) == 5


def test_made_up_samples_are_measured_under_every_condition(quick, checkpoint):
    loaded = loading.build(loading.read_config(checkpoint("llama")), "float32", CPU)
    work = cli_like._work(cli.read([quick]), "few_shot", loaded)
    conditions = interventions.on(work.config.conditions.model_dump())
    plan = cli_like.batches.arrange(cli_like._samples(work, 4), conditions, batch_tokens=10**6)
    measured = {row.condition for batch in plan.batches for row in batch.rows}
    assert measured == {one.name for one, _ in conditions}
    assert {"crossed-rest", "crossed-gold", "knockout"} < measured
    assert plan.head == work.shared
    for sample in plan.samples:
        assert (
            len(sample.input_ids)
            == work.prompt + cli_like.ANSWER
            == 1 + max(sample.positions.values())
        )
        assert 0 < len(sample.eq_tokens) < len(sample.question_tokens)
        other = planning.behind(sample, plan.samples[int(sample.id) - 1])
        assert sample.others["crossed"].input_ids == other.input_ids


def test_times_of_a_figure_name_the_models_that_were_not_tried(clone):
    (clone / "two.yaml").write_text("figures: {two: {models: [near, taught], datasets: [rows]}}")
    config = cli.read([Path("two.yaml")])
    one = made(config)
    trials.keep(one)
    said = "\n".join(cli_like.lines(one, config))
    assert "batch_tokens   4,096 is about the largest that fits; 32,768 are used, or fewer" in said
    assert "one dataset    100 min for 2,000 questions: answers 33 min, activations 33 min" in said
    assert "two: 30 s, without taught, not tried here" in said and "mine: 30 s\n" in said


def test_check_says_what_was_measured_here_and_warns_of_batches_that_do_not_fit(run):
    config = cli.read([])
    trials.keep(made(config))
    said = run("check", "mine", "remote")
    (time,) = said.about("time")
    assert time[1].startswith("near: 1 cell takes about 30 s on ")
    assert ("warning", "near: batches of 32,768 tokens do not fit, so they are halved; set "
            "`batch_tokens: 4096`") in said.about("gpu")  # fmt: skip
    trials.keep(made(config, batch_tokens=1024))
    assert run("check", "mine", "remote").about("gpu") == said.about("gpu")[:-1], (
        "all that was tried"
    )
    trials.keep(made(config, settings="other"))
    assert run("check", "mine").about("time") == []
    trials.keep(made(config, card="another card"))
    assert run("check", "mine").about("time") == []


def made(config: Any, **changes: Any) -> trials.Trial:
    """Make up a trial of the model `near` that takes three seconds for a sample."""
    found = {
        "model": "near", "card": trials.processor(), "dtype": "float32",
        "settings": trials.settings_of(config, config.models["near"]), "batch_tokens": 4096,
        "largest_batch_tokens": 4096, "weights_gb": 0.1,
        "memory_gb": {"answers": 1, "activations": 1, "scores": 1},
        "seconds": {"answers": 1, "activations": 1, "scores": 1},
    }  # fmt: skip
    return trials.Trial.model_validate(found | changes)

"""Bad input ends with one clear message, a non-zero exit, and nothing half-written."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from workflow import PROJECT, Workspace, call, workspace

from anchorscope.cli import cli_check
from anchorscope.storage.files import read_json, read_parquet, write_parquet
from anchorscope.workflow import around, config

CELL = "tiny-llama/tiny-world"
FIELDS = {"question": "question", "answers": ["answer"]}
GOOD_ROW = '{"question": "Who wrote Faust?", "answer": "Goethe"}'
BAD = yaml.safe_load((PROJECT / "tests/data/bad_inputs.yaml").read_text(encoding="utf-8"))
SHIPPED = ("datasets/popqa", "models/llama-3.2-1b")
EXPECTED = {f"{kind}/{name}": one["says"] for kind in BAD for name, one in BAD[kind].items()}
"""Bad entry of a catalogue → what its message must name."""
BEFORE = {f"{kind}/{name}" for kind in BAD for name, one in BAD[kind].items() if "before" in one}
"""Those that are seen before the first job."""


def product(entry: str) -> str:
    """What snakemake is asked for."""
    catalogue, name = entry.split("/")
    return f"results/data/{name}.parquet" if catalogue == "datasets" else f"results/{entry}.json"


def log_of(clone: Workspace, entry: str) -> str:
    return (clone.results / f"logs/{entry.replace('s/', '/', 1)}.log").read_text(encoding="utf-8")


def assert_clear(message: str, named: list[str]) -> None:
    """One message, with what, where and what to do; no traceback."""
    assert message.count("error: ") == 1, message
    assert "where: " in message and "do: " in message, message
    assert "Traceback" not in message
    for part in named:
        assert part in message


def bad_datasets(folder: Path) -> dict[str, Any]:
    found = {}
    for name, one in BAD["datasets"].items():
        path = folder / f"{name}.jsonl"
        if "rows" in one:
            path.write_text(one["rows"], encoding="utf-8")
        found[name] = {"local": str(path), "fields": FIELDS | one.get("fields", {})}
    return {name: one for name, one in found.items() if f"datasets/{name}" not in SHIPPED}


def bad_models(folder: Path, good: Path) -> dict[str, Any]:
    for name, one in BAD["models"].items():
        if "lacks" in one:
            ignored = shutil.ignore_patterns(one["lacks"])
            shutil.copytree(good, folder / name, ignore=ignored)
    known = folder / "no-adapter" / "config.json"
    changed = json.loads(known.read_text(encoding="utf-8")) | {"model_type": "t5"}
    known.write_text(json.dumps(changed), encoding="utf-8")
    names = [name for name in BAD["models"] if f"models/{name}" not in SHIPPED]
    return {name: {"local": str(folder / name), "prompt": "plain"} for name in names}


@pytest.fixture(scope="module")
def every_bad_entry(
    tmp_path_factory: pytest.TempPathFactory, checkpoint: Callable[..., Path]
) -> tuple[Workspace, CompletedProcess[str], CompletedProcess[str]]:
    """A run that is refused, and one that is asked for what only a job can see and keeps going."""
    base = tmp_path_factory.mktemp("bad")
    overlay = {"datasets": bad_datasets(base), "models": bad_models(base, checkpoint("llama"))}
    clone = workspace(base / "clone", overlay)
    refused = clone.run("--keep-going", *map(product, EXPECTED))
    assert not (clone.results / "logs").exists()
    later = [product(entry) for entry in EXPECTED if entry not in BEFORE]
    return clone, refused, clone.run("--keep-going", *later)


def said_of(every_bad_entry: Any, entry: str) -> str:
    """What is said of an entry: its line before the first job, or its job's message."""
    clone, refused, _ = every_bad_entry
    if entry not in BEFORE:
        return log_of(clone, entry)
    lines = refused.stderr.splitlines()
    (line,) = [line for line in lines if f" `{Path(entry).name}`: " in line]
    return str(line)


@pytest.mark.parametrize("entry", EXPECTED)
def test_a_bad_entry_is_named_and_leaves_no_product(every_bad_entry, entry):
    clone, refused, _ = every_bad_entry
    said = said_of(every_bad_entry, entry)
    if entry in BEFORE:
        assert refused.returncode != 0 and "Traceback" not in refused.stderr
        assert all(part in said for part in EXPECTED[entry]), said
    else:
        assert_clear(said, EXPECTED[entry])
    name = Path(product(entry)).stem
    left = [path.name for path in (clone.root / product(entry)).parent.glob(f"*{name}*")]
    assert left == []


@pytest.mark.parametrize("entry", [e for e in EXPECTED if e not in SHIPPED])
def test_check_refuses_it_in_the_same_words_without_a_run(every_bad_entry, entry):
    clone, *_ = every_bad_entry
    catalogue, name = entry.split("/")
    chosen = config.load(clone.catalogue())
    if catalogue == "models":
        (found,) = cli_check.model(chosen, name)
    else:
        (found,) = cli_check.dataset(chosen, name, ())
    status, _, what, do, _ = found
    said = " ".join(said_of(every_bad_entry, entry).split())
    assert status == "error" and str(do) in said
    assert f": {what.removeprefix(f'{name}: ').partition(' (/')[0]} " in said


def test_why_jobs_failed_is_the_last_thing_on_the_screen(every_bad_entry):
    clone, _, done = every_bad_entry
    assert done.returncode != 0 and "Traceback" not in done.stdout + done.stderr
    logs = [log_of(clone, entry) for entry in EXPECTED if entry not in BEFORE]
    last = done.stderr.partition("Exiting because a job execution failed")[2]
    shown = [f"error: {one.strip()}" for one in last.split("\nerror: ")[1:]]
    assert sorted(shown) == sorted(log.partition(" ")[2].strip() for log in logs)


def test_a_job_that_could_not_say_why_it_failed_is_named_with_its_log(tmp_path):
    job = SimpleNamespace(
        rule="scores", wildcards={"model": "m"}, log=[tmp_path / "log"], is_group=lambda: False
    )
    group = SimpleNamespace(jobs=[job], is_group=lambda: True)
    for text, said in (
        (None, "rule scores, model m was ended before it could say why"),
        ("12:00:00 fitting\n", "rule scores, model m was ended before it could say why"),
        ("12:00:00 anchorscope failed in rule scores\nTraceback", "a fault of Anchorscope itself"),
    ):
        if text is not None:
            job.log[0].write_text(text, encoding="utf-8")
        assert said in around.why_failed(job) and str(job.log[0]) in around.why_failed(job)
        assert around.why_failed(group) == around.why_failed(job)


@pytest.mark.long
def test_a_mistaken_source_that_is_put_right_again_deletes_nothing(tiny_run, tmp_path):
    """Every product of a model depends on the record of where it lies."""
    clone = tiny_run.copy(tmp_path / "clone")
    local = str(clone.results / "models/tiny-llama")
    good = {"local": local, "prompt": "plain", "dtype": "float32", "resources": {"gpus": 0}}
    target = "results/answers/mine/tiny-world.parquet"
    clone.build(target, change={"models": {"mine": good}})
    kept = {path: path.read_bytes() for path in clone.results.rglob("*") if path.is_file()}
    for bad, said in (
        ({"local": f"{local}-typo"}, "there is no such model folder"),
        ({"local": None, "hub": "no/such"}, "hub cannot be reached"),
    ):
        done = clone.run(target, change={"models": {"mine": good | bad}})
        last = done.stderr.partition("error: model `mine`: ")[2]
        assert done.returncode != 0 and said in last and "locating" not in done.stderr
        assert kept == {path: path.read_bytes() for path in kept}
        assert clone.planned(target, change={"models": {"mine": good}}) == {}


def test_a_run_asks_for_the_prompt_of_a_model_with_a_chat_template(fresh, tmp_path, checkpoint):
    folder = tmp_path / "model"
    shutil.copytree(checkpoint("llama"), folder)
    entry = {"local": str(folder), "dtype": "float32", "resources": {"gpus": 0}}
    change = {"models": {"given": entry}}
    clone, located = fresh.copy(tmp_path / "clone"), "results/models/given.json"
    clone.build(located, change=change)
    tokenizer = folder / "tokenizer_config.json"
    tokenizer.write_text(json.dumps(read_json(tokenizer) | {"chat_template": "{{ messages }}"}))
    done = clone.run(located, change=change)
    assert done.returncode != 0 and "locating" not in done.stderr
    assert "error: model `given`: the model has a chat template" in done.stderr
    assert (clone.root / located).exists()
    clone.build(located, change={"models": {"given": entry | {"prompt": "few_shot"}}})


def test_rows_that_cannot_be_read_any_more_leave_the_questions_there_are(tiny_run, tmp_path):
    clone, file = tiny_run.copy(tmp_path / "clone"), tmp_path / "rows.jsonl"
    file.write_text(f"{GOOD_ROW}\n", encoding="utf-8")
    mine = {"datasets": {"mine": {"local": str(file), "fields": FIELDS}}}
    clone.build("results/data/mine.parquet", change=mine)
    kept = {path: path.read_bytes() for path in (clone.results / "data").iterdir()}
    file.write_text(f"{GOOD_ROW}\n{{", encoding="utf-8")
    done = clone.run("results/data/mine.parquet", change=mine)
    assert done.returncode != 0 and "error: dataset `mine`: broken JSON" in done.stderr
    assert kept == {path: path.read_bytes() for path in (clone.results / "data").iterdir()}


def test_a_sample_too_small_to_claim_anything_is_told_so_after_the_answers(tiny_run):
    said = (tiny_run.results / f"logs/answers/{CELL}.log").read_text(encoding="utf-8")
    (line,) = [line for line in said.splitlines() if " answers are right. " in line]
    assert (
        " tiny-llama on tiny-world: " in line
        and "answers are needed to detect .05." in line
        and line.endswith("The run goes on.")
    )


@pytest.fixture
def unscored(tiny_run: Workspace, tmp_path: Path) -> Workspace:
    """The tiny run, up to its activations."""
    clone = tiny_run.copy(tmp_path / "clone")
    shutil.rmtree(clone.results / "scores")
    return clone


def test_a_checkpoint_of_another_recipe_is_not_taken(tiny_run, tmp_path):
    """As happens when a recipe changes and snakemake's records of the old one are gone."""
    clone = tiny_run.copy(tmp_path / "clone")
    shutil.rmtree(clone.root / ".snakemake")
    located = clone.results / "models/tiny-llama.json"
    located.unlink()
    recipe = {"models": {"tiny-llama": {"train": {"seed": 1}}}}
    done = clone.run("results/models/tiny-llama.json", change=recipe)
    assert done.returncode != 0
    assert_clear(log_of(clone, "models/tiny-llama"), ["tiny-llama/recipe.json", "delete"])
    assert not located.exists()


def refused(clone: Workspace, stage: str, target: str, named: list[str], **change: Any) -> None:
    done = clone.run(target, change=change)
    assert done.returncode != 0 and "Traceback" not in done.stdout + done.stderr
    log = clone.results / "logs" / stage / f"{CELL}.log"
    assert_clear(log.read_text(encoding="utf-8"), named)
    assert not (clone.results / stage / CELL).exists()


def test_answers_that_are_all_right_are_not_measured(unscored):
    table = unscored.results / f"answers/{CELL}.parquet"
    write_parquet(read_parquet(table).assign(label=0), table)
    said = ["answers are right", "rule activations, root results, model tiny-llama"]
    refused(unscored, "activations", f"results/activations/{CELL}", said)


@pytest.mark.long
def test_fewer_samples_than_folds_are_refused_before_any_pass_and_any_score(unscored):
    """Partners are of a sample's own fold; passes without partners depend on no fold, and stay."""
    named, scores = ["112 samples", "113 folds", "sample_size"], f"results/scores/{CELL}.parquet"
    probe = {"folds": 113}
    refused(unscored, "activations", scores, named, probe=probe)
    alone: dict[str, Any] = {"conditions": {"crossed": None}}
    unscored.build(f"results/activations/{CELL}", change=alone)
    refused(unscored, "scores", scores, named, probe=probe, **alone)


def test_mistakes_in_the_config_stop_before_any_job(fresh):
    entry = {"all": {"local": "some/folder"}}
    done = fresh.run(change={"sample_sizes": 3, "batch_tokens": "many", "models": entry})
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in said and "config.yaml" in said
    for named in ("sample_sizes", "`sample_size`", "batch_tokens", "models.all", "reserved"):
        assert named in said
    assert not fresh.results.exists()


def test_snakemake_names_the_place_of_broken_yaml_and_the_nearest_target(fresh, tmp_path):
    clone = fresh.copy(tmp_path / "clone")
    file = clone.root / "config.yaml"
    text = file.read_text(encoding="utf-8")
    line = len(text.splitlines()) + 3
    for added, target, said in (
        ("", "dmo", "did you mean `demo`?"),
        ("", "demo.evidnce.png", "did you mean `results/figures/demo.evidence.png`?"),
        ("", "results/tables/demo.crosing.csv", "mean `results/tables/demo.crossing.csv`?"),
        ("", "results/data/no-such.parquet", "figures are demo, "),
        ("probe:\n  folds: 3\n grid: [1]\n", "all", f"config.yaml, line {line}, column 2"),
    ):
        file.write_text(text + added, encoding="utf-8")
        done = call(clone.root, clone.environment(), "-n", target)
        assert done.returncode != 0 and said in done.stdout + done.stderr


NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: "
UNKNOWN_USER = """
import os
import snakemake.cli

os.getuid = lambda: 1234
for name in ("USER", "LOGNAME", "LNAME", "USERNAME", {home}):
    os.environ.pop(name, None)
snakemake.cli.main(["--cores", "1", "-n"])
"""


def test_snakemakes_words_before_our_code_runs_are_on_the_page_of_errors(fresh):
    page = (PROJECT / "docs/what-goes-wrong.md").read_text("utf-8")
    python = {"cwd": fresh.root, "env": fresh.environment(), "capture_output": True, "text": True}
    users = [UNKNOWN_USER.format(home=home) for home in ("'-'", "'HOME'")]
    given = [("--configfile", "my.yaml"), ("--configfile", "config.yaml", "demo")]
    done = [call(fresh.root, fresh.environment(), "-n", *arguments) for arguments in given]
    done += [subprocess.run([sys.executable, "-c", code], **python, check=False) for code in users]
    last = [(one.stdout + one.stderr).strip().splitlines()[-1] for one in done]
    assert last[:2] == [f"{NO_FILE}'my.yaml'", f"{NO_FILE}'demo'"]
    assert last[2] == "KeyError: 'getpwuid(): uid not found: 1234'"
    assert last[3].startswith("RuntimeError: could not determine the home directory for ")
    for line in last:
        begins = line.partition("'~/.config', ")
        assert f"`{begins[0]}{begins[1]}" in page

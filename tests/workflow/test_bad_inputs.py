"""Bad input ends with one clear message, a non-zero exit, and nothing half-written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from workflow import PROJECT, Workspace, call, workspace

from anchorscope.cli import cli_check
from anchorscope.models import loading
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_parquet, write_parquet
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


def job(rule: str, output: Path, **params: Any) -> SimpleNamespace:
    """A job of `model` or `dataset`, as the DAG has it."""
    given = SimpleNamespace(few_shot=[])
    return SimpleNamespace(
        rule=SimpleNamespace(name=rule),
        wildcards=["mine"],
        input=given,
        output=[output],
        params=SimpleNamespace(**params),
    )


def test_a_source_that_was_found_is_looked_up_wholly_before_a_job_can_delete_its_record(
    tmp_path, checkpoint
):
    """Every product of a model or dataset depends on that record."""
    folder, rows = tmp_path / "model", tmp_path / "rows.jsonl"
    shutil.copytree(checkpoint("llama"), folder)
    (folder / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    rows.write_text(f"{GOOD_ROW}\n{{", encoding="utf-8")
    (found := tmp_path / "found").touch()
    local = {"local": str(folder), "hub": None}
    around.check_sources([job("model", found, model=local, names_prompt=True)])
    chosen = {"sample_size": 10, "seed": 0, "hold_back": False, "local": str(rows)}
    data = job("dataset", found, dataset={"fields": FIELDS, "few_shot": {}}, **chosen)
    hub = {"local": None, "hub": "no/such", "revision": None}
    for one, said in (
        (job("model", found, model=local, names_prompt=False), "the model has a chat template"),
        (job("model", found, model=hub, names_prompt=True), "hub cannot be reached"),
        (data, "broken JSON"),
    ):
        with pytest.raises(AnchorscopeError, match=f"{one.rule.name} `mine`: .*{said}"):
            around.check_sources([one])
    unseen = job("model", tmp_path / "none", model=hub, names_prompt=True)
    around.check_sources([unseen])  # the job itself asks the hub
    with pytest.raises(AnchorscopeError, match=r"(?s)2 models or datasets.*template.*broken JSON"):
        around.check_sources([job("model", found, model=local, names_prompt=False), data])


def test_a_checkpoint_of_another_recipe_is_not_taken(tmp_path):
    """As happens when a recipe changes and snakemake's records of the old one are gone."""
    (tmp_path / "recipe.json").write_text('{"recipe": "of another day"}', encoding="utf-8")
    with pytest.raises(AnchorscopeError, match="not trained by the present recipe") as caught:
        loading.locate({}, tmp_path, "of today")
    assert caught.value.where == tmp_path / "recipe.json" and "delete" in str(caught.value.do)


@pytest.mark.parametrize(
    ("label", "probe", "named"),
    [
        (0, {}, ["answers are right", "rule activations, root results, model tiny-llama"]),
        (None, {"folds": 113}, ["112 samples", "113 folds", "sample_size"]),
    ],
)
@pytest.mark.long
def test_answers_that_no_probe_can_be_fitted_to_are_not_measured(
    tiny_run, tmp_path, label, probe, named
):
    """Partners are of a sample's own fold, so folds are cut before the passes."""
    clone = tiny_run.copy(tmp_path / "clone")
    table = clone.results / f"answers/{CELL}.parquet"
    if label is not None:
        write_parquet(read_parquet(table).assign(label=label), table)
    done = clone.run(f"results/activations/{CELL}", change={"probe": probe})
    assert done.returncode != 0 and "Traceback" not in done.stdout + done.stderr
    log = clone.results / "logs/activations" / f"{CELL}.log"
    assert_clear(log.read_text(encoding="utf-8"), named)
    assert not (clone.results / "activations" / CELL).exists()


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
        ("probe:\n  folds: 3\n grid: [1]\n", "all", f"config.yaml, line {line}, column 2"),
    ):
        file.write_text(text + added, encoding="utf-8")
        done = call(clone.root, clone.environment(), "-n", target)
        assert done.returncode != 0 and said in done.stdout + done.stderr

"""Bad input ends with one clear message, a non-zero exit, and nothing half-written."""

import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from workflow import PROJECT, Workspace, workspace

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import around

FIELDS = {"question": "question", "answers": ["answer"]}
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
    (folder / "no-adapter" / "config.json").write_text('{"model_type": "t5"}', encoding="utf-8")
    (folder / "no-prompt" / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    names = [name for name in BAD["models"] if f"models/{name}" not in SHIPPED]
    found = {name: {"local": str(folder / name), "prompt": "plain"} for name in names}
    del found["no-prompt"]["prompt"]
    return found


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


@pytest.mark.parametrize("entry", EXPECTED)
def test_a_bad_entry_is_named_and_leaves_no_product(every_bad_entry, entry):
    clone, refused, _ = every_bad_entry
    assert refused.returncode != 0 and "Traceback" not in refused.stderr
    if entry in BEFORE:
        mark = f" `{Path(entry).name}`: "
        (said,) = [line for line in refused.stderr.splitlines() if mark in line]
    else:
        said = log_of(clone, entry)
        assert said.count("error: ") == 1 and "where: " in said and "do: " in said
        assert "Traceback" not in said
    assert all(part in said for part in EXPECTED[entry]), said
    name = Path(product(entry)).stem
    left = [path.name for path in (clone.root / product(entry)).parent.glob(f"*{name}*")]
    assert left == []


def test_why_jobs_failed_is_the_last_thing_on_the_screen(every_bad_entry):
    clone, _, done = every_bad_entry
    assert done.returncode != 0 and "Traceback" not in done.stdout + done.stderr
    logs = [log_of(clone, entry) for entry in EXPECTED if entry not in BEFORE]
    last = done.stderr.partition("Exiting because a job execution failed")[2]
    shown = [f"error: {one.strip()}" for one in last.split("\nerror: ")[1:]]
    assert sorted(shown) == sorted(log.partition(" ")[2].strip() for log in logs)


def job(rule: str, output: Path, **params: Any) -> SimpleNamespace:
    """A job of `model` or `dataset`, as the DAG has it."""
    named, given = SimpleNamespace(name=rule), SimpleNamespace(few_shot=[])
    params = SimpleNamespace(**params)
    return SimpleNamespace(
        rule=named, wildcards=["mine"], input=given, output=[output], params=params
    )


def test_a_source_that_was_found_is_looked_up_wholly_before_a_job_can_delete_its_record(
    tmp_path, checkpoint
):
    """Every product of a model or dataset depends on that record."""
    folder, rows = tmp_path / "model", tmp_path / "rows.jsonl"
    shutil.copytree(checkpoint("llama"), folder)
    (folder / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    rows.write_text("{", encoding="utf-8")
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


def test_mistakes_in_the_config_stop_before_any_job(fresh):
    entry = {"all": {"local": "some/folder"}}
    done = fresh.run(change={"sample_sizes": 3, "batch_tokens": "many", "models": entry})
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in said and "config.yaml" in said
    for named in ("sample_sizes", "`sample_size`", "batch_tokens", "models.all", "reserved"):
        assert named in said
    assert not fresh.results.exists()

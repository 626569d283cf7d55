"""The command `anchorscope`, in a clone of its own: what it finds, prints, writes, never asks."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml
from figure_tables import contrasts_of, controls_of, curve_of, interchange_of
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import GatedRepoError, OfflineModeIsEnabled
from snakemake.common.configfile import load_configfile
from snakemake.utils import update_config

from anchorscope.cli import cli_add, cli_check
from anchorscope.cli import main as cli
from anchorscope.models import activations
from anchorscope.questions.datasets import prepare
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import write_csv, write_parquet
from anchorscope.storage.provenance import Counts
from anchorscope.workflow import config, cost, sizes
from anchorscope.workflow.config import Config

PROJECT = Path(__file__).resolve().parents[2]
TOKEN = "hf_" + "x" * 30
CONFIG = """\
# A config of one's own, with remarks.
targets: [mine]
conditions: {knockout: {}, random: {draws: 2}, question: {}, noop: {samples: 4}}

models:   # the catalogue

    # the first
    far:
        hub: owner/far   # gated
        gated: true
        prompt: chat
    open: {hub: owner/open}
    llama: {hub: meta-llama/Llama-3.2-1B, resources: {gpus: 1, mem_gb: 16, gpu_mem_gb: 8}}
    near: {local: checkpoint, dtype: float32, prompt: plain, resources: {gpus: 0}}
    taught:
        train: {architecture: llama, datasets: [world], steps: 10}
        resources: {gpus: 0}

datasets:
  rows: {local: rows.jsonl, fields: {question: q, answers: [a]}, sample_size: 10}
  web: {hub: owner/rows, split: test, fields: {question: q, answers: [a]}}
  world: {world: {style: relation, scored: 2, redundant: 2, neutral: 1, unseen: 1}}

figures:
  mine: {models: [near], datasets: [rows]}
  remote: {models: [far, open], datasets: [web]}
  large: {models: [llama], datasets: [rows, web]}
  learned: {models: [taught], datasets: [world]}
"""


@dataclass
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def about(self, name: str) -> list[tuple[str, str]]:
        """(status, text) of the findings about something."""
        rows = [line.split(maxsplit=2) for line in self.out.splitlines() if line.strip()]
        return [(row[0], row[2]) for row in rows if len(row) == 3 and row[1] == name]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Callable[..., Path]) -> Path:
    """A root with a config, rows and a checkpoint; the network is shut, and the cache empty."""
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text('{"q": "Who?", "a": "Ann"}\n', encoding="utf-8")
    shutil.copytree(checkpoint("llama"), tmp_path / "checkpoint")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)

    def shut(*given: Any) -> None:
        raise AssertionError(f"the network was asked for: {given[1:]}")

    monkeypatch.setattr(socket.socket, "connect", shut)
    silent = SimpleNamespace(siblings=None)
    monkeypatch.setattr(HfApi, "dataset_info", lambda self, *_, **__: silent)
    return tmp_path


@pytest.fixture
def run(clone: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """`run(argument, …)`: what the command says in the clone."""

    def command(*arguments: str) -> Said:
        code = cli.main(arguments)
        return Said(code, *capsys.readouterr())

    return command


def loaded() -> Config:
    return cli.read([])


def test_help_of_the_whole_has_examples_that_are_understood(
    run: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = run("--help")
    examples = re.findall(r"^ +anchorscope (.+?)(?:  .*)?$", said.out.split("Examples:")[1], re.M)
    assert said.code == 0 and len(examples) > 3
    assert {line.split()[0] for line in examples} == {"check", "list", "show", "add-model"}
    monkeypatch.chdir(PROJECT)
    assert run(*next(line for line in examples if line.startswith("list")).split()).code == 0


@pytest.mark.parametrize("name", ["check", "list", "show", "add-model"])
def test_help_explains_each_command_with_examples(run: Callable[..., Said], name: str) -> None:
    said = run(name, "--help")
    assert said.code == 0
    assert f"anchorscope {name}" in said.out.split("Examples:")[1]
    assert "--json" in said.out and "--config" in said.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lst"], "lst"),
        (["check", "--jsn"], "--jsn"),
        (["check", "mien"], "did you mean `mine`"),
        (["show", "near"], "dataset"),
        (["show", "nera", "rows"], "did you mean `near`"),
        (["show", "near", "row"], "did you mean `rows`? `anchorscope list` names all"),
        (["show", "zzz", "rows"], "do:    `anchorscope list` names all"),
        (["add-model", "owner/new", "--prompt", "few"], "few_shot"),
    ],
)
def test_what_was_not_understood_exits_with_2(
    run: Callable[..., Said], arguments: list[str], said: str
) -> None:
    found = run(*arguments)
    assert (found.code, found.out) == (2, "")
    assert said in found.err and "Traceback" not in found.err


@pytest.mark.parametrize(
    ("arguments", "code", "error", "do"),
    [
        (["lst"], 2, "lst", "anchorscope --help"),
        (["check", "--jsn"], 2, "--jsn", "anchorscope check --help"),
        (["check", "mien"], 2, "mien", "did you mean `mine`"),
        (["show", "nera", "rows"], 2, "nera", "did you mean `near`"),
        (["show", "near"], 2, "dataset", "anchorscope show --help"),
        (["show", "near", "rows"], 1, "not built", "results/delta_p/near/rows.csv"),
        (["list", "--config", "none.yaml"], 1, "none.yaml", "correct it"),
    ],
)
def test_under_json_an_error_is_an_object_with_the_same_exit_code(
    run: Callable[..., Said], arguments: list[str], code: int, error: str, do: str
) -> None:
    said = run(*arguments, "--json")
    assert (said.code, said.err) == (code, "") and run(*arguments).code == code
    assert list(said.json) == ["error", "where", "do", "see"]
    assert error in said.json["error"] and do in said.json["do"]
    if code == 1:
        assert said.json["see"].startswith("docs/what-goes-wrong.md#")


@pytest.mark.parametrize("command", [["check"], ["list"], ["show", "near", "rows"]])
def test_outside_a_clone_one_message_says_so(
    run: Callable[..., Said], clone: Path, command: list[str]
) -> None:
    (clone / "config.yaml").unlink()
    found = run(*command)
    assert found.code == 1
    assert "there is no config.yaml here" in found.out + found.err
    assert "Traceback" not in found.err


def test_config_files_are_merged_as_snakemake_merges_them(clone: Path) -> None:
    (clone / "one.yaml").write_text(
        "seed: 3\nmodels: {near: {label: New}, taught: {train: {seed: 7}}}"
    )
    (clone / "two.yaml").write_text(
        "seed: 4\nreadouts: [attn/final, mlp/final]\nconditions: {noop: null}"
    )
    merged: dict[str, Any] = {}
    for name in ("config.yaml", "one.yaml", "two.yaml"):
        update_config(merged, load_configfile(name))
    found = cli.read([Path("one.yaml"), Path("two.yaml")])
    assert found == config.load(merged)
    assert (found.seed, found.models["near"].label, found.conditions.noop) == (4, "New", None)


# --- check ---------------------------------------------------------------------------------------


def test_a_local_target_is_checked_without_any_network(run: Callable[..., Said]) -> None:
    said = run("check")
    assert said.code == 0, said.out
    assert {line.split()[0] for line in said.out.splitlines()[:5]} == {"ok"}
    assert said.about("hub") == [] and said.about("gpu") == []
    assert "assumed" in said.out.splitlines()[-1]


def test_every_mistake_of_the_config_is_a_finding(run: Callable[..., Said], clone: Path) -> None:
    (clone / "more.yaml").write_text("seed: many\nreadout: [mlp/final]\n")
    said = run("check", "--config", "more.yaml")
    assert said.code == 1
    ((status, text),) = said.about("config")
    assert status == "error" and "seed" in text and "did you mean `readouts`" in text
    assert not run("check", "--config", "more.yaml", "--json").json["ok"]
    missing = run("check", "--config", "none.yaml")
    assert missing.code == 1 and "none.yaml" in missing.out


def test_what_is_missing_here_is_an_error(run: Callable[..., Said], clone: Path) -> None:
    (clone / "rows.jsonl").unlink()
    shutil.rmtree(clone / "checkpoint")
    (clone / "checkpoint").mkdir()
    said = run("check")
    assert said.code == 1
    assert [status for status, _ in said.about("model") + said.about("dataset")] == ["error"] * 2
    assert "config.json" in said.about("model")[0][1] and "rows.jsonl" in said.out


def test_the_estimate_is_what_is_then_written(
    clone: Path, load: Callable[..., Any], tmp_path: Path
) -> None:
    from instrument import answers_table

    model = load("llama")
    chosen = loaded()
    answers = answers_table(model.tokenizer)
    conditions = chosen.conditions.model_dump()
    plan = activations.plan(answers, conditions=conditions, batch_tokens=800)
    stats = activations.write(tmp_path / "states", model, plan, chosen.readouts)
    assert stats["rows"] == cost.rows_of(chosen, len(answers)) == 8 * 5 + 4
    stored = sum(path.stat().st_size for path in (tmp_path / "states").glob("*.safetensors"))
    expected = cost.activation_bytes(chosen, "near", len(answers))
    assert expected < stored < 1.05 * expected + 4000
    assert stored > 10_000


def test_cells_that_are_built_cost_nothing(run: Callable[..., Said], clone: Path) -> None:
    first = run("check", "--json").json["targets"][0]
    assert (first["cells"], first["built"], first["samples"], first["rows"]) == (1, 0, 10, 54)
    (clone / "results/delta_p/near").mkdir(parents=True)
    (clone / "results/delta_p/near/rows.csv").touch()
    last = run("check", "--json").json["targets"][0]
    assert (last["built"], last["samples"], last["activation_bytes"], last["seconds"]) == (
        1,
        0,
        0,
        0,
    )
    assert "all 1 cells are there" in run("check").out


def test_questions_prepared_and_the_limit_bound_the_samples(clone: Path) -> None:
    assert cost.samples_of(loaded(), "world") == 2 * (4 * 2 + 2 * 3 + 1)
    write_parquet(pd.DataFrame({"id": ["a", "b", "c"]}), clone / "results/data/rows.parquet")
    assert cost.samples_of(loaded(), "rows") == 3
    (clone / "limit.yaml").write_text("limit: 2")
    limited = cli.read([Path("limit.yaml")])
    assert [cost.samples_of(limited, name) for name in ("rows", "web", "world")] == [2, 2, 2]


@pytest.mark.parametrize(("free", "status"), [(5, "error"), (14, "warning"), (40, "ok")])
def test_disk_room_is_held_against_the_need(
    run: Callable[..., Said], monkeypatch: pytest.MonkeyPatch, free: float, status: str
) -> None:
    need = cost.cost("mine", cost.work_of(loaded(), "mine")).activation_bytes
    usage = shutil.disk_usage(".")._replace(free=int(free * need / 13))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    said = run("check")
    assert [found for found, _ in said.about("disk")] == [status]
    assert said.code == int(status == "error")


def test_weights_and_activations_on_one_disk_add_up(
    run: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HfApi, "auth_check", lambda self, *_, **__: None)
    said = run("check", "large", "--json").json
    (target,) = said["targets"]
    assert target["download_bytes"] == 2 * sizes.KNOWN["meta-llama/Llama-3.2-1B"].parameters
    # rows, then the hub's 2,000; five rows of passes each, four of noop; two read-outs; bfloat16
    assert target["activation_bytes"] == ((10 + 2000) * 5 + 8) * 2 * 16 * 2048 * 2
    (disk,) = [f for f in said["findings"] if f["about"] == "disk"]
    both = target["download_bytes"] + target["activation_bytes"]
    assert disk["what"].startswith(cost.gigabytes(both))


def test_a_gpu_that_is_missing_or_small_is_a_warning(
    run: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HfApi, "auth_check", lambda self, *_, **__: None)
    monkeypatch.setattr(cli_check, "gpus_here", lambda: 0)
    ((status, text),) = run("check", "large").about("gpu")
    assert status == "warning" and "llama would run on the CPU" in text
    for size, expected in ((6_000_000_000, "warning"), (9_000_000_000, "ok")):
        monkeypatch.setattr(cli_check, "gpus_here", lambda: 1)
        monkeypatch.setattr(cli_check, "gpu_memory", lambda size=size: [size])
        ((status, text),) = run("check", "large").about("gpu")
        assert status == expected and cost.gigabytes(size) in text


def refused(self: Any, repo: str, **given: Any) -> None:
    """The hub's answer to somebody who has not accepted a model's terms."""
    import httpx2 as httpx

    request = httpx.Request("GET", "https://hub/", headers={"authorization": f"Bearer {TOKEN}"})
    response = httpx.Response(403, request=request)
    raise GatedRepoError(f"no access with {TOKEN}", response=response)


def test_the_hub_is_asked_only_about_what_is_not_here(
    run: Callable[..., Said], clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def check(self: Any, repo: str, *, repo_type: str) -> None:
        asked.append((repo_type, repo))

    monkeypatch.setattr(HfApi, "auth_check", check)
    assert run("check", "remote").code == 0
    assert asked == [("model", "owner/far"), ("model", "owner/open"), ("dataset", "owner/rows")]
    asked.clear()
    snapshot = clone / "hub/models--owner--open/snapshots" / ("0" * 40)
    shutil.copytree(clone / "checkpoint", snapshot)
    (clone / "hub/models--owner--open/refs").mkdir()
    (clone / "hub/models--owner--open/refs/main").write_text("0" * 40)
    write_parquet(pd.DataFrame({"id": ["a"]}), clone / "results/data/web.parquet")
    assert run("check", "remote").code == 0
    assert asked == [("model", "owner/far")]
    (snapshot / "model.safetensors").unlink()
    run("check", "remote")
    assert ("model", "owner/open") in asked, "weights that are cut short are fetched again"


def test_gated_models_need_a_token_and_accepted_terms(
    run: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HfApi, "auth_check", refused)
    said = run("check", "remote")
    assert said.code == 1
    assert "access was not granted" in said.about("hub")[0][1]
    assert TOKEN not in said.out + said.err and "Traceback" not in said.err
    assert TOKEN not in run("check", "remote", "--json").out
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    status, text = run("check", "remote").about("hub")[0]
    assert status == "error" and "no token here" in text


def test_offline_the_hub_is_not_asked(
    run: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    said = run("check", "remote")
    assert said.code == 1
    assert [status for status, _ in said.about("hub")] == ["error", "error", "error"]
    assert said.out.count("HF_HUB_OFFLINE is set") == 3


COMMITS = ("1" * 40, "2" * 40)
CACHES: dict[str, tuple[str | None, str | None, bool]] = {
    "nothing known": (None, None, False),
    "a commit and no rows": (COMMITS[0], None, False),
    "rows and no commit": (None, COMMITS[0], False),
    "rows of another commit": (COMMITS[0], COMMITS[1], False),
    "rows of the commit": (COMMITS[0], COMMITS[0], True),
}
"""What is known: commit in the lock, commit of the rows in the cache, whether a run can read."""


@pytest.mark.parametrize("cache", CACHES)
def test_offline_the_check_says_of_a_dataset_what_the_run_will(
    run: Callable[..., Said], clone: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    locked, prepared, there = CACHES[cache]
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", clone / "rows")
    if locked:
        Path("revisions.lock.yaml").write_text(f"datasets: {{owner/rows: '{locked}'}}\n")
    if prepared:
        import datasets

        made = clone / "made"
        table = {"q": ["Who?"], "a": ["Ann"]}
        datasets.Dataset.from_dict(table).to_json(clone / "test.jsonl")
        datasets.load_dataset(
            "json", data_files={"test": str(clone / "test.jsonl")}, cache_dir=str(made)
        )
        (folder,) = made.glob("json/*/*/*/")
        aim = clone / "rows" / "owner___rows" / "default" / "0.0.0" / prepared
        shutil.copytree(folder, aim)
        for path in aim.iterdir():
            path.rename(path.with_name(path.name.replace("json-", "rows-")))
    *_, (status, text) = run("check", "remote").about("hub")
    assert status == ("ok" if there else "error"), text
    entry = loaded().datasets["web"].model_dump(mode="json")

    def offline(self: Any, *_: Any, **__: Any) -> None:
        raise OfflineModeIsEnabled

    monkeypatch.setattr(HfApi, "dataset_info", offline)
    try:
        read = prepare(entry, sample_size=10, seed=0).sampled["question"].tolist()
    except AnchorscopeError as error:
        assert not there and error.see == "hub-unreachable"
    else:
        assert there and read == ["Who?"]


def test_a_hub_that_cannot_be_reached_is_asked_once(
    run: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def silent(self: Any, repo: str, **given: Any) -> None:
        asked.append(repo)
        raise ConnectionError("no route")

    monkeypatch.setattr(HfApi, "auth_check", silent)
    said = run("check", "remote")
    assert (said.code, len(asked)) == (1, 1)
    assert [status for status, _ in said.about("hub")] == ["error"] * 3


def test_a_shipped_checkpoint_is_held_against_its_recipe(
    run: Callable[..., Said], clone: Path
) -> None:
    ((status, text),) = run("check", "learned").about("model")
    assert status == "warning" and "trained first" in text
    folder = clone / "resources/models/taught"
    shutil.copytree(clone / "checkpoint", folder)
    recipe = loaded().recipe_hash("taught")
    (folder / "recipe.json").write_text(json.dumps({"recipe": recipe}))
    ((status, text),) = run("check", "learned").about("model")
    assert status == "ok" and recipe in text
    (folder / "model.safetensors").unlink()
    assert run("check", "learned").about("model")[0][0] == "error"
    (folder / "recipe.json").write_text(json.dumps({"recipe": "another"}))
    assert run("check", "learned").about("model")[0][0] == "warning"


@pytest.fixture(scope="module")
def shipped() -> Config:
    return config.load(yaml.safe_load((PROJECT / "config.yaml").read_text(encoding="utf-8")))


def test_every_target_of_the_catalogue_has_a_cost(
    shipped: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT)
    work = {name: cost.work_of(shipped, name) for name in (*shipped.figures, "calibration")}
    assert {name: len(part) for name, part in work.items()} == {
        **dict.fromkeys(shipped.figures, 8),
        "calibration": 8
        + sum(
            (null.model, null.dataset)
            not in {
                (m, d) for m in shipped.calibration.models for d in shipped.calibration.datasets
            }
            for null in shipped.calibration.nulls.values()
        ),
    }
    assert {one.root for one in work["calibration"]} == {"results/calibration"}
    assert len(cost.work_of(shipped, "sensitivity")) > 2
    assert all(cost.cost(name, part).unknown == () for name, part in work.items())


def test_every_target_that_snakemake_knows_is_accepted(
    run: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT)
    rules = (PROJECT / "rules/targets.smk").read_text(encoding="utf-8")
    named = re.findall(r"^rule (\w+):", rules, re.M) + re.findall(r'name:\n +"([\w-]+)"', rules)
    assert sorted(cost.TARGETS) == sorted(["all", *named])
    helped = " ".join(run("check", "--help").out.split())
    for name in cost.TARGETS:
        assert name in helped
        found = run("check", name, "--json").json
        assert [target["target"] for target in found["targets"]] == [name]


@pytest.mark.parametrize("target", ["calibration", "sensitivity"])
def test_a_study_of_what_is_not_in_the_catalogue_is_an_error_that_names_it(
    run: Callable[..., Said], target: str
) -> None:
    said = run("check", target)
    assert said.code == 2 and "not in the catalogue" in said.err and "calibration-" in said.err


def test_targets_without_cells_say_what_they_do_instead(run: Callable[..., Said]) -> None:
    assert "no cell to measure" in run("check", "reproduction").about("target")[0][1]
    retrain, seeds = run("check", "retrain", "retrain-seeds", "--json").json["targets"]
    assert retrain["cells"] == 0 and retrain["seconds"] > 0, "it trains anew what is trained"
    assert seeds["seconds"] == 0, "every model that is trained here is in a figure"
    (report,), (whole,) = (run("check", n, "--json").json["targets"] for n in ("report", "all"))
    assert report | {"target": "all"} == whole


@pytest.mark.parametrize(
    ("files", "said"),
    [([1_500_000, None, 500_000], "at most 2 MB"), ([None], "not counted"), (None, "not counted")],
)
def test_a_datasets_size_is_what_the_hub_says(
    run: Callable[..., Said],
    monkeypatch: pytest.MonkeyPatch,
    files: list[int | None] | None,
    said: str,
) -> None:
    found = None if files is None else [SimpleNamespace(size=size) for size in files]
    info = SimpleNamespace(siblings=found)
    monkeypatch.setattr(HfApi, "auth_check", lambda self, *_, **__: None)
    monkeypatch.setattr(HfApi, "dataset_info", lambda self, *_, **__: info)
    assert said in run("check", "remote").about("hub")[2][1]


@pytest.mark.parametrize(
    ("hub_id", "gigabytes"),
    [
        ("meta-llama/Llama-3.2-1B", 2.5),
        ("meta-llama/Llama-3.2-3B", 6.4),
        ("meta-llama/Meta-Llama-3-8B", 16),
        ("meta-llama/Meta-Llama-3-70B", 141),
        ("mistralai/Mistral-7B-v0.1", 14.5),
        ("mistralai/Mistral-7B-v0.3", 14.5),
        ("Qwen/Qwen3-8B", 16),
        ("Qwen/Qwen3-32B", 66),
    ],
)
def test_known_sizes_give_the_published_weights(hub_id: str, gigabytes: float) -> None:
    assert 2e-9 * sizes.KNOWN[hub_id].parameters == pytest.approx(gigabytes, rel=0.03)


def test_every_hub_model_of_the_catalogue_is_of_known_size(shipped: Config) -> None:
    assert {model.hub for model in shipped.models.values() if model.hub} == set(sizes.KNOWN)


@pytest.mark.parametrize("family", ["llama", "qwen3", "mistral", "gpt_neox"])
def test_parameters_are_counted_from_the_config(
    load: Callable[..., Any], checkpoint: Callable[..., Path], family: str
) -> None:
    shape = sizes.of_config(checkpoint(family) / "config.json")
    assert shape is not None
    exact = sum(weights.numel() for weights in load(family).model.parameters())
    assert shape.parameters == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hidden_size": "wide"}'])
def test_a_config_that_does_not_say_gives_no_shape(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert sizes.of_config(tmp_path / "config.json") is None
    assert sizes.of_config(tmp_path / "none.json") is None


# --- list and show -------------------------------------------------------------------------------


COUNTS = Counts(100, 80, {"no answer anchor": 15, "prompt too long": 5})


@pytest.fixture
def built(clone: Path) -> Path:
    """A cell's tables, made up, where the workflow would put them."""
    folder = clone / "results/delta_p/near"
    cell = ([("near", "")], [("rows", "")], 6)
    for end, made in (
        ("", curve_of), (".contrasts", contrasts_of), (".controls", controls_of),
        (".interchange", interchange_of),
    ):  # fmt: skip
        write_csv(made(*cell).drop(columns=["model", "dataset"]), folder / f"rows{end}.csv")
    sampled = {"counts": Counts(120, 100, {"outside the sample": 20}).as_dict(), "identity": ""}
    provenance.record(
        folder / "rows.csv",
        identity="",
        settings={},
        counts=COUNTS,
        inputs={"results/data/rows.parquet": sampled},
    )
    return folder


def test_list_says_what_is_built(run: Callable[..., Said], built: Path, clone: Path) -> None:
    write_parquet(pd.DataFrame({"id": ["a", "b"]}), clone / "results/data/rows.parquet")
    (clone / "results/figures").mkdir()
    (clone / "results/figures/mine.svg").touch()
    found = run("list", "--json").json
    by_name = {row["name"]: row for part in found.values() for row in part}
    assert set(by_name) == {*loaded().models, *loaded().datasets, *loaded().figures}
    assert by_name["near"]["measured_on"] == ["rows"] and by_name["far"]["measured_on"] == []
    assert by_name["rows"]["measured_with"] == ["near"]
    assert (by_name["rows"]["questions"], by_name["web"]["questions"]) == (2, None)
    assert (by_name["mine"]["cells_built"], by_name["remote"]["cells_built"]) == (1, 0)
    assert by_name["mine"]["pictures"] == ["results/figures/mine.svg"]
    text = run("list").out
    assert "1 of 1 cells" in text and "owner/far" in text and "trained here" in text


def test_show_says_what_the_tables_hold(run: Callable[..., Said], built: Path) -> None:
    curve, contrasts, beside = (
        pd.read_csv(built / f"rows{end}") for end in (".csv", ".contrasts.csv", ".controls.csv")
    )
    found = run("show", "near", "rows", "--json").json
    head = beside[beside["headline"]].iloc[0]
    assert (found["headline_layer"], found["n"]) == (head["layer"], head["n"])
    for name, source in (("probe_auc", "cell"), ("gain", "cell_gain")):
        value = head["cell_auc" if name == "probe_auc" else "cell_gain"]
        ends = {end: head[f"{source}_{end}"] for end in ("low", "high")}
        assert found[name] == {"value": value} | ends
    assert (found["signal"], found["layer_signal"]) == (head["cell_signal"], head["signal"])
    assert found["floor"] == {"name": head["cell_floor"], "auc": head["cell_floor_auc"]}
    assert found["layers_without_signal"] == list(beside["layer"][~beside["signal"]])
    at = contrasts[(contrasts["layer"] == head["layer"]) & (contrasts["quantity"] == "share")]
    paired = at[at["contrast"] == "knockout-random"].iloc[0]
    difference = found["flips"]["knockout_minus_random"]
    assert difference["value"] == pytest.approx(paired["estimate"] / 100)
    assert difference["low"] == pytest.approx(paired["ci_low"] / 100)
    assert set(found["flips"]) == {"knockout", "random", "knockout_minus_random", "pairs"}
    follows = found["follows"]["matched"]
    assert (follows["value"], follows["pairs"], follows["coverage"]) == (0.95, 90, 0.75)
    lines = curve.query("condition == 'knockout' and grouping == 'per_layer' and not thin")
    assert found["delta_p"]["q_trough"]["value"] == lines.query("anchor == 'Q'")["delta_p"].min()
    assert found["delta_p"]["a_mean_abs"] == pytest.approx(
        lines.query("anchor == 'A'")["delta_p"].abs().mean()
    )


def test_show_tells_samples_by_reason_and_says_when_there_is_no_signal(
    run: Callable[..., Said], built: Path
) -> None:
    said = run("show", "near", "rows").out
    for part in ("120 rows, 100 sampled", "100 in, 80 kept", "15 dropped: no answer anchor"):
        assert part in said
    words = " ".join(said.split())
    for part in (
        "The probe knows more than the text: AUC", "reading it adds", "no effect on the mean ΔP",
        "follow a matched question (90 pairs, coverage 75 %); placebo 3 %",
    ):  # fmt: skip
        assert part in words
    table = pd.read_csv(built / "rows.controls.csv")
    table = table.assign(signal=False, cell_signal=False, cell_gain_low=-0.01)
    write_csv(table, built / "rows.controls.csv")
    provenance.beside(built / "rows.csv").unlink()
    weak = " ".join(run("show", "near", "rows").out.split())
    assert "No signal: AUC" in weak and "No signal" not in said
    assert "Nothing of this cell's figure can be interpreted." in weak
    assert weak.count("not interpretable") == 3 and "no effect" not in weak
    assert "no provenance" in weak


def test_show_survives_empty_groups_and_no_random_control(
    run: Callable[..., Said], built: Path
) -> None:
    write_csv(pd.read_csv(built / "rows.csv").assign(thin=True), built / "rows.csv")
    write_csv(pd.read_csv(built / "rows.contrasts.csv").head(0), built / "rows.contrasts.csv")
    said = run("show", "near", "rows")
    assert said.code == 0
    assert "no random control" in said.out and "enough Q-Anchored" in said.out
    assert run("show", "near", "rows", "--json").json["delta_p"]["q_trough"] is None


def test_a_cell_that_is_not_built_names_the_command_that_builds_it(
    run: Callable[..., Said], clone: Path
) -> None:
    (clone / "more.yaml").write_text("results: elsewhere\n")
    said = run("show", "near", "rows", "--config", "more.yaml")
    assert said.code == 1
    command = "snakemake --cores all elsewhere/delta_p/near/rows.csv --configfile more.yaml"
    assert command in said.err and "Traceback" not in said.err


def test_show_refuses_what_was_not_measured(
    run: Callable[..., Said], built: Path, clone: Path
) -> None:
    said = run("show", "near", "rows", "--readout", "attn/final")
    assert said.code == 1 and "mlp/final" in said.err
    (clone / "more.yaml").write_text("grouping: replicate\nconditions: {replicate: {}}\n")
    curve = pd.read_csv(built / "rows.csv")
    write_csv(curve[curve["grouping"] != "replicate"], built / "rows.csv")
    said = run("show", "near", "rows", "--config", "more.yaml")
    assert said.code == 1 and "no grouping `replicate`" in said.err


# --- add-model -----------------------------------------------------------------------------------


def test_the_entry_is_printed_and_nothing_written_unasked(
    run: Callable[..., Said], clone: Path
) -> None:
    said = run("add-model", "owner/New_Model-7B-Instruct")
    assert said.code == 0
    assert (clone / "config.yaml").read_text() == CONFIG
    entry = yaml.safe_load(said.out)["new-model-7b-instruct"]
    assert entry["hub"] == "owner/New_Model-7B-Instruct" and entry["prompt"] == "chat"
    assert "guessed from its name" in said.err


def test_an_entry_is_put_in_and_all_else_stays(run: Callable[..., Said], clone: Path) -> None:
    os.chmod(clone / "config.yaml", 0o640)
    before = loaded()
    said = run("add-model", "checkpoint", "--key", "new.1", "--write", "--json")
    assert said.json["written"]
    text = (clone / "config.yaml").read_text(encoding="utf-8")
    new = text.splitlines()
    added = [line for line in new if line not in CONFIG.splitlines()]
    assert [line for line in new if line not in added] == CONFIG.splitlines()
    assert new[new.index("models:   # the catalogue") + 1] == "    new.1:"
    assert added[1].startswith("        local: ")
    after = loaded()
    assert {name: after.models[name] for name in before.models} == before.models
    assert after.models["new.1"].local == "checkpoint"
    assert after.models["new.1"].resources.gpus == 0
    assert (clone / "config.yaml").stat().st_mode & 0o777 == 0o640
    again = run("add-model", "checkpoint", "--key", "new.1", "--write")
    assert again.code == 1 and "already" in again.err
    assert (clone / "config.yaml").read_text(encoding="utf-8") == text


def test_the_shipped_config_keeps_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (PROJECT / "config.yaml").read_text(encoding="utf-8")
    entry = cli_add.propose("Qwen/Qwen3-4B", prompt="chat", gated=True)
    new = cli_add.inserted(text, entry)
    lines = text.splitlines(keepends=True)
    block = cli_add.yaml_of(entry)
    at = lines.index("models:\n") + 1
    assert new == "".join(lines[:at]) + block + "".join(lines[at:])
    found = config.load(yaml.safe_load(new)).models["qwen3-4b"]
    assert (found.hub, found.prompt, found.gated) == ("Qwen/Qwen3-4B", "chat", True)


@pytest.mark.parametrize(
    "text",
    [
        CONFIG.replace("\n", "\r\n"),
        CONFIG[CONFIG.index("figures:") :] + CONFIG[: CONFIG.index("figures:")].rstrip("\n"),
        CONFIG.replace("    # the first\n", "    # the first\n\n\n"),
    ],
    ids=["windows line ends", "no line end at the end", "empty lines"],
)
def test_line_ends_and_blank_lines_are_kept(clone: Path, text: str) -> None:
    new = cli_add.inserted(text, cli_add.Entry("new", {"hub": "a/b", "prompt": "chat"}, ()))
    before, after = text.splitlines(keepends=True), new.splitlines(keepends=True)
    assert len(after) == len(before) + 3
    assert set(before) <= set(after)
    assert ("\r\n" in new) == ("\r\n" in text)
    assert new.count("\n") - new.count("\r\n") in (0, new.count("\n"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("models:   # the catalogue", "models: {a: {hub: x/y}} #"), "(?s)not valid YAML|by hand"),
        (("models:   # the catalogue", '"models":'), "by hand"),
        (("models:   # the catalogue", "models: &all # the catalogue"), "by hand"),
    ],
)
def test_a_catalogue_that_cannot_be_added_to_is_left_alone(
    run: Callable[..., Said], clone: Path, change: tuple[str, str], said: str
) -> None:
    import re

    text = CONFIG.replace(*change)
    (clone / "config.yaml").write_text(text)
    found = run("add-model", "owner/new", "--write")
    assert found.code == 1
    assert re.search(said, found.err) or "cannot read the config" in found.err
    assert (clone / "config.yaml").read_text() == text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["owner/new", "--key", "near"], "already"),
        (["owner/new", "--key", "Near It"], "file names"),
        (["owner/new", "--key", "all"], "reserved"),
        (["nowhere"], "neither a folder nor a hub id"),
        (["./no/folder"], "neither a folder nor a hub id"),
        (["empty"], "config.json"),
    ],
)
def test_what_cannot_be_added_is_refused_and_nothing_is_written(
    run: Callable[..., Said], clone: Path, arguments: list[str], said: str
) -> None:
    (clone / "empty").mkdir()
    found = run("add-model", *arguments, "--write")
    assert found.code == 1 and said in found.err
    assert (clone / "config.yaml").read_text() == CONFIG


@pytest.mark.parametrize(
    ("source", "style"),
    [
        ("google/gemma-3-1b-it", "chat"),
        ("owner/Model-Chat", "chat"),
        ("owner/Model.Instruct.v2", "chat"),
        ("owner/bits-it-fits", "chat"),
        ("owner/Italian-7B", "few_shot"),
        ("Qwen/Qwen3-8B", "few_shot"),
    ],
)
def test_the_prompt_style_is_guessed_from_words_of_the_name(
    clone: Path, source: str, style: str
) -> None:
    assert cli_add.propose(source).values["prompt"] == style


def test_a_chat_template_in_the_folder_decides(clone: Path) -> None:
    assert cli_add.propose("checkpoint").values["prompt"] == "few_shot"
    folder = clone / "Model-it"
    shutil.copytree(clone / "checkpoint", folder)
    assert cli_add.propose("Model-it").values["prompt"] == "few_shot"
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert cli_add.propose("Model-it").values["prompt"] == "chat"
    (folder / "chat_template.jinja").unlink()
    said = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(said | {"chat_template": "{{ x }}"}))
    entry = cli_add.propose("Model-it")
    assert entry.values["prompt"] == "chat" and "chat template" in entry.notes[0]


def test_resources_are_in_the_manner_of_the_catalogue(shipped: Config) -> None:
    for model in shipped.models.values():
        if model.hub:
            found = cli_add.resources(sizes.KNOWN[model.hub], "bfloat16")
            weights = 2e-9 * sizes.KNOWN[model.hub].parameters
            assert weights < found["gpus"] * found["gpu_mem_gb"] < 3 * weights + 8
            assert found["gpu_mem_gb"] <= 80
            assert abs(found["gpus"] - model.resources.gpus) <= 1

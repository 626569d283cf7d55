"""The command `anchorscope`, in a clone of its own: what it finds, prints, writes, never asks."""

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml
from conftest import ALL_FAMILIES, LAYERS, WIDTH
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import GatedRepoError
from snakemake.common.configfile import load_configfile
from snakemake.utils import update_config
from workflow import PROJECT

from anchorscope.cli import cli_check, main as cli
from anchorscope.experiments import registry
from anchorscope.experiments.settings import RunConfig
from anchorscope.questions import reading
from anchorscope.storage.files import write_parquet
from anchorscope.workflow import around, config, resources, studies
from cli.conftest import TOKEN


def loaded() -> RunConfig:
    return cli.read([])


@pytest.mark.parametrize(
    ("arguments", "code", "error", "do"),
    [
        (["check", "mien"], 2, "mien", "did you mean `mine`"),
        (["show", "nera", "rows"], 2, "nera", "did you mean `near`"),
        (["show", "near", "row"], 2, "row", "did you mean `rows`?"),
        (["show", "zzz", "rows"], 2, "no `zzz`", "use one of: calibration-llama,"),
        (["check", "--configfile", "none.yaml"], 1, "none.yaml", "name a YAML file"),
    ],
)
def test_an_error_is_said_in_words_and_under_json_as_an_object(run, arguments, code, error, do):
    plain, said = run(*arguments), run(*arguments, "--json")
    assert (plain.code, plain.out) == (code, "") and error in plain.err
    assert "Traceback" not in plain.err
    assert (said.code, said.err) == (code, "")
    assert list(said.json) == ["error", "where", "do", "see"]
    assert error in said.json["error"] and do in said.json["do"]
    if code == 1:
        assert said.json["see"].startswith("docs/what-goes-wrong.md#")


def test_config_files_are_merged_as_snakemake_merges_them(clone):
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


def test_a_local_target_is_checked_without_any_network(run):
    said = run("check")
    assert said.code == 0, said.out
    assert {line.split()[0] for line in said.out.splitlines()[:5]} == {"ok"}
    assert said.about("hub") == [] and said.about("gpu") == []


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_every_family_passes_the_checks_and_the_start_of_a_run(run, clone, checkpoint, family):
    shutil.rmtree(clone / "checkpoint")
    shutil.copytree(checkpoint(family), clone / "checkpoint")
    said = run("check")
    assert said.code == 0, said.out
    chosen = loaded()
    place = SimpleNamespace(root=chosen.root, model="near", dataset="rows")
    job = SimpleNamespace(
        rule=SimpleNamespace(name="activations"), wildcards=place, output=[f"{chosen.root}/none"]
    )
    workflow = SimpleNamespace(
        dag=SimpleNamespace(needrun_jobs=lambda: [job]), executor_settings=None
    )
    (clone / ".snakemake").mkdir()
    around.check(workflow, chosen, studies.of(chosen))
    # Samples, passes, read-outs, layers, width, bytes.
    assert resources.activation_bytes(chosen, "near", "rows") == 10 * 5 * 2 * LAYERS * WIDTH * 4


@pytest.mark.parametrize(
    ("change", "said"),
    [({"model_type": "other"}, "no adapter"), ({"hidden_size": None}, "no number `hidden_size`")],
)
def test_a_model_that_cannot_be_measured_is_refused_before_its_size_is_needed(
    run, clone, change, said
):
    path = clone / "checkpoint/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    found = run("check")
    assert found.code == 1 and not found.err
    assert found.about("model")[0][0] == "error" and said in found.about("model")[0][1]
    assert found.about("target")[0][0] == "error" and not found.about("disk")


ANSWERED = {"question": "q", "answers": ["a"], "response": "a", "label": "z"}
ASKED = {"question": "q", "answers": ["a"]}
FIVE = "\n".join(json.dumps({"q": f"Who is {name}?", "a": "Ann", "z": 1}) for name in "abcde")


@pytest.mark.parametrize(
    ("text", "change", "said"),
    [
        (None, {"local": "rows.txt"}, "files ending in `.txt` are not read"),
        (
            '{"q": "Who?", "a": "Ann", "z": 1}',
            {},
            "a group of linked questions, and there is only 1",
        ),
        (FIVE, {"fields": ASKED}, "no probe can be fitted: 4 samples are fewer than 5 folds"),
        (
            FIVE,
            {"fields": ASKED | {"subject": "a"}},
            "a group of linked questions, and there is only 1",
        ),
        (
            None,
            {"fields": ANSWERED | {"label": "one"}},
            "all 10 answers are wrong: nothing to predict; check the labels",
        ),
        (None, {"fields": ANSWERED | {"label": "q"}}, "is none of 0, 1"),
        (None, {"few_shot": {"file": "none.yaml"}}, "none.yaml"),
    ],
)
def test_rows_that_a_run_would_refuse_are_refused_in_its_words(run, clone, text, change, said):
    rows = (clone / "rows.jsonl").read_text().replace('"z"', '"one": 1, "z"')
    for name in ("rows.jsonl", "rows.txt"):
        (clone / name).write_text(text or rows)
    entry = {"hub": None, "fields": ANSWERED} | change
    (clone / "more.yaml").write_text(yaml.safe_dump({"datasets": {"rows": entry}}))
    found = run("check", "--configfile", "more.yaml")
    (status, finding), *warnings = found.about("dataset")
    assert (found.code, status) == (1, "error") and said in finding
    assert {status for status, _ in warnings} <= {"warning"}


def rewrite(clone: Path, change: Callable[[int, dict[str, Any]], dict[str, Any]]) -> None:
    """Change the rows of the clone, by their number."""
    path = clone / "rows.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("\n".join(json.dumps(change(n, row)) for n, row in enumerate(rows)))


def test_rows_that_leave_no_example_to_show_are_refused(run, clone):
    lines = (clone / "rows.jsonl").read_text().splitlines()
    (clone / "rows.jsonl").write_text("\n".join(lines[:9]))
    (clone / "more.yaml").write_text("models: {near: {prompt: few_shot}}")
    ((status, text),) = run("check", "--configfile", "more.yaml").about("dataset")
    assert status == "error" and "no few-shot example is left" in text


def test_rows_with_answers_of_their_own_beside_others_are_warned_of(run, clone):
    rewrite(clone, lambda n, row: row | {"r": "Ann" if n < 4 else None})
    entry = {"sample_size": 100, "fields": {"question": "q", "answers": ["a"], "response": "r"}}
    (clone / "more.yaml").write_text(yaml.safe_dump({"datasets": {"rows": entry}}))
    mixed = "4 rows have an answer, and the model answers the other 8"
    (ok, _), *warned = run("check", "--configfile", "more.yaml").about("dataset")
    assert ok == "ok" and {status for status, _ in warned} == {"warning"}
    assert any(mixed in text for _, text in warned)
    assert not any("have an answer" in text for _, text in run("check").about("dataset"))


def test_rows_whose_answers_look_like_lists_are_warned_of(run, clone):
    rewrite(clone, lambda n, row: row | {"a": "Ann, Bo and Cy" if n < 8 else "1,000"})
    (said,) = [text for _, text in run("check").about("dataset") if "look like lists" in text]
    assert "7 of 10 rows look like lists" in said and "Ann, Bo and Cy" in said


def test_rows_too_few_to_call_a_signal_are_warned_of(run, clone):
    (ok, _), (status, text) = run("check").about("dataset")
    assert (ok, status) == ("ok", "warning")
    assert "10 rows are too few to detect anything. About " in text
    assert text.endswith("are needed to detect .05. Raise `sample_size` or `limit`, or add rows.")


@pytest.mark.parametrize(("relation", "n"), [("one", 24), ("each", 0), (None, 0)])
def test_rows_are_told_how_many_pairs_can_be_swapped(run, clone, relation, n):
    rows = [
        {"q": f"{word} of {number}?", "a": f"Name{number}", "s": f"Town {number}",
         "one": "of", "each": f"of {number}"}
        for number, word in enumerate(f"{chr(97 + i % 26)}{chr(97 + i // 26)}q" for i in range(100))
    ]  # fmt: skip
    (clone / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    fields = {"question": "q", "answers": ["a"], "subject": "s"}
    fields |= {"relation": relation} if relation else {}
    more = {"datasets": {"rows": {"sample_size": 100, "fields": fields}}}
    (clone / "more.yaml").write_text(yaml.safe_dump(more | {"conditions": {"crossed": {}}}))
    found = run("check", "--configfile", "more.yaml").about("dataset")
    (told,) = [one for one in found if "can be swapped" in one[1]]
    said = f"rows: the answers of about {n} pairs can be swapped"
    if n:
        assert told == ("ok", said)
    else:
        assert told[0] == "warning" and told[1].startswith(f"{said}, but most claims need 10")
        assert "name a column as `relation`, or add rows" in told[1]
    assert not any("can be swapped" in text for _, text in run("check").about("dataset"))


def test_a_chat_model_without_a_template_is_an_error(run, clone):
    (clone / "more.yaml").write_text("models: {near: {prompt: chat}}")
    ((status, text),) = run("check", "--configfile", "more.yaml").about("model")
    assert status == "error" and "no chat template" in text


def test_a_model_with_a_chat_template_must_name_its_prompt(run, clone):
    (clone / "checkpoint/chat_template.jinja").write_text("{{ messages }}")
    assert run("check").code == 0
    (clone / "more.yaml").write_text("models: {bare: {local: checkpoint}}\n"
                                     "figures: {mine: {models: [bare]}}")  # fmt: skip
    ((status, text),) = run("check", "--configfile", "more.yaml").about("model")
    assert status == "error" and "does not name a `prompt`" in text and "`prompt: chat`" in text


def test_a_gpu_that_is_missing_or_small_is_a_warning(run, monkeypatch):
    monkeypatch.setattr(HfApi, "auth_check", lambda self, *_, **__: None)
    for here, size, expected, said in (
        (0, 0, "warning", "too little for llama"),
        (1, 6_000_000_000, "warning", "too little for llama"),
        (1, 9_000_000_000, "ok", "9.0 GB"),
    ):
        monkeypatch.setattr(cli_check, "gpus_here", lambda here=here: here)
        monkeypatch.setattr(cli_check, "gpu_memory", lambda size=size: [size])
        ((status, text),) = run("check", "large").about("gpu")
        assert status == expected and said in text


def test_a_target_is_sized_without_what_is_built(run, clone):
    width = json.loads((clone / "checkpoint/config.json").read_text())
    states = width["num_hidden_layers"] * width["hidden_size"]
    # Clean, knockout, two random draws, question; two read-outs; float32.
    size = cli_check.gigabytes(10 * 5 * 2 * states * 4)
    ((_, said),) = run("check").about("target")
    assert (
        said == f"mine: 1 cell to measure, with at most 10 samples and about {size} of activations"
    )
    built(clone)
    ((_, said),) = run("check").about("target")
    assert "its cell is measured" in said


def test_rows_of_a_cell_that_is_built_are_read_too(run, clone):
    built(clone)
    assert run("check").code == 0
    (clone / "rows.jsonl").write_text("{", encoding="utf-8")
    said = run("check")
    ((status, text),) = said.about("dataset")
    assert said.code == 1 and status == "error" and "broken JSON" in text


def test_the_passes_of_an_experiment_are_counted(run, clone):
    # clean; at most twelve windows, each with one random draw; ten samples
    assert run("check", "windows").about("passes") == [
        ("ok", "windows: at most 25 passes per sample, 250 in 1 cell")
    ]
    (clone / "few.yaml").write_text("experiments: {windows: {samples: 4}}")
    assert run("check", "windows", "--configfile", "few.yaml").about("passes") == [
        ("ok", "windows: at most 25 passes per sample, 100 in 1 cell")
    ]
    # one pass forward, and one back for each read-out
    ((_, said),) = run("check", "saliency").about("passes")
    assert said.startswith("saliency: at most 3 passes per sample, 30")
    assert run("check").about("passes") == []


def built(clone: Path) -> None:
    (clone / "results/delta_p/near").mkdir(parents=True)
    (clone / "results/delta_p/near/rows.csv").touch()


def test_too_little_room_is_an_error(run, monkeypatch):
    usage = shutil.disk_usage(".")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    said = run("check")
    assert said.code == 1 and [found for found, _ in said.about("disk")] == ["error"]


def test_a_folder_that_cannot_be_written_is_an_error(run, monkeypatch):
    def closed(dir: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(dir))

    monkeypatch.setattr(tempfile, "TemporaryFile", closed)
    (found,) = run("check").about("disk")
    assert found[0] == "error" and "may not be opened or written" in found[1]


def refused(self: Any, repo: str, **given: Any) -> None:
    """The hub's answer to somebody who has not accepted a model's terms."""
    import httpx2 as httpx

    request = httpx.Request("GET", "https://hub/", headers={"authorization": f"Bearer {TOKEN}"})
    response = httpx.Response(403, request=request)
    raise GatedRepoError(f"no access with {TOKEN}", response=response)


def test_the_hub_is_asked_only_about_what_is_not_here(run, clone, monkeypatch):
    asked: list[tuple[str, str]] = []

    def check(self: Any, repo: str, *, repo_type: str) -> None:
        asked.append((repo_type, repo))

    monkeypatch.setattr(HfApi, "auth_check", check)
    assert run("check", "remote").code == 0
    assert asked == [("model", "owner/far"), ("model", "owner/open"), ("dataset", "owner/rows")]
    asked.clear()
    snapshot = in_cache(clone)
    write_parquet(pd.DataFrame({"id": ["a"]}), clone / "results/data/web.parquet")
    assert run("check", "remote").code == 0
    assert asked == [("model", "owner/far")]
    (snapshot / "model.safetensors").unlink()
    run("check", "remote")
    assert ("model", "owner/open") in asked, "what is missing is fetched"


def test_gated_models_need_a_token_and_accepted_terms(run, monkeypatch):
    monkeypatch.setattr(HfApi, "auth_check", refused)
    said = run("check", "remote")
    assert said.code == 1
    assert [status for status, _ in said.about("hub")] == ["warning", "error"] * 3
    assert "access was not granted" in said.about("hub")[1][1]
    assert TOKEN not in said.out + said.err and "Traceback" not in said.err
    assert TOKEN not in run("check", "remote", "--json").out
    monkeypatch.setattr(HfApi, "auth_check", lambda *_, **__: None)
    monkeypatch.delenv("HF_TOKEN")
    assert run("check", "remote").code == 0, "the hub decides, not the config"


@pytest.mark.parametrize("there", [False, True])
def test_offline_the_hub_is_not_asked_and_only_what_is_cached_is_well(run, monkeypatch, there):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    Path("revisions.lock.yaml").write_text(f"datasets: {{owner/rows: '{'1' * 40}'}}\n")
    monkeypatch.setattr(reading, "prepared", lambda *_: there)
    said = run("check", "remote")
    assert said.code == 1
    errors = [text for status, text in said.about("hub") if status == "error"]
    assert len(errors) == (2 if there else 3)


def in_cache(clone: Path) -> Path:
    """The model `open` in the cache of the hub."""
    cache = clone / "hub/models--owner--open"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs/main").write_text("0" * 40)
    return Path(shutil.copytree(clone / "checkpoint", cache / "snapshots" / ("0" * 40)))


def about_open(said: Any) -> list[str]:
    errors = [text for status, text in said.about("hub") if status == "error"]
    return [text for text in errors if text.startswith("model open:")]


def test_offline_what_a_cached_model_lacks_is_named(run, clone, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    folder = in_cache(clone)
    assert about_open(run("check", "remote")) == []
    (folder / "model.safetensors").unlink()
    (error,) = about_open(run("check", "remote"))
    assert "lacks model.safetensors" in error


def test_a_quantised_checkpoint_is_refused_wherever_it_lies(run, clone, monkeypatch):
    monkeypatch.setattr(HfApi, "auth_check", lambda *_, **__: None)
    quantised = {"quantization_config": {"quant_method": "awq"}}
    for folder in (in_cache(clone), clone / "checkpoint"):
        content = json.loads((folder / "config.json").read_text()) | quantised
        (folder / "config.json").write_text(json.dumps(content))
    (error,) = about_open(run("check", "remote"))
    assert "quantised (awq)" in error
    said = run("check", "mine")
    assert said.code == 1 and "quantised (awq)" in said.about("model")[0][1]


def test_a_shipped_checkpoint_is_held_against_its_recipe(run, clone):
    ((status, text),) = run("check", "learned").about("model")
    assert status == "warning" and "trained first" in text
    folder = clone / "resources/models/taught"
    shutil.copytree(clone / "checkpoint", folder)
    recipe = loaded().recipe_hash("taught")
    (folder / "recipe.json").write_text(json.dumps({"recipe": recipe}))
    ((status, text),) = run("check", "learned").about("model")
    assert status == "ok" and "resources/models/taught" in text
    (folder / "model.safetensors").unlink()
    assert run("check", "learned").about("model")[0][0] == "error"
    (folder / "recipe.json").write_text(json.dumps({"recipe": "another"}))
    assert run("check", "learned").about("model")[0][0] == "warning"


def test_every_target_that_snakemake_knows_is_accepted(run, monkeypatch):
    monkeypatch.chdir(PROJECT)
    rules = (PROJECT / "rules/targets.smk").read_text(encoding="utf-8")
    named = re.findall(r"^rule (\w+):", rules, re.M) + re.findall(r'name:\n +"([\w-]+)"', rules)
    assert sorted(studies.TARGETS) == sorted(["all", *named, *registry.EXPERIMENTS])
    cells = {name: len(studies.cells_of(loaded(), name)) for name in studies.TARGETS}
    nulls = {(n.model, n.dataset) for n in loaded().calibration.nulls.values()}
    assert cells["all"] == cells["report"] == 8 and cells["reproduction"] == 0
    assert cells["calibration"] == len(nulls | set(loaded().calibrated()))

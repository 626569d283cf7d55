"""The command `anchorscope`, in a clone of its own: what it finds, prints, writes, never asks."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from conftest import LAYERS, WIDTH
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import GatedRepoError
from transformers import AutoTokenizer
from transformers.utils.logging import get_logger
from workflow import PROJECT

from anchorscope.cli import main as cli
from anchorscope.cli.check import cells_of, gigabytes
from anchorscope.experiments import registry
from anchorscope.questions import reading
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import write_parquet
from anchorscope.workflow import targets
from cli.conftest import TOKEN


@pytest.fixture
def check(run, clone):
    """`check(config, target, …)`: what `anchorscope check` says with a further config."""

    def command(more, *targets):
        (clone / "more.yaml").write_text(yaml.safe_dump(more))
        return run("check", *targets, "--configfile", "more.yaml")

    return command


@pytest.mark.parametrize(
    ("arguments", "code", "error", "do"),
    [
        (["check", "mien"], 2, "mien", "did you mean `mine`"),
        (["show", "zzz", "rows"], 2, "no `zzz`", "the nearest are "),
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


def test_a_local_target_is_checked_without_any_network(run):
    said = run("check")
    assert said.code == 0, said.out
    assert {line.split()[0] for line in said.out.splitlines()[:5]} == {"ok"}
    assert said.about("hub") == [] and said.about("gpu") == []


AWQ = {"quantization_config": {"quant_method": "awq"}}
TEMPLATE = {"chat_template.jinja": "{{ messages }}"}
BARE = {"models": {"bare": {"local": "checkpoint"}}, "figures": {"mine": {"models": ["bare"]}}}


def edit(folder, changes):
    """Change keys of a checkpoint's config."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("change", "files", "more", "said"),
    [
        ({"model_type": "other"}, {}, {}, "no causal language model of the type 'other'"),
        (AWQ, {}, {}, "quantised (awq)"),
        ({}, {}, {"models": {"near": {"prompt": "chat"}}}, "no chat template"),
        ({}, TEMPLATE, BARE, "does not name a `prompt`"),
    ],
)
def test_a_model_that_cannot_be_measured_is_refused(check, clone, change, files, more, said):
    edit(clone / "checkpoint", change)
    for name, text in files.items():
        (clone / "checkpoint" / name).write_text(text)
    found = check(more)
    assert found.code == 1 and not found.err
    ((status, text),) = found.about("model")
    assert status == "error" and said in text
    if "model_type" in change:  # its size is not needed any more
        assert found.about("target")[0][0] == "error" and not found.about("disk")


ANSWERED = {"question": "q", "answers": ["a"], "response": "a", "label": "z"}
ASKED = {"question": "q", "answers": ["a"]}
FIVE = "\n".join(json.dumps({"q": f"Who is {name}?", "a": "Ann", "z": 1}) for name in "abcde")
FEW_SHOT = {"models": {"near": {"prompt": "few_shot"}}}


def of_rows(**change):
    """A config whose dataset `rows` is another."""
    return {"datasets": {"rows": {"hub": None, "fields": ANSWERED} | change}}


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        (None, of_rows(local="rows.txt"), "files ending in `.txt` are not read"),
        (FIVE, of_rows(fields=ASKED), "no probe can be fitted: 4 samples are fewer than 5 folds"),
        (None, of_rows(fields=ANSWERED | {"label": "one"}), "all 12 answers are wrong"),
        (None, of_rows(fields=ANSWERED | {"label": "q"}), "is not one of 0, 1"),
        (FIVE, FEW_SHOT, "no few-shot example is left"),
    ],
)
def test_rows_that_a_run_would_refuse_are_refused_in_its_words(check, clone, text, more, said):
    rows = (clone / "rows.jsonl").read_text().replace('"z"', '"one": 1, "z"')
    for name in ("rows.jsonl", "rows.txt"):
        (clone / name).write_text(text or rows)
    found = check(more)
    (status, finding), *_ = found.about("dataset")
    assert (found.code, status) == (1, "error") and said in finding


def test_what_transformers_warns_of_is_a_line(check, monkeypatch):
    load = AutoTokenizer.from_pretrained

    def warned(*arguments, **options):
        get_logger("transformers.tokenization").warning("an incorrect\nregex pattern")
        return load(*arguments, **options)

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", warned)
    found = check({}).about("model")
    assert ("warning", "near: transformers warns: an incorrect regex pattern") in found
    assert found[0][0] == "ok"


def test_ids_that_several_rows_share_are_named_with_their_number(check, clone):
    rows = (clone / "rows.jsonl").read_text().splitlines()
    given = [json.loads(row) | {"id": f"x{i // 2 if i < 4 else i}"} for i, row in enumerate(rows)]
    (clone / "rows.jsonl").write_text("\n".join(map(json.dumps, given)), encoding="utf-8")
    found = check(of_rows(local="rows.jsonl", fields=ASKED | {"id": "id"})).about("dataset")
    said = "rows: 4 rows share their id with others and get a hash instead, such as "
    ((status, text),) = [one for one in found if "share their id" in one[1]]
    assert status == "warning" and text.startswith(f"{said}`x0` (2 rows), `x1` (2 rows)")


def test_golds_that_stand_for_an_empty_cell_are_named_with_their_number(check, clone):
    rows = (clone / "rows.jsonl").read_text().splitlines()
    given = [json.loads(row) | ({"a": "nan"} if i < 3 else {}) for i, row in enumerate(rows)]
    (clone / "rows.jsonl").write_text("\n".join(map(json.dumps, given)), encoding="utf-8")
    found = check(of_rows(local="rows.jsonl", fields=ASKED)).about("dataset")
    said = "rows: 3 texts that a program writes for an empty cell (such as `nan`) are left out"
    assert ("warning", said) in [(status, text[: len(said)]) for status, text in found]
    used = f"rows: {len(rows) - 3} of {len(rows)} rows of rows.jsonl are used"
    assert any(text.startswith(used) for _, text in found)


@pytest.mark.parametrize(("relation", "n", "status"), [("one", 24, "ok"), ("s", 0, "warning")])
def test_rows_are_told_how_many_pairs_can_be_swapped(check, clone, relation, n, status):
    words = [f"{chr(97 + i % 26)}{chr(97 + i // 26)}q" for i in range(100)]
    rows = [
        {"q": f"{word} of {i}?", "a": f"Name{i}", "s": f"Town {i}", "one": "of"}
        for i, word in enumerate(words)
    ]
    (clone / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    fields = {"question": "q", "answers": ["a"], "subject": "s", "relation": relation}
    more = {"datasets": {"rows": {"sample_size": 100, "fields": fields}}}
    found = check(more | {"conditions": {"crossed": {}}}).about("dataset")
    (told,) = [one for one in found if "can be swapped" in one[1]]
    said = f"rows: about {n} pairs of right answers can be swapped if half of all answers are right"
    needed = ", but most claims need 10 pairs of right answers; " if status == "warning" else ""
    assert told[0] == status and told[1].startswith(said + needed)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (50, "about 25 pairs of right and 24 of wrong answers can be swapped"),
        (12, "about 42 pairs of right and 4 of wrong answers can be swapped"),
        (88, "about 5 pairs of right and 42 of wrong answers can be swapped, but most claims need"),
    ],
)
def test_pairs_of_labelled_answers_are_counted_by_label(check, clone, wrong, said):
    rows = [
        {"q": f"{chr(97 + i % 26)}{i}q?", "a": f"Name{i}", "s": f"Town {i}", "z": int(i < wrong)}
        for i in range(100)
    ]
    lines = [json.dumps(row | {"r": f"Name{i}", "one": "of"}) for i, row in enumerate(rows)]
    (clone / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    fields = {"question": "q", "answers": ["a"], "subject": "s", "relation": "one"}
    fields |= {"response": "r", "label": "z"}
    more = {"datasets": {"rows": {"sample_size": 100, "fields": fields}}}
    found = check(more | {"conditions": {"crossed": {}}}).about("dataset")
    (told,) = [one for one in found if "can be swapped" in one[1]]
    assert told[1].startswith(f"rows: {said}")
    assert told[0] == ("warning" if "need" in said else "ok")


def test_a_target_is_sized_without_what_is_built_but_all_its_rows_are_read(run, clone):
    # Clean, knockout, two random draws, question; two read-outs; float32.
    size = gigabytes(10 * 5 * 2 * LAYERS * WIDTH * 4)
    ((_, said),) = run("check").about("target")
    assert said == (
        "mine: 1 of 1 cell left to measure, with at most 12 questions to ask, 10 samples to "
        f"measure, and about {size} of activations"
    )
    curve = clone / "results/delta_p/near/rows.csv"
    curve.parent.mkdir(parents=True)
    curve.touch()
    found = run("check")
    assert found.code == 0 and "all cells were measured" in found.about("target")[0][1]
    (clone / "rows.jsonl").write_text("{", encoding="utf-8")
    found = run("check")
    ((status, text),) = found.about("dataset")
    assert found.code == 1 and status == "error" and "broken JSON" in text


def test_an_unknown_time_comes_with_the_command_that_measures_it(run, clone):
    ((status, said),) = run("check").about("time")
    assert status == "ok"
    assert said == "near: time unknown; to measure it, run `anchorscope selftest --like near`"


def test_too_little_room_is_an_error(run, monkeypatch):
    usage = shutil.disk_usage(".")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    said = run("check")
    assert said.code == 1 and [found for found, _ in said.about("disk")] == ["error"]


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
    in_cache(clone)
    write_parquet(pd.DataFrame({"id": ["a"]}), clone / "results/data/web.parquet")
    assert run("check", "remote").code == 0
    assert asked == [("model", "owner/far")]


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


def in_cache(clone: Path) -> Path:
    """The model `open` in the cache of the hub."""
    cache = clone / "hub/models--owner--open"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs/main").write_text("0" * 40)
    return Path(shutil.copytree(clone / "checkpoint", cache / "snapshots" / ("0" * 40)))


def test_offline_only_what_is_cached_as_a_whole_and_can_be_used_is_well(run, clone, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    Path("revisions.lock.yaml").write_text(f"datasets: {{owner/rows: '{'1' * 40}'}}\n")

    def errors() -> list[str]:
        said = run("check", "remote")
        assert said.code == 1
        return [text for status, text in said.about("hub") if status == "error"]

    assert len(errors()) == 3
    monkeypatch.setattr(reading, "prepared", lambda *_: True)
    folder = in_cache(clone)
    (far,) = errors()
    assert far.startswith("model far: ")
    (folder / "model.safetensors").unlink()
    assert len(errors()) == 2


def test_every_target_that_snakemake_knows_is_accepted(run, monkeypatch):
    monkeypatch.chdir(PROJECT)
    rules = (PROJECT / "rules/targets.smk").read_text(encoding="utf-8")
    named = re.findall(r"^rule (\w+):", rules, re.M)
    assert sorted(targets.TARGETS) == sorted(["all", *named, *registry.EXPERIMENTS])
    config = cli.read([])
    cells = {name: len(cells_of(config, name)) for name in targets.TARGETS}
    assert cells["all"] == cells["report"] == 8 and cells["reproduction"] == 0


def test_a_target_of_the_proof_is_refused_with_the_command_that_runs_it():
    rules = (PROJECT / "validation/rules.smk").read_text(encoding="utf-8")
    named = re.findall(r'name:\n +"([\w-]+)"', rules)
    assert {*named, "calibration", "retrain"} == {*targets.PROOF}
    for name in targets.PROOF:
        with pytest.raises(AnchorscopeError) as refused:
            cells_of(cli.read([PROJECT / "config.yaml"]), name)
        error = refused.value
        assert error.do == f"run `make {name}`" and error.see == "truth-target"

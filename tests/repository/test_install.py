"""Test that an installed wheel works without a clone."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import own_rows
import pytest
from workflow import PROJECT

from anchorscope.config import shipped

FIELDS = {"question": "question", "answers": ["answers"], "subject": "subject"}
MEASURES = """
import json, pathlib, anchorscope
from transformers import AutoModelForCausalLM, AutoTokenizer
rows, settings = json.loads(pathlib.Path("measured.json").read_text())
model, words = (one.from_pretrained("checkpoint") for one in (AutoModelForCausalLM, AutoTokenizer))
measured = anchorscope.measure(model, words, rows, **settings)
measured.detector().save("detector")
print(anchorscope.__file__, measured.methods())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    clone = folder / "clone"
    shutil.copytree(PROJECT / "anchorscope", clone / "anchorscope")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, clone)
    build = "from setuptools import build_meta; build_meta.build_wheel('..')"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_a_wheel_holds_the_catalogue(wheel: Path):
    """The library is of use without a clone: in a notebook, or included by another workflow."""
    with zipfile.ZipFile(wheel) as inside:
        needed = {f"anchorscope/config/{name}" for name in shipped.FILES}
        assert needed <= {*inside.namelist()}


def test_an_installed_wheel_checks_measures_and_scores_outside_a_clone(
    wheel: Path, tmp_path: Path, checkpoint: Callable[..., Path]
):
    with zipfile.ZipFile(wheel) as inside:
        inside.extractall(tmp_path / "installed")
    here = tmp_path / "here"
    shutil.copytree(checkpoint("llama"), here / "checkpoint")
    rows = own_rows.rows()
    (here / "measured.json").write_text(json.dumps([rows, own_rows.SETTINGS]))
    (here / "rows.json").write_text(json.dumps(rows[:6]))
    (here / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    model = {"local": "checkpoint", "label": "Mine", "prompt": "plain", "resources": {"gpus": 0}}
    own = {
        "models": {"mine": model},
        "datasets": {"own": {"local": "rows.jsonl", "label": "Own", "fields": FIELDS}},
        "figures": {"first": {"models": ["mine"], "datasets": ["own"]}},
        "targets": ["first"],
    }
    (here / "own.yaml").write_text(json.dumps(own))

    def python(*words: str) -> str:
        # -S leaves out the editable install, so that only the wheel can be imported.
        paths = os.pathsep.join([str(tmp_path / "installed"), sysconfig.get_path("purelib")])
        environment = os.environ | {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, "-S", *words]
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    said = python("-c", MEASURES)
    assert said.startswith(str(tmp_path / "installed")) and "# Methods" in said
    cli = ("-c", "from anchorscope.cli.main import main; raise SystemExit(main())")
    checked = python(*cli, "check", "--configfile", "own.yaml")
    assert "rows.jsonl" in checked and "this folder is no clone" in checked
    scored = python(*cli, "detect", "score", "detector", "--rows", "rows.json")
    assert len([json.loads(line)["p_wrong"] for line in scored.splitlines()]) == 6

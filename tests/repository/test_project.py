"""What surrounds the library: the lock file, the environments and `make clean`."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from workflow import PARTS, PROJECT

from tools import clean, envs

LOCK = envs.LOCK.read_text(encoding="utf-8")

FROZEN = """\
numpy==2.4.6
Jinja2==3.1.6
torch==2.13.0+cpu
nvidia-cublas==13.4
nvidia_cudnn_cu13==9.2
triton==3.5
pip==25.0
-e git+somewhere#egg=anchorscope
anchorscope @ file:///somewhere
"""


def test_the_lock_keeps_plain_versions_and_leaves_out_what_the_machine_decides():
    lines = [line for line in envs.lock(FROZEN).split("\n") if line and line[0] != "#"]
    assert lines == ["Jinja2==3.1.6", "numpy==2.4.6", "torch==2.13.0"]


def test_the_lock_pins_every_dependency_the_project_names():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    pinned = envs.pins(LOCK)
    assert [line for line in pinned.values() if not re.fullmatch(r"[\w.-]+==[\w.!]+", line)] == []
    for text in (*project["dependencies"], *extras["slurm"], *extras["dev"]):
        wanted = Requirement(text)
        version = pinned[canonicalize_name(wanted.name)].partition("==")[2]
        assert wanted.specifier.contains(version), f"{text} against {version}"


@pytest.mark.parametrize("path", envs.contents(), ids=lambda path: path.name)
def test_environments_are_up_to_date(path):
    assert path.read_text(encoding="utf-8") == envs.contents()[path], "run: make lock"


def imported(path: Path, seen: set[Path]) -> set[str]:
    """Third-party modules that a file imports at its top, or what it imports of ours does."""
    if path in seen:
        return set()
    seen.add(path)
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
        else:
            continue
        for name in names:
            top, _, inner = name.partition(".")
            if top not in ("anchorscope", "validation"):
                found.add(top)
            elif (ours := PROJECT / top / f"{inner.replace('.', '/')}.py").is_file():
                found |= imported(ours, seen)
    return found - set(sys.stdlib_module_names)


@pytest.mark.parametrize("rule", sorted((PROJECT / "rules").glob("*.smk")), ids=lambda p: p.stem)
def test_a_rule_imports_only_what_its_environment_holds(rule):
    text = rule.read_text(encoding="utf-8")
    environments = re.findall(r"\.\./envs/(\w+)\.yaml", text)
    scripts = re.findall(r"\.\./scripts/(\w+)\.py", text)
    for environment, script in zip(environments, scripts, strict=True):
        listed = (PROJECT / "envs" / f"{environment}.yaml").read_text(encoding="utf-8")
        *_, pip = yaml.safe_load(listed)["dependencies"]
        held = {canonicalize_name(line.partition("==")[0]) for line in pip["pip"]}
        distributions = packages_distributions()
        for module in imported(PROJECT / "scripts" / f"{script}.py", set()):
            owners = {canonicalize_name(name) for name in distributions[module]}
            assert owners & held, f"{script} imports {module}, which {environment} lacks"


def test_the_container_is_made_of_the_lock_file_and_what_a_run_reads():
    text = (PROJECT / "Dockerfile").read_text("utf-8").replace("\\\n", "")
    copies = [line.split()[1:-1] for line in text.splitlines() if line.startswith("COPY ")]
    copied = {name for names in copies for name in names}
    assert [name for name in copied if not (PROJECT / name).exists()] == []
    assert {"requirements.lock", *PARTS} <= copied
    installs = [line for line in text.splitlines() if "pip" in line.split()]
    assert "requirements.lock" in installs[0] and "--no-deps" in installs[1]


@pytest.mark.parametrize(
    ("asked", "runs"),
    [
        (["run", "ARGS=demo -n"], "snakemake --cores all demo -n --quiet host reason"),
        (["resume", "PROFILE=slurm"], "resume --profile slurm --quiet host reason"),
    ],
)
def test_make_calls_snakemake_with_the_arguments_given(asked, runs):
    command = ["make", "-n", "--no-print-directory", "--old-file=.venv/.ready", *asked]
    alone = {name: value for name, value in os.environ.items() if name[:4] not in ("MAKE", "ARGS")}
    done = subprocess.run(command, cwd=PROJECT, env=alone, capture_output=True, text=True)
    assert " ".join(done.stdout.split()).endswith(runs)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A project with results, resources and an environment."""
    for name in ("results/models/a", "resources/models", ".venv", ".snakemake"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_bytes(b"x" * 1000)
    (tmp_path / "revisions.lock.yaml").write_text("{}")
    return tmp_path


def test_clean_says_what_it_frees_and_keeps_it_without_consent(clone, capsys, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda question: "")
    assert clean.main(clone, yes=False) == 1
    assert "nothing was removed" in capsys.readouterr().out
    assert (clone / "results/models/a/file").exists()


def test_clean_frees_what_can_be_made_again_and_nothing_else(clone):
    (clone / "results" / "linked").symlink_to(clone / "resources")
    assert 2000 <= sum(size for _, size in clean.freed(clone)) < 2200  # a link is a few bytes
    assert clean.main(clone, yes=True) == 0
    left = {path.relative_to(clone).as_posix() for path in clone.rglob("file")}
    assert left == {"resources/models/file", ".venv/file"}
    assert (clone / "revisions.lock.yaml").exists()
    assert clean.freed(clone) == []


@pytest.mark.parametrize(("given", "found"), [(None, "passive"), ("active", "active")])
def test_threads_wait_without_spinning_unless_the_user_says_otherwise(given, found, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if given:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    code = (
        "import os, anchorscope, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == [found, "False"]  # set before torch reads it


@pytest.mark.parametrize("path", sorted((PROJECT / ".github").rglob("*.yml")), ids=lambda p: p.stem)
def test_issue_forms_and_continuous_integration_have_what_the_host_requires(path):
    """A form with a missing part is left out without a word."""
    content = yaml.safe_load(path.read_text("utf-8"))
    if path.parent.name == "workflows":
        runs = [step["run"] for job in content["jobs"].values() for step in job["steps"][2:]]
        assert runs == ["make check", ".ci/run"]
        return
    assert {"name", "description", "body"} <= content.keys()
    asked = [part for part in content["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in asked}) == len(asked) > 1
    assert all(part["attributes"]["label"] for part in asked)

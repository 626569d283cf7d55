"""What surrounds the library: the lock file, the environments and `make clean`."""

import ast
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
from workflow import PROJECT

from tools import clean, envs


def test_the_lock_pins_every_dependency_the_project_names():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    pinned = envs.pins(envs.LOCK.read_text(encoding="utf-8"))
    assert [line for line in pinned.values() if not re.fullmatch(r"[\w.-]+==[\w.!]+", line)] == []
    for text in (*project["dependencies"], *extras["slurm"], *extras["dev"]):
        wanted = Requirement(text)
        version = pinned[canonicalize_name(wanted.name)].partition("==")[2]
        assert wanted.specifier.contains(version), f"{text} against {version}"


@pytest.mark.parametrize(
    "name",
    "altair datasets huggingface-hub numpy pandas pydantic snakemake torch transformers".split(),
)
def test_a_major_release_that_was_never_tried_is_not_installed(name: str):
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (wanted,) = (one for text in project["dependencies"] if (one := Requirement(text)).name == name)
    pinned = envs.pins(envs.LOCK.read_text(encoding="utf-8"))[name].partition("==")[2]
    assert not wanted.specifier.contains(f"{int(pinned.partition('.')[0]) + 1}.0")


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


RULES = sorted([*PROJECT.glob("rules/*.smk"), *PROJECT.glob("validation/*.smk")])


@pytest.mark.parametrize("rule", RULES, ids=lambda p: p.stem)
def test_a_rule_imports_only_what_its_environment_holds(rule):
    text = rule.read_text(encoding="utf-8")
    environments = re.findall(r"\.\./envs/(\w+)\.yaml", text)
    scripts = re.findall(r'script:\s+"([\w./]+)"', text)
    for environment, script in zip(environments, scripts, strict=True):
        listed = (PROJECT / "envs" / f"{environment}.yaml").read_text(encoding="utf-8")
        *_, pip = yaml.safe_load(listed)["dependencies"]
        held = {canonicalize_name(line.partition("==")[0]) for line in pip["pip"]}
        distributions = packages_distributions()
        for module in imported((rule.parent / script).resolve(), set()):
            owners = {canonicalize_name(name) for name in distributions[module]}
            assert owners & held, f"{script} imports {module}, which {environment} lacks"


def test_a_script_serves_one_rule_and_is_named_after_it():
    served = {}
    for path in (PROJECT / "rules").glob("*.smk"):
        for rule in re.split(r"^rule ", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
            for script in re.findall(r"\.\./scripts/(\w+)\.py", rule):
                served[rule.partition(":")[0]] = script
    assert len(served) > 15
    other = {rule: script for rule, script in served.items() if rule != script}
    assert other == {}


@pytest.mark.parametrize("path", RULES, ids=lambda p: p.stem)
def test_a_script_reads_only_params_that_its_rule_gives(path):
    for rule in re.split(r"^ *rule ", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
        if script := re.search(r'script:\s+"([\w./]+)"', rule):
            code = (path.parent / script[1]).read_text(encoding="utf-8")
            given = re.search(r"^ *params:\n((?:        .*\n)*)", rule, flags=re.M)
            names = re.findall(r"^ +(\w+)=", given[1] if given else "", flags=re.M)
            short = "chosen" if re.search(r"chosen\b.* = .*snakemake\.params\b", code) else "-"
            read = re.findall(rf"(?:snakemake\.params|\b{short})\.(\w+)", code)
            assert {*read} - {"get"} <= {*names}, script[1]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A project with results, resources and an environment."""
    for name in ("results/models/a", "resources/models", ".venv", ".snakemake"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_bytes(b"x" * 1000)
    (tmp_path / "revisions.lock.yaml").write_text("{}")
    return tmp_path


def test_clean_frees_what_can_be_made_again_and_nothing_else_and_only_with_consent(
    clone, capsys, monkeypatch
):
    (clone / "results" / "linked").symlink_to(clone / "resources")
    monkeypatch.setattr("builtins.input", lambda question: "")
    assert clean.main(clone, yes=False) == 1
    assert "nothing was removed" in capsys.readouterr().out
    assert (clone / "results/models/a/file").exists()
    assert clean.main(clone, yes=True) == 0
    left = {path.relative_to(clone).as_posix() for path in clone.rglob("file")}
    assert left == {"resources/models/file", ".venv/file"}
    assert (clone / "revisions.lock.yaml").exists()


def test_threads_wait_without_spinning(monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    code = (
        "import os, anchorscope, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["passive", "False"]  # set before torch reads it


@pytest.mark.parametrize(
    ("modules", "not_loaded"),
    [
        (
            "cli.main report.methods workflow.around workflow.paths workflow.resources",
            "torch transformers",
        ),
        ("cell.tables workflow.tables passes.activations", "torch transformers"),
        ("probes.scoring probes.stored workflow.jobs", "transformers"),
    ],
    ids=["planning", "tables", "probes"],
)
def test_a_job_does_not_load_what_it_does_not_use(modules, not_loaded):
    names = ", ".join(f"anchorscope.{name}" for name in modules.split())
    code = f"import sys, {names}; print({{*{not_loaded.split()}}} & sys.modules.keys())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"

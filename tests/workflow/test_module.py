"""The workflow elsewhere: in another folder, and as a module of another Snakefile."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from workflow import PROJECT, TINY, Workspace, call, counted

MODULE = """\
configfile: "project.yaml"

module anchorscope:
    snakefile: {snakefile}
    config: config["truth"]

use rule * from anchorscope

rule mine:
    default_target: True
    input: "results/tables/tiny.csv"
    output: "mine.txt"
    shell: "cp {{input}} {{output}}"
"""
ONE_CELL = dict.fromkeys(
    "dataset train model prompts answers activations scores delta_p table".split(), 1
)
QUESTIONS = "results/data/tiny-world.parquet"


def run(folder: Path, environment: Mapping[str, str], *arguments: str) -> str:
    """What snakemake says in a folder that is not the clone's."""
    done = call(folder, environment, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def project(fresh: Workspace, tmp_path: Path) -> Path:
    """The folder of another project, whose config holds that of the workflow."""
    whole = Workspace(fresh.root, TINY).catalogue()
    (tmp_path / "project.yaml").write_text(yaml.safe_dump({"other": 1, "truth": whole}))
    return tmp_path


def test_another_snakefile_uses_the_workflow_as_a_module(fresh, project):
    text = MODULE.format(snakefile=f'"{fresh.root}/Snakefile"')
    (project / "Snakefile").write_text(text)
    run(project, fresh.environment(), QUESTIONS)
    assert (project / QUESTIONS).is_file() and not (fresh.root / QUESTIONS).exists()


def test_rules_under_other_names_are_refused(fresh, project):
    text = MODULE.format(snakefile=f'"{fresh.root}/Snakefile"')
    (project / "Snakefile").write_text(text.replace("from anchorscope", "from anchorscope as a_*"))
    with pytest.raises(AssertionError, match="without `as`"):
        run(project, fresh.environment(), "-n")


def test_a_module_from_a_git_host_has_the_files_of_its_commit(fresh, project):
    """As snakedeploy writes it; the clone that Snakemake keeps of the repository is there."""
    source, cache = project / "source", Workspace(project, {}).environment()["XDG_CACHE_HOME"]
    shutil.copytree(fresh.root, source, ignore=shutil.ignore_patterns(".snakemake"))
    shutil.copytree(PROJECT / "workflow", source / "workflow")
    kept = Path(cache, "snakemake/snakemake/source-cache/snakemake-git-cache/github.com/us/them")
    for command in (
        "git init --quiet",
        "git add --all",
        "git -c user.name=me -c user.email=me@here commit --quiet --message=all",
        "git tag v1",
        f"git clone --quiet --bare . {kept}",
    ):
        subprocess.run(command.split(), cwd=source, check=True)
    text = MODULE.format(snakefile='github("us/them", path="workflow/Snakefile", tag="v1")')
    (project / "Snakefile").write_text(text)
    # The library is installed.
    library = Workspace(project, {}).environment() | {"PYTHONPATH": str(PROJECT)}
    assert counted(run(project, library, "-n")) == ONE_CELL
    (files,) = (project / ".snakemake" / "anchorscope").iterdir()
    assert (files / "resources" / "figure" / "page.html").is_file()


def test_a_run_in_a_folder_without_a_config_takes_that_of_the_project(fresh, tmp_path):
    asked = ("-s", str(fresh.root / "Snakefile"), "-n", "demo")
    assert counted(run(tmp_path, fresh.environment(), *asked))["delta_p"] == 8

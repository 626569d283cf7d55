"""The workflow as a module of another Snakefile."""

import shutil
import subprocess
from pathlib import Path

import yaml
from workflow import PROJECT, TINY, Workspace, call, counted, rows_at, said

MODULE = """\
configfile: "project.yaml"

module anchorscope:
    snakefile: github("us/them", path="workflow/Snakefile", tag="v1")
    config: config["truth"]

use rule * from anchorscope

rule mine:
    default_target: True
    input: "results/tables/tiny.csv"
    output: "mine.txt"
    shell: "cp {input} {output}"
"""
ONE_CELL = dict.fromkeys(
    "dataset model prompts answers activations scores delta_p table".split(), 1
)
QUESTIONS = "results/data/tiny-world.parquet"


def test_a_module_from_a_git_host_has_the_files_of_its_commit(fresh, tmp_path):
    """As snakedeploy writes it; the clone that Snakemake keeps of the repository is there."""
    project, whole = tmp_path, Workspace(fresh.root, TINY).catalogue()
    (project / "project.yaml").write_text(yaml.safe_dump({"other": 1, "truth": whole}))
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
    (project / "Snakefile").write_text(MODULE)
    rows_at(project)
    # The library is installed.
    library = Workspace(project, {}).environment() | {"PYTHONPATH": str(PROJECT)}
    assert counted(said(call(project, library, "-n"))) == ONE_CELL
    said(call(project, library, QUESTIONS))
    assert (project / QUESTIONS).is_file()
    (files,) = (project / ".snakemake" / "anchorscope").iterdir()
    assert (files / "resources" / "figure" / "page.html").is_file()

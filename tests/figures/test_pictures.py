"""The pictures of README and docs are products of the workflow, drawn by `make pictures`."""

import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from workflow import PROJECT, Workspace

pictures = SimpleNamespace(**runpy.run_path(str(PROJECT / "docs" / "pictures.py")))


def test_every_picture_that_a_page_shows_has_a_figure_it_is_made_from() -> None:
    shown = set()
    for page in (PROJECT / "README.md", *PROJECT.glob("docs/*.md")):
        found = re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", page.read_text("utf-8"))
        shown |= {(page.parent / path).resolve() for path in found}
    made = {*pictures.PRODUCTS, *pictures.FIRST_MODEL}
    assert shown == {pictures.IMAGES / f"{name}.png" for name in made}
    assert shown == set(pictures.IMAGES.glob("*.png"))


def test_those_figures_are_products_of_the_workflow(fresh: Workspace, tmp_path: Path) -> None:
    planned = fresh.planned(*pictures.PRODUCTS.values())
    assert planned["picture"] == 2 and planned["calibration_figure"] == 1
    clone = fresh.copy(tmp_path / "clone")
    for name in ("popqa/test", *(f"{d}/validation" for d in ("trivia_qa", "hotpot_qa", "nq_open"))):
        path = tmp_path / "rows" / f"{name}.jsonl"
        path.parent.mkdir(parents=True)
        path.touch()
    make = ["make", "-n", "first-model", f"ROWS={tmp_path / 'rows'}", "N=2000", "GEMMA=1"]
    lines = subprocess.run(make, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    (options,) = re.findall(r"bin/snakemake .*?(--configfile .*sample_size=2000)", lines)
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", *pictures.FIRST_MODEL.values(), *options.split()],
        cwd=clone.root, env=clone.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^picture +1$", done.stdout, re.M)

"""The pictures of README and docs are products of the workflow, drawn by `make pictures`."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figure_picture import STORED, difference
from figure_picture import pixels as oracle
from workflow import PROJECT, Workspace


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("pictures", PROJECT / "docs" / "pictures.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pictures = loaded()


def unpacked(png: bytes) -> np.ndarray:
    """What a PNG with a palette shows, uint8 [height, width, 3]."""
    at, found = 8, {}
    while at < len(png):
        length = int.from_bytes(png[at : at + 4])
        found[png[at + 4 : at + 8]] = png[at + 8 : at + 8 + length]
        at += length + 12
    width, height = (int.from_bytes(found[b"IHDR"][i : i + 4]) for i in (0, 4))
    lines = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(height, width + 1)
    palette = np.frombuffer(found[b"PLTE"], np.uint8).reshape(-1, 3)
    assert not lines[:, 0].any()
    return palette[lines[:, 1:]]


def test_every_picture_that_a_page_shows_has_a_figure_it_is_made_from() -> None:
    shown = set()
    for page in (PROJECT / "README.md", *PROJECT.glob("docs/*.md")):
        found = re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", page.read_text("utf-8"))
        shown |= {(page.parent / path).resolve() for path in found}
    made = {*pictures.PRODUCTS, *pictures.REAL_ROWS}
    assert shown == {pictures.IMAGES / f"{name}.png" for name in made}
    assert shown == set(pictures.IMAGES.glob("*.png"))


def test_those_figures_are_products_of_the_workflow(fresh: Workspace) -> None:
    planned = fresh.planned(*pictures.PRODUCTS.values())
    assert planned["figure"] == 1 and planned["view"] == 1 and planned["calibration_figure"] == 1


def test_the_figure_of_real_rows_is_one_where_its_rows_are(
    fresh: Workspace, tmp_path: Path
) -> None:
    clone = fresh.copy(tmp_path / "clone")
    for name in (
        "popqa/test",
        "trivia_qa/validation",
        "hotpot_qa/validation",
        "nq_open/validation",
    ):
        path = tmp_path / "rows" / f"{name}.jsonl"
        path.parent.mkdir(parents=True)
        path.touch()
    files = ["--configfile", "config.yaml", pictures.REAL_ROWS_CONFIG]
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", *pictures.REAL_ROWS.values(), *files,
         "--config", f"data_folder={tmp_path / 'rows'}"],
        cwd=clone.root, env=clone.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^figure +1$", done.stdout, re.M)


def test_a_picture_in_few_colours_looks_like_the_figure() -> None:
    whole = oracle(STORED.read_bytes())[:, :, :3]
    made = pictures.small(whole)
    assert difference(unpacked(made), whole) < 1e-3
    assert len(made) < 60_000
    assert (unpacked(made)[0, 0] == whole[0, 0]).all()


def test_few_colours_are_kept_to_the_pixel_and_glass_lies_on_white() -> None:
    svg = """<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">
      <rect x="10" width="10" height="20" fill="red"/>
      <rect x="20" width="20" height="20" fill="#0080ff"/></svg>"""
    shown = unpacked(pictures.drawn(svg, width=80))
    assert shown.shape == (40, 80, 3)
    assert [shown[20, x].tolist() for x in (5, 30, 60)] == [
        [255, 255, 255], [255, 0, 0], [0, 128, 255]
    ]  # fmt: skip


def test_a_png_that_is_packed_otherwise_is_refused() -> None:
    with pytest.raises(ValueError, match="another kind"):
        pictures.pixels(pictures.small(np.zeros((4, 4, 3), np.uint8)))

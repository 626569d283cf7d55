"""Redraw the pictures of the README and the docs from figures that the workflow builds.

make pictures                                       pictures of the calibration models
make pictures ARGS="--data-folder <folder>"         also of a published model (20 minutes)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import vl_convert

from anchorscope.figures.fit import size_of

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
PRODUCTS = {"demo": "results/figures/demo.svg", "evidence": "results/figures/demo.evidence.svg"}
"""Picture → the workflow's figure that it shows."""
CALIBRATION = {"calibration": "results/calibration/figures/calibration.svg"}
"""Picture → its figure, which `make calibration` draws."""
FIRST_MODEL = {"first-model": "results/first-model/figures/first-model-experiments.svg"}
"""Picture → its figure, which needs models and rows that are not part of the project."""
POOL = "GEMMA=1", "N=1300", "POOL=6000", "FIGURE=first-model-experiments"
WIDTH, NARROW = 1400, 820
"""Widths of pictures in pixels, for several models and for one."""


def build(products: Iterable[str], *more: str) -> None:
    """Run the workflow to build the figures that are out of date.

    Raises:
        subprocess.CalledProcessError: The workflow failed; its output says why.
    """
    command = [sys.executable, "-m", "snakemake", "--cores", "all", *products, *more]
    subprocess.run(command, cwd=ROOT, check=True)


def drawn(svg: str, width: int = WIDTH) -> bytes:
    """Return a figure as a PNG, `width` pixels wide."""
    return vl_convert.svg_to_png(svg, scale=width / size_of(svg)[0])


def write(products: dict[str, str], width: int = WIDTH) -> None:
    """Write a picture of each figure, `width` pixels wide, into docs/images."""
    for name, product in products.items():
        path = IMAGES / f"{name}.png"
        path.write_bytes(drawn((ROOT / product).read_text(encoding="utf-8"), width))
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e3:,.0f} kB from {product}")


def main() -> None:
    """Build the figures, then draw their pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-folder", help="of the rows that resources/local-rows.yaml names")
    folder = parser.parse_args().data_folder
    build(PRODUCTS.values())
    write(PRODUCTS)
    subprocess.run(["make", "calibration"], cwd=ROOT, check=True)
    write(CALIBRATION)
    if folder:
        subprocess.run(["make", "first-model", *POOL, f"ROWS={folder}"], cwd=ROOT, check=True)
        write(FIRST_MODEL, NARROW)


if __name__ == "__main__":
    main()

"""Draws the pictures of README and docs anew, from figures that the workflow builds.

make pictures                                       those of the calibration models
make pictures ARGS="--data-folder <folder>"         also that of real rows, see docs/real-rows.md
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import vl_convert
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
PRODUCTS = {
    "demo": "results/figures/demo.svg",
    "controls": "results/figures/demo.controls.svg",
    "calibration": "results/figures/calibration.svg",
}
"""Picture → the workflow's figure that it shows."""
REAL_ROWS = {"real-rows": "results/real-rows/figures/real-rows.svg"}
"""The same of figures that need rows which are not in the project."""
REAL_ROWS_CONFIG = "resources/real-rows.yaml"
WIDTH = 1400
COLOURS = 256
Picture = NDArray[np.uint8]


def build(products: Iterable[str], *more: str) -> None:
    """Have the workflow build figures, as far as they are not up to date.

    Raises:
        subprocess.CalledProcessError: it failed, and said why.
    """
    command = [sys.executable, "-m", "snakemake", "--cores", "all", *products, *more]
    subprocess.run(command, cwd=ROOT, check=True)


def drawn(svg: str, width: int = WIDTH) -> bytes:
    """A figure as a PNG so many pixels wide, in at most 256 colours."""
    once = vl_convert.svg_to_png(svg, scale=1)
    (own,) = struct.unpack(">I", once[16:20])
    return small(pixels(vl_convert.svg_to_png(svg, scale=width / own)))


def pixels(png: bytes) -> Picture:
    """Red, green and blue of a PNG on white, uint8 [height, width, 3].

    Raises:
        ValueError: it is packed in another way than the renderer's.
    """
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, -1)
    filters = lines[:, 0]
    if depth != 8 or kind not in (2, 6) or not set(filters) <= {0, 1}:
        raise ValueError("a PNG of another kind than the renderer writes")
    raw = lines[:, 1:].reshape(height, width, {2: 3, 6: 4}[kind])
    # filter 1: each pixel as what it differs from the one to its left
    whole = np.where(filters[:, None, None] == 1, np.cumsum(raw, axis=1, dtype=np.uint8), raw)
    if kind == 2:
        return whole
    seen = whole[:, :, 3:].astype(np.float64) / 255
    return np.rint(whole[:, :, :3] * seen + 255 * (1 - seen)).astype(np.uint8)


def small(picture: Picture) -> bytes:
    """A PNG of the picture in its 256 most frequent colours; others become the nearest of these."""
    found, back, counts = np.unique(
        picture.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    palette = found[np.argsort(-counts, kind="stable")[:COLOURS]]
    nearest = np.array([np.abs(palette.astype(int) - one).sum(1).argmin() for one in found])
    index = nearest[back.reshape(-1)].astype(np.uint8).reshape(picture.shape[:2])
    lines = np.insert(index, 0, 0, axis=1)
    size = struct.pack(">IIBBBBB", picture.shape[1], picture.shape[0], 8, 3, 0, 0, 0)
    parts = (
        (b"IHDR", size),
        (b"PLTE", palette.tobytes()),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    framed = (
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


def write(products: dict[str, str]) -> None:
    """Put a picture of each figure into docs/images."""
    for name, product in products.items():
        path = IMAGES / f"{name}.png"
        path.write_bytes(drawn((ROOT / product).read_text(encoding="utf-8")))
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e3:,.0f} kB from {product}")


def main() -> None:
    """Build the figures, then draw their pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-folder", help="of the rows that docs/real-rows.md names")
    folder = parser.parse_args().data_folder
    build(PRODUCTS.values())
    write(PRODUCTS)
    if folder:
        files = ["--configfile", "config.yaml", REAL_ROWS_CONFIG]
        build(REAL_ROWS.values(), *files, "--config", f"data_folder={folder}")
        write(REAL_ROWS)


if __name__ == "__main__":
    main()

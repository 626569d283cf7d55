"""The stored picture of a fixed figure, and how pictures are compared.

`python tests/figure_picture.py` draws the stored one anew: look at it before it is committed.
"""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import vl_convert
from figure_tables import READOUTS, curve_of
from numpy.typing import NDArray

STORED = Path(__file__).parent / "data" / "figure.png"
MODELS = [("one", "Model One"), ("two", "Model Two")]
DATASETS = [("a", "Alpha"), ("b", "Beta"), ("c", "Gamma"), ("d", "Delta")]
LOOK = {"panel_width": 230, "panel_height": 150, "share_height": 44, "font": "Liberation Sans"}
Picture = NDArray[np.uint8]


def drawn() -> bytes:
    """The figure of two models and four datasets, as PNG, a pixel a CSS pixel."""
    from anchorscope.figures.figure_fit import as_svg
    from anchorscope.figures.figures import CUTS, chart

    figure = chart(
        curve_of(MODELS, DATASETS, 12, blind=2),
        title=CUTS["knockout"],
        panels=MODELS,
        datasets=DATASETS,
        readout=READOUTS[3],
        style=LOOK,
    )
    return vl_convert.svg_to_png(as_svg(figure.to_dict()), scale=1)


def pixels(png: bytes) -> Picture:
    """What a PNG shows, uint8 [height, width, channels]; of the filters that are in use here."""
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    width, height, depth, colour = struct.unpack(">IIBB", png[16:26])
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, -1)
    assert depth == 8 and set(lines[:, 0]) <= {0, 1}, "a PNG of another kind"
    raw = lines[:, 1:].reshape(height, width, {2: 3, 6: 4}[colour])
    # filter 1: each pixel as what it differs from the one to its left
    summed = np.cumsum(raw, axis=1, dtype=np.uint8)
    return np.where(lines[:, 0][:, None, None] == 1, summed, raw)


def small(picture: Picture) -> bytes:
    """A PNG of the picture at 16 levels of each colour."""
    level = picture[:, :, :3] & 0xF0 | picture[:, :, :3] >> 4
    lines = np.insert(level.reshape(len(level), -1), 0, 0, axis=1)
    size = struct.pack(">IIBBBBB", picture.shape[1], picture.shape[0], 8, 2, 0, 0, 0)
    parts = ((b"IHDR", size), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    framed = (
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


def difference(one: Picture, other: Picture) -> float:
    """Share of pixels that differ by more than a quarter of the range in any channel.

    Where sizes differ by a pixel or two, which a font may cause, the common part is compared;
    beyond that everything differs.
    """
    if any(abs(a - b) > 2 for a, b in zip(one.shape[:2], other.shape[:2], strict=True)):
        return 1.0
    height, width = (min(a, b) for a, b in zip(one.shape[:2], other.shape[:2], strict=True))
    apart = np.abs(
        one[:height, :width, :3].astype(np.int64) - other[:height, :width, :3].astype(np.int64)
    )
    return float((apart.max(axis=2) > 64).mean())


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    STORED.write_bytes(small(pixels(drawn())))

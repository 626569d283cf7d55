"""The header of a GGUF file: its settings and its table of tensors, without the weights.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The reader of the package
`gguf` takes ten seconds for the 262,144 tokens of Gemma 3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

NUMBERS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
"""Type of a value → its code in `struct`."""
STRING, ARRAY = 8, 9
ALIGNMENT = 32


@dataclass(frozen=True)
class Tensor:
    """A tensor of a file: the format of its numbers, how many they are, and its rows."""

    format: str
    numbers: int
    rows: int


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The settings of a file, lists of texts as their lengths, and its tensors by name.

    Raises:
        OSError, ValueError, KeyError, struct.error: it is no whole GGUF file.
    """
    with path.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as content:
        reader = _Reader(content)
        if content[:4] != b"GGUF" or reader.numbers("4xI") not in ((2,), (3,)):
            raise ValueError("no GGUF file of version 2 or 3")
        n_tensors, n_settings = reader.numbers("QQ")
        settings = {reader.text(): reader.value(*reader.numbers("I")) for _ in range(n_settings)}
        tensors, ends = {}, [0]
        for _ in range(n_tensors):
            name = reader.text()
            tensors[name], end = reader.tensor()
            ends.append(end)
        start = -(-reader.place // (step := settings.get("general.alignment", ALIGNMENT))) * step
        if not tensors or start + max(ends) > len(content):
            raise ValueError(f"weights up to byte {start + max(ends)}, of {len(content)}")
        return settings, tensors


class _Reader:
    """Reads one thing after the other."""

    def __init__(self, content: mmap) -> None:
        self.content, self.place = content, 0

    def numbers(self, code: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{code}", self.content, self.place)
        self.place += struct.calcsize(f"<{code}")
        return found

    def text(self) -> str:
        (length,) = self.numbers("Q")
        self.place += length
        return self.content[self.place - length : self.place].decode()

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.numbers(NUMBERS[kind])[0]
        kind, length = self.numbers("IQ")
        if kind in NUMBERS:
            return list(self.numbers(f"{length}{NUMBERS[kind]}"))
        for _ in range(length):
            self.value(kind)
        return length

    def tensor(self) -> tuple[Tensor, int]:
        """A tensor, and where it ends among the weights."""
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

        shape = self.numbers(f"{self.numbers('I')[0]}Q")
        kind, offset = self.numbers("IQ")
        form = GGMLQuantizationType(kind)
        block, size = GGML_QUANT_SIZES[form]
        return Tensor(form.name, prod(shape), shape[-1]), offset + prod(shape) // block * size

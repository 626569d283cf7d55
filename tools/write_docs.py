"""Writes what the docs say of settings and tables, from the code itself.

python -m tools.write_docs    (part of `make docs`)

The schema and the reference page of config.yaml, and in other pages the columns of tables: a list
below each line `<!-- columns: <module>.<name> -->`, where the name is that of a mapping from
columns to what they hold, or of a function that returns one.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from anchorscope.config import config_docs
from anchorscope.experiments.experiment import RECURRING
from anchorscope.experiments.settings import RunConfig

PAGES = [config_docs.FOLDER / name for name in ("experiments.md", "products.md")]
LIST = re.compile(r"(<!-- columns: ([\w.]+)\.(\w+) -->\n)(?:\n(?:- .*\n)+)?")
BESIDE = ("_low", "_high", "_p")
"""Ends of the names of an estimate's interval and p, which are not listed beside it."""


def column_list(columns: Mapping[str, str]) -> str:
    """What the columns of a table hold, in Markdown; those that hold the same share a line.

    Without those that recur in many tables, unless they are the ones asked for.
    """
    beside = {f"{name}{end}" for name in columns for end in BESIDE}
    recurring = {} if columns is RECURRING else RECURRING
    lines: dict[str, list[str]] = {}
    for name, meaning in columns.items():
        if name not in beside and meaning != recurring.get(name):
            lines.setdefault(meaning, []).append(f"`{name}`")
    return "".join(f"- {', '.join(names)}: {meaning}\n" for meaning, names in lines.items())


def with_columns(page: str) -> str:
    """A page with the list of columns below every mark."""

    def filled(mark: re.Match[str]) -> str:
        found = getattr(import_module(mark[2]), mark[3])
        return f"{mark[1]}\n" + column_list(found() if callable(found) else found)

    return LIST.sub(filled, page)


def contents() -> dict[Path, str]:
    """What each generated file must hold."""
    pages = {path: with_columns(path.read_text(encoding="utf-8")) for path in PAGES}
    return config_docs.contents(RunConfig) | pages


if __name__ == "__main__":
    for path, text in contents().items():
        path.write_text(text, encoding="utf-8")

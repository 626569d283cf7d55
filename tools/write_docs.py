"""Generate the parts of the docs that describe settings and tables from the code.

python -m tools.write_docs    (part of `make docs`)

The script writes the schema and the reference page of config.yaml. Other pages get the columns of
tables, as a list below each line `<!-- columns: <module>.<name> -->`. The name refers to a mapping
from columns to their meaning, or to a function that returns one. docs/own.md gets the table of
model families.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from anchorscope.config import config_docs
from anchorscope.experiments.experiment import RECURRING
from anchorscope.experiments.settings import RunConfig
from anchorscope.models.families import FAMILIES, tried_head, tried_row
from tools import first_model

PAGES = [config_docs.FOLDER / name for name in ("experiments.md", "products.md")]
OWN_PAGE = config_docs.FOLDER / "own.md"
LOCK = config_docs.FOLDER.parent / "requirements.lock"
LIST = re.compile(r"(<!-- columns: ([\w.]+)\.(\w+) -->\n)(?:\n(?:- .*\n)+)?")
BESIDE = ("_low", "_high", "_p")
"""Suffixes of the columns of an estimate's interval and p. These columns are not listed."""


def column_list(columns: Mapping[str, str]) -> str:
    """Return the meaning of a table's columns in Markdown. Columns of one meaning share a line.

    Columns that recur in many tables are left out, unless `columns` is `RECURRING`.
    """
    beside = {f"{name}{end}" for name in columns for end in BESIDE}
    recurring = {} if columns is RECURRING else RECURRING
    lines: dict[str, list[str]] = {}
    for name, meaning in columns.items():
        if name not in beside and meaning != recurring.get(name):
            lines.setdefault(meaning, []).append(f"`{name}`")
    return "".join(f"- {', '.join(names)}: {meaning}\n" for meaning, names in lines.items())


def with_columns(page: str) -> str:
    """Return a page with the list of columns below every mark."""

    def filled(mark: re.Match[str]) -> str:
        found = getattr(import_module(mark[2]), mark[3])
        return f"{mark[1]}\n" + column_list(found() if callable(found) else found)

    return LIST.sub(filled, page)


def families() -> str:
    """Return the table of model families, tested on a CPU with the locked transformers version."""
    (version,) = re.findall(r"^transformers==(\S+)$", LOCK.read_text(encoding="utf-8"), re.M)
    rows = [tried_head()]
    for family in FAMILIES:
        models = first_model.MODELS.items()
        published = [Path(file).stem for file, model in models if model.family == family]
        rows.append(tried_row(family, "CPU", version, published))
    return "\n".join(rows)


def own_page() -> str:
    """Return docs/own.md with the table of families."""
    page = OWN_PAGE.read_text(encoding="utf-8")
    before, found, rest = page.partition("<!-- families -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not found or not end:
        raise SystemExit(f"{OWN_PAGE}: add the lines <!-- families --> and <!-- end -->")
    return f"{before}{found}\n{families()}\n\n{end}{after}"


def contents() -> dict[Path, str]:
    """Return path → the content that each generated file must have."""
    pages = {path: with_columns(path.read_text(encoding="utf-8")) for path in PAGES}
    return config_docs.contents(RunConfig) | pages | {OWN_PAGE: own_page()}


if __name__ == "__main__":
    for path, text in contents().items():
        path.write_text(text, encoding="utf-8")

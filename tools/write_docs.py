"""Writes what the docs say of settings and tables, from the code itself.

python -m tools.write_docs    (part of `make docs`)

The schema and the reference page of config.yaml; in other pages the columns of tables: a list
below each line `<!-- columns: <module>.<name> -->`, where the name is that of a mapping from
columns to what they hold, or of a function that returns one; and in docs/own.md what works where.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from anchorscope.config import config_docs
from anchorscope.experiments.experiment import RECURRING
from anchorscope.experiments.settings import RunConfig
from anchorscope.models import tried
from anchorscope.models.families import FAMILIES
from tools import first_model

PAGES = [config_docs.FOLDER / name for name in ("experiments.md", "products.md")]
OWN_PAGE = config_docs.FOLDER / "own.md"
LOCK = config_docs.FOLDER.parent / "requirements.lock"
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


def families() -> str:
    """What works where, as the tests try it: with the locked version of transformers, on a CPU."""
    (version,) = re.findall(r"^transformers==(\S+)$", LOCK.read_text(encoding="utf-8"), re.M)
    rows = [tried.head()]
    for family in FAMILIES:
        models = first_model.MODELS.items()
        published = [Path(file).stem for file, model in models if model.family == family]
        rows.append(tried.row(family, "CPU", version, published=published))
    return "\n".join(rows)


def own_page() -> str:
    """The page of one's own data and models with the table of families."""
    page = OWN_PAGE.read_text(encoding="utf-8")
    before, found, rest = page.partition("<!-- families -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not found or not end:
        raise SystemExit(f"{OWN_PAGE}: add the lines <!-- families --> and <!-- end -->")
    return f"{before}{found}\n{families()}\n\n{end}{after}"


def contents() -> dict[Path, str]:
    """What each generated file must hold."""
    pages = {path: with_columns(path.read_text(encoding="utf-8")) for path in PAGES}
    return config_docs.contents(RunConfig) | pages | {OWN_PAGE: own_page()}


if __name__ == "__main__":
    for path, text in contents().items():
        path.write_text(text, encoding="utf-8")

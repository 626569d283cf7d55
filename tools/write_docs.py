"""Writes what the docs say of settings and tables, from the code itself.

python -m tools.write_docs    (part of `make docs`)

The schema and the reference page of config.yaml, in docs/experiments.md the columns of each
experiment's table, and in docs/own.md what works where.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from anchorscope.config import config_docs
from anchorscope.experiments.experiment import FLAG_COLUMNS, READOUT_COLUMNS, SIZE_COLUMNS
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.experiments.settings import RunConfig
from anchorscope.models import tried
from anchorscope.models.families import FAMILIES
from tools import first_model

EXPERIMENTS_PAGE = config_docs.FOLDER / "experiments.md"
OWN_PAGE = config_docs.FOLDER / "own.md"
LOCK = config_docs.FOLDER.parent / "requirements.lock"


def column_list(columns: Mapping[str, str]) -> str:
    """What the columns of a table hold, in Markdown, without those that recur in all tables."""
    recurring = READOUT_COLUMNS | SIZE_COLUMNS | FLAG_COLUMNS
    ends = {f"{name}_{end}" for name in columns for end in ("low", "high")}
    lines = [
        f"- `{name}`: {meaning}\n"
        for name, meaning in columns.items()
        if name not in ends and meaning != recurring.get(name)
    ]
    return "".join(lines)


def experiments_page() -> str:
    """The page of the experiments with the columns of their tables."""
    page = EXPERIMENTS_PAGE.read_text(encoding="utf-8")
    for experiment in EXPERIMENTS.values():
        mark = f"<!-- columns: {experiment.package}.COLUMNS -->\n\n"
        before, found, after = page.partition(mark)
        if not found:
            raise SystemExit(f"{EXPERIMENTS_PAGE}: add the line {mark.strip()}")
        rest = re.sub(r"\A(- .*\n)*", "", after)
        page = before + mark + column_list(experiment.columns) + rest
    return page


def families() -> str:
    """What works where, as the tests try it: with the locked version of transformers, on a CPU."""
    (version,) = re.findall(r"^transformers==(\S+)$", LOCK.read_text(encoding="utf-8"), re.M)
    rows = [tried.head()]
    for family in FAMILIES:
        models = first_model.MODELS.items()
        published = [Path(file).stem for file, model in models if model.family == family]
        gguf = tried.gguf_of(family)
        rows.append(tried.row(family, "CPU", version, gguf=gguf, published=published))
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
    pages = {EXPERIMENTS_PAGE: experiments_page(), OWN_PAGE: own_page()}
    return config_docs.contents(RunConfig) | pages


if __name__ == "__main__":
    for path, text in contents().items():
        path.write_text(text, encoding="utf-8")

"""Writes what the docs say of settings and tables, from the code itself.

python -m tools.write_docs    (part of `make docs`)

The schema and the reference page of config.yaml, and in docs/experiments.md the columns of each
experiment's table.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from anchorscope.config import config_docs
from anchorscope.experiments.experiment import FLAG_COLUMNS, READOUT_COLUMNS, SIZE_COLUMNS
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.experiments.settings import RunConfig

EXPERIMENTS_PAGE = config_docs.FOLDER / "experiments.md"


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


def contents() -> dict[Path, str]:
    """What each generated file must hold."""
    return config_docs.contents(RunConfig) | {EXPERIMENTS_PAGE: experiments_page()}


if __name__ == "__main__":
    for path, text in contents().items():
        path.write_text(text, encoding="utf-8")

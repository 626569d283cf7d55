"""The experiment that docs/architecture.md shows in full, as files."""

import re
from pathlib import Path

from workflow import PROJECT

NAME = "doubled"
FILE = re.compile(rf"^`({NAME}/\w+\.py)`[^\n]*\n\n```python\n(.*?)```", re.M | re.S)


def write(folder: Path) -> None:
    """Write its package below a folder of packages."""
    files = FILE.findall((PROJECT / "docs/architecture.md").read_text(encoding="utf-8"))
    assert len(files) == 4
    for name, text in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def register(folder: Path) -> None:
    """Name it in the registry of a folder of packages, as the page says."""
    registry = folder / "registry.py"
    text = registry.read_text(encoding="utf-8")
    first, records = "from anchorscope.experiments.experiment", "RECORDS = ("
    text = text.replace(first, f"from anchorscope.experiments import {NAME}\n{first}", 1)
    text = text.replace(records, f"{records}{NAME}.EXPERIMENT, ", 1)
    assert text.count(NAME) == 2
    registry.write_text(text, encoding="utf-8")

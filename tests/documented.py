"""The experiment and the method of detection that docs/architecture.md shows in full, as files."""

import re
from pathlib import Path

from workflow import PROJECT

from anchorscope.detectors.registry import Method

PAGE = (PROJECT / "docs/architecture.md").read_text(encoding="utf-8")
NAME = "early"
FILE = re.compile(rf"^`({NAME}/\w+\.py)`[^\n]*\n\n```python\n(.*?)```", re.M | re.S)
MODULE = re.compile(r"`methods/(\w+\.py)`:\n\n```python\n(.*?)```", re.S)
RECORD = re.compile(r"```python\n(Method\(.*?\))\n```", re.S)


def write(folder: Path) -> None:
    """Write the experiment's package below a folder of packages."""
    (folder / NAME).mkdir()
    for name, text in FILE.findall(PAGE):
        (folder / name).write_text(text, encoding="utf-8")


def write_method(folder: Path) -> Method:
    """Write the method's module into a folder of methods; its record."""
    ((name, text),), (record,) = MODULE.findall(PAGE), RECORD.findall(PAGE)
    (folder / name).write_text(text, encoding="utf-8")
    method: Method = eval(record, {"Method": Method})
    return method

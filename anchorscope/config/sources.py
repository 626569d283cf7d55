"""Where a config comes from: files of YAML, with the line of each key, and the command line."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from anchorscope.storage.errors import AnchorscopeError


class Source(NamedTuple):
    """A file, or what was set on the command line: its name, its content, and YAML's nodes of it,
    which know their lines in the file."""

    name: str
    content: Mapping[str, Any]
    root: yaml.Node | None


def of_command_line(settings: Mapping[str, Any]) -> Source:
    """What was set by `--config`."""
    return Source("--config", settings, yaml.compose(yaml.safe_dump(dict(settings))))


def place(path: Sequence[int | str], sources: Sequence[Source]) -> str:
    """The source, and the line, that holds most of a path; of several the one that is read last."""
    found = [(*_followed(source.root, path), source.name) for source in reversed(sources)]
    depth, line, name = max(found, key=lambda one: one[0], default=(0, 0, ""))
    if not depth:
        return ", ".join(source.name for source in sources) or "config.yaml"
    return name if name == "--config" else f"{name}, line {line}"


def _followed(node: yaml.Node | None, path: Sequence[int | str]) -> tuple[int, int]:
    """How many keys of a path lead on from a node, and the line of the last of them."""
    line = 0
    for depth, key in enumerate(path):
        found = [pair for pair in _entries(node) if pair[0].value == str(key)]
        if isinstance(node, yaml.SequenceNode):
            found = [(item, item) for item in node.value[int(key) : int(key) + 1]]
        if not found:
            return depth, line
        node, line = found[0][1], found[0][0].start_mark.line + 1
    return len(path), line


def _entries(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    return node.value if isinstance(node, yaml.MappingNode) else []


class _Loader(yaml.SafeLoader):
    """Notes the keys that a mapping has twice, of which YAML silently takes the second."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.twice: list[str] = []

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        first: dict[str, int] = {}
        for key, _ in _entries(node):
            name, line = str(key.value), key.start_mark.line + 1
            if name in first:
                self.twice.append(f"`{name}` in lines {first[name]} and {line}")
            first[name] = line
        return node


def read(path: str | Path) -> Source:
    """A config file.

    Raises AnchorscopeError: not there, no YAML (with line and column), a key given twice (with both
    lines), or no keys with values.
    """
    try:
        loader = _Loader(Path(path).read_text(encoding="utf-8"))
        root = loader.get_single_node()
        content = loader.construct_document(root) if root else {}
    except (OSError, UnicodeDecodeError, yaml.reader.ReaderError) as error:
        what = f"cannot read the config: {error}"
        do = "name a YAML file; with `anchorscope`, KEY=VALUE goes into such a file, too"
        raise AnchorscopeError(what, path, do, see="config") from None
    except yaml.MarkedYAMLError as error:
        mark, what = error.problem_mark, f"broken YAML: {error.problem}"
        where = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else path
        do = "correct it, there or above: indentation, a missing `: `, a quote, a tab"
        raise AnchorscopeError(what, where, do, see="config") from None
    if loader.twice:
        what = f"a key is given twice: {'; '.join(loader.twice)}"
        raise AnchorscopeError(what, path, "keep one of each", see="config")
    if not isinstance(content, dict):
        do = "see docs/configuration.md"
        raise AnchorscopeError("expected keys with values", path, do, see="config")
    return Source(str(path), content, root)

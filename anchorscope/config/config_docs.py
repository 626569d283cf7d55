"""The JSON schema and the reference page of all config keys, written from the models themselves.

python -m anchorscope.config.config_docs         writes both
python -m anchorscope.config.config_docs --check exits 1 if one is out of date
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from anchorscope.config.settings import Config

FOLDER = Path(__file__).parents[2] / "docs"
SCHEMA, PAGE = FOLDER / "config.schema.json", FOLDER / "configuration.md"

INTRODUCTION = """\
# Configuration

All settings are in `config.yaml` and are checked before any job starts. `--config limit=50` changes
one key for one run; `--configfile config.yaml my.yaml` merges a file of your own over it.
Models, datasets and figures are catalogues: their keys are names of your choice (lower case,
digits, `.` and `-`). Of several values the default is bold. Keys are text unless another type is
given, and may be left out unless they are required. `make docs` generates this page and the schema;
an editor checks the file if its first line is
`# yaml-language-server: $schema=docs/config.schema.json`.
"""


def schema() -> dict[str, Any]:
    """The JSON schema of `config.yaml`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Config.model_json_schema(mode="validation"),
    }


def page() -> str:
    """The reference page: a list of keys for each section, in Markdown."""
    content = schema()
    sections = {"Config": content, **content["$defs"]}
    order = dict.fromkeys(_reachable("Config", sections))
    return INTRODUCTION + "".join(_section(name, sections) for name in order)


def _reachable(name: str, sections: Mapping[str, Any]) -> Iterator[str]:
    """A section with keys of its own and those below it, in the order of the keys."""
    keys = sections[name].get("properties", {})
    if keys:
        yield name
    for key in keys.values():
        if below := _target(key):
            yield from _reachable(below, sections)


def _target(key: Mapping[str, Any]) -> str | None:
    """The section that a key holds: itself, or null, or by names of the user's choice."""
    for node in (key, *key.get("anyOf", ()), key.get("additionalProperties") or {}):
        if isinstance(node, Mapping) and "$ref" in node:
            return str(node["$ref"]).rpartition("/")[2]
    return None


TITLES = {
    "Config": "Top level",
    "RandomControl": "`conditions.random`",
    "Noop": "`conditions.noop`",
    "Model": "`models.<name>`",
    "Resources": "`models.<name>.resources`",
    "TrainSettings": "`models.<name>.train`",
    "Dataset": "`datasets.<name>`",
    "Fields": "`datasets.<name>.fields`",
    "FewShot": "`datasets.<name>.few_shot`",
    "WorldSettings": "`datasets.<name>.world`",
    "Figure": "`figures.<name>`",
    "Null": "`calibration.nulls.<name>`",
    "Cells": "`sensitivity`",
}


def _title(name: str) -> str:
    return TITLES.get(name, f"`{name.lower()}`")


def anchor(title: str, separator: str = "-") -> str:
    """The anchor that Markdown viewers give a heading; the site (mkdocs.yml) is told to as well."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", separator)


def _section(name: str, sections: Mapping[str, Any]) -> str:
    section = sections[name]
    required = section.get("required", [])
    rows = [
        f"- `{key}`{_form(node, key in required)}: {_description(node, sections)}\n"
        for key, node in section["properties"].items()
    ]
    return f"\n## {_title(name)}\n\n{section['description']}\n\n{''.join(rows)}"


def _description(node: Mapping[str, Any], sections: Mapping[str, Any]) -> str:
    """Pydantic leaves a key's description out where it equals that of the section it holds."""
    text = node.get("description") or sections[_target(node) or ""]["description"]
    return str(text)


def _form(node: Mapping[str, Any], required: bool) -> str:
    """Type and default, in brackets; text without a default needs no word."""
    form = _type(node) + _default(node, required)
    return "" if form == "text" else f" ({form})"


def _type(node: Mapping[str, Any]) -> str:
    """A key's type in words."""
    if "anyOf" in node:
        return " or ".join(_type(part) for part in node["anyOf"] if part.get("type") != "null")
    if name := _target(node):
        if "additionalProperties" in node:
            return f"name → [{_title(name)}](#{anchor(_title(name))})"
        if name == "Plain":
            return "`{}`"
        return f"[{_title(name)}](#{anchor(_title(name))})"
    if "mlp/final" in node.get("enum", ()):
        return "[read-out](method.md#the-terms)"
    if "enum" in node:
        marks = {value: "**" if value == node.get("default") else "" for value in node["enum"]}
        return ", ".join(f"{mark}`{value}`{mark}" for value, mark in marks.items())
    if "const" in node:
        return f"`{node['const']}`"
    if node["type"] == "array":
        return f"list of {_type(node['items'])}"
    names = {"string": "text", "integer": "integer", "boolean": "boolean"}
    return names.get(node["type"], node["type"]) + _bounds(node)


def _bounds(node: Mapping[str, Any]) -> str:
    """Bounds worth a word: that a count is at least 0 or 1 goes without saying."""
    if node["type"] == "integer" and node.get("minimum", 2) < 2:
        return ""
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    found = [f"{sign}{node[name]:g}" for name, sign in signs.items() if name in node]
    return " " + ", ".join(found) if found else ""


def _default(node: Mapping[str, Any], required: bool) -> str:
    if required:
        return ", required"
    if node.get("default", "") in ("", None) or node["default"] in node.get("enum", ()):
        return ""
    return f", `{json.dumps(node['default'], ensure_ascii=False)}`"


def contents() -> dict[Path, str]:
    """What each generated file must hold."""
    return {
        SCHEMA: json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
        PAGE: page(),
    }


def main(arguments: list[str]) -> int:
    check = arguments == ["--check"]
    texts = contents().items()
    stale = {
        path: text for path, text in texts if not path.is_file() or path.read_text("utf-8") != text
    }
    for path, text in stale.items():
        if check:
            print(f"{path.relative_to(FOLDER.parent)} is out of date; run: make docs")
        else:
            path.write_text(text, encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

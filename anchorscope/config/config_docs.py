"""The JSON schema and the reference page of all config keys."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from anchorscope.config.sections import Section, section_in

FOLDER = Path(__file__).parents[2] / "docs"
SCHEMA, PAGE = FOLDER / "config.schema.json", FOLDER / "configuration.md"

INTRODUCTION = """\
# Configuration

All settings are in `config.yaml` and are checked before any job starts. `--config limit=50` changes
one key for one run; `--configfile my.yaml` merges your own file over it. Below both lies the
catalogue of `anchorscope/config/`; what you set wins.
The keys of `models`, `datasets` and `figures` are names of your choice (lower case, digits, `.` and
`-`). Where a key takes one of several values, the default is bold. Keys are text unless another
type is given, and optional unless they are required. Your editor checks the file if its first line
is `# yaml-language-server: $schema=docs/config.schema.json`.
"""


def page(config: type[Section]) -> str:
    """Return the reference page in Markdown, with a list of keys for each section."""
    sections = dict(_sections(config, ""))
    titles = {section.__name__: title for title, section in sections.items()}
    parts = [INTRODUCTION]
    for title, section in sections.items():
        parts += [f"\n## {title}\n\n{section.__doc__}\n\n", *_keys(section, titles)]
    return "".join(parts)


def _sections(section: type[Section], path: str) -> Iterator[tuple[str, type[Section]]]:
    """Yield title and model of a section and of all sections below it, in the order of keys."""
    yield f"`{path}`" if path else "Top level", section
    for key, field in section.model_fields.items():
        below = section_in(field.annotation)
        if below and below.model_fields:
            name = ".<name>" if "dict" in str(field.annotation) else ""
            yield from _sections(below, f"{path}.{key}{name}".removeprefix("."))


def anchor(title: str, separator: str = "-") -> str:
    """Return the anchor that Markdown viewers, and our site (mkdocs.yml), give a heading."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", separator)


def _keys(section: type[Section], titles: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each key: its type and default in brackets, and its description."""
    content = section.model_json_schema()
    for key, node in content["properties"].items():
        form = _type(node, titles) + _default(node, key in content.get("required", ()))
        brackets = "" if form == "text" else f" ({form})"  # text is the usual type
        description = str(section.model_fields[key].description).replace("\n", " ")
        yield f"- `{key}`{brackets}: {description}\n"


def _type(node: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Describe a key's type.

    Args:
        node: JSON schema of the key.
        titles: Name of each section's class → title of its list of keys.
    """
    if "anyOf" in node:
        parts = (part for part in node["anyOf"] if part.get("type") != "null")
        return " or ".join(_type(part, titles) for part in parts)
    if "$ref" in node:
        title = titles.get(node["$ref"].rpartition("/")[2])
        return f"[{title}](#{anchor(title)})" if title else "`{}`"
    if isinstance(entry := node.get("additionalProperties"), Mapping):
        return f"name → {_type(entry, titles)}"
    if "mlp/final" in node.get("enum", ()):
        return "[read-out](method.md#the-terms)"
    if "enum" in node:
        marks = {value: "**" if value == node.get("default") else "" for value in node["enum"]}
        return ", ".join(f"{mark}`{value}`{mark}" for value, mark in marks.items())
    if "const" in node:
        return f"`{node['const']}`"
    if node["type"] == "array":
        return f"list of {_type(node['items'], titles)}"
    return {"string": "text"}.get(node["type"], node["type"]) + _bounds(node)


def _bounds(node: Mapping[str, Any]) -> str:
    """Describe the bounds of a number, unless it is a count, which is at least 0 or 1."""
    if node["type"] == "integer" and node.get("minimum", 2) < 2:
        return ""
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign}{node[name]:g}" for name, sign in signs.items() if name in node]
    return " " + ", ".join(bounds) if bounds else ""


def _default(node: Mapping[str, Any], required: bool) -> str:
    """Return the default of a key, unless it is empty or marked among the values."""
    if required:
        return ", required"
    if node.get("default", "") in ("", None) or node["default"] in node.get("enum", ()):
        return ""
    return f", `{json.dumps(node['default'], ensure_ascii=False)}`"


def contents(config: type[Section]) -> dict[Path, str]:
    """Return the content of each generated file by path, for all settings of a run."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema = json.dumps(dialect | config.model_json_schema(), indent=2, ensure_ascii=False)
    return {SCHEMA: schema.replace("\\n", " ") + "\n", PAGE: page(config)}

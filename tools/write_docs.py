"""Generate the parts of the docs that describe settings and tables from the code.

python -m tools.write_docs    (part of `make docs`)

The script writes the schema and the reference page of config.yaml. In other pages, it lists the
columns of a table below each line `<!-- columns: <module>.<name> -->`, which names a mapping from
columns to their meaning or a function that returns such a mapping.
"""

import json
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from anchorscope.claims import CLAIMS
from anchorscope.config.sections import Section, section_in
from anchorscope.experiments.registry import RunConfig
from anchorscope.statistics.columns import RECURRING

FOLDER = Path(__file__).parents[1] / "docs"
SCHEMA, PAGE = FOLDER / "config.schema.json", FOLDER / "configuration.md"
PAGES = [FOLDER / name for name in ("experiments.md", "figures.md", "method.md", "products.md")]
LIST = re.compile(r"(<!-- columns: ([\w.]+)\.(\w+) -->\n)(?:\n(?:- .*\n)+)?")
CLAIMED = re.compile(r"(<!-- claims: (\w+) -->\n)(?:\n(?:.* \| .*\n|--- .*\n)+)?")
BESIDE = ("_low", "_high", "_p")
"""Suffixes of columns with the interval and p-value of an estimate. These are not listed."""

INTRODUCTION = """\
# Configuration

All settings are in `config.yaml` and are checked before any job starts. `--config limit=50` changes
one key for one run; `--configfile my.yaml` merges your own file over it. The catalogue in
`anchorscope/config/` adds more models, datasets and figures; keys that you set win.
The keys of `models`, `datasets` and `figures` are names of your choice (lower case, digits, `.`,
`_` and `-`). Where a key takes one of several values, the default is bold. Keys are text unless
another type is given, and optional unless marked as required. Your editor checks the file if its
first line is `# yaml-language-server: $schema=docs/config.schema.json`.
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
    """Yield title and class of a section and of all sections below it, in the order of keys."""
    yield f"`{path}`" if path else "Top level", section
    for key, field in section.model_fields.items():
        below = section_in(field.annotation)
        if below and below.model_fields:
            name = ".<name>" if "dict" in str(field.annotation) else ""
            yield from _sections(below, f"{path}.{key}{name}".removeprefix("."))


def anchor(title: str, separator: str = "-") -> str:
    """Return the anchor that Markdown viewers and our site (mkdocs.yml) give to a heading."""
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
    """Describe the bounds of a number. Return "" for a count (an integer of at least 0 or 1)."""
    if node["type"] == "integer" and node.get("minimum", 2) < 2:
        return ""
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign}{node[name]:g}" for name, sign in signs.items() if name in node]
    return " " + ", ".join(bounds) if bounds else ""


def _default(node: Mapping[str, Any], required: bool) -> str:
    """Return the default of a key, unless it is empty or among enumerated values (see `_type`)."""
    if required:
        return ", required"
    if node.get("default", "") in ("", None) or node["default"] in node.get("enum", ()):
        return ""
    return f", `{json.dumps(node['default'], ensure_ascii=False)}`"


def column_list(columns: Mapping[str, str]) -> str:
    """Return the list of a table's columns in Markdown. Columns with the same meaning share a line.

    Columns that recur in many tables are left out, unless `columns` is `RECURRING`.
    """
    beside = {f"{name}{end}" for name in columns for end in BESIDE}
    recurring = {} if columns is RECURRING else RECURRING
    lines: dict[str, list[str]] = {}
    for name, meaning in columns.items():
        if name not in beside and meaning != recurring.get(name):
            lines.setdefault(meaning, []).append(f"`{name}`")
    return "".join(f"- {', '.join(names)}: {meaning}\n" for meaning, names in lines.items())


def claim_table(kind: str) -> str:
    """Return a table of all claims: their `conditions`, or the `words` that they allow."""
    heads = {"conditions": "claim | conditions\n--- | ---\n"}
    heads["words"] = "Claim | Write | Do not write\n--- | --- | ---\n"
    lines = []
    for one in CLAIMS.values():
        name = f"`{one.name}`" + (f", {one.answers} answers" if one.answers else "")
        said = {"conditions": one.conditions, "words": f'"{one.sentence}" | "{one.not_said}"'}
        lines.append(f"{name} | {said[kind]}\n")
    return heads[kind] + "".join(lines)


def filled(page: str) -> str:
    """Return a page with the lists of columns and the tables of claims that its marks ask for."""

    def columns(mark: re.Match[str]) -> str:
        found = getattr(import_module(mark[2]), mark[3])
        return f"{mark[1]}\n" + column_list(found() if callable(found) else found)

    page = CLAIMED.sub(lambda mark: f"{mark[1]}\n{claim_table(mark[2])}", page)
    return LIST.sub(columns, page)


def contents() -> dict[Path, str]:
    """Return path → the content that each generated file must have."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema = json.dumps(dialect | RunConfig.model_json_schema(), indent=2, ensure_ascii=False)
    of_config = {SCHEMA: schema.replace("\\n", " ") + "\n", PAGE: page(RunConfig)}
    pages = {path: filled(path.read_text(encoding="utf-8")) for path in PAGES}
    return of_config | pages


if __name__ == "__main__":
    for path, text in contents().items():
        path.write_text(text, encoding="utf-8")

"""Translate pydantic's validation errors into messages about the config file."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from anchorscope.config.sections import Section, section_in
from anchorscope.storage.errors import nearest

WANTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "dict": "keys below it",
    "model": "keys below it",
}
"""First word of a pydantic error type, such as `int` of `int_type` → what the key needs."""
BOUNDS = {
    "greater_than_equal": "{ge:g} or more",
    "greater_than": "a number above {gt:g}",
    "less_than_equal": "{le:g} or less",
    "less_than": "a number below {lt:g}",
    "finite_number": "a finite number",
    "too_short": "at least one entry",
    "string_too_short": "non-empty text",
}
"""Pydantic error type → the allowed values. The error's context fills in the braces."""


MOVED: Mapping[tuple[int | str, ...], str] = {
    ("calibration",): "set `models`, `datasets` and `nulls` in validation/cells.yaml, and all else "
    "in validation/calibration.yaml",
    ("models", "train"): "write the recipe under `recipes` in validation/cells.yaml, and name the "
    "folder of the trained model under `local`",
    ("datasets", "world"): "name a file of rows under `local`, and its columns under `fields`; "
    "invented rows are made from `worlds` in validation/cells.yaml",
}
"""Key that left the config, without the names of entries → where it is now."""


class Mistake(NamedTuple):
    """A mistake in the config; `what`, `do` and `see` are those of `AnchorscopeError`."""

    path: tuple[int | str, ...]  # path from the top of the config to the mistake
    what: str
    do: str
    see: str = "config"

    @property
    def key(self) -> str:
        """The path joined by dots, such as `models.llama.prompt`."""
        return ".".join(map(str, self.path))


def explained(error: ErrorDetails, config: type[Section]) -> Mistake:
    """Describe an error that pydantic raised about `config` in terms of the config file."""
    path, value, kind = error["loc"], error["input"], error["type"]
    if kind == "mistake":
        key = path[-1:] == ("[key]",)
        return Mistake((*path[:-2], value) if key else path, **error["ctx"])
    if path[-1:] == ("[key]",) or kind == "invalid_key":
        path = path[:-2] if kind != "invalid_key" else path[:-1]
        return Mistake((*path, value), f"the name {value} is not text", f'write `"{value}":`')
    section, field = _at(path, config)
    name = next((str(part) for part in reversed(path) if isinstance(part, str)), "")
    subject = f"item {path[-1] + 1} of `{name}`" if isinstance(path[-1], int) else f"`{name}`"
    if kind == "extra_forbidden":
        if do := MOVED.get((*path[:1], *path[2:])):
            return Mistake(path, f"`{name}` is no longer a key", do, "truth-target")
        return Mistake(path, f"unknown key `{name}`", nearest(name, section.model_fields))
    if kind == "missing":
        about = str(field.description if field else "").replace("\n", " ")
        return Mistake(path, f"the key `{name}` is missing", f"add it: {about}")
    what, do = _wrong_value(kind, subject, name, value, error.get("ctx", {}))
    if value is None and field and not field.is_required() and name in section.model_fields:
        do = "write a value, or leave the key out for its default"
    return Mistake(path, what, do)


def _at(path: Sequence[int | str], config: type[Section]) -> tuple[type[Section], FieldInfo | None]:
    """Follow `path` into the config. Return the last section and the last field on the way."""
    section, field = config, None
    for place, part in enumerate(path):  # other parts are names or indices
        if found := section.model_fields.get(str(part)):
            field = found
            if place + 1 < len(path):
                section = section_in(field.annotation) or section
    return section, field


def _wrong_value(
    kind: str, subject: str, name: str, value: Any, context: Mapping[str, Any]
) -> tuple[str, str]:
    """Return what is wrong with a value, and what to write instead."""
    text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    text = text if len(text) <= 60 else f"{text[:57]}..."
    if kind == "literal_error":
        values = re.findall(r"'([^']*)'", context["expected"])
        return f"{text} is not a value of `{name}`", nearest(value, values)
    if kind in BOUNDS:
        return f"{subject} cannot be {text}", f"write {BOUNDS[kind].format(**context)}"
    wanted = WANTED.get(kind.partition("_")[0])
    if wanted is None:
        return f"{subject} cannot be {text}", "see docs/configuration.md for its values"
    do = f"write {wanted}"
    if wanted == "a list" and not isinstance(value, Mapping):
        do = f"write `{name}: [{value}]`"
    elif wanted == "keys below it":
        do = f"write keys below `{name}:`, see docs/configuration.md"
    elif wanted == "text" and not isinstance(value, Mapping | list):
        do = f'put it in quotes: `"{value}"`'
    verb = "have" if wanted == "keys below it" else "be"
    return f"{subject} must {verb} {wanted}, not {text}", do

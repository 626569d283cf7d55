"""The config, read and checked before any job starts, with every mistake in the user's words."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from anchorscope.config.sections import section_in
from anchorscope.experiments.settings import RunConfig
from anchorscope.storage.errors import AnchorscopeError, nearest
from anchorscope.storage.identity import CATALOGUES
from anchorscope.workflow.studies import TARGETS

STAGES = "dataset model train prompts answers activations scores truth refits table figure view"
RESERVED = frozenset([*TARGETS, *STAGES.split()])
"""Names of the workflow's targets and stages; no model, dataset or figure may take one."""

_SEE = "see docs/configuration.md for all keys"


class Source(NamedTuple):
    """A file, or what was set on the command line."""

    name: str
    content: Mapping[str, Any]
    root: yaml.Node | None  # the content as YAML's nodes, which know their lines in the file


class Mistake(NamedTuple):
    """One mistake in the config; `what`, `do` and `see` are those of `AnchorscopeError`."""

    path: tuple[int | str, ...]  # the keys that lead to it
    what: str
    do: str
    see: str = "config"

    @property
    def key(self) -> str:
        return ".".join(map(str, self.path))


def read(files: Iterable[str | Path]) -> RunConfig:
    """The checked config of files, each merged over those before it as Snakemake does.

    Raises AnchorscopeError: a file is missing or no YAML, or there is a mistake in one.
    """
    from snakemake.utils import update_config

    given = [_source(path) for path in files]
    merged: dict[str, Any] = {}
    for source in given:
        update_config(merged, source.content)
    return load(merged, given)


def sources_of(workflow: Any, name: str) -> list[Source]:
    """The project's config file, where there is one, and what Snakemake was given beside it.

    Empty where the workflow is a module of another. Raises WorkflowError: a file is no YAML, or a
    key is given twice.
    """
    from snakemake.exceptions import WorkflowError

    settings = workflow.config_settings
    if workflow.modifier.skip_configfile:
        return []
    files = dict.fromkeys(os.path.relpath(path) for path in (name, *settings.configfiles))
    try:
        found = [_source(path) for path in files if os.path.isfile(path)]
    except AnchorscopeError as error:
        raise WorkflowError(str(error)) from None
    said = dict(settings.config)
    return [*found, Source("--config", said, yaml.compose(yaml.safe_dump(said)))]


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


def _source(path: str | Path) -> Source:
    """A config file, refused if it is not there, no YAML, holds no keys, or holds one twice."""
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


def load(raw: Mapping[str, Any], given: Sequence[Source] = ()) -> RunConfig:
    """The checked config of `raw`, which was merged from the `given` files and `--config`.

    Raises AnchorscopeError: lists every mistake found, with its place, key, value and remedy.
    """
    known = {c: list(raw[c]) for c in CATALOGUES if isinstance(raw.get(c), Mapping)}
    mistakes: list[Mistake] = []
    try:
        config = RunConfig.model_validate(dict(raw), context={**known, "reserved": RESERVED})
        mistakes += _across(config)
    except ValidationError as error:
        mistakes += map(_in_words, error.errors())
        mistakes += _across_the_rest(raw, mistakes)
    if mistakes:
        raise _error(mistakes, given)
    return config


def _error(mistakes: list[Mistake], given: Sequence[Source]) -> AnchorscopeError:
    if len(mistakes) == 1:
        (only,) = mistakes
        where = f"{_place(only.path, given)}, key {only.key}"
        return AnchorscopeError(only.what, where, only.do, see=only.see)
    what = f"{len(mistakes)} mistakes in the config:"
    for one in mistakes:
        what += f"\n  - {one.key} ({_place(one.path, given)}): {one.what}; {one.do}"
    return AnchorscopeError(what, None, "correct these keys", see="config")


def _place(path: Sequence[int | str], sources: Sequence[Source]) -> str:
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


def _in_words(error: Any) -> Mistake:
    """A pydantic error in the user's words."""
    path, value, kind = error["loc"], error["input"], error["type"]
    if path[-1:] == ("[key]",):
        path = (*path[:-2], value)
    shown = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    if kind == "mistake":
        return Mistake(path, **error["ctx"])
    if kind == "extra_forbidden":
        what = f"unknown key `{path[-1]}` (value {shown})"
        return Mistake(path, what, nearest(path[-1], _keys_at(path[:-1])))
    if kind == "missing":
        return Mistake(path, f"the key `{path[-1]}` is missing", f"add it; {_SEE}")
    what = f"wrong value {shown}"
    if kind == "literal_error":
        known = re.findall("'([^']*)'", error["ctx"]["expected"])
        return Mistake(path, what, nearest(value, known))
    said = error["msg"].partition(" or instance of")[0]
    return Mistake(path, f"{what}: {said[0].lower()}{said[1:]}", _remedy(kind, value))


def _remedy(kind: str, value: Any) -> str:
    """What to do about a value of the wrong type."""
    if kind == "string_type" and isinstance(value, int | float):
        return f'put it in quotes: "{value}"'
    if kind == "bool_type" and isinstance(value, str):
        return f"write true or false without quotes, on the command line True or False; {_SEE}"
    if kind in ("int_type", "float_type") and isinstance(value, str):
        return f"write digits, without quotes; {_SEE}"
    if kind == "list_type" and isinstance(value, str):
        return f"put it in brackets: [{value}]"
    return f"leave the key out to take its default; {_SEE}" if value is None else _SEE


def _keys_at(path: tuple[int | str, ...]) -> list[str]:
    """The keys of the section that lies at a path."""
    found: Any = RunConfig
    for part in path:  # a part that is no key is a name of the user's own
        if field := found.model_fields.get(part):
            found = section_in(field.annotation) or found
    return list(found.model_fields)


def _across_the_rest(raw: Mapping[str, Any], mistakes: Iterable[Mistake]) -> list[Mistake]:
    """What no single section shows of the config without its wrong values, if one is left."""
    rest = deepcopy(dict(raw))
    try:
        for path in [mistake.path for mistake in mistakes]:
            inside: Any = rest
            for key in path[:-1]:
                inside = inside.get(key, {})
            inside.pop(path[-1], None)
        return list(_across(RunConfig.model_validate(rest)))
    except (ValidationError, AttributeError, TypeError):  # too little is left, or a list is wrong
        return []


def _across(config: RunConfig) -> Iterator[Mistake]:
    """What no single section shows."""
    real_rows = {name for name, dataset in config.datasets.items() if dataset.world is None}
    for name, model in config.models.items():
        other = config.models.get(model.answers_of or "")
        if other and other.answers_of:
            what = f"`{model.answers_of}` does not answer itself"
            yield Mistake(("models", name, "answers_of"), what, f"name `{other.answers_of}`")
        planted = model.train is not None and model.train.curriculum == "planted"
        for rows in real_rows & set(model.train.datasets) if model.train and planted else ():
            what = f"the curriculum `planted` needs worlds, and the dataset `{rows}` is none"
            yield Mistake(("models", name, "train", "curriculum"), what, "use `plain`")
    for name, figure in config.figures.items():
        if figure.readout not in config.readouts:
            what = f"the read-out `{figure.readout}` is not measured: it is not among `readouts`"
            do = f"add it to `readouts`, or draw one of: {', '.join(config.readouts)}"
            yield Mistake(("figures", name, "readout"), what, do)
    for name in config.calibration.models:
        if name in config.models and config.models[name].train is None:
            what = f"nothing is known to be true of `{name}`, which is not trained here"
            yield Mistake(("calibration", "models"), what, "name models with a `train` entry")
    for name in config.calibration.datasets:
        if name in real_rows:
            what = f"nothing is planted in `{name}`, which is no world"
            yield Mistake(("calibration", "datasets"), what, "name datasets with a `world` entry")
    if config.grouping == "replicate" and config.conditions.replicate is None:
        what = "the grouping `replicate` needs the condition of this name"
        yield Mistake(("grouping",), what, "add `replicate: {}` to `conditions`")

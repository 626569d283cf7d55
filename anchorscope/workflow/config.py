"""Read and check the config before any job starts. Errors name every mistake and its line."""

import io
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from anchorscope.config import shipped
from anchorscope.config.mistakes import Mistake, explained
from anchorscope.experiments.registry import RunConfig
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic
from anchorscope.workflow.targets import PROOF, TARGETS

CATALOGUES = ("models", "datasets", "figures")
RULES = """
    dataset model prompts answers activations scores delta_p table picture samples methods p_true
    detection_scores detection_cell detection_table detector experiment_measure experiment_table
    reproduction_table report_page
"""
RESERVED = frozenset([*TARGETS, *PROOF, *RULES.split()])
"""Names of targets and rules of the workflow. No model, dataset or figure may have them."""

Keys = tuple[str, ...]
"""Path from the top of the config to an entry: keys, and indices in lists."""


class Source(NamedTuple):
    """A config file, or the keys set on the command line."""

    name: str
    content: Mapping[str, Any]
    lines: Mapping[Keys, int]  # line number of every key and item in the file


def read(files: Iterable[str | Path]) -> RunConfig:
    """Merge config files as Snakemake does (a later file wins), and check the result.

    Raises:
        AnchorscopeError: A file is missing, is not YAML, or contains a mistake.
    """
    from snakemake.utils import update_config

    sources = [_source(path) for path in files]
    merged: dict[str, Any] = {}
    for source in sources:
        update_config(merged, source.content)
    return load(merged, sources)


def sources_of(workflow: Any, name: str) -> list[Source]:
    """Return the sources of Snakemake's config: the project's file, `--configfile` and `--config`.

    `name` is the project's file, which need not exist. There are no sources if another workflow
    uses this one as a module.

    Raises:
        WorkflowError: A file is not YAML, or a key occurs twice.
    """
    from snakemake.exceptions import WorkflowError

    settings = workflow.config_settings
    if workflow.modifier.skip_configfile:
        return []
    files = dict.fromkeys(os.path.relpath(path) for path in (name, *settings.configfiles))
    try:
        sources = [_source(path) for path in files if os.path.isfile(path)]
    except AnchorscopeError as error:
        raise WorkflowError(str(error)) from None
    keys = dict(settings.config)
    lines = dict(_lines(yaml.compose(yaml.safe_dump(keys))))
    return [*sources, Source("--config", keys, lines)]


def _lines(node: yaml.Node | None, path: Keys = ()) -> Iterator[tuple[Keys, int]]:
    """Yield path and line of each key and item below a node. A key given twice is yielded twice."""
    entries: Iterable[tuple[object, yaml.Node, yaml.Node]] = ()
    if isinstance(node, yaml.MappingNode):
        entries = ((key.value, key, value) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        entries = ((place, item, item) for place, item in enumerate(node.value))
    for name, named, below in entries:
        keys = (*path, str(name))
        yield keys, named.start_mark.line + 1
        yield from _lines(below, keys)


def _source(path: str | Path) -> Source:
    """Read a config file.

    Raises:
        AnchorscopeError: The file is missing, is not YAML, is not a mapping, or repeats a key.
    """
    try:
        loader = yaml.SafeLoader(Path(path).read_text(encoding="utf-8"))
        root = loader.get_single_node()
        places = list(_lines(root))
        content = loader.construct_document(root) if root else {}
    except (OSError, UnicodeDecodeError, yaml.reader.ReaderError) as error:
        what = f"cannot read the config: {error}"
        do = "name a YAML file; write `KEY: VALUE` in it, as `anchorscope` takes no KEY=VALUE"
        raise AnchorscopeError(what, path, do, see="config") from None
    except yaml.MarkedYAMLError as error:
        what, mark = f"broken YAML: {error.problem}", error.problem_mark
        where = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else path
        do = "check this line and those above for indentation, a missing `: `, quotes and tabs"
        raise AnchorscopeError(what, where, do, see="config") from None
    lines: dict[Keys, int] = {}
    twice = []
    for keys, line in places:
        if keys in lines:
            twice.append(f"`{keys[-1]}` in lines {lines[keys]} and {line}")
        lines[keys] = line
    if twice:
        what = f"a key is given twice: {'; '.join(twice)}"
        raise AnchorscopeError(what, path, "keep one of each", see="config")
    if not isinstance(content, dict):
        do = "see docs/configuration.md"
        raise AnchorscopeError("expected keys with values", path, do, see="config")
    return Source(str(path), content, lines)


def load(raw: Mapping[str, Any], sources: Sequence[Source] = ()) -> RunConfig:
    """Check the user's merged config, and complete it with the shipped catalogue.

    Raises:
        AnchorscopeError: There are mistakes. The error lists place, key, value and remedy of each.
    """
    whole = shipped.complete({**raw, **_own_targets(sources)})
    names = {c: list(whole[c]) for c in CATALOGUES if isinstance(whole[c], Mapping)}
    mistakes: list[Mistake] = []
    try:
        config = RunConfig.model_validate(whole, context={**names, "reserved": RESERVED})
        mistakes += _between_sections(config)
    except ValidationError as error:
        mistakes += [explained(one, RunConfig) for one in error.errors()]
    if mistakes:
        raise _error(mistakes, sources)
    return config


def _own_targets(sources: Sequence[Source]) -> dict[str, list[str]]:
    """Return {"targets": the user's figures}; {} if the user sets `targets` or has no `figures`.

    The first source is the project's own file. All others are the user's.
    """
    given = [source.content for source in sources[1:]]
    figures = [one["figures"] for one in given if isinstance(one.get("figures"), Mapping)]
    if not figures or any("targets" in one for one in given):
        return {}
    return {"targets": list(dict.fromkeys(name for some in figures for name in some))}


def _error(mistakes: list[Mistake], sources: Sequence[Source]) -> AnchorscopeError:
    """Return one error for all mistakes."""
    if len(mistakes) == 1:
        (only,) = mistakes
        where = f"{_place(only.path, sources)}, key {only.key}"
        return AnchorscopeError(only.what, where, only.do, see=only.see)
    what = f"{len(mistakes)} mistakes in the config:"
    # Unknown keys come first, since a misspelt key also causes errors about missing entries.
    for mistake in sorted(mistakes, key=lambda one: not one.what.startswith("unknown key")):
        place = _place(mistake.path, sources)
        what += f"\n  - {mistake.key} ({place}): {mistake.what}; {mistake.do}"
    return AnchorscopeError(what, None, "correct these keys", see="config")


def _place(path: Sequence[int | str], sources: Sequence[Source]) -> str:
    """Return the source and line that last set `path`, or else its nearest parent key."""
    keys = tuple(map(str, path))
    for depth in range(len(keys), 0, -1):
        for source in reversed(sources):
            if line := source.lines.get(keys[:depth]):
                return source.name if source.name == "--config" else f"{source.name}, line {line}"
    return ", ".join(source.name for source in sources) or "config.yaml"


def _between_sections(config: RunConfig) -> Iterator[Mistake]:
    """Yield the contradictions between sections of a config that is otherwise valid."""
    for name, model in config.models.items():
        other = config.models.get(model.answers_of or "")
        if other and other.answers_of:
            what = f"`{model.answers_of}` does not generate answers but reads another model's"
            yield Mistake(("models", name, "answers_of"), what, f"name `{other.answers_of}`")
    yield from _small_pools(config)
    for name, figure in config.figures.items():
        if figure.readout not in config.readouts:
            what = f"the read-out `{figure.readout}` is not measured: it is not among `readouts`"
            do = f"add it to `readouts`, or draw one of: {', '.join(config.readouts)}"
            yield Mistake(("figures", name, "readout"), what, do)


def _small_pools(config: RunConfig) -> Iterator[Mistake]:
    """Yield each `pool_size` that is smaller than the sample that is drawn from the pool."""
    for name, dataset in config.datasets.items():
        pool, size = dataset.pool_size or config.pool_size, config.sample_size_of(name)
        if pool is not None and pool < size:
            place = ("datasets", name, "pool_size") if dataset.pool_size else ("pool_size",)
            what = f"{pool} questions cannot give {size} samples (`sample_size`)"
            yield Mistake(place, what, f"ask at least {size}, or leave the key out")
            if not dataset.pool_size:
                return


def folder_of(source: Any) -> str:
    """Return the project's folder, given Snakemake's `workflow.current_basedir`.

    If the project is on a Git host, all files of its commit are extracted to
    `.snakemake/anchorscope/`, since Snakemake itself fetches only rules and scripts.
    """
    path: str = source.get_path_or_uri(secret_free=True)
    if os.path.isdir(path):
        return path
    commit = source.hosted_repo.repo.commit(source.ref)
    folder = Path(".snakemake", "anchorscope", commit.hexsha).absolute()
    if not folder.is_dir():
        archive = io.BytesIO()
        commit.repo.archive(archive, commit.hexsha)
        archive.seek(0)
        with atomic(folder) as draft, tarfile.open(fileobj=archive) as files:
            files.extractall(draft, filter="data")
    return str(folder)

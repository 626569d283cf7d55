"""The config, checked before any job starts: every mistake at once, in the user's words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from pydantic import ValidationError

from anchorscope.config.catalogue import Dataset, Figure, Model
from anchorscope.config.sections import Section
from anchorscope.config.settings import Config
from anchorscope.experiments import registry
from anchorscope.questions.hub import is_id
from anchorscope.questions.reading import data_files, local_files
from anchorscope.storage.errors import AnchorscopeError, nearest
from anchorscope.storage.files import inside
from anchorscope.storage.identity import CATALOGUES, identity

__all__ = ["Config", "Mistake", "identity", "load", "nearest"]

KEY = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
RESERVED = frozenset(
    "all calibration controls null-controls report reproduction resume retrain retrain-seeds"
    " sensitivity ship dataset model train prompts answers activations scores truth refits table"
    " figure view".split()
) | frozenset(registry.EXPERIMENTS)
"""Names of the workflow's targets and stages; no model, dataset or figure may take one."""

FILE_SUFFIXES = frozenset(
    "contrasts controls csv density html interchange json log parquet pdf png probes provenance"
    " readouts strata svg tsv vl".split()
) | frozenset(registry.EXPERIMENTS)
PROJECT_FOLDERS = frozenset(
    "anchorscope benchmarks docs envs examples resources rules scripts slurm tests".split()
)

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Mistake:
    """One thing wrong in the config: the dotted key, what is wrong, what to do.

    `see` is the anchor of `docs/what-goes-wrong.md` that says more.
    """

    key: str
    what: str
    do: str
    see: str = "config"


def load(raw: Mapping[str, Any], source: str = "config.yaml") -> Config:
    """The checked config.

    Args:
        raw: the content of the config, `--config` and further config files merged in.
        source: the file named in errors.

    Raises:
        AnchorscopeError: one error that lists every mistake found, with key, value and remedy.
    """
    if not isinstance(raw, Mapping):
        raise _error([Mistake("", f"expected keys with values, found {_shown(raw)}", _SEE)], source)
    mistakes = list(_key_mistakes(raw))
    try:
        config = Config.model_validate(dict(raw))
    except ValidationError as error:
        named = {mistake.key for mistake in mistakes}
        mistakes += [m for m in map(_schema_mistake, error.errors()) if m.key not in named]
    if not mistakes:
        mistakes += _cross_mistakes(config)
    if mistakes:
        raise _error(mistakes, source)
    registry.check(config)
    return config


_SEE = "see docs/configuration.md for all keys"


def _error(mistakes: list[Mistake], source: str) -> AnchorscopeError:
    if len(mistakes) == 1:
        (only,) = mistakes
        return AnchorscopeError(only.what, f"{source}, key {only.key}", only.do, see=only.see)
    lines = [f"\n  - {mistake.key}: {mistake.what}; {mistake.do}" for mistake in mistakes]
    return AnchorscopeError(
        f"{len(mistakes)} mistakes in the config:{''.join(lines)}",
        source,
        "mend these keys",
        see="config",
    )


def _shown(value: Any) -> str:
    """A value as the user wrote it, cut short."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):  # keys that are no text, a list that holds itself
        text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _key_mistakes(raw: Mapping[str, Any]) -> Iterator[Mistake]:
    """Catalogue keys that become file and rule names."""
    for catalogue in CATALOGUES:
        entries = raw.get(catalogue)
        for name in entries if isinstance(entries, Mapping) else ():
            key = f"{catalogue}.{name}"
            if not isinstance(name, str):
                yield Mistake(key, f"YAML reads the name {name!r} as no text", "put it in quotes")
            elif name in RESERVED:
                do = f"choose another name, for example `my-{name}`"
                yield Mistake(key, f"the name `{name}` is reserved for the workflow", do)
            elif not KEY.fullmatch(name) or ".." in name:
                do = f"for example `{valid_key(name)}`: lower case, digits, `.` and `-` inside"
                yield Mistake(key, f"the name `{name}` cannot be used in file names", do)
            elif (suffix := name.rpartition(".")[2]) in FILE_SUFFIXES and "." in name:
                do = f"for example `{name.replace('.', '-')}`"
                yield Mistake(key, f"the name `{name}` ends like a file, in .{suffix}", do)


def valid_key(name: str) -> str:
    """The catalogue key nearest to a name."""
    return re.sub(r"[^a-z0-9.]+", "-", re.sub(r"\.+", ".", name.lower())).strip(".-") or "my-name"


def _schema_mistake(error: Any) -> Mistake:
    """A pydantic error in the user's words."""
    path = error["loc"]
    key, value, kind = ".".join(map(str, path)), error["input"], error["type"]
    if kind == "extra_forbidden":
        what = f"unknown key `{path[-1]}` (value {_shown(value)})"
        return Mistake(key, what, nearest(path[-1], list(_section_at(path[:-1]).model_fields)))
    if kind == "missing":
        return Mistake(key, f"the key `{path[-1]}` is missing", "add it; " + _SEE)
    if kind == "literal_error":
        valid = re.findall(r"'([^']*)'", error["ctx"]["expected"])
        return Mistake(key, f"wrong value {_shown(value)}", nearest(value, valid))
    what = f"wrong value {_shown(value)}: {error['msg'][0].lower()}{error['msg'][1:]}"
    return Mistake(key, what.replace(" or instance of", ", a"), _remedy(kind, value))


def _remedy(kind: str, value: Any) -> str:
    """What to do about a value of the wrong type."""
    if kind == "string_type" and isinstance(value, (int, float)):
        return f'put it in quotes: "{value}"'
    if kind == "bool_type" and isinstance(value, str):
        return "write true or false without quotes, on the command line True or False; " + _SEE
    if kind in ("int_type", "float_type") and isinstance(value, str):
        return "write it without quotes; " + _SEE
    if kind == "list_type" and isinstance(value, str):
        return f"put it in brackets: [{value}]"
    if value is None:
        return "leave the key out to take its default; " + _SEE
    return _SEE


def _section_at(path: tuple[int | str, ...]) -> type[Section]:
    """The section that lies at a path of keys."""
    found: type[Section] = Config
    for part in path:
        if part in found.model_fields:  # else it is a name of the user's own
            annotation = found.model_fields[str(part)].annotation
            inner = [a for a in (annotation, *get_args(annotation)) if _is_section(a)]
            found = inner[0] if inner else found
    return found


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _cross_mistakes(config: Config) -> Iterator[Mistake]:
    """What no single key shows."""
    yield from _folder_mistakes(config)
    yield from _place_mistakes(config)
    for name, model in config.models.items():
        yield from _model_mistakes(f"models.{name}", model, config)
    for name, dataset in config.datasets.items():
        yield from _dataset_mistakes(f"datasets.{name}", dataset)
    for name, figure in config.figures.items():
        yield from _figure_mistakes(f"figures.{name}", figure, config)
    yield from _names("targets", config.targets, config.figures, "figure")
    yield from _study_mistakes(config)
    yield from _repeated("readouts", config.readouts)
    yield from _repeated("probe.grid", config.probe.grid)


def _folder_mistakes(config: Config) -> Iterator[Mistake]:
    path = PurePosixPath(config.results)
    parts = [part for part in path.parts if part != "."]
    bad = not parts or parts[-1] in ("/", "..") or set("{}*?") & set(config.results)
    if bad or parts[0] in PROJECT_FOLDERS or re.match(r"\.[^.]", parts[0]):
        what = f"wrong value {_shown(config.results)}: this folder cannot hold results"
        yield Mistake("results", what, "name a folder of its own, for example `results`")


def _place_mistakes(config: Config) -> Iterator[Mistake]:
    """Paths, and links in a folder of rows or weights, that lead to where nobody declared."""
    from huggingface_hub import constants

    declared: list[str | Path] = [".", PROJECT, *config.data_folders, constants.HF_HUB_CACHE]
    declared += [config.data_folder] if config.data_folder else []
    for key, path in _places(config):
        if not _leads_into(path, declared):
            what = f"wrong value {_shown(path)}: this leads out of the project"
            do = f"declare its folder, `data_folders: [{PurePosixPath(path).parent}]`"
            yield Mistake(key, what, f"{do}, or keep it in the project", "outside")
        elif out := [f for f in _read_in(config, key, path) if not _leads_into(str(f), declared)]:
            what = f"wrong value {_shown(path)}: {out[0].name} in it leads out of the project"
            do = f"declare where it leads, `data_folders: [{out[0].resolve().parent}]`"
            yield Mistake(key, what, f"{do}, or put a copy there", "outside")


def _read_in(config: Config, key: str, path: str) -> list[Path]:
    """The files that are read in a folder of rows or weights: each may be a link."""
    from anchorscope.models.checkpoints import parts

    try:
        folder = Path(path).expanduser()
        if key == "results" or not folder.is_dir():
            return []
        if key.startswith("models."):
            return parts(folder)
        dataset = config.datasets[key.removeprefix("datasets.").removesuffix(".local")]
        splits = {dataset.split, dataset.few_shot.split or dataset.split}
        return [file for split in splits for file in local_files(folder, dataset.config, split)]
    except AnchorscopeError:  # it is not clear which: reading them says so
        return data_files(folder)
    except (OSError, ValueError, RuntimeError):  # nothing that the system could open
        return []


def _places(config: Config) -> Iterator[tuple[str, str]]:
    """Key and path of everything that is read or written where the config says."""
    yield "results", config.results
    for name, model in config.models.items():
        if model.local is not None:
            yield f"models.{name}.local", model.local
    for name, dataset in config.datasets.items():
        if dataset.local is not None:
            below = [config.data_folder, dataset.local] if config.data_folder else [dataset.local]
            yield f"datasets.{name}.local", str(PurePosixPath(*below))
        if dataset.few_shot.file is not None:
            yield f"datasets.{name}.few_shot.file", dataset.few_shot.file


def _leads_into(path: str, folders: Iterable[str | Path]) -> bool:
    try:
        return inside(path, folders)
    except (OSError, ValueError, RuntimeError):  # nothing that the system could open
        return False


def _hub_mistakes(key: str, hub: str | None) -> Iterator[Mistake]:
    """What the hub's clients refuse, or take for a path on this machine."""
    if hub is not None and not is_id(hub):
        what = f"wrong value {_shown(hub)}: this is no id of the hub"
        do = "write `owner/name`, or give a path with `local:`"
        yield Mistake(f"{key}.hub", what, do, "no-such-repository")


def _one_source(key: str, entry: Section, sources: tuple[str, ...]) -> Iterator[Mistake]:
    given = [source for source in sources if getattr(entry, source) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        names = ", ".join(sources[:-1]) + " and " + sources[-1]
        do = f"keep one (`{given[0]}: null` takes a merged one away)" if given else "add one"
        yield Mistake(key, f"exactly one of {names} is needed, found {found}", do)


def _only_with(key: str, entry: Section, name: str, *sources: str) -> Iterator[Mistake]:
    if getattr(entry, name) is not None and all(getattr(entry, s) is None for s in sources):
        value = getattr(entry, name)
        shown = "" if isinstance(value, Section) else f" (value {_shown(value)})"
        what = f"`{name}`{shown} has a meaning only with `{'` or `'.join(sources)}`"
        yield Mistake(f"{key}.{name}", what, f"leave `{name}` out")


def _names(key: str, given: list[str], valid: Iterable[str], noun: str) -> Iterator[Mistake]:
    """Each name given must be valid, and given once."""
    known = set(valid)
    for name in given:
        if name not in known:
            yield Mistake(key, f"unknown {noun} `{name}`", nearest(name, known))
    yield from _repeated(key, given)


def _repeated(key: str, given: list[Any]) -> Iterator[Mistake]:
    for name in sorted({name for name in given if given.count(name) > 1}):
        yield Mistake(key, f"`{name}` is named {given.count(name)} times", "name it once")


def _model_mistakes(key: str, model: Model, config: Config) -> Iterator[Mistake]:
    yield from _one_source(key, model, ("hub", "local", "train"))
    yield from _hub_mistakes(key, model.hub)
    yield from _only_with(key, model, "revision", "hub")
    if model.answers_of is not None:
        yield from _names(f"{key}.answers_of", [model.answers_of], config.models, "model")
        other = config.models.get(model.answers_of)
        if other is not None and other.answers_of is not None:
            what = f"`{model.answers_of}` does not answer itself"
            yield Mistake(f"{key}.answers_of", what, f"name `{other.answers_of}`")
    train = model.train
    if train is None:
        return
    if model.prompt == "chat":
        what = 'a model trained here has no chat template (value "chat")'
        yield Mistake(f"{key}.prompt", what, "use `plain`")
    if train.width % train.heads or (train.width // train.heads) % 2:
        what = f"width {train.width} does not give {train.heads} heads of an even size"
        yield Mistake(f"{key}.train.heads", what, "change `width` or `heads`")
    if train.heads % train.kv_heads:
        what = f"wrong value {train.kv_heads}: {train.heads} heads cannot share so many"
        yield Mistake(f"{key}.train.kv_heads", what, "use a divisor of `heads`")
    yield from _names(f"{key}.train.datasets", train.datasets, config.datasets, "dataset")
    for name in train.datasets if train.curriculum == "planted" else ():
        if name in config.datasets and config.datasets[name].world is None:
            what = f"the curriculum `planted` needs worlds, and the dataset `{name}` is none"
            yield Mistake(f"{key}.train.curriculum", what, "use `plain`")


def _dataset_mistakes(key: str, dataset: Dataset) -> Iterator[Mistake]:
    yield from _one_source(key, dataset, ("hub", "local", "world"))
    yield from _hub_mistakes(key, dataset.hub)
    for name in ("config", "revision"):
        yield from _only_with(key, dataset, name, "hub")
    for name in ("split", "fields"):
        yield from _only_with(key, dataset, name, "hub", "local")
    if dataset.world is None and dataset.fields is None:
        do = "add it, at least `question` and `answers`"
        yield Mistake(f"{key}.fields", "the key `fields` is missing", do)
    if dataset.hub is not None and dataset.split is None:
        do = "add it, for example `split: validation`"
        yield Mistake(f"{key}.split", "the key `split` is missing", do)
    yield from _one_source(f"{key}.few_shot", dataset.few_shot, ("file", "split", "rows"))


def _study_mistakes(config: Config) -> Iterator[Mistake]:
    """Cells that other targets name, and groupings that need a condition."""
    named: dict[str, tuple[list[str], list[str]]] = {
        f"calibration.nulls.{name}": ([null.model], [null.dataset])
        for name, null in config.calibration.nulls.items()
    }
    for key, cells in (("calibration", config.calibration), ("sensitivity", config.sensitivity)):
        if cells is not None and (key in config.model_fields_set):
            named[key] = (cells.models, cells.datasets)
    for key, (models, datasets) in named.items():
        yield from _names(f"{key}.models", models, config.models, "model")
        yield from _names(f"{key}.datasets", datasets, config.datasets, "dataset")
    if "calibration" in config.model_fields_set:
        yield from _calibration_mistakes(config)
    if config.grouping == "replicate" and config.conditions.replicate is None:
        what = "the grouping `replicate` needs the condition of this name"
        yield Mistake("grouping", what, "add `replicate: {}` to `conditions`")


def _calibration_mistakes(config: Config) -> Iterator[Mistake]:
    """Truth is known of models trained here, on planted worlds."""
    for name in config.calibration.models:
        if name in config.models and config.models[name].train is None:
            what = f"nothing is known to be true of `{name}`, which is not trained here"
            yield Mistake("calibration.models", what, "name models that have a `train` entry")
    for name in config.calibration.datasets:
        if name in config.datasets and config.datasets[name].world is None:
            what = f"nothing is planted in `{name}`, which is no world"
            yield Mistake("calibration.datasets", what, "name datasets that have a `world` entry")


def _figure_mistakes(key: str, figure: Figure, config: Config) -> Iterator[Mistake]:
    yield from _names(f"{key}.models", figure.models, config.models, "model")
    yield from _names(f"{key}.datasets", figure.datasets, config.datasets, "dataset")
    if figure.readout not in config.readouts:
        what = f"the read-out `{figure.readout}` is not measured: it is not among `readouts`"
        do = f"add it to `readouts`, or draw one of: {', '.join(config.readouts)}"
        yield Mistake(f"{key}.readout", what, do)

"""What a report is told of its run: the settings it shows, and the command that builds it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from anchorscope.config.settings import Config
from anchorscope.storage.files import read_json


def cells(config: Config) -> list[tuple[str, str, str]]:
    """(model, dataset, read-out) of every cell of the targets, once each."""
    found = [
        (model, dataset, config.figures[figure].readout)
        for figure in config.targets
        for model, dataset in config.cells(figure)
    ]
    return list(dict.fromkeys(found))


def resolved(config: Config, *, calibration: bool = True) -> dict[str, Any]:
    """The settings of a run as plain data, with those entries of the catalogues that it shows.

    Args:
        config: all settings.
        calibration: whether the calibration is shown, and with it its cells' entries.
    """
    shown = {"figures": set(config.targets)} | _entries(config, calibration)
    left_out = {"sensitivity"} if calibration else {"calibration", "sensitivity"}
    whole = config.model_dump(mode="json", exclude=left_out)
    for name, keys in shown.items():
        whole[name] = {key: entry for key, entry in whole[name].items() if key in keys}
    return whole


def _entries(config: Config, calibration: bool) -> dict[str, set[str]]:
    """Keys of the models and datasets that are shown."""
    found = [(model, dataset) for model, dataset, _ in cells(config)]
    known = config.calibration
    if calibration:
        found += [(model, dataset) for model in known.models for dataset in known.datasets]
        found += [(null.model, null.dataset) for null in known.nulls.values()]
    return {"models": {model for model, _ in found}, "datasets": {name for _, name in found}}


def labels(stem: str, record: str | Path) -> dict[str, str]:
    """What Snakemake's own report says beside a picture: its name, and n where that is recorded.

    Args:
        stem: the picture's name.
        record: its provenance.
    """
    from anchorscope.figures.figure_style import sample_count  # Altair: not needed to plan jobs

    by_cell = read_json(Path(record)).get("counts_by_cell", {}) if Path(record).is_file() else {}
    counts = [int(cell["kept"]) for cell in by_cell.values()]
    return {"picture": stem} | ({"samples a cell": sample_count(counts)} if counts else {})


def options(files: Iterable[str | Path], given: Mapping[str, Any]) -> str:
    """How a run was called, to come after its target: config files and keys of the command line.

    Args:
        files: of `--configfile`.
        given: of `--config`.
    """
    here = Path.cwd()
    named = [Path(file) for file in files]
    places = [file.relative_to(here) if file.is_relative_to(here) else file for file in named]
    keys = [f"{key}={_shown(value)}" for key, value in given.items()]
    said = ""
    if places:
        said += " --configfile " + " ".join(shlex.quote(place.as_posix()) for place in places)
    if keys:
        said += " --config " + " ".join(map(shlex.quote, keys))
    return said


def _shown(value: Any) -> str:
    """A value as Snakemake's command line reads it: True and False, nothing for null."""
    if value is None or isinstance(value, (str, bool)):
        return "" if value is None else str(value)
    return json.dumps(value, default=str)

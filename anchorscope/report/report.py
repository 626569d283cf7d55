"""The report of a run: one HTML page that is understood without the paper and works offline.

The words and the layout are in the templates of `resources/report/`; here is what fills them.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from anchorscope.calibration.requirements import in_words
from anchorscope.config.settings import Config
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.figures.figure_data import rows_at, span, true
from anchorscope.figures.figure_fit import size_of
from anchorscope.figures.figures import GROUPINGS
from anchorscope.report import report_samples, run_facts
from anchorscope.report.cell_summary import summary
from anchorscope.report.cell_words import figures, sentences
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv

MOST = 10_000_000
"""Bytes that a page stays below."""

PICTURES = 4_500_000
"""Bytes of embedded pictures; those beyond are linked."""

CAPS = (200, 100, 50, 25, 10, 1)
"""Most samples of a cell, fewer where the page would get too large."""

SCRIPTS = ("tables.js", "samples.js")
TABLES = ("contrasts", "controls", "curve", "interchange", "refits")
FLAGS = ("signal", "cell_signal", "headline", "thin", "empty", "holds")


def build(
    config: Config, *, resources: str | Path, options: str = ""
) -> tuple[str, dict[str, Any]]:
    """The page of a finished run, and what it holds, for its provenance.

    Args:
        config: the checked config; its targets are shown, from the products under its root.
        resources: folder of the templates, the style sheet and the scripts.
        options: what the run was called with, for the commands shown.

    Raises:
        AnchorscopeError: products that do not belong together, or more of them than fit a page.
        FileNotFoundError: a target's products are not built.
    """
    found = [
        summary(config, model, dataset, readout=readout)
        for model, dataset, readout in run_facts.cells(config)
    ]
    template = _environment(Path(resources)).get_template("page.html")
    content = _content(config, found, options)
    for cap in CAPS:
        shown = [report_samples.cell(config, cell, cap=cap) for cell in found]
        html = template.render(content, explored=shown)
        size = len(html.encode("utf-8", "replace"))
        if size < MOST:
            weak = [f"{one['model']}/{one['dataset']}" for one in found if not one["signal"]]
            return html, {"cells": len(found), "weak": weak, "most_samples": cap, "bytes": size}
    raise AnchorscopeError(
        f"the report would take {size / 1e6:.1f} MB, more than {MOST / 1e6:g}, in tables alone",
        f"targets {', '.join(config.targets)}",
        "name fewer figures in `targets`, and build a report for each part",
        see="report-too-large",
    )


def _environment(resources: Path) -> Environment:
    """Jinja with autoescape: whatever a model, a dataset or a user wrote becomes text."""
    loader = FileSystemLoader(resources)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    made.filters |= {one.__name__: one for one in (figures, span, duration, sentences, median)}
    made.tests["known"] = known
    scripts = [(resources / name).read_text(encoding="utf-8") for name in SCRIPTS]
    digests = [hashlib.sha256(script.encode("utf-8")).digest() for script in scripts]
    made.globals |= {
        "style": Markup((resources / "report.css").read_text(encoding="utf-8")),
        "scripts": [Markup(script) for script in scripts],
        "policy": " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests),
    }
    return made


def _content(config: Config, found: Sequence[Mapping[str, Any]], options: str) -> dict[str, Any]:
    """All that the templates show but for the samples of the explorer."""
    root = Path(config.root)
    floors, nulls = (_table(root, name) for name in ("calibration-floors", "null-controls"))
    used = {name: dict.fromkeys(cell[name] for cell in found) for name in ("model", "dataset")}
    models = {key: entry.label for key, entry in config.models.items()}
    datasets = {key: entry.label for key, entry in config.datasets.items()}
    settings = run_facts.resolved(config, calibration=bool(len(floors) + len(nulls)))
    return {
        "config": config,
        "options": options,
        "models": models,
        "datasets": datasets,
        "cells": found,
        "trained": [key for key, entry in config.models.items() if entry.train],
        "figures": _pictures(config, found),
        "tables": {figure: _tables(config, figure) for figure in config.targets},
        "verdict": in_words(floors, models, datasets).split("\n") if len(floors) else [],
        "nulls": nulls.to_dict("records"),
        "stages": run_facts.STAGES,
        "model_facts": [run_facts.model_facts(config, key) for key in used["model"]],
        "dataset_facts": [run_facts.dataset_facts(config, key) for key in used["dataset"]],
        "settings": yaml.safe_dump(settings, sort_keys=False, allow_unicode=True),
        "libraries": provenance.read(root / "tables" / f"{config.targets[0]}.csv")["libraries"],
        "timings": run_facts.timings(root),
    }


def _table(root: Path, name: str) -> pd.DataFrame:
    """A table with truth values as such; empty where it was not made."""
    path = root / "tables" / f"{name}.csv"
    found = read_csv(path) if path.is_file() else pd.DataFrame()
    return found.assign(**{flag: true(found[flag]) for flag in FLAGS if flag in found})


def _tables(config: Config, figure: str) -> dict[str, list[dict[Any, Any]]]:
    """Rows of a figure's tables at each cell's headline layer of the read-out."""
    root, (site, position) = Path(config.root), config.figures[figure].readout.split("/")
    controls = rows_at(_table(root, f"{figure}.controls"), (site, position))
    keys = ["model", "dataset", "site", "position", "layer"]
    chosen = controls.loc[controls["headline"], [*keys, "signal", "cell_signal"]]
    made = {}
    for name in TABLES:
        table = _table(root, figure if name == "curve" else f"{figure}.{name}")
        if len(table):
            table = table.merge(chosen.drop(columns=set(chosen) & set(table) - set(keys)), on=keys)
        if len(table) and name == "curve":
            table = table[table["grouping"] == config.grouping]
        made[name] = table.to_dict("records")
    return made


def _pictures(config: Config, cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every picture of the targets and the calibration's, embedded as long as there is room."""
    sizes = {(cell["model"], cell["dataset"]): cell["n"] for cell in cells}
    found: list[dict[str, Any]] = []
    for figure in config.targets:
        drawn: str = config.figures[figure].readout
        counts = [sizes[cell] for cell in config.cells(figure)]
        shared = {"figure": figure, "grouping": GROUPINGS[config.grouping], "counts": counts}
        views = {"": drawn, "controls": drawn, "probes": drawn}
        views["readouts"] = ", ".join(config.answer_readouts)
        views |= {name.replace("/", "-"): name for name in config.readouts}
        for view, readout in views.items():
            stem = f"{figure}.{view}" if view else figure
            found.append(shared | {"stem": stem, "view": view, "readout": readout, "about": ""})
        for experiment in EXPERIMENTS.values():
            for view, stem in experiment.stems().items():
                said = {"title": experiment.views[view], "about": experiment.about}
                named = {"stem": f"{figure}.{stem}", "view": stem, "readout": drawn}
                found.append(shared | named | said)
    found.append({"stem": "calibration", "figure": "calibration"})
    embedded, left = [], PICTURES
    for one in found:
        path = Path(config.root) / "figures" / f"{one['stem']}.svg"
        if path.is_file():
            data = base64.b64encode(path.read_bytes()).decode("ascii")
            width = size_of(path.read_text(encoding="utf-8"))[0]
            embedded.append(one | {"svg": data if len(data) <= left else "", "width": width})
            left -= len(embedded[-1]["svg"])
    return embedded


def duration(seconds: float) -> str:
    """Seconds in words: `4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def known(value: object) -> bool:
    """Whether there is something to show: not None, NaN or an empty text."""
    return not (value is None or value == "" or (isinstance(value, float) and math.isnan(value)))

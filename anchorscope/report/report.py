"""The report of a run: one HTML page that is understood without the paper and works offline.

The words and the layout are in the templates of `resources/report/`; here is what fills them.
"""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment
from markupsafe import Markup

from anchorscope.config.readouts import Pair
from anchorscope.config.settings import Config
from anchorscope.detectors import verdict
from anchorscope.detectors.pictures.views import VIEWS
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.figures.figure_data import rows_at, true
from anchorscope.figures.figure_fit import size_of
from anchorscope.figures.figure_notes import GROUPS, span
from anchorscope.passes.interventions import REGISTRY
from anchorscope.report import methods, report_samples, run_facts
from anchorscope.report.cell_summary import RESOURCES, Summary, summary, templates
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv
from anchorscope.workflow.pictures import pictures

MOST = 10_000_000
"""A page has fewer bytes."""
PICTURES = 4_500_000
"""Most bytes of embedded pictures; the others are linked."""
CAPS = (200, 100, 50, 25, 10, 1)
"""Most samples of a cell on the page; fewer are tried if the page would get too large."""
SCRIPTS = ("tables.js", "samples.js")
TABLES = ("claims", "contrasts", "controls", "crossing", "curve")
DETECTORS = (
    "How likely each answer is wrong by several methods, each tried on answers that it was not "
    "fitted to; see docs/detectors.md."
)
FLAGS = ("signal", "cell_signal", "headline", "thin", "empty", "holds")


def build(config: Config, *, options: str = "") -> tuple[str, dict[str, Any]]:
    """The page of a finished run, and facts about the page for its provenance.

    It shows the config's targets from the products under its root. `options` are those that the run
    was called with; the page's commands repeat them.

    Raises:
        AnchorscopeError: products that do not belong together, or more of them than fit a page.
        FileNotFoundError: a target's products are not built.
    """
    cells = [
        summary(config, model, dataset, readout=readout, figure=figure)
        for (model, dataset, readout), figure in run_facts.cells(config).items()
    ]
    template, content = _environment().get_template("page.html"), _content(config, cells, options)
    for cap in CAPS:
        samples = [report_samples.cell(config, cell, cap=cap) for cell in cells]
        html = template.render(content, explored=samples)
        size = len(html.encode("utf-8", "replace"))
        if size < MOST:
            weak = [f"{cell['model']}/{cell['dataset']}" for cell in cells if not cell["signal"]]
            return html, {"cells": len(cells), "weak": weak, "most_samples": cap, "bytes": size}
    what = f"the report would take {size / 1e6:.1f} MB, more than {MOST / 1e6:g}, in tables alone"
    do = "name fewer figures in `targets`, and build a report for each part"
    raise AnchorscopeError(what, f"targets {', '.join(config.targets)}", do, see="report-too-large")


def _environment() -> Environment:
    """Jinja with autoescape: whatever a model, a dataset or a user wrote becomes text."""
    environment = templates(autoescape=True)
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.filters |= {"span": span, "median": median}
    environment.tests["known"] = lambda value: not pd.isna(value) and value != ""
    scripts = [(RESOURCES / name).read_text(encoding="utf-8") for name in SCRIPTS]
    digests = [hashlib.sha256(script.encode("utf-8")).digest() for script in scripts]
    environment.globals |= {
        "style": Markup((RESOURCES / "report.css").read_text(encoding="utf-8")),
        "scripts": [Markup(script) for script in scripts],
        # The page's policy allows these scripts and no others.
        "policy": " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests),
    }
    return environment


def _content(config: Config, cells: Sequence[Summary], options: str) -> dict[str, Any]:
    """What the templates show, without the samples of the explorer."""
    root = Path(config.root)
    floors, nulls = (_table(root, name) for name in ("calibration-floors", "null-controls"))
    models = {key: entry.label for key, entry in config.models.items()}
    datasets = {key: entry.label for key, entry in config.datasets.items()}
    models_used = dict.fromkeys(cell["model"] for cell in cells)
    datasets_used = dict.fromkeys(cell["dataset"] for cell in cells)
    settings = run_facts.resolved(config, calibration=bool(len(floors) + len(nulls)))
    return {
        "config": config,
        "options": options,
        "conditions": {name: one.label for name, one in REGISTRY.items()},
        "models": models,
        "datasets": datasets,
        "cells": cells,
        "trained": [key for key, entry in config.models.items() if entry.train],
        "figures": _pictures(config, cells),
        "methods": {
            figure: (methods.text(config, figure), methods.references(config, figure))
            for figure in config.targets
        },
        "tables": {figure: _tables(config, figure) for figure in config.targets},
        "detection": {figure: _detection(config, figure) for figure in config.targets},
        "required": floors.to_dict("records"),
        "nulls": nulls.to_dict("records"),
        "published": _table(root, "reproduction").to_dict("records"),
        "stages": run_facts.STAGES,
        "model_facts": [run_facts.model_facts(config, key) for key in models_used],
        "dataset_facts": [run_facts.dataset_facts(config, key) for key in datasets_used],
        "settings": yaml.safe_dump(settings, sort_keys=False, allow_unicode=True),
        "libraries": provenance.read(root / "tables" / f"{config.targets[0]}.csv")["libraries"],
        "timings": run_facts.timings(root),
    }


def _table(root: Path, name: str) -> pd.DataFrame:
    """A table with its flags as booleans; empty if it was not made."""
    path = root / "tables" / f"{name}.csv"
    table = read_csv(path) if path.is_file() else pd.DataFrame()
    return table.assign(**{flag: true(table[flag]) for flag in FLAGS if flag in table})


def _tables(config: Config, figure: str) -> dict[str, list[dict[Any, Any]]]:
    """Rows of a figure's tables at its read-out and each cell's headline layer."""
    root, readout = Path(config.root), Pair.of(config.figures[figure].readout)
    curve = rows_at(_table(root, figure), readout)
    keys = ["model", "dataset", "site", "position", "layer"]
    chosen = curve.loc[curve["headline"], [*keys, "signal", "cell_signal"]].drop_duplicates(keys)
    rows = {}
    for name in TABLES:
        table = _table(root, figure if name == "curve" else f"{figure}.{name}")
        if len(table):
            table = table.merge(chosen.drop(columns=set(chosen) & set(table) - set(keys)), on=keys)
        rows[name] = table.to_dict("records")
    return rows


def _detection(config: Config, figure: str) -> list[str]:
    """What was found of detection, in words; nothing where it was not run."""
    root, readout = Path(config.root), Pair.of(config.figures[figure].readout)
    names = ("detection", "detection-reads", "transfer")
    tables = [_table(root, f"{figure}.{name}") for name in names]
    if any(not len(table.columns) for table in tables):
        return []
    detection, reads, transfer = (rows_at(table, (readout[0], readout[1])) for table in tables)
    labels = config.labels_of(config.cells(figure))
    return verdict.in_words(detection, reads, transfer, labels["models"], labels["datasets"])


def _pictures(config: Config, cells: Sequence[Summary]) -> list[dict[str, Any]]:
    """Every picture of the targets and the calibration's that was drawn.

    The first are embedded (`svg`, base64) as long as there is room; of the others `svg` is empty.
    """
    drawn, room = [], PICTURES
    for picture in _views(config, cells):
        stem = ".".join(filter(None, (picture["figure"], picture["view"])))
        path = Path(config.root) / "figures" / f"{stem}.svg"
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            data = base64.b64encode(text.encode("utf-8")).decode("ascii")
            svg = data if len(data) <= room else ""
            drawn.append(picture | {"stem": stem, "svg": svg, "width": size_of(text)[0]})
            room -= len(svg)
    return drawn


def _views(config: Config, cells: Sequence[Summary]) -> list[dict[str, Any]]:
    """Every picture that there can be: its figure and view, and what is said below it."""
    sizes = {(cell["model"], cell["dataset"]): cell["n"] for cell in cells}
    readouts = {name: name.replace("/", "-") for name in config.readouts}
    shown_at = {view: name for name, view in readouts.items()}
    shown_at["readouts"] = ", ".join(config.answer_readouts)
    abouts = {view: one.about for one in EXPERIMENTS.values() for view in one.pictures}
    abouts |= dict.fromkeys(VIEWS, DETECTORS)
    views = [
        {
            "figure": figure,
            "view": view,
            "title": picture.title,
            "about": abouts.get(view, ""),
            "readout": shown_at.get(view, config.figures[figure].readout),
            "groups": GROUPS,
            "counts": [sizes[cell] for cell in config.cells(figure)],
        }
        for figure in config.targets
        for view, picture in pictures(readouts).items()
    ]
    return [*views, {"figure": "calibration", "view": ""}]

"""The report of a run: one HTML page that is understood without the paper and works offline.

The words and the layout are in the templates of `resources/report/`. This module fills them.
"""

import base64
import hashlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment
from markupsafe import Markup

from anchorscope.config.readouts import Pair
from anchorscope.config.settings import Config
from anchorscope.detectors import verdict
from anchorscope.detectors.registry import VIEWS
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.figures.figure_data import rows_at
from anchorscope.figures.figure_fit import size_of
from anchorscope.figures.figure_notes import GROUPS, span
from anchorscope.passes.interventions import REGISTRY
from anchorscope.report import methods, report_samples, run_facts
from anchorscope.report.cell_summary import RESOURCES, Summary, summary, templates
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv
from anchorscope.workflow.paths import TABLES
from anchorscope.workflow.pictures import pictures

MOST = 10_000_000
"""A page has fewer bytes than this."""
PICTURES = 4_500_000
"""Most bytes of embedded pictures; the others are linked."""
CAPS = (200, 100, 50, 25, 10, 1)
"""Most samples of a cell on the page; the next number is tried if the page would be too large."""
DETECTORS = (
    "Several methods predict how likely each answer is wrong. Each is tested on answers that it "
    "was not fitted to; see docs/detectors.md."
)


def build(config: Config, *, options: str = "") -> tuple[str, dict[str, Any]]:
    """Build the page of a finished run, and facts about the page for its provenance.

    The page shows the config's targets from the products under its root. `options` are the run's
    command-line options, which the page's commands repeat.

    Raises:
        AnchorscopeError: Products do not belong together, or are too many for a page.
        FileNotFoundError: A target's products are not built.
    """
    cells = [
        summary(config, model, dataset, readout=readout, figure=figure)
        for (model, dataset, readout), figure in run_facts.cells(config).items()
    ]
    template, content = _environment().get_template("page.html"), _content(config, cells, options)
    for cap in CAPS:
        of_cells = [report_samples.of_cell(config, cell, cap=cap) for cell in cells]
        shown = {"samples": list(chain(*of_cells)), "counts": list(map(len, of_cells))}
        html = template.render(content, **shown)
        size = len(html.encode("utf-8", "replace"))
        if size < MOST:
            weak = [f"{cell['model']}/{cell['dataset']}" for cell in cells if not cell["signal"]]
            return html, {"cells": len(cells), "weak": weak, "most_samples": cap, "bytes": size}
    what = f"the report would take {size / 1e6:.1f} MB, more than {MOST / 1e6:g}, in tables alone"
    do = "name fewer figures in `targets`, and build a report for each part"
    raise AnchorscopeError(what, f"targets {', '.join(config.targets)}", do, see="report-too-large")


def _environment() -> Environment:
    """Return Jinja with autoescape, so that text of a model, dataset or user stays text."""
    environment = templates(autoescape=True)
    environment.filters |= {"span": span}
    environment.tests["known"] = lambda value: not pd.isna(value) and value != ""
    script = (RESOURCES / "tables.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()
    environment.globals |= {
        "style": Markup((RESOURCES / "report.css").read_text(encoding="utf-8")),
        "script": Markup(script),
        # The page's policy allows this script and no other.
        "policy": f"'sha256-{digest}'",
        "tables": TABLES,
    }
    return environment


def _content(config: Config, cells: Sequence[Summary], options: str) -> dict[str, Any]:
    """Return the content of the templates, without the samples."""
    root = Path(config.root)
    models = {key: entry.label for key, entry in config.models.items()}
    datasets = {key: entry.label for key, entry in config.datasets.items()}
    models_used = dict.fromkeys(cell["model"] for cell in cells)
    datasets_used = dict.fromkeys(cell["dataset"] for cell in cells)
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
        "claims": {figure: _claims(config, figure) for figure in config.targets},
        "detection": {figure: _detection(config, figure) for figure in config.targets},
        "stages": run_facts.STAGES,
        "model_facts": [run_facts.model_facts(config, key) for key in models_used],
        "dataset_facts": [run_facts.dataset_facts(config, key) for key in datasets_used],
        "settings": yaml.safe_dump(run_facts.resolved(config), sort_keys=False, allow_unicode=True),
        "libraries": provenance.read(root / "tables" / f"{config.targets[0]}.csv")["libraries"],
        "timings": run_facts.timings(root),
    }


def _claims(config: Config, figure: str) -> list[dict[Any, Any]]:
    """Return the rows of a figure's table of claims, at its read-out."""
    table = read_csv(Path(config.root) / "tables" / f"{figure}.claims.csv")
    return rows_at(table, Pair.of(config.figures[figure].readout)).to_dict("records")


def _detection(config: Config, figure: str) -> list[str]:
    """Return the results of detection in sentences; none if it was not run."""
    root, readout = Path(config.root), Pair.of(config.figures[figure].readout)
    names = ("detection", "detection-reads", "transfer")
    paths = [root / "tables" / f"{figure}.{name}.csv" for name in names]
    if not all(path.is_file() for path in paths):
        return []
    detection, reads, transfer = (rows_at(read_csv(path), readout) for path in paths)
    return verdict.in_words(detection, reads, transfer)


def _pictures(config: Config, cells: Sequence[Summary]) -> list[dict[str, Any]]:
    """Return every picture of the targets and of the calibration that was drawn.

    The first are embedded (`svg`, base64) as long as there is room. `svg` is empty for the others.
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
    """Return every possible picture: its figure, its view, and the text below it."""
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

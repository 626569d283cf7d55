"""The report of a run: one HTML page that can be read offline and without the paper.

This module fills the templates in `resources/report/` with sentences of `statements.txt`.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment
from markupsafe import Markup

from anchorscope import statements
from anchorscope.config.readouts import Location
from anchorscope.config.settings import Config
from anchorscope.detectors import verdict
from anchorscope.detectors.registry import VIEWS
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.figures.data import rows_at
from anchorscope.figures.fit import size_of
from anchorscope.report import methods, report_samples, run_facts
from anchorscope.report.cell_summary import Summary, summary
from anchorscope.report.methods import RESOURCES
from anchorscope.statements import say
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.paths import TABLES
from anchorscope.workflow.pictures import pictures

PICTURES = 4_500_000
"""Maximum size of all embedded pictures together, in bytes. Other pictures are linked."""
SAMPLES, OF_CELL = 2000, 200
"""Maximum number of samples on the page, and maximum number from one cell."""


def build(config: Config) -> str:
    """Build the page of a finished run, from the products of the targets under `config.root`.

    Raises:
        AnchorscopeError: Products do not belong together.
        FileNotFoundError: A target's products are not built.
    """
    cells = [
        summary(config, model, dataset, readout=readout, figure=figure)
        for (model, dataset, readout), figure in run_facts.cells(config).items()
    ]
    cap = max(1, min(OF_CELL, SAMPLES // len(cells)))
    samples = [report_samples.of_cell(config, cell, cap=cap) for cell in cells]
    shown = {"samples": list(chain(*samples)), "counts": list(map(len, samples))}
    return _environment().get_template("page.html").render(_content(config, cells), **shown)


def _environment() -> Environment:
    """Return a Jinja environment that escapes the text of models, datasets and users."""
    environment = statements.environment(RESOURCES, autoescape=True)
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


def _content(config: Config, cells: Sequence[Summary]) -> dict[str, Any]:
    """Return the content of the templates, without the samples."""
    models = {key: entry.label for key, entry in config.models.items()}
    datasets = {key: entry.label for key, entry in config.datasets.items()}
    models_used = dict.fromkeys(cell["model"] for cell in cells)
    datasets_used = dict.fromkeys(cell["dataset"] for cell in cells)
    targets = config.targets
    texts = {one: (methods.text(config, one), methods.references(config, one)) for one in targets}
    return {
        "config": config,
        "models": models,
        "datasets": datasets,
        "cells": cells,
        "figures": _pictures(config),
        "methods": texts,
        "claims": {figure: _claims(config, figure) for figure in targets},
        "detection": {figure: _detection(config, figure) for figure in targets},
        "stages": run_facts.STAGES,
        "model_facts": [run_facts.model_facts(config, key) for key in models_used],
        "warnings": _warnings(config, cells),
        "dataset_facts": [run_facts.dataset_facts(config, key) for key in datasets_used],
        "settings": yaml.safe_dump(run_facts.resolved(config), sort_keys=False, allow_unicode=True),
        "libraries": provenance.read(f"{config.root}/tables/{targets[0]}.csv")["libraries"],
    }


def _warnings(config: Config, cells: Sequence[Summary]) -> dict[str, list[str]]:
    """Return a dict of model → what transformers warned of while it loaded the model."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        texts = run_facts.warnings(config.root, cell["model"], cell["dataset"])
        found.setdefault(cell["model"], {}).update(dict.fromkeys(texts))
    return {model: list(texts) for model, texts in found.items() if texts}


def _claims(config: Config, figure: str) -> list[dict[Any, Any]]:
    """Return the rows of a figure's table of claims, at its read-out."""
    table = read_csv(Path(config.root) / "tables" / f"{figure}.claims.csv")
    return rows_at(table, Location.of(config.figures[figure].readout)).to_dict("records")


def _detection(config: Config, figure: str) -> list[str]:
    """Return sentences about the results of detection, or no sentence if it was not run."""
    root, readout = Path(config.root), Location.of(config.figures[figure].readout)
    names = [name for view in VIEWS.values() for name in view.tables]
    paths = [root / "tables" / f"{figure}.{name}.csv" for name in names]
    if not all(path.is_file() for path in paths):
        return []
    detection, reads = (rows_at(read_csv(path), readout) for path in paths)
    return verdict.in_words(detection, reads)


def _pictures(config: Config) -> list[dict[str, Any]]:
    """Return every picture that was drawn for the targets.

    `svg` is in base64, or "" if it exceeds what earlier pictures leave of `PICTURES` bytes.
    """
    drawn, room = [], PICTURES
    for figure, view, title, about in _views(config):
        stem = ".".join(filter(None, (figure, view)))
        path = Path(config.root) / "figures" / f"{stem}.svg"
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            data = base64.b64encode(text.encode("utf-8")).decode("ascii")
            svg = data if len(data) <= room else ""
            names = {"figure": figure, "view": view, "title": title, "about": about, "stem": stem}
            drawn.append(names | {"svg": svg, "width": size_of(text)[0]})
            room -= len(svg)
    return drawn


def _views(config: Config) -> Iterator[tuple[str, str, str, str]]:
    """Yield figure, view, title and description of every picture that may have been drawn."""
    abouts = {view: one.about for one in EXPERIMENTS.values() for view in one.pictures}
    abouts |= dict.fromkeys(VIEWS, say.detection_is)
    readouts = {name: name.replace("/", "-") for name in config.readouts}
    for figure in config.targets:
        for view, picture in pictures(readouts).items():
            yield figure, view, picture.title, abouts.get(view, "")

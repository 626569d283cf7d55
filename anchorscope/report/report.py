"""The report of a run: one HTML page that is understood without the paper and works offline.

The words and the layout are in the templates of `resources/report/`; here is what fills them.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment
from markupsafe import Markup

from anchorscope.calibration.requirements import in_words
from anchorscope.config.settings import Config
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.figures.figure_data import rows_at, span, true
from anchorscope.figures.figure_fit import size_of
from anchorscope.figures.figures import GROUPINGS
from anchorscope.report import report_samples, run_facts
from anchorscope.report.cell_summary import RESOURCES, summary, templates
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv

MOST = 10_000_000  # bytes that a page stays below
PICTURES = 4_500_000  # bytes of embedded pictures; those beyond are linked
# most samples of a cell, fewer where the page would get too large
CAPS = (200, 100, 50, 25, 10, 1)
SCRIPTS = ("tables.js", "samples.js")
TABLES = ("contrasts", "controls", "crossing", "curve", "refits")
FLAGS = ("signal", "cell_signal", "headline", "thin", "empty", "holds")


def build(config: Config, *, options: str = "") -> tuple[str, dict[str, Any]]:
    """The page of a finished run, and what it holds, for its provenance.

    It shows the config's targets, from the products under its root; `options` is what the run was
    called with, for the commands shown.

    Raises:
        AnchorscopeError: products that do not belong together, or more of them than fit a page.
        FileNotFoundError: a target's products are not built.
    """
    found = [summary(config, *cell, readout=readout) for *cell, readout in run_facts.cells(config)]
    template, content = _environment().get_template("page.html"), _content(config, found, options)
    for cap in CAPS:
        shown = [report_samples.cell(config, cell, cap=cap) for cell in found]
        html = template.render(content, explored=shown)
        size = len(html.encode("utf-8", "replace"))
        if size < MOST:
            weak = [f"{one['model']}/{one['dataset']}" for one in found if not one["signal"]]
            return html, {"cells": len(found), "weak": weak, "most_samples": cap, "bytes": size}
    what = f"the report would take {size / 1e6:.1f} MB, more than {MOST / 1e6:g}, in tables alone"
    do = "name fewer figures in `targets`, and build a report for each part"
    raise AnchorscopeError(what, f"targets {', '.join(config.targets)}", do, see="report-too-large")


def _environment() -> Environment:
    """Jinja with autoescape: whatever a model, a dataset or a user wrote becomes text."""
    made = templates(autoescape=True)
    made.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    made.filters |= {"span": span, "median": median}
    made.tests["known"] = lambda value: not pd.isna(value) and value != ""
    scripts = [(RESOURCES / name).read_text(encoding="utf-8") for name in SCRIPTS]
    digests = [hashlib.sha256(script.encode("utf-8")).digest() for script in scripts]
    made.globals |= {
        "style": Markup((RESOURCES / "report.css").read_text(encoding="utf-8")),
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
        shared |= {"readout": drawn, "about": ""}
        views = dict.fromkeys(("", "controls", "crossing", "probes"), drawn)
        views["readouts"] = ", ".join(config.answer_readouts)
        views |= {name.replace("/", "-"): name for name in config.readouts}
        found += [shared | {"view": view, "readout": at} for view, at in views.items()]
        for experiment in EXPERIMENTS.values():
            for view, stem in experiment.stems().items():
                said = {"title": experiment.views[view], "about": experiment.about}
                found.append(shared | said | {"view": stem})
    found.append({"figure": "calibration", "view": ""})
    embedded, left = [], PICTURES
    for one in found:
        stem = ".".join(filter(None, (one["figure"], one["view"])))
        path = Path(config.root) / "figures" / f"{stem}.svg"
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            data = base64.b64encode(text.encode("utf-8")).decode("ascii")
            svg = data if len(data) <= left else ""
            embedded.append(one | {"stem": stem, "svg": svg, "width": size_of(text)[0]})
            left -= len(svg)
    return embedded

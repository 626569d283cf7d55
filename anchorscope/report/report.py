"""The report of a run: one HTML page that is understood without the paper and works offline.

The words and the layout are in the templates of `resources/report/`; here is what fills them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from anchorscope.figures.figure_data import true
from anchorscope.figures.figures import GROUPINGS
from anchorscope.report import report_samples, run_facts
from anchorscope.report.cell_summary import summary
from anchorscope.report.cell_words import sentences
from anchorscope.report.run_facts import span
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
FLAGS = ("signal", "cell_signal", "headline", "thin", "no_effect", "empty", "holds")


@dataclass(frozen=True)
class Report:
    """A finished page.

    Attributes:
        html: the page.
        facts: what it holds, for its provenance.
    """

    html: str
    facts: dict[str, Any]


def build(config: Config, *, resources: str | Path, options: str = "") -> Report:
    """The page of a finished run, from the products under the config's root.

    Args:
        config: the checked config; its targets are shown.
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
            facts = {"cells": len(found), "weak": weak, "most_samples": cap, "bytes": size}
            return Report(html, facts)
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
    funnels = [run_facts.funnel(root, cell["model"], cell["dataset"]) for cell in found]
    models = {key: entry.label for key, entry in config.models.items()}
    datasets = {key: entry.label for key, entry in config.datasets.items()}
    floors, nulls = (_table(root, name) for name in ("calibration-floors", "null-controls"))
    keys = {name: dict.fromkeys(cell[name] for cell in found) for name in ("model", "dataset")}
    settings = run_facts.resolved(config, calibration=bool(len(floors) + len(nulls)))
    return {
        "config": config,
        "options": options,
        "models": models,
        "datasets": datasets,
        "cells": found,
        "trained": [key for key, entry in config.models.items() if entry.train],
        "figures": _pictures(config, funnels),
        "tables": {figure: _tables(config, figure) for figure in config.targets},
        "verdict": in_words(floors, models, datasets).split("\n") if len(floors) else [],
        "nulls": nulls.to_dict("records"),
        "funnels": funnels,
        "stages": run_facts.STAGES,
        "model_facts": [run_facts.model_facts(config, key) for key in keys["model"]],
        "dataset_facts": [run_facts.dataset_facts(config, key) for key in keys["dataset"]],
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
    keys = ["model", "dataset", "site", "position", "layer"]
    controls = read_csv(root / "tables" / f"{figure}.controls.csv")
    chosen = controls[true(controls["headline"])]
    chosen = chosen[(chosen["site"] == site) & (chosen["position"] == position)]
    made = {}
    for name in TABLES:
        table = _table(root, figure if name == "curve" else f"{figure}.{name}")
        if len(table):
            flags = [flag for flag in ("signal", "cell_signal") if flag not in table]
            table = table.merge(chosen[[*keys, *flags]], on=keys)
        if len(table) and name == "curve":
            table = table[table["grouping"] == config.grouping]
        made[name] = table.to_dict("records")
    return made


def _pictures(config: Config, funnels: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every picture of the targets and the calibration's, embedded as long as there is room."""
    folder, left = Path(config.root) / "figures", PICTURES
    found: list[dict[str, Any]] = []
    measured = {(one["model"], one["dataset"]): one["kept"].get("scores", 0) for one in funnels}
    for figure in config.targets:
        counts = [measured[cell] for cell in config.cells(figure)]
        of_figure = {"about": "", "grouping": GROUPINGS[config.grouping], "counts": counts}
        drawn: str = config.figures[figure].readout
        readouts = {"": drawn, "controls": drawn, "probes": drawn}
        readouts["readouts"] = ", ".join(config.answer_readouts)
        readouts |= {name.replace("/", "-"): name for name in config.readouts}
        for view, readout in readouts.items():
            stem = f"{figure}.{view}" if view else figure
            found.append({"stem": stem, "figure": figure, "view": view, "readout": readout})
            found[-1] |= of_figure
        for experiment in EXPERIMENTS.values():
            for view, stem in experiment.stems().items():
                said = {"title": experiment.views[view], "about": experiment.about}
                said |= {"readout": drawn}
                named = {"stem": f"{figure}.{stem}", "figure": figure, "view": stem}
                found.append(of_figure | named | said)
    told = folder / "calibration.vl.json"
    title = json.loads(told.read_text(encoding="utf-8"))["title"] if told.is_file() else {}
    subtitle = " ".join(title.get("subtitle", []))
    found.append({"stem": "calibration", "figure": "calibration", "subtitle": subtitle})
    found = [one for one in found if (folder / f"{one['stem']}.svg").is_file()]
    for one in found:
        svg = (folder / f"{one['stem']}.svg").read_bytes()
        width = re.search(rb'viewBox="0 0 ([0-9.]+) ', svg)
        data = base64.b64encode(svg).decode("ascii")
        one |= {"svg": data if len(data) <= left else "", "width": float(width[1]) if width else 0}
        left -= len(one["svg"])
    return found


def figures(value: float, digits: int) -> str:
    """A number in words: `−12.3`, `1,024`; never a negative zero."""
    shown = f"{value:,.{digits}f}"
    return shown.removeprefix("-") if not float(shown.replace(",", "")) else shown.replace("-", "−")


def duration(seconds: float) -> str:
    """Seconds in words: `4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def known(value: object) -> bool:
    """Whether there is something to show: not None, NaN or an empty text."""
    return not (value is None or value == "" or (isinstance(value, float) and math.isnan(value)))

"""The report of a run: one page that is understood without the paper, and asks no network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd
import yaml

from anchorscope.calibration.requirements import in_words
from anchorscope.config.settings import Config
from anchorscope.figures.figure_style import sample_count
from anchorscope.figures.figures import GROUPINGS
from anchorscope.figures.report_html import (
    bullets,
    command,
    embedded,
    escaped,
    isolated,
    paragraph,
    picture,
    script_source,
)
from anchorscope.report import report_data, report_samples, report_summary, report_tables
from anchorscope.report.cli_show import summary
from anchorscope.report.report_settings import cells, resolved
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv

# most bytes of a page, and how many of them pictures and samples may take to begin with
MOST = 10_000_000
PICTURES_MB = 4.5
SAMPLES_MB = 4.0
# a picture is never shown smaller than this part of its size: the words in it stay readable
SMALLEST = 0.8
SCRIPTS = ("tables.js", "samples.js")
VIEWS = {
    "controls": (
        "What flips by itself, and what the probes know",
        "Flips under the knockout beside those under random cuts, chance and the whole question; "
        "right answers that follow a matched question and a placebo; AUC of the probes on clean "
        "and on knocked-out activations, beside the hardest floor. A curve is worth reading where "
        "there is a signal and the knockout's flips stand clear of those under random cuts.",
    ),
    "probes": (
        "The probes",
        "How well each layer's probe tells right from wrong, beside what it knows before the "
        "answer is read and what the text alone tells; how its probabilities are calibrated, and "
        "how the score moves under the knockout and under random cuts.",
    ),
    "readouts": (
        "ΔP at every read-out",
        "The same curve read at other places in a block and at other tokens.",
    ),
}
KNOWN = (
    "The instrument against known truth",
    "How well ΔP and flips tell samples of a planted question pathway from those of a planted "
    "answer pathway, at every read-out.",
)


@dataclass(frozen=True)
class Report:
    """A finished page.

    Attributes:
        html: the page.
        facts: what it holds, for its provenance.
    """

    html: str
    facts: dict[str, Any]


@dataclass(frozen=True)
class Run:
    """What a report is made from.

    Attributes:
        config: the checked config; the products lie under its root.
        resources: folder of template, style sheet and scripts.
        options: what this run was called with, to come after a target.
    """

    config: Config
    resources: Path
    options: str

    @property
    def root(self) -> Path:
        return Path(self.config.root)

    @property
    def models(self) -> dict[str, str]:
        return {key: entry.label for key, entry in self.config.models.items()}

    @property
    def datasets(self) -> dict[str, str]:
        return {key: entry.label for key, entry in self.config.datasets.items()}

    def table(self, name: str) -> pd.DataFrame:
        return read_csv(self.root / "tables" / name)

    def command(self, target: str) -> str:
        """What builds a target. Options come last: they take every word that follows."""
        return f"snakemake --cores all {target}{self.options}"

    def rebuild(self, product: str) -> str:
        """What builds a product anew, though it is there."""
        return self.command(f"--force {self.root.as_posix()}/{product}")

    def has(self, *names: str) -> bool:
        """Whether one of these tables is there."""
        return any((self.root / "tables" / name).is_file() for name in names)


@dataclass
class PageRoom:
    """Bytes of a page that pictures may still take."""

    left: float = 0

    def take(self, path: Path) -> bool:
        """Whether a picture, embedded, fits; if so, its room is taken."""
        size = path.stat().st_size * 4 / 3
        fits = size <= self.left
        self.left -= size if fits else 0
        return fits


def build(
    config: Config,
    *,
    resources: str | Path,
    options: str = "",
    cap: int = report_samples.CAP,
) -> Report:
    """The page of a finished run, from the products under the config's root.

    Args:
        config: the checked config; its targets are shown.
        resources: folder of `page.html`, `report.css` and the scripts.
        options: what the run was called with, for the commands shown.
        cap: most samples of a cell in the explorer; fewer where the page would get too large.

    Raises:
        AnchorscopeError: products that do not belong together, or more of them than fit a page.
        FileNotFoundError: a target's products are not built.
    """
    run = Run(config, Path(resources), options)
    found = [
        summary(config, model, dataset, readout=readout)
        for model, dataset, readout in cells(config)
    ]
    shown = _samples(config, found, cap)
    pictures = PICTURES_MB * 1e6
    html = _page(run, found, shown, pictures)
    while (size := len(html.encode("utf-8", "replace"))) > MOST:
        most = max((len(cell["samples"]) for cell in shown), default=0)
        if most <= 1 and not pictures:
            raise _too_much(config, size)
        # samples leave first: a page holds many, pictures are what it is for
        shown = _samples(config, found, most // 2) if most > 1 else shown
        pictures = pictures if most > 1 else 0
        html = _page(run, found, shown, pictures)
    facts = {
        "cells": len(found),
        "weak": [f"{c['model']}/{c['dataset']}" for c in found if not c["signal"]],
        "samples_shown": {f"{c['model']} on {c['dataset']}": len(c["samples"]) for c in shown},
        "bytes": size,
    }
    return Report(html, facts)


def _too_much(config: Config, size: int) -> AnchorscopeError:
    return AnchorscopeError(
        f"the report would take {size / 1e6:.1f} MB, more than {MOST / 1e6:g}, in tables alone",
        f"targets {', '.join(config.targets)}",
        "name fewer figures in `targets`, and build a report for each part",
        see="report-too-large",
    )


def _page(
    run: Run,
    found: Sequence[Mapping[str, Any]],
    shown: Sequence[Mapping[str, Any]],
    pictures: float,
) -> str:
    """The page with these cells, these samples of each, and so many bytes of pictures."""
    scripts = [(run.resources / name).read_text(encoding="utf-8") for name in SCRIPTS]
    page = Template((run.resources / "page.html").read_text(encoding="utf-8"))
    title, room = ", ".join(run.config.targets), PageRoom(pictures)
    return page.substitute(
        title=escaped(title),
        policy=script_source(scripts),
        style=(run.resources / "report.css").read_text(encoding="utf-8"),
        summary=report_summary.in_words(run.config, found, run.models, run.datasets),
        figures="".join(_figures(run, room)),
        tables="".join(_tables(run)),
        calibration=_calibration(run, room),
        samples=_explorer(shown),
        run=_what_was_run(run),
        timings=report_tables.timings(report_data.timings(run.root)),
        data="".join(embedded(f"samples-{i}", cell) for i, cell in enumerate(shown)),
        scripts="".join(f"<script>{script}</script>" for script in scripts),
    )


def _figures(run: Run, room: PageRoom) -> Iterator[str]:
    """Every picture of every target: embedded as long as there is room, else linked."""
    for figure in run.config.targets:
        more = []
        for stem in _stems(run, figure):
            view = stem.removeprefix(figure).removeprefix(".")
            title, about = _heading(figure, view)
            shown = _figure(run, room, stem, (title, about), _basics(run, figure, view))
            if view in ("", "controls", "probes"):
                yield shown
            else:
                more.append(shown)
        if more:
            yield f"<details><summary>{len(more)} more read-outs</summary>{''.join(more)}</details>"


def _stems(run: Run, figure: str) -> list[str]:
    """The figure, then its views, as they lie in the folder of figures."""
    readouts = [name.replace("/", "-") for name in run.config.readouts]
    stems = [figure, *(f"{figure}.{view}" for view in (*VIEWS, *readouts))]
    return [stem for stem in stems if (run.root / "figures" / f"{stem}.svg").is_file()]


def _figure(run: Run, room: PageRoom, stem: str, heading: tuple[str, str], basics: str) -> str:
    """A picture with its title, what it shows, the basics of its numbers, links and command."""
    title, about = heading
    links = ", ".join(
        f'<a href="../figures/{escaped(stem)}.{kind}">{said}</a>'
        for kind, said in (("html", "interactive"), ("pdf", "PDF"), ("png", "PNG"), ("svg", "SVG"))
    )
    path = run.root / "figures" / f"{stem}.svg"
    shown = _plate(path, heading) if room.take(path) else _too_large(stem)
    rebuild = command(run.rebuild(f"figures/{stem}.svg"))
    return (
        f'<figure id="figure-{escaped(stem)}"><h3>{escaped(title)}</h3>{shown}'
        f"<figcaption>{escaped(f'{about} {basics}')} "
        f'<span class="links">Also: {links}.</span></figcaption>'
        f"<details><summary>Rebuild this picture</summary>{rebuild}</details></figure>"
    )


def _plate(path: Path, heading: tuple[str, str]) -> str:
    """A picture that scrolls where the window is too narrow to read it."""
    title, about = heading
    svg = path.read_bytes()
    size = re.search(rb'viewBox="0 0 ([0-9.]+) ', svg)
    image = picture(svg, f"{title}. {about}", least=SMALLEST * float(size[1]) if size else 0)
    return (
        f'<div class="plate" tabindex="0" role="region" aria-label="{escaped(title)}">{image}</div>'
    )


def _too_large(stem: str) -> str:
    said = "Not embedded, so that the page stays below 10 MB:"
    return paragraph(said, f'<a href="../figures/{escaped(stem)}.svg">open the picture</a>.')


def _heading(figure: str, view: str) -> tuple[str, str]:
    if view in VIEWS:
        title, about = VIEWS[view]
        return f"{figure}: {title[0].lower()}{title[1:]}", about
    about = (
        "Mean ΔP by layer when attention to the exact question tokens is cut: Q-Anchored samples, "
        "whose verdict flips, and A-Anchored ones, whose verdict stays; below, the share of the "
        "paired samples that flips, beside the share under random cuts, and, where measured, the "
        "share of Q-Anchored right answers that follow a matched question. Hollow grey: no signal."
    )
    return (f"{figure}: ΔP by layer" + (f", read-out {view}" if view else "")), about


def _basics(run: Run, figure: str, view: str) -> str:
    """Read-out, grouping, n and interval, as every caption states them."""
    config = run.config
    readout: str = config.figures[figure].readout
    if view == "readouts":
        readout = ", ".join(config.answer_readouts)
    elif view and view not in VIEWS:
        readout = "/".join(view.split("-", 1))
    counts = [
        int(report_data.funnel(run.root, model, dataset).kept.get("scores", 0))
        for model, dataset in config.cells(figure)
    ]
    drawn = config.bootstrap
    probes = "with the probe's own variance" if config.probe.refits else "probes held fixed"
    return (
        f"Read-out {readout}; {GROUPINGS[config.grouping]}; n = {sample_count(counts)} samples a "
        f"cell; bands: pointwise {100 * drawn.level:g} % intervals from {drawn.draws:,} bootstrap "
        f"draws clustered by subject or question, {probes}."
    )


def _tables(run: Run) -> Iterator[str]:
    for figure in run.config.targets:
        entry = run.config.figures[figure]
        controls = run.table(f"{figure}.controls.csv")
        labels = (run.models, run.datasets)
        at = {
            name: report_tables.headline(run.table(f"{figure}{end}"), controls, entry.readout)
            for name, end in (("curve", ".csv"), ("contrasts", ".contrasts.csv"))
        } | {
            name: report_tables.headline(run.table(f"{figure}.{name}.csv"), controls, entry.readout)
            for name in ("controls", "interchange")
        }
        made = [
            report_tables.contrasts(figure, at["contrasts"], *labels),
            report_tables.controls(figure, at["controls"], *labels),
            report_tables.curve(figure, at["curve"], run.config.grouping, *labels),
            report_tables.interchange(figure, at["interchange"], *labels),
        ]
        names = ("", ".contrasts", ".controls", ".interchange", ".strata", ".density")
        links = ", ".join(
            f'<a href="../tables/{escaped(figure + end)}">{escaped(figure + end)}</a>'
            for end in (f"{name}.csv" for name in names)
        )
        whole = paragraph(f"Every layer, read-out and column: {links}.", look="links")
        refits = report_data.optional(run.root / "tables" / f"{figure}.refits.csv")
        if refits is not None:
            refits = report_tables.headline(refits, controls, entry.readout)
            whole = paragraph(report_tables.widening(refits)) + whole
        rebuild = command(run.rebuild(f"tables/{figure}.csv"))
        yield f"<h3>{escaped(figure)}</h3>{''.join(made)}{whole}{rebuild}"


def _calibration(run: Run, room: PageRoom) -> str:
    """The verdict in words where it was measured; else how to get it."""
    parts = [_verdict(run)]
    if (run.root / "figures" / "calibration.svg").is_file():
        parts.append(_figure(run, room, "calibration", KNOWN, _told(run, "calibration")))
    found = report_data.optional(run.root / "tables" / "null-controls.csv")
    if found is None:
        said = "Null controls, cells in which nothing must be found, are not built here:"
        parts.append(paragraph(said) + command(run.command("null-controls")))
    else:
        parts.append(report_tables.nulls(found, run.models, run.datasets))
    return "".join(parts)


def _told(run: Run, stem: str) -> str:
    """The caption that a picture itself carries."""
    path = run.root / "figures" / f"{stem}.vl.json"
    if not path.is_file():
        return ""
    title = json.loads(path.read_text(encoding="utf-8")).get("title", {})
    return " ".join(title.get("subtitle", [])) if isinstance(title, dict) else ""


def _verdict(run: Run) -> str:
    floors = report_data.optional(run.root / "tables" / "calibration-floors.csv")
    if floors is None:
        said = (
            "Not measured in this run. Whether the instrument tells planted question pathways "
            "from planted answer pathways is measured by:"
        )
        return paragraph(said) + command(run.command("calibration"))
    first, *rest = in_words(floors, run.models, run.datasets).split("\n")
    missed = [line for line in rest if line.startswith("Missed")]
    look = "weak" if missed else "good"
    plain = (
        "Not everywhere: the instrument falls short where a floor is named as missed below."
        if missed
        else "Yes, on these models: the instrument told planted question pathways from planted "
        "answer pathways as surely as had been asked of it beforehand."
    )
    held = [isolated(line) for line in rest if line not in missed]
    said = paragraph(f"<strong>{plain}</strong>", escaped(first))
    verdict = said + bullets(held) + bullets([isolated(line) for line in missed], "missed")
    return f'<div class="note {look}" role="note">{verdict}</div>'


def _samples(config: Config, found: Sequence[Mapping[str, Any]], cap: int) -> list[dict[str, Any]]:
    """The explorer's cells; fewer samples of each where they would make the page too large."""
    sources = [
        _source(config, *cell, signal=bool(told["signal"]))
        for cell, told in zip(cells(config), found, strict=True)
    ]
    shown = [report_samples.cell(source, cap=cap, seed=config.seed) for source in sources]
    size = sum(len(embedded("", cell).encode("utf-8", "replace")) for cell in shown)
    smaller = max(1, int(cap * SAMPLES_MB * 1e6 / size)) if size > SAMPLES_MB * 1e6 else cap
    return shown if smaller >= cap else _samples(config, found, smaller)


def _source(
    config: Config, model: str, dataset: str, readout: str, *, signal: bool
) -> report_samples.Source:
    answering = config.models[model].answers_of or model
    return report_samples.Source(
        model=config.models[model].label,
        dataset=config.datasets[dataset].label,
        readout=readout,
        prompts=f"{config.root}/prompts/{answering}/{dataset}.parquet",
        answers=f"{config.root}/answers/{answering}/{dataset}.parquet",
        scores=f"{config.root}/scores/{model}/{dataset}.parquet",
        signal=signal,
    )


def _explorer(cells: Sequence[Mapping[str, Any]]) -> str:
    """The choice of cells; all else is made by the page's script."""
    options = "".join(
        f'<option value="{i}">{escaped(cell["model"])} on {escaped(cell["dataset"])}'
        f"{'' if cell['signal'] else ' (no signal)'}</option>"
        for i, cell in enumerate(cells)
    )
    counts = sample_count([len(cell["samples"]) for cell in cells])
    totals = sample_count([cell["total"] for cell in cells])
    said = (
        f"This page holds {counts} of {totals} samples a cell, chosen evenly over group and "
        "answer (right, wrong); those whose verdict falls furthest come first."
    )
    return (
        f'{paragraph(escaped(said))}<div id="explorer"><select id="cell">{options}</select></div>'
    )


def _what_was_run(run: Run) -> str:
    """Models, datasets, where samples went, settings, versions."""
    config = run.config
    funnels = [report_data.funnel(run.root, m, d) for m, d, _ in cells(config)]
    models = {cell.model: report_data.model_facts(config, cell.model) for cell in funnels}
    datasets = {cell.dataset: report_data.dataset_facts(config, cell.dataset) for cell in funnels}
    told = resolved(config, calibration=run.has("calibration-floors.csv", "null-controls.csv"))
    settings = yaml.safe_dump(told, sort_keys=False, allow_unicode=True)
    record = provenance.read(run.root / "tables" / f"{config.targets[0]}.csv")
    versions = ", ".join(f"{name} {said}" for name, said in record["libraries"].items())
    return "".join(
        (
            report_tables.funnels(funnels, run.models, run.datasets),
            report_tables.entries("models", models, run.models),
            report_tables.entries("datasets", datasets, run.datasets),
            "<details><summary>Resolved settings</summary>",
            f'<pre class="settings" tabindex="0"><code>{escaped(settings)}</code></pre></details>',
            paragraph(escaped(f"Made with {versions}."), look="links"),
        )
    )

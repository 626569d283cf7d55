"""The page of a figure: its picture made to answer pointer and keyboard, its data as CSV.

A page holds the specification once and the rows of each choice of read-out, control and grouping
as CSV; `resources/figure/` has its template, look and script. Nothing is fetched.
"""

from __future__ import annotations

import copy
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from anchorscope.figures.figure_fit import size_of
from anchorscope.figures.report_html import embedded, escaped, paragraph, picture, script_source

Row = dict[str, Any]
Spec = dict[str, Any]
RESOURCES = Path(__file__).resolve().parents[2] / "resources" / "figure"
# a page stays below so many bytes, of which the runtime takes 0.9 million and the choices' data
# at most ROOM
MOST = 3_000_000
ROOM = 1_800_000
FADED = 0.1
UNLESS_SINGLED = "!length(singled) || indexof(singled, datum.series) >= 0"
STEPS = {"d": 1.0, ".1f": 0.1, ".2f": 0.01}
NAMES = {
    "knockout": "exact question tokens cut",
    "random": "as many random question tokens cut",
    "question": "every question token cut",
    "noop": "nothing cut (noise)",
    "matched": "same answer, matched question",
    "placebo": "same answer, placebo question",
    "per_layer": "at each layer",
    "reference_layer": "at one reference layer",
    "replicate": "by a second prompt",
}


@dataclass(frozen=True)
class PanelChoice:
    """What a choice draws in one panel: its rows, and range and ticks of its value axis."""

    rows: list[Row]
    domain: tuple[float, float]
    ticks: list[float]


@dataclass(frozen=True)
class Choice:
    """One view of the tables, by read-out, control and grouping; panels in the figure's order."""

    readout: str = ""
    condition: str = ""
    grouping: str = ""
    title: str = ""
    caption: list[str] = field(default_factory=list)
    panels: list[PanelChoice] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)


def page(spec: Spec, svg: str, runtime: str, choices: Sequence[Choice] = ()) -> str:
    """The figure as one HTML file; labels can end neither a script nor an attribute.

    Args:
        spec: the figure's specification, with its data.
        svg: its picture, for the width.
        runtime: script that defines `vegaEmbed`.
        choices: what a reader can switch to, the one in `spec` first; none: there is no switch.
    """
    live, panels = interactive(spec)
    if choices:
        _worded(live, choices[0].words)
    for room in (ROOM, ROOM // 3, 0):
        data = _data(live, panels, svg, choices or [_only(spec)], room)
        made = _filled(spec, runtime, data)
        if len(made.encode("utf-8", "replace")) <= MOST:
            return made
    return _still(spec, svg)


def _filled(spec: Spec, runtime: str, data: Row) -> str:
    """The page around its data."""
    script = (RESOURCES / "figure.js").read_text(encoding="utf-8")
    given = {
        "title": escaped(_words(spec.get("title", ""), "text")),
        "policy": script_source([runtime, script]),
        "style": (RESOURCES / "figure.css").read_text(encoding="utf-8"),
        "runtime": runtime,
        "data": embedded("page", data),
        "script": script,
    }
    return Template((RESOURCES / "page.html").read_text(encoding="utf-8")).substitute(given)


def _still(spec: Spec, svg: str) -> str:
    """The page of a figure with too many numbers to carry: its picture, if that is not too large.

    The numbers are in the table, the picture in the files beside the page.
    """
    only = _only(spec)
    note = "Too many numbers for a page below 3 MB: this picture answers no pointer."
    image = picture(svg.encode("utf-8"), only.title)
    fits = len(image) < MOST - 50_000
    if not fits:
        note += " It is in the files of this page's name that end in .svg, .pdf and .png."
    given = {
        "title": escaped(only.title),
        "style": (RESOURCES / "figure.css").read_text(encoding="utf-8"),
        "caption": "".join(paragraph(escaped(line)) for line in only.caption),
        "picture": image if fits else "",
        "note": f"{note} Its numbers are in the table.",
    }
    return Template((RESOURCES / "still.html").read_text(encoding="utf-8")).substitute(given)


@dataclass
class Panel:
    """A drawn rectangle: the parameters of its axes, the smallest steps of these, its data."""

    x: str | None = None
    y: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)


def interactive(spec: Spec) -> tuple[Spec, list[Panel]]:
    """A copy of a specification whose axes, data and emphasis follow parameters, and its panels.

    The parameters: `singled`, names of the series that stay in full colour (none: all do); `at`,
    the layer of the cursor, -1 for none; `zoomed`; `x<column>` and `y<panel>`, the ends of an
    axis, with `…t`, its ticks. Data of panel p move to `rows<p>_<k>`, empty here.
    """
    live = copy.deepcopy(spec)
    found = [
        (column, node)
        for column, tree in enumerate(live.get("concat", []))
        for node in _rectangles(tree)
    ]
    panels = [_freed(live, node, p, f"x{column}") for p, (column, node) in enumerate(found)]
    names = {name for panel in panels for name in panel.rows}
    kept = {k: v for k, v in live.get("datasets", {}).items() if k in _named(live)}
    live["datasets"] = kept | {name: [] for name in names}
    values = {"singled": [], "at": -1, "zoomed": False}
    for panel in panels:
        values |= panel.values
    live["params"] = [
        *live.get("params", []), *({"name": k, "value": v} for k, v in values.items())
    ]  # fmt: skip
    return live, panels


def _worded(live: Spec, words: Mapping[str, str]) -> None:
    """Titles that change with the choice become parameters, found by their words."""
    for tree in live.get("concat", []):
        for node in _rectangles(tree):
            for name, text in words.items():
                if _words(node.get("title", ""), "text") == text:
                    node["title"]["text"] = {"expr": name}
    live["params"] += [{"name": name, "value": text} for name, text in words.items()]


def _rectangles(node: Any) -> Iterator[Spec]:
    """The layered views below a node, in the order in which they are drawn."""
    if isinstance(node, dict):
        if "layer" in node and "width" in node:
            yield node
            return
        for key in ("concat", "vconcat", "hconcat"):
            for child in node.get(key, []):
                yield from _rectangles(child)


def _named(node: Any) -> set[str]:
    """Names of the data that a specification draws."""
    if isinstance(node, list):
        return set().union(*map(_named, node))
    if not isinstance(node, dict):
        return set()
    data = node.get("data")
    own = {data["name"]} if isinstance(data, dict) and "name" in data else set()
    below = (value for key, value in node.items() if key not in ("datasets", "data"))
    return own.union(*map(_named, below))


def _freed(live: Spec, node: Spec, p: int, x: str) -> Panel:
    """One panel tied to its parameters, with the cursor below its marks."""
    node["name"] = f"panel{p}"
    panel = Panel()
    moved: dict[str, str] = {}
    for view in (node, *node["layer"]):
        name = (view.get("data") or {}).get("name")
        rows = live.get("datasets", {}).get(name)
        if name and rows is not None and (not rows or "series" in rows[0]):
            moved.setdefault(name, f"rows{p}_{len(moved)}")
            view["data"] = {"name": moved[name]}
            panel.rows[moved[name]] = rows
    for view in node["layer"]:
        _free_axes(view, panel, {"x": x, "y": f"y{p}"})
        _emphasise(view)
        _clip(view, panel)
    for name in filter(None, (panel.x, panel.y)):
        panel.values.setdefault(f"{name}t", [])
        panel.steps.setdefault(name, STEPS["d"])
    cursor = _cursor(node["layer"], panel)
    node["layer"][:0] = [cursor] if cursor else []
    return panel


def _free_axes(view: Spec, panel: Panel, names: Mapping[str, str]) -> None:
    """Ends and ticks of a view's axes become parameters; a layer axis is its column's."""
    for channel, name in names.items():
        encoded = view.get("encoding", {}).get(channel, {})
        ends = (encoded.get("scale") or {}).get("domain")
        plain = (encoded.get("scale") or {}).get("type") in (None, "linear")
        if not (isinstance(ends, list) and plain) or (
            channel == "x" and encoded.get("field") != "layer"
        ):
            continue
        setattr(panel, channel, name)
        panel.values.setdefault(name, ends)
        encoded["scale"]["domain"] = {"expr": name}
        axis = encoded.get("axis")
        if axis and "values" in axis:
            panel.values.setdefault(f"{name}t", axis["values"])
            axis |= {"values": {"expr": f"{name}t"}, "tickCount": {"expr": f"length({name}t)"}}
            panel.steps.setdefault(name, STEPS.get(axis.get("format", ""), 1e-6))


def _emphasise(view: Spec) -> None:
    """A view of series fades those that are not singled out."""
    encoding, mark = view.get("encoding", {}), view.get("mark")
    if not isinstance(mark, dict) or "color" not in encoding or "series" not in str(encoding):
        return
    opacity = mark.get("opacity", 1)
    if opacity:
        full = {"test": UNLESS_SINGLED, "value": opacity}
        encoding["opacity"] = {"condition": full, "value": FADED * opacity}
        mark.pop("opacity", None)
    elif "size" in mark:
        # unseen points carry the tooltips: those of faded series stay out of the way
        encoding["size"] = {
            "condition": {"test": UNLESS_SINGLED, "value": mark["size"]},
            "value": 0,
        }


def _clip(view: Spec, panel: Panel) -> None:
    """What lies outside the ends of a zoomed axis is not drawn."""
    mark = view.get("mark")
    if not isinstance(mark, dict) or mark["type"] == "text":
        return
    if "sequence" in view.get("data", {}):
        inside = f"datum.layer >= {panel.x}[0] && datum.layer <= {panel.x}[1]"
        view["transform"] = [{"filter": inside}]
    else:
        mark["clip"] = {"expr": "zoomed"}


def _cursor(layers: Sequence[Spec], panel: Panel) -> Spec | None:
    """An upright line at the chosen layer, in every panel that has that layer."""
    if not panel.x:
        return None
    x = next(
        view["encoding"]["x"] for view in layers
        if view.get("encoding", {}).get("x", {}).get("field") == "layer"
    )  # fmt: skip
    # kept inside even while unseen: a mark outside would widen the picture
    inside = f"max({panel.x}[0], min({panel.x}[1], at))"
    own = {"scale": x["scale"], "type": "quantitative", "datum": {"expr": inside}}
    own |= {"axis": x["axis"]} if "axis" in x else {}
    seen = f"at >= {panel.x}[0] && at <= {panel.x}[1]"
    return {
        "data": {"values": [{}]},
        "mark": {"type": "rule", "color": "#0b57d0", "strokeWidth": 1.2, "tooltip": None},
        "encoding": {
            "x": own,
            "opacity": {"condition": {"test": seen, "value": 0.7}, "value": 0},
        },
    }


def packed(rows: Sequence[Mapping[str, Any]]) -> str:
    r"""Rows as CSV, small: a text equal to that of the row above is left blank, and so are ends.

    Columns of numbers begin with `#`, of truth with `?`; a blank number is missing. `\N` is no
    text; a text that begins with a backslash gets one more.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    kinds = {name: _kind([row.get(name) for row in rows]) for name in names}
    # texts come last: where nothing changes, a line ends before them
    names.sort(key=lambda name: (kinds[name] == "", kinds[name] == "?"))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([kinds[name] + name for name in names])
    above: dict[str, str] = {}
    for row in rows:
        cells = [_cell(row.get(name), kinds[name]) for name in names]
        for i, name in enumerate(names):
            if kinds[name] == "":
                cells[i], above[name] = ("" if above.get(name) == cells[i] else cells[i]), cells[i]
        while len(cells) > 1 and cells[-1] == "":
            cells.pop()
        writer.writerow(cells)
    return out.getvalue()


def _kind(values: Sequence[Any]) -> str:
    if all(isinstance(value, bool) for value in values):
        return "?"
    return "#" if all(value is None or isinstance(value, int | float) for value in values) else ""


def _cell(value: Any, kind: str) -> str:
    if kind == "":
        return "\\N" if value is None else f"\\{value}" if str(value)[:1] in "\\" else str(value)
    if value is None:
        return ""
    return str(int(value)) if value == int(value) else repr(float(value))


def _only(spec: Spec) -> Choice:
    """The figure as it is, where there is nothing to choose."""
    title = spec.get("title", "")
    lines = title.get("subtitle", []) if isinstance(title, Mapping) else []
    return Choice(title=_words(title, "text"), caption=[" ".join(lines)] if lines else [])


def _words(title: Any, key: str) -> str:
    text = title.get(key, "") if isinstance(title, Mapping) else title
    return " ".join(text) if isinstance(text, list) else str(text)


def _data(
    live: Spec, panels: Sequence[Panel], svg: str, choices: Sequence[Choice], room: int
) -> Row:
    """All that the page's script reads; the first choice, and others as far as there is room."""
    pool: dict[str, int] = {}
    shown: list[Row] = []
    left = used = 0
    for choice in choices:
        rows = _rows_of(choice, panels)
        new = {text for texts in rows.values() for text in texts if text not in pool}
        size = sum(len(text) for text in new)
        if shown and used + size > room:
            left += 1
            continue
        used += size
        shown.append(_choice(choice, panels, rows, pool))
    values = {name: value for panel in panels for name, value in panel.values.items()}
    return {
        "spec": live,
        "panels": [{"x": panel.x, "y": panel.y} for panel in panels],
        "values": values,
        "steps": {name: step for panel in panels for name, step in panel.steps.items()},
        "choices": shown,
        "pieces": list(pool),
        "legend": legend(live),
        "names": NAMES,
        "width": size_of(svg)[0],
        "note": f"{left} more combinations are in the table alone; the page stays below 3 MB."
        if left
        else "",
    }


def _rows_of(choice: Choice, panels: Sequence[Panel]) -> dict[str, list[str]]:
    """The choice's data as CSV pieces, by the name of the data; equal pieces are kept once."""
    if not choice.panels:
        return {name: [packed(rows)] for one in panels for name, rows in one.rows.items()}
    return {
        f"rows{p}_0": [packed(part) for part in _parts(drawn.rows)]
        for p, drawn in enumerate(choice.panels)
    }


def _parts(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each condition: those of controls belong to several choices."""
    names = dict.fromkeys(row.get("condition") for row in rows)
    return [[row for row in rows if row.get("condition") == name] for name in names]


def _choice(
    choice: Choice,
    panels: Sequence[Panel],
    rows: Mapping[str, Sequence[str]],
    pool: dict[str, int],
) -> Row:
    values: Row = dict(choice.words)
    for panel, drawn in zip(panels, choice.panels, strict=False):
        if panel.y:
            values |= {panel.y: list(drawn.domain), f"{panel.y}t": drawn.ticks}
    return {
        "readout": choice.readout,
        "condition": choice.condition,
        "grouping": choice.grouping,
        "title": choice.title,
        "caption": choice.caption,
        "values": values,
        "rows": {
            name: [pool.setdefault(text, len(pool)) for text in texts]
            for name, texts in rows.items()
        },
    }


def legend(spec: Spec) -> list[Row]:
    """The entries of the figure's legend: name, colour, dash pattern, symbol as an SVG path."""
    for encoding in _encodings(spec):
        shape, dash = encoding.get("shape", {}), encoding.get("strokeDash", {})
        colour = encoding.get("color", {})
        if all((one.get("scale") or {}).get("range") for one in (shape, colour)):
            size = colour["legend"]["symbolSize"] ** 0.5 / 2
            names, paints = colour["scale"]["domain"], colour["scale"]["range"]
            # points without lines have no dash pattern
            lines = (dash.get("scale") or {}).get("range") or [[1, 0]] * len(names)
            parts = zip(names, paints, lines, shape["scale"]["range"], strict=True)
            return [
                {"name": name, "colour": paint, "path": path, "size": size}
                | {"dash": " ".join(map(str, line)) if line != [1, 0] else "none"}
                for name, paint, line, path in parts
            ]
    return []


def _encodings(node: Any) -> Iterator[Row]:
    if isinstance(node, dict):
        if isinstance(node.get("encoding"), dict):
            yield node["encoding"]
        for key, value in node.items():
            if key != "datasets":
                yield from _encodings(value)
    elif isinstance(node, list):
        for value in node:
            yield from _encodings(value)

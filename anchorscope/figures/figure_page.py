"""HTML page of a figure: its specification with selections, switches and an export menu.

Panels and their layers are found by the names that `figure_panel` gives them. Vega-Lite provides
all interaction. The page's script embeds the specification, scales it to the page, and shows the
details. It fetches nothing.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from anchorscope.figures.figure_fit import VERSION, as_svg, size_of
from anchorscope.figures.figure_panel import ABSENT, FADING, REACH, TICKS, UPRIGHT, absent
from anchorscope.figures.figure_picture import Column, Panel, Picture, rows_in, value_axis
from anchorscope.figures.figure_style import WITHOUT_SIGNAL, balanced
from anchorscope.passes.interventions import REGISTRY

Spec = dict[str, Any]
"""Part of a Vega-Lite specification, as JSON."""
TEMPLATE = Path(__file__).resolve().parents[2] / "resources" / "figure" / "page.html"
FADED = 0.1
SINGLED = {"type": "point", "fields": ["series"]}
WHEEL = "wheel![event.ctrlKey || event.metaKey]"  # the wheel alone scrolls the page
IN_SIGHT = {"type": "interval", "encodings": ["x"], "zoom": WHEEL}
SWITCHES = {"readout": "Read-out", "condition": "Condition"}
# columns that are constant along a line
SERIES = ("view", "model", "dataset", "series", "anchor", "condition", "chance", "marker")


@dataclass(frozen=True)
class Choice:
    """A read-out and a condition that a page can switch to."""

    readout: str
    condition: str
    picture: Picture

    @property
    def panels(self) -> Iterator[tuple[str, Column, Panel]]:
        """Name, column and panel of each panel."""
        for place, column in enumerate(self.picture.layout.columns):
            for panel in self.picture.panels:
                yield f"{panel.name}_{place}", column, panel


def page(
    spec: Spec, svg: str, name: str, choices: Sequence[Choice], narrow: Spec | None = None
) -> str:
    """Return the figure as one HTML file.

    The page shows the details of the choices, or of the specification if there are none.

    Args:
        spec: The figure's specification.
        svg: The figure as SVG, from which the width is taken.
        name: Name of the files that a reader exports.
        choices: Pictures that a reader can switch to, the one in `spec` first.
        narrow: The figure with its panels stacked, for windows narrower than the panels.
    """
    width = size_of(svg)[0]
    live = interactive(spec, choices, width)
    stacks = narrow and narrow["columns"] < spec["columns"]
    details = [_words(choice, live, width)[2] for choice in choices]
    template = jinja2.Template(TEMPLATE.read_text(encoding="utf-8"), autoescape=True)
    return template.render(
        title=_one_line(spec.get("title")) or name,
        name=name,
        spec=live,
        narrow=_stacked(narrow, live, choices) if narrow and stacks else None,
        width=round(width),
        zooms=any(param["name"].startswith("zoom_") for param in live.get("params", [])),
        details=details or [spec.get("usermeta", {}).get("details", [])],
        runtime=_runtime(),
    )


def _stacked(narrow: Spec, wide: Spec, choices: Sequence[Choice]) -> Spec:
    """Return the interactive narrow figure, without the data that it shares with the wide one."""
    live = interactive(narrow, choices, size_of(as_svg(narrow))[0])
    own = {name: rows for name, rows in live["datasets"].items() if name not in wide["datasets"]}
    return live | {"datasets": own}


def _one_line(title: Any) -> str:
    """Return the text of a title, on one line."""
    text = title.get("text", "") if isinstance(title, Mapping) else title or ""
    return " ".join(text) if isinstance(text, list) else str(text)


@lru_cache
def _runtime() -> str:
    """Return the JavaScript of Vega, Vega-Lite and vega-embed."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VERSION)


def interactive(spec: Spec, choices: Sequence[Choice], width: float) -> Spec:
    """Return a copy of the specification with selections and switches; `width` in pixels.

    The copy has these parameters: `singled` is the series chosen in the legend. `readout` and
    `condition` are the reader's choice. Each numeric field of an x axis, such as `layer`, has
    `at_layer`, the pointed position, and `zoom_layer`, the visible range.
    """
    live = copy.deepcopy(spec) | {"autosize": {"type": "pad", "resize": True}}
    panels = dict(_panels(live))
    reading = _point_and_zoom(panels)
    live["params"] = [*_single_out(panels), *reading]  # last, as its layer must come first
    if len(choices) > 1:
        _switch(live, panels, choices, width)
    return live


def _panels(node: Spec) -> Iterator[tuple[str, Spec]]:
    """Yield name and node of the panels below a node, in drawing order."""
    if "layer" in node and "name" in node:
        yield node["name"], node
    for key in ("concat", "vconcat", "hconcat"):
        for child in node.get(key, []):
            yield from _panels(child)


def _roles(name: str, panel: Spec) -> dict[str, Spec]:
    """Return role → layer of a panel.

    Altair adds a layer's place in its concatenation to the name.
    """
    named = re.compile(rf"{name}_([a-z]+)(_\d+)?")
    matches = ((named.fullmatch(layer.get("name", "")), layer) for layer in panel["layer"])
    return {match[1]: layer for match, layer in matches if match}


def _single_out(panels: Mapping[str, Spec]) -> list[Spec]:
    """Let series fade while others are chosen in the legend, and return the parameter.

    Return no parameter if there is no legend of series.
    """
    explained = {}
    for name, panel in panels.items():
        roles = _roles(name, panel)
        reach = roles.get(REACH, {"encoding": {}})
        if reach["encoding"].get("color", {}).get("field") != "series":
            continue
        explained[name] = reach
        reach.setdefault("transform", []).append({"filter": {"param": "singled"}})
        for layer in (roles[role] for role in FADING if role in roles):
            full = layer["mark"].pop("opacity", 1)
            shown = {"param": "singled", "value": full}
            layer["encoding"]["opacity"] = {"condition": shown, "value": FADED * full}
    if not explained:
        return []
    first, reach = next(iter(explained.items()))
    channels = ("color", "strokeDash", "strokeWidth", "shape")
    key = {
        "name": "legend",
        "data": {"values": [{}]},
        "mark": {"type": "point", "filled": True, "opacity": 0},
        "encoding": {
            name: reach["encoding"][name] for name in channels if name in reach["encoding"]
        },
    }
    panels[first]["layer"].insert(0, key)  # Vega-Lite ties a legend to the first view
    return [{"name": "singled", "views": ["legend"], "select": SINGLED, "bind": "legend"}]


def _point_and_zoom(panels: Mapping[str, Spec]) -> list[Spec]:
    """Add a cursor line and zoom to panels with a numeric x axis, and return the parameters.

    Panels with the same field share cursor and zoom.
    """
    by_field: dict[str, list[str]] = {}
    for name, panel in panels.items():
        roles = _roles(name, panel)
        x = roles.get(REACH, {"encoding": {}})["encoding"].get("x", {})
        if x.get("type") == "quantitative":
            by_field.setdefault(x["field"], []).append(roles[REACH]["name"])
            _free(panel["layer"], roles, x["field"])
            panel["layer"].insert(0, _cursor(roles[REACH]))
    params = []
    for field, views in by_field.items():
        pointed = {"type": "point", "fields": [field], "nearest": True}
        pointed |= {"on": "pointermove", "clear": "pointerout"}
        params += [
            {"name": f"at_{field}", "views": views, "select": pointed},
            {"name": f"zoom_{field}", "views": views, "select": IN_SIGHT, "bind": "scales"},
        ]
    return params


def _free(layers: Sequence[Spec], roles: Mapping[str, Spec], field: str) -> None:
    """Prepare a panel for zoom: ticks follow the visible range, and marks are clipped to it."""
    zoomed = f"isArray(zoom_{field}.{field})"
    for layer in layers:
        axis = layer["encoding"].get("x", {}).get("axis", {})
        for key, in_sight in (("values", "null"), ("tickCount", "8")):
            if key in axis:
                axis[key] = {"expr": f"{zoomed} ? {in_sight} : {axis[key]}"}
        layer["mark"]["clip"] = {"expr": zoomed}
    if ticks := roles.get(TICKS):  # drawn below the panel
        ticks["mark"]["clip"] = False
        ticks["transform"] = [
            {"filter": f"!{zoomed} || inrange(datum.{field}, zoom_{field}.{field})"}
        ]


def _cursor(reach: Spec) -> Spec:
    """Return an upright line at the pointed position, for panels with a point there."""
    x = reach["encoding"]["x"]
    here = {"filter": {"param": f"at_{x['field']}", "empty": False}}
    cursor = {
        "transform": [here, {"aggregate": [], "groupby": [x["field"]]}],
        "mark": {"type": "rule", "color": "#0b57d0", "opacity": 0.7, "clip": True},
        "encoding": {"x": x},
    }
    return cursor | ({"data": reach["data"]} if "data" in reach else {})


def _words(choice: Choice, live: Spec, width: float) -> tuple[list[str], list[str], list[str]]:
    """Return the lines of title and caption at the figure's width, and the details."""
    title = live.get("title", {"fontSize": 15, "subtitleFontSize": 11.5})
    characters = max(30, int(width / (0.5 * title["subtitleFontSize"])))
    lines, details = choice.picture.caption.wrapped(characters)
    return balanced(choice.picture.title, int(width / (0.6 * title["fontSize"]))), lines, details


def _switch(
    live: Spec, panels: Mapping[str, Spec], choices: Sequence[Choice], width: float
) -> None:
    """Let the panels draw the rows of the choice, with its title, caption, axes and colours."""
    texts = []
    first_row = choices[0].picture.panels[0].name  # titled by its column
    for choice in choices:
        lines, caption, _ = _words(choice, live, width)
        headings = {
            name: _heading(panel.heading, panels[name], live)
            for name, _, panel in choice.panels
            if panel.name != first_row and name in panels
        }
        axes = {name: value_axis(column, panel).ticks for name, column, panel in choice.panels}
        notes = {name: absent(rows_in(column, panel.rows)) for name, column, panel in choice.panels}
        colours = [one.colour for one in [*choice.picture.series, WITHOUT_SIGNAL]]
        text = {"title": lines, "caption": caption, "headings": headings, "axes": axes}
        texts.append(text | {"notes": notes, "colours": colours})
    title = live.get("title", {"text": "", "subtitle": []})
    texts[0] |= {"title": title["text"], "caption": title["subtitle"]}
    keys = [f"{one.readout}|{one.condition}" for one in choices]
    chosen = " + '|' + ".join(SWITCHES)
    live["params"] += [_select(choices, name) for name in SWITCHES] + [
        {"name": "view", "expr": f"indexof({keys}, {chosen})"},
        {"name": "texts", "value": texts},
        {"name": "shown", "expr": "texts[view]"},
    ]
    for key, field in (("text", "title"), ("subtitle", "caption")):
        if title[key]:
            title[key] = {"expr": f"shown.{field}"}
    rows: dict[str, list[pd.DataFrame]] = {}
    upright: dict[str, list[pd.DataFrame]] = {}
    for choice in choices:
        for name, column, panel in choice.panels:
            rows.setdefault(name, []).append(rows_in(column, panel.rows))
            if panel.upright is not None:
                upright.setdefault(name, []).append(rows_in(column, panel.upright))
    for name, _, panel in choices[0].panels:
        if panel.name != first_row and _one_line(panels[name].get("title")).strip():
            panels[name]["title"]["text"] = {"expr": f"shown.headings.{name}"}
        _switch_rows(live, name, panels[name], rows[name])
        if name in upright:
            _switch_lines(live, name, panels[name], upright[name])
        _switch_looks(name, panels[name])


def _heading(text: str, panel: Spec, live: Spec) -> list[str]:
    """Wrap a heading to the width of its panel and the space beside it."""
    width, size = panel["width"] + live["spacing"]["row"], panel["title"]["fontSize"]
    return balanced(text or " ", max(12, int(width / (0.5 * size))))


def _select(choices: Sequence[Choice], name: str) -> Spec:
    """Return a switch among the values of the choices, or a fixed value if there is only one."""
    values = list(dict.fromkeys(getattr(one, name) for one in choices))
    names = {name: one.label for name, one in REGISTRY.items()}
    labels = [names.get(value, value) for value in values]
    bind = {"input": "select", "options": values, "labels": labels, "name": SWITCHES[name]}
    return {"name": name, "value": values[0]} | ({"bind": bind} if len(values) > 1 else {})


def _switch_looks(name: str, panel: Spec) -> None:
    """Let a panel's value axis and colours follow the choice."""
    for layer in panel["layer"]:
        encoding = layer["encoding"]
        _switch_axis(encoding.get("y", {}), f"shown.axes.{name}")
        for channel in {"color", "fill"} & set(encoding):
            colour = encoding[channel]
            if scale := colour.get("condition", colour).get("scale"):
                many = len(scale["range"])
                scale["range"] = [{"expr": f"shown.colours[{k}]"} for k in range(many)]


def _switch_axis(y: Spec, axis: str) -> None:
    """Take range and ticks of a value axis from an expression."""
    if "scale" in y:
        y["scale"]["domain"] = {"expr": f"{axis}[0]"}
    if "values" in y.get("axis", {}):
        y["axis"] |= {"values": {"expr": f"{axis}[1]"}, "tickCount": {"expr": f"length({axis}[1])"}}


def _switch_rows(live: Spec, name: str, panel: Spec, views: Sequence[pd.DataFrame]) -> None:
    """Set a panel's data to one object per line, and flatten the points of the choice."""
    table = pd.concat([rows.assign(view=k) for k, rows in enumerate(views)])
    if table.empty:
        return
    table = table.astype(object).where(table.notna(), None)
    series = [column for column in SERIES if column in table]
    points = [column for column in table if column not in series]
    lines = table.groupby(series, sort=False).agg(list).reset_index()
    roles = _roles(name, panel)
    if ABSENT in roles:
        roles[ABSENT]["mark"]["text"] = {"expr": f"shown.notes.{name}"}
    apart = (roles.get(UPRIGHT), roles.get(ABSENT))
    of_rows = (layer for layer in panel["layer"] if all(layer is not one for one in apart))
    for part in (panel, *of_rows):
        if "name" in part.get("data", {}):
            live["datasets"].pop(part.pop("data")["name"], None)
    live["datasets"][name] = lines.to_dict("records")
    panel["data"] = {"name": name}
    panel["transform"] = [{"filter": "datum.view === view"}, {"flatten": points}]


def _switch_lines(live: Spec, name: str, panel: Spec, views: Sequence[pd.DataFrame]) -> None:
    """Let a panel's upright lines follow the choice."""
    table = pd.concat([lines.assign(view=k) for k, lines in enumerate(views)])
    table = table.astype(object).where(table.notna(), None)
    layer = _roles(name, panel)[UPRIGHT]
    live["datasets"].pop(layer["data"]["name"], None)
    layer["data"] = {"name": f"{name}_{UPRIGHT}"}
    layer["transform"] = [{"filter": "datum.view === view"}]
    live["datasets"][f"{name}_{UPRIGHT}"] = table.to_dict("records")

"""The page of a figure: the same specification with selections, switches and an export menu.

All of it is Vega-Lite's own: the page's script only embeds the specification, and fetches nothing.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from anchorscope.figures.figure_fit import VERSION, size_of
from anchorscope.figures.figure_style import balanced
from anchorscope.passes.interventions import REGISTRY

Spec = dict[str, Any]
Axis = tuple[tuple[float, float], list[float]]
TEMPLATE = Path(__file__).resolve().parents[2] / "resources" / "figure" / "page.html"
FADED = 0.1
SINGLED = {"type": "point", "fields": ["series"]}
POINTED = {"type": "point", "fields": ["layer"], "nearest": True}
POINTED |= {"on": "pointermove", "clear": "pointerout"}
WHEEL = "wheel![event.ctrlKey || event.metaKey]"  # the wheel alone scrolls the page
IN_SIGHT = {"type": "interval", "encodings": ["x"], "zoom": WHEEL}
ZOOMED = "isArray(zoom.layer)"
SWITCHES = {"readout": "Read-out", "condition": "Control", "grouping": "Grouping"}
GROUPINGS = {
    "per_layer": "at each layer",
    "reference_layer": "at one reference layer",
    "replicate": "by a second prompt",
}
# what all points of a line share
SERIES = ("view", "model", "dataset", "series", "anchor", "condition", "chance", "marker")
ABSENT = "This combination was not measured: choose another."


@dataclass(frozen=True)
class Choice:
    """One view of a figure."""

    readout: str
    condition: str
    grouping: str
    title: str
    caption: list[str]
    note: str
    rows: list[list[pd.DataFrame]]  # by model and panel, in the order drawn
    axes: list[Axis]  # ends and ticks of ΔP, by model in that order
    colours: list[str]  # of the legend


def page(spec: Spec, svg: str, name: str, choices: Sequence[Choice]) -> str:
    """The figure as one HTML file, from its specification and its picture, which tells the width.

    `name` is that of the files that a reader exports; `choices` what a reader can switch to, the
    one in `spec` first.
    """
    live = interactive(spec, choices, size_of(svg)[0])
    template = jinja2.Template(TEMPLATE.read_text(encoding="utf-8"), autoescape=True)
    title = _words(spec.get("title")) or name
    return template.render(title=title, name=name, spec=live, runtime=_runtime())


def _words(title: Any) -> str:
    """The text of a title, on one line."""
    text = title.get("text", "") if isinstance(title, Mapping) else title or ""
    return " ".join(text) if isinstance(text, list) else str(text)


@lru_cache
def _runtime() -> str:
    """The script that draws: Vega, Vega-Lite and their embedding."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VERSION)


def interactive(spec: Spec, choices: Sequence[Choice], width: float) -> Spec:
    """A copy of the specification with selections and switches; `width` in pixels.

    Parameters of the copy: `singled`, the series chosen in the legend; `at`, the layer pointed at;
    `zoom`, the layers in sight; `readout`, `condition`, `grouping`, what the reader has chosen.
    """
    live = copy.deepcopy(spec) | {"autosize": {"type": "pad", "resize": True}}
    panels = list(_panels(live))
    reached = [view for p, panel in enumerate(panels) for view in _enliven(panel, p)]
    if not reached:
        return live  # nothing was measured
    key = {"name": "legend", "data": {"values": [{}]}}
    key |= {"mark": {"type": "point", "filled": True, "opacity": 0}}
    channels, wanted = reached[0]["encoding"], ("color", "strokeDash", "shape")
    key["encoding"] = {name: channels[name] for name in wanted if name in channels}
    panels[0]["layer"].insert(0, key)  # Vega-Lite ties a legend to the first view
    live["params"] = [{"name": "singled", "views": ["legend"], "select": SINGLED, "bind": "legend"}]
    if layered := [view["name"] for view in reached if view["name"].startswith("layer")]:
        live["params"] += [
            {"name": "at", "views": layered, "select": POINTED},
            {"name": "zoom", "views": layered, "select": IN_SIGHT, "bind": "scales"},
        ]
    if len(choices) > 1:
        _switch(live, panels, choices, width)
    return live


def _panels(node: Any) -> Iterator[Spec]:
    """The layered views below a node, in the order in which they are drawn."""
    if "layer" in node and "width" in node:
        yield node
    for key in ("concat", "vconcat", "hconcat"):
        for child in node.get(key, []):
            yield from _panels(child)


def _enliven(panel: Spec, p: int) -> list[Spec]:
    """Series that fade, unseen points that can be reached, a line at the layer pointed at.

    Returns those points' views; a panel without any keeps its own ways.
    """
    views: list[Spec] = panel["layer"]
    reached = [v for v in views if "tooltip" in v["encoding"] and v["mark"].get("opacity") == 0]
    for view in list(views) if reached else ():
        encoding, mark = view["encoding"], view["mark"]
        by_layer = encoding.get("x", {}).get("field") == "layer"
        if by_layer:
            _free_ticks(encoding["x"]["axis"])
            mark["clip"] = {"expr": ZOOMED}
            if "sequence" in view.get("data", {}):  # ticks below the panel
                mark["clip"] = False
                view["transform"] = [{"filter": f"!{ZOOMED} || inrange(datum.layer, zoom.layer)"}]
        if view in reached:
            view["name"] = f"{'layer' if by_layer else 'point'}{p}"
            view.setdefault("transform", []).append({"filter": {"param": "singled"}})
            for tip in encoding["tooltip"]:
                # Vega-Lite 6.4 looks for texts without a format in the wrong place
                tip.setdefault("format", "")
            if by_layer:
                views.insert(0, _cursor(encoding["x"]))
        elif "series" in str(encoding):
            full = mark.pop("opacity", 1)
            shown = {"param": "singled", "value": full}
            encoding["opacity"] = {"condition": shown, "value": FADED * full}
    return reached


def _free_ticks(axis: Spec) -> None:
    """Ticks of the layer axis: the figure's own, and once zoomed those that fit."""
    own = {"values": f"{ZOOMED} ? null : {axis['values']}"}
    own |= {"tickCount": f"{ZOOMED} ? 8 : {axis['tickCount']}"}
    axis |= {"tickMinStep": 1} | {name: {"expr": text} for name, text in own.items()}


def _cursor(x: Spec) -> Spec:
    """An upright line at the layer pointed at, in every panel that has that layer."""
    layers = x["scale"]["domain"][1] + 1
    return {
        "data": {"sequence": {"start": 0, "stop": layers, "as": "layer"}},
        "transform": [{"filter": {"param": "at", "empty": False}}],
        "mark": {"type": "rule", "color": "#0b57d0", "opacity": 0.7, "clip": True},
        "encoding": {"x": x},
    }


def _switch(live: Spec, panels: Sequence[Spec], choices: Sequence[Choice], width: float) -> None:
    """The panels draw the rows of the chosen view; title, caption and axes follow."""
    title = live.get("title", {"fontSize": 1, "subtitleFontSize": 1, "text": "", "subtitle": []})
    most = width / (0.6 * title["fontSize"]), width / (0.5 * title["subtitleFontSize"])
    texts = []
    for one in choices:
        caption = [line for part in one.caption for line in balanced(part, int(most[1]))]
        text = {"title": balanced(one.title, int(most[0])), "caption": caption, "note": one.note}
        texts.append(text | {"axes": one.axes, "colours": one.colours})
    texts[0] |= {"title": title["text"], "caption": title["subtitle"]}
    keys = ["|".join((one.readout, one.condition, one.grouping)) for one in choices]
    chosen = " + '|' + ".join(SWITCHES)
    live["params"] += [_select(choices, name) for name in SWITCHES] + [
        {"name": "view", "expr": f"indexof({keys}, {chosen})"},
        {"name": "texts", "value": [*texts, texts[0] | {"caption": [ABSENT]}]},
        {"name": "shown", "expr": f"texts[view < 0 ? {len(texts)} : view]"},
    ]
    for name, said in (("text", "title"), ("subtitle", "caption")):
        if title[name]:
            title[name] = {"expr": f"shown.{said}"}
    each = len(panels) // len(choices[0].rows)
    for p, panel in enumerate(panels):
        model, part = divmod(p, each)
        _switch_rows(live, panel, [one.rows[model][part] for one in choices], f"rows{p}")
        _switch_scales(panel, f"shown.axes[{model}]" if part == 0 else "")
        if _words(panel.get("title")) == choices[0].note:
            panel["title"]["text"] = {"expr": "shown.note"}


def _select(choices: Sequence[Choice], name: str) -> Spec:
    """A switch among the values that the choices have; a mere value where there is but one."""
    values = list(dict.fromkeys(getattr(one, name) for one in choices))
    names = {name: one.label for name, one in REGISTRY.items()} | GROUPINGS
    labels = [names.get(value, value) for value in values]
    bind = {"input": "select", "options": values, "labels": labels, "name": SWITCHES[name]}
    return {"name": name, "value": values[0]} | ({"bind": bind} if len(values) > 1 else {})


def _switch_rows(live: Spec, panel: Spec, views: Sequence[pd.DataFrame], name: str) -> None:
    """One panel's data: an object a line, whose points are flattened once it is chosen."""
    table = pd.concat([rows.assign(view=k) for k, rows in enumerate(views)])
    if table.empty:
        return
    table = table.astype(object).where(table.notna(), None)
    series = [column for column in SERIES if column in table]
    points = [column for column in table if column not in series]
    lines = table.groupby(series, sort=False).agg(list).reset_index()
    panel["layer"] = [view for view in panel["layer"] if "text" not in view["mark"]]
    for part in (panel, *panel["layer"]):
        if "name" in part.get("data", {}):
            live["datasets"].pop(part.pop("data")["name"], None)
    live["datasets"][name] = lines.to_dict("records")
    panel["data"] = {"name": name}
    panel["transform"] = [{"filter": "datum.view === view"}, {"flatten": points}]


def _switch_scales(panel: Spec, axis: str) -> None:
    """The value axis takes range and ticks from an expression; the legend greys what is unseen."""
    ticks = {"values": {"expr": f"{axis}[1]"}, "tickCount": {"expr": f"length({axis}[1])"}}
    for encoding in (view["encoding"] for view in panel["layer"]):
        y = encoding.get("y", {})
        if axis and "scale" in y:
            y["scale"]["domain"] = {"expr": f"{axis}[0]"}
        if axis and "values" in y.get("axis", {}):
            y["axis"] |= ticks
        for channel in {"color", "fill"} & set(encoding):
            found = encoding[channel]
            if scale := found.get("condition", found).get("scale"):
                many = len(scale["range"])
                scale["range"] = [{"expr": f"shown.colours[{k}]"} for k in range(many)]
